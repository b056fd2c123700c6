# SPDX-License-Identifier: Apache-2.0
"""``batch apply``: the question and the error about a plan that does not hold any more."""

from types import SimpleNamespace

import pytest

from osc_placement.commands.batch_apply import PlanOutdated, ask_to_replan


def move(*facets, is_gone=False, is_overcommitted=False):
    """A provider for which a plan does not hold any more; it cannot be read if nothing else is said."""
    return SimpleNamespace(facets=set(facets), is_gone=is_gone, is_overcommitted=is_overcommitted)


@pytest.mark.parametrize(
    ("changed", "full", "gone", "unread", "question"),
    [
        (4, 0, 0, 0, "Plan them again, and show the new plan?"),
        (0, 1, 0, 0, "Leave it alone, and show the new plan?"),
        (0, 0, 1, 0, "Leave it out, and show the new plan?"),
        (
            4,
            0,
            1,
            0,
            "Plan again the 4 that have changed, leave out the one that is gone, and show the new plan?",
        ),
        (
            1,
            2,
            0,
            0,
            "Plan again the one that has changed, leave alone the 2 that have more allocated, and show the",
        ),
        (
            1,
            0,
            0,
            2,
            "Plan again the one that has changed, leave out the 2 that cannot be read, and show the new",
        ),
    ],
)
def test_question_about_a_plan_that_moved_says_what_happens(changed, full, gone, unread, question):
    """Of those that are gone, are too full, or cannot be read, nothing is planned again."""
    moves = [move("inventories")] * changed + [move("allocations", is_overcommitted=True)] * full
    moves += [move(is_gone=True)] * gone + [move()] * unread
    assert ask_to_replan(moves).startswith(question)


@pytest.mark.parametrize(
    ("moves", "told"),
    [
        (
            [move("allocations", is_overcommitted=True)] * 2,
            (
                "2 resource providers have more allocated than the plan leaves; --replan leaves what has "
                "more allocated alone and carries the rest out as planned; with --force, what "
                "has more allocated is changed too"
            ),
        ),
        (
            [move("inventories"), move("allocations", is_overcommitted=True)],
            (
                "of 2 resource providers, 1 has other inventories than when the plan was made and 1 has more "
                "allocated than the plan leaves; --replan plans what has changed again, leaves what has more "
                "allocated alone and carries the rest out as planned; with --force, what has "
                "more allocated is changed too"
            ),
        ),
        (
            [move(is_gone=True)],
            "1 resource provider does not exist any more; --replan carries the rest out as planned",
        ),
    ],
)
def test_error_about_a_plan_that_moved_says_what_replan_does(moves, told):
    """A claim that leaves a host too full is no change of the plan's fields, and is told as what it is."""
    assert str(PlanOutdated(moves)) == f"Nothing was changed: {told}"
