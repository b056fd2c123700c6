# SPDX-License-Identifier: Apache-2.0
"""``batch apply``: the question about a plan that does not hold any more."""

from types import SimpleNamespace

import pytest

from osc_placement.commands.batch_apply import ask_to_replan


@pytest.mark.parametrize(
    ("changed", "gone", "unread", "question"),
    [
        (4, 0, 0, "Plan them again, and show the new plan?"),
        (0, 1, 0, "Leave it out, and show the new plan?"),
        (
            4,
            1,
            0,
            "Plan again the 4 that have changed, leave out the one that is gone, and show the new plan?",
        ),
        (
            1,
            0,
            2,
            "Plan again the one that has changed, leave out the 2 that cannot be read, and show the new",
        ),
    ],
)
def test_question_about_a_plan_that_moved_says_what_happens(changed, gone, unread, question):
    """Of those that are gone, or cannot be read, nothing is planned again."""
    moves = [SimpleNamespace(facets={"inventories"}, is_gone=False)] * changed
    moves += [SimpleNamespace(facets=set(), is_gone=True)] * gone
    moves += [SimpleNamespace(facets=set(), is_gone=False)] * unread
    assert ask_to_replan(moves).startswith(question)
