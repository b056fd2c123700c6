# SPDX-License-Identifier: Apache-2.0
"""Plans and reports as a whole, in words."""

from osc_placement.api.consumer import Consumer
from osc_placement.batch.facets import ABSENT, ProviderState, describe_identity
from osc_placement.batch.plan import (
    Change,
    CustomName,
    Outcome,
    Plan,
    Report,
    Result,
    make_plan,
)
from osc_placement.model import Inventory, Provider
from osc_placement.report.summary import ask, count_differences, sum_up
from tests.unit.batch.readings import EDIT, reading, report, unreadable


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
    assert ask(plan) == "Make 5 changes, deleting 1 resource provider, 2 consumers, 1 trait?"
    assert ask(Plan(EDIT, (new,), is_staged=True)) == "Make 1 change?"


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
    assert ask(Plan(EDIT, (Change(provider, full, less),))) == f"Change 1 resource provider, {removing}?"
    plan = Plan(EDIT, (Change(provider, full, less), moved, freed), is_staged=True)
    assert ask(plan) == f"Make 3 changes, {removing}, 2 allocations?"
    assert ask(Plan(EDIT, (Change(provider, less, less), moved))) == "Make 1 change?"


def test_the_summary_counts_everything():
    """What changes, what does not and why, and what could not be read."""
    plan = make_plan(EDIT, [reading("c"), unreadable("a"), reading("b", "A")])
    assert sum_up(plan).line == (
        "trait add A: 1 resource provider to change, 1 unchanged (has them already), 1 could not be read"
    )


def test_the_most_frequent_reason_comes_first():
    """Whatever the order in which the server has the providers, equal plans read alike."""
    subject, state = Provider("p", "p", 1), ProviderState()
    steps = [Change(subject, state, state, reason) for reason in ("x", "b", "a", "b", "a")]
    told = "trait add A: 0 resource providers to change, 2 unchanged (a), 2 unchanged (b), 1 unchanged (x)"
    for order in (steps, steps[::-1]):
        assert sum_up(Plan(EDIT, tuple(order))).line == f"Nothing to do: {told}"


def test_a_plan_without_changes_says_so():
    """The summary of a second run begins with the words that matter."""
    assert sum_up(make_plan(EDIT, [reading("b", "A")])).line.startswith(
        "Nothing to do: trait add A: 0 resource"
    )


def test_a_staged_plan_counts_changes():
    """It is about consumers and names as well, and not about providers alone."""
    steps = tuple(
        Change(subject, ProviderState(identity=ABSENT), ProviderState(identity=describe_identity("A")))
        for subject in (Provider("p", "p", 1), CustomName("trait", "CUSTOM_A"))
    )
    plan = Plan(EDIT, steps, is_staged=True)
    assert sum_up(plan).line == "trait add A: 2 changes to make"
    done = Report(plan, tuple(Outcome(step, Result.APPLIED) for step in steps))
    assert sum_up(done).line == "trait add A: 2 changes, 2 applied"
    assert sum_up(Plan(EDIT, steps[:1], is_staged=True)).line == "trait add A: 1 change to make"


def test_the_report_counts_results():
    """The summary gives the number of each result that occurred."""
    summary = sum_up(report(Result.APPLIED, Result.APPLIED, Result.FAILED)).line
    assert summary == "trait add A: 3 resource providers, 2 applied, 1 failed"


def test_a_report_of_nothing_says_so():
    """As of a resume of what is done already."""
    assert sum_up(Report(Plan(EDIT, ()), ())).line == "Nothing to do: trait add A"


def test_differences_are_counted_the_most_frequent_first():
    """What is created or deleted counts by its kind, and allocations without their providers."""
    subject = Provider("u", "name", 1)
    created = [
        Change(
            subject,
            ProviderState(identity=ABSENT, traits=frozenset()),
            ProviderState(identity=describe_identity(name), traits=frozenset({"T"} if name == "a" else ())),
        )
        for name in "abc"
    ]
    claimed = [
        Change(
            subject,
            ProviderState(allocations={}),
            ProviderState(allocations={name: {"VCPU": 1}, "p": {"VCPU": 2}}),
        )
        for name in "de"
    ]
    given_back = Change(Consumer("c"), claimed[0].after, ProviderState(allocations={}))
    assert count_differences([*created, *claimed, given_back]) == [
        (3, "resource providers created"),
        (2, "+allocations of VCPU"),
        (1, "+T"),
        (1, "-allocations of VCPU"),
        (1, "consumer deleted"),
    ]
