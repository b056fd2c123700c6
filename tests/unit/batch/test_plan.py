# SPDX-License-Identifier: Apache-2.0
"""Plans and reports as values."""

from dataclasses import replace

import pytest

from osc_placement.batch.facets import ProviderState
from osc_placement.batch.plan import (
    Change,
    Gone,
    Outcome,
    Plan,
    Report,
    Result,
    for_changes,
    make_plan,
    plan_change,
    refuse_gone,
)
from osc_placement.errors import PlacementError
from osc_placement.model import Provider
from osc_placement.report.summary import sum_up
from tests.unit.batch.readings import EDIT, reading, report, unreadable


def test_steps_come_in_the_order_of_the_readings():
    """Every provider has a step, whatever becomes of it."""
    plan = make_plan(EDIT, [reading("c"), unreadable("a"), reading("b", "A")])
    assert [step.subject.name for step in plan.steps] == ["c", "a", "b"]
    assert [step.subject.name for step in plan.changes] == ["c"]
    assert [step.subject.name for step in plan.unchanged] == ["b"]
    assert list(plan.unreadable) == ["a"]


def test_resume_in_which_all_is_refused_has_changed_nothing():
    """The run may have written before, so that its changes are not untouched."""
    change = plan_change(EDIT, Provider("p", "p", 1), ProviderState(traits=frozenset()))
    refused = Plan(EDIT, (change,), refused={"p": PlacementError("no")}, goes_on=True)
    report = Report(refused, (refused.end_untried(change),))
    assert (report.is_untouched, report.wrote_nothing) == (False, True)
    assert sum_up(report).heading == "Nothing was changed: trait add A"


def test_when_nothing_could_be_read_the_first_error_is_raised():
    """A server that is down is one error, not a table of them."""
    with pytest.raises(PlacementError, match="a is broken"):
        make_plan(EDIT, [unreadable("a"), unreadable("b")])


def test_only_facets_that_differ_are_to_be_written():
    """An equal facet costs no request."""
    before = ProviderState(inventories={}, traits=frozenset())
    after = ProviderState(inventories={}, traits=frozenset("A"))
    assert Change(Provider("p", "p", 1), before, after).facets == ("traits",)


@pytest.mark.parametrize(
    ("results", "interrupted", "status"),
    [
        ([Result.APPLIED, Result.UNCHANGED], False, 0),
        ([], False, 0),
        ([Result.APPLIED, Result.FAILED], False, 3),
        ([Result.FAILED], False, 3),
        ([Result.APPLIED, Result.SKIPPED], True, 130),
        ([Result.FAILED, Result.SKIPPED], True, 130),
    ],
)
def test_the_exit_status_tells_success_from_partial_failure(results, interrupted, status):
    """One failure among any number is enough for 3; an interruption is 130 in any case."""
    made = report(*results)
    assert Report(made.plan, made.outcomes, interrupted).exit_status == status


def test_outcomes_of_what_stays_as_it_is_are_not_counted():
    """The rate of a progress bar is that of the writes."""
    plan = make_plan(EDIT, [reading("c"), unreadable("a"), reading("b", "A")])
    counted = []
    count = for_changes(plan, counted.append)
    outcomes = [Outcome(step, Result.UNCHANGED) for step in plan.steps]
    for outcome in outcomes:
        count(outcome)
    assert [outcome.change.subject.name for outcome in counted] == ["c"]


def test_deleted_providers_are_refused_and_not_unreadable():
    """A provider that could not be read may be read by a resume, a deleted one never."""
    plan = replace(make_plan(EDIT, [reading("c")]), unreadable={"a": Gone("a"), "b": PlacementError("busy")})
    plan = refuse_gone(plan)
    assert (list(plan.unreadable), list(plan.refused)) == (["b"], ["a"])
    assert str(plan.refused["a"]) == "resource provider a does not exist any more"
