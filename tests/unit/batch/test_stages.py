# SPDX-License-Identifier: Apache-2.0
"""The order of steps that depend on each other."""

from dataclasses import replace
from itertools import chain

from osc_placement.api.consumer import Consumer
from osc_placement.batch.facets import ABSENT, NO_GENERATION, ProviderState, describe_identity, read_identity
from osc_placement.batch.merge import settle
from osc_placement.batch.plan import Change, CustomName, Plan, temporary_name
from osc_placement.batch.repeat import Recorded
from osc_placement.batch.stages import choose_canaries, schedule
from osc_placement.model import Inventory, Provider


def provider(uuid, before, after):
    """The change of a provider between identities, each (name, parent) or None."""
    images = [
        ProviderState(identity=describe_identity(*each) if each else ABSENT) for each in (before, after)
    ]
    return Change(Provider(uuid, uuid, 0 if before else NO_GENERATION), *images)


def consumer(uuid, before, after):
    """The change of what a consumer holds."""
    images = [ProviderState(allocations={"p": {"VCPU": each}} if each else {}) for each in (before, after)]
    return Change(Consumer(uuid), *images)


def name(kind, before, after):
    """The change of a custom name."""
    images = [
        ProviderState(identity=describe_identity("CUSTOM_A") if each else ABSENT) for each in (before, after)
    ]
    return Change(CustomName(kind, "CUSTOM_A"), *images)


STEPS = (
    name("trait", True, False),
    provider("gone", ("gone", None), None),
    provider("gone-child", ("gone-child", "gone"), None),
    consumer("gets", 0, 1),
    provider("child", None, ("child", "root")),
    provider("root", None, ("root", None)),
    name("resource class", False, True),
    consumer("gives up", 1, 0),
)


def writes(steps):
    """The stages of a staged plan with these steps."""
    return schedule(Plan(Recorded("edit", ()), tuple(steps), is_staged=True))


def uuids(steps):
    """The UUIDs of what is written in each stage; the first of two writes with a star."""
    return [[f"{write.step.uuid}{'*' * bool(write.half)}" for write in stage] for stage in writes(steps)]


def test_what_others_depend_on_comes_first():
    """Parents before children where they are created, children before parents where they are deleted."""
    assert uuids(STEPS) == [
        ["gives up"],
        ["resource class CUSTOM_A"],
        ["root"],
        ["child"],
        ["gets"],
        ["gone-child"],
        ["gone"],
        ["trait CUSTOM_A"],
    ]


def test_an_undo_is_ordered_by_its_own_changes():
    """The way back is the same rule for the changes that go back."""
    back = [Change(step.subject, step.after, step.before) for step in STEPS]
    assert uuids(back) == [
        ["gets"],
        ["trait CUSTOM_A"],
        ["gone"],
        ["gone-child"],
        ["gives up"],
        ["child"],
        ["root"],
        ["resource class CUSTOM_A"],
    ]


def inventories(uuid, before, after):
    """The change of the classes of which a provider has inventories."""
    images = [ProviderState({each: Inventory(8) for each in classes}) for classes in (before, after)]
    return Change(Provider(uuid, uuid, 0), *images)


def holder(uuid, before, after):
    """The change of a consumer that holds one of each of these classes from a provider."""
    images = [ProviderState(allocations={"p": dict.fromkeys(classes, 1)}) for classes in (before, after)]
    return Change(Consumer(uuid), *images)


def test_a_class_is_added_before_a_consumer_gets_it_and_removed_after():
    """The server removes no inventory that is in use; the undo of an apply that gave it is possible."""
    done = [
        holder("k", ["VCPU"], ["VCPU", "DISK_GB"]),
        inventories("p", ["VCPU"], ["VCPU", "DISK_GB"]),
        inventories("q", ["VCPU"], ["VCPU", "DISK_GB"]),
    ]
    assert uuids(done) == [["p", "q"], ["k"]]
    back = [Change(step.subject, step.after, step.before) for step in done]
    assert uuids(back) == [["q"], ["k"], ["p"]]


def test_a_class_that_is_given_up_is_removed_last_also_with_other_changes():
    """What is lost otherwise, or given up elsewhere, does not wait for a consumer."""
    steps = [
        inventories("p", ["VCPU", "DISK_GB"], ["VCPU", "MEMORY_MB"]),
        holder("k", ["VCPU", "DISK_GB"], ["VCPU"]),
    ]
    assert uuids(steps) == [["p*"], ["k"], ["p"]]
    for other in (
        holder("k", ["VCPU"], ["VCPU", "MEMORY_MB"]),
        holder("k", ["VCPU", "MEMORY_MB"], ["VCPU"]),
    ):
        assert uuids([steps[0], other]) == [["p"], ["k"]]


def test_a_provider_has_what_consumers_leave_and_what_they_get_while_they_move():
    """Its inventories are written twice: both first, and those that stay when the consumers have left."""
    exchange = inventories("p", ["VCPU", "DISK_GB"], ["PCPU"])
    steps = [exchange, holder("k", ["VCPU"], ["PCPU"])]
    widened = writes(steps)[0][0].change
    assert set(widened.after.inventories) == {"VCPU", "PCPU"}
    assert (widened.facets, widened.before) == (("inventories",), exchange.before)
    assert uuids(steps) == [["p*"], ["k"], ["p"]]


def test_a_provider_is_not_written_twice_if_no_consumer_needs_it():
    """If it only loses a class, or if its consumers get nothing from it."""
    loses = inventories("p", ["VCPU", "DISK_GB"], ["VCPU"])
    assert uuids([loses, holder("k", ["VCPU", "DISK_GB"], ["VCPU"])]) == [["k"], ["p"]]
    leaves = ProviderState(allocations={"p": {"VCPU": 1}}), ProviderState(allocations={"q": {"VCPU": 1}})
    assert uuids([inventories("p", ["VCPU"], ["PCPU"]), Change(Consumer("k"), *leaves)]) == [["k"], ["p"]]


def test_parents_that_are_each_others_end_the_search():
    """A damaged cloud gets an order, and the server refuses what makes no sense."""
    steps = [provider("a", None, ("a", "b")), provider("b", None, ("b", "a"))]
    assert sorted(chain.from_iterable(uuids(steps))) == ["a", "b"]


def test_a_provider_gives_way_to_the_one_that_gets_its_name():
    """Swapped names and names of deleted providers; not one that keeps its name."""
    steps = [
        provider("a", ("one", None), ("two", None)),
        provider("b", ("two", None), ("one", None)),
        provider("c", ("three", None), None),
        provider("d", None, ("three", None)),
        provider("e", ("four", None), ("four", "a")),
    ]
    first, *others = uuids(steps)
    assert first == ["a*", "b*", "c*"]
    assert sorted(chain.from_iterable(others)) == ["a", "b", "c", "d", "e"]
    aside = writes(steps)[0][0].change
    assert read_identity(aside.after.identity) == (temporary_name("a"), None)


def test_a_temporary_name_counts_as_the_name_of_the_image():
    """Whichever run died between two renames, the next is planned as if it had not renamed."""
    subject = Provider("a", "a", 0)
    state = ProviderState(identity=describe_identity(temporary_name("a"), "parent"))
    change = Change(subject, ProviderState(identity=describe_identity("one", "parent")), ProviderState())
    assert read_identity(settle(change, state).identity) == ("one", "parent")
    other = ProviderState(identity=describe_identity("else"))
    assert settle(change, other) == other


def test_canaries_need_nothing_that_is_written_twice():
    """A consumer of a provider that is created with too little room, and what is below that, have to wait."""
    full = provider("p", None, ("p", None))
    full = replace(
        full,
        before=replace(full.before, inventories={}),
        after=replace(full.after, inventories={"VCPU": Inventory(1, reserved=1)}),
    )
    steps = (
        full,
        consumer("k", 0, 1),
        provider("child", None, ("child", "p")),
        provider("q", None, ("q", None)),
    )
    plan = Plan(Recorded("edit", ()), steps, is_staged=True)
    assert [step.uuid for step in choose_canaries(plan, schedule(plan))] == ["q"]
    assert uuids(steps)[-1] == ["p"]
