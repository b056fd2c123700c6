# SPDX-License-Identifier: Apache-2.0
"""Plans and reports as values."""

from dataclasses import replace

import pytest

from osc_placement.api.consumer import Consumer
from osc_placement.batch.facets import ABSENT, ProviderState, describe_identity
from osc_placement.batch.membership import TraitEdit
from osc_placement.batch.plan import (
    Change,
    CustomName,
    Gone,
    Outcome,
    Plan,
    Reading,
    Report,
    Result,
    for_changes,
    make_plan,
    plan_change,
    refuse_gone,
)
from osc_placement.errors import PlacementError
from osc_placement.model import Inventory, Provider

EDIT = TraitEdit("add", frozenset("A"))


def reading(name, *traits):
    return Reading(Provider(name, name, 1), ProviderState(traits=frozenset(traits)))


def unreadable(name):
    return Reading(Provider(name, name, 1), error=PlacementError(f"{name} is broken"))


def report(*results):
    change = plan_change(EDIT, Provider("p", "p", 1), ProviderState(traits=frozenset()))
    return Report(make_plan(EDIT, []), tuple(Outcome(change, result) for result in results))


def test_steps_come_in_the_order_of_the_readings():
    """Every provider has a step, whatever becomes of it."""
    plan = make_plan(EDIT, [reading("c"), unreadable("a"), reading("b", "A")])
    assert [step.subject.name for step in plan.steps] == ["c", "a", "b"]
    assert [step.subject.name for step in plan.changes] == ["c"]
    assert [step.subject.name for step in plan.unchanged] == ["b"]
    assert list(plan.unreadable) == ["a"]


def test_the_question_names_what_is_deleted():
    """Where a run created things, its undo deletes them."""
    name = describe_identity("p", None)
    new, gone = (
        Change(Provider("p", "p", 1), *(ProviderState(identity=each) for each in identities))
        for identities in ((ABSENT, name), (name, ABSENT))
    )
    trait = Change(CustomName("trait", "CUSTOM_A"), gone.before, gone.after)
    holdings = [ProviderState(allocations=held) for held in ({"p": {"VCPU": 1}}, {})]
    consumers = [Change(Consumer(each, {}), *holdings) for each in "cd"]
    plan = Plan(EDIT, (gone, *consumers, trait, new), is_staged=True)
    assert plan.question == "Make 5 changes, deleting 1 resource provider, 2 consumers, 1 trait?"
    assert Plan(EDIT, (new,), is_staged=True).question == "Make 1 change?"


def test_the_question_counts_what_is_removed_of_what_stays():
    """A consumer that moves loses nothing; one that holds a class of fewer providers does."""
    provider = Provider("p", "p", 1)
    vcpu, disk = Inventory(8), Inventory(100)
    full = ProviderState({"VCPU": vcpu, "DISK_GB": disk}, frozenset("TU"), frozenset("ab"))
    less = ProviderState({"VCPU": Inventory(4)}, frozenset("UV"), frozenset("a"))
    moved, freed = (
        Change(Consumer(name), ProviderState(allocations=before), ProviderState(allocations=after))
        for name, before, after in (
            ("c", {"p": {"VCPU": 1}}, {"q": {"VCPU": 1}}),
            ("d", {"p": {"VCPU": 1}, "q": {"VCPU": 1, "DISK_GB": 2}}, {"q": {"VCPU": 2}}),
        )
    )
    removing = "removing 1 inventory, 1 trait, 1 aggregate"
    assert Plan(EDIT, (Change(provider, full, less),)).question == f"Change 1 resource provider, {removing}?"
    plan = Plan(EDIT, (Change(provider, full, less), moved, freed), is_staged=True)
    assert plan.question == f"Make 3 changes, {removing}, 2 allocations?"
    assert Plan(EDIT, (Change(provider, less, less), moved)).question == "Make 1 change?"


def test_resume_in_which_all_is_refused_has_changed_nothing():
    """The run may have written before, so that its changes are not untouched."""
    change = plan_change(EDIT, Provider("p", "p", 1), ProviderState(traits=frozenset()))
    refused = Plan(EDIT, (change,), refused={"p": PlacementError("no")}, goes_on=True)
    report = Report(refused, (refused.end_untried(change),))
    assert (report.is_untouched, report.wrote_nothing) == (False, True)
    assert report.heading == "Nothing was changed: trait add A"


def test_the_summary_counts_everything():
    """What changes, what does not and why, and what could not be read."""
    plan = make_plan(EDIT, [reading("c"), unreadable("a"), reading("b", "A")])
    assert plan.summary == (
        "trait add A: 1 resource provider to change, 1 unchanged (has them already), 1 could not be read"
    )


def test_the_most_frequent_reason_comes_first():
    """Whatever the order in which the server has the providers, equal plans read alike."""
    subject, state = Provider("p", "p", 1), ProviderState()
    steps = [Change(subject, state, state, reason) for reason in ("x", "b", "a", "b", "a")]
    told = "trait add A: 0 resource providers to change, 2 unchanged (a), 2 unchanged (b), 1 unchanged (x)"
    for order in (steps, steps[::-1]):
        assert Plan(EDIT, tuple(order)).summary == f"Nothing to do: {told}"


def test_a_plan_without_changes_says_so():
    """The summary of a second run begins with the words that matter."""
    assert make_plan(EDIT, [reading("b", "A")]).summary.startswith("Nothing to do: trait add A: 0 resource")


def test_a_staged_plan_counts_changes():
    """It is about consumers and names as well, and not about providers alone."""
    steps = tuple(
        Change(subject, ProviderState(identity=ABSENT), ProviderState(identity=describe_identity("A")))
        for subject in (Provider("p", "p", 1), CustomName("trait", "CUSTOM_A"))
    )
    plan = Plan(EDIT, steps, is_staged=True)
    assert plan.summary == "trait add A: 2 changes to make"
    done = Report(plan, tuple(Outcome(step, Result.APPLIED) for step in steps))
    assert done.summary == "trait add A: 2 changes, 2 applied"
    assert Plan(EDIT, steps[:1], is_staged=True).summary == "trait add A: 1 change to make"


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


def test_the_report_counts_results():
    """The summary gives the number of each result that occurred."""
    summary = report(Result.APPLIED, Result.APPLIED, Result.FAILED).summary
    assert summary == "trait add A: 3 resource providers, 2 applied, 1 failed"


def test_a_report_of_nothing_says_so():
    """As of a resume of what is done already."""
    assert Report(Plan(EDIT, ()), ()).summary == "Nothing to do: trait add A"


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
