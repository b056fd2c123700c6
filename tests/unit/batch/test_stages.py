# SPDX-License-Identifier: Apache-2.0
"""The order of steps that depend on each other."""

from osc_placement.api.consumer import Consumer
from osc_placement.batch.facets import ABSENT, NO_GENERATION, ProviderState, describe_identity, read_identity
from osc_placement.batch.plan import Change, CustomName, settle_name, temporary_name
from osc_placement.batch.stages import find_names_in_the_way, find_stages, find_widened
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


def uuids(stages):
    return [[step.uuid for step in stage] for stage in stages]


def test_what_others_depend_on_comes_first():
    """Parents before children where they are created, children before parents where they are deleted."""
    assert uuids(find_stages(STEPS)) == [
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
    assert uuids(find_stages(back)) == [
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
    assert uuids(find_stages(done)) == [["p", "q"], ["k"]]
    back = [Change(step.subject, step.after, step.before) for step in done]
    assert uuids(find_stages(back)) == [["q"], ["k"], ["p"]]


def test_a_class_that_is_given_up_is_removed_last_also_with_other_changes():
    """What is lost otherwise, or given up elsewhere, does not wait for a consumer."""
    steps = [
        inventories("p", ["VCPU", "DISK_GB"], ["VCPU", "MEMORY_MB"]),
        holder("k", ["VCPU", "DISK_GB"], ["VCPU"]),
    ]
    assert uuids(find_stages(steps)) == [["k"], ["p"]]
    for other in (
        holder("k", ["VCPU"], ["VCPU", "MEMORY_MB"]),
        holder("k", ["VCPU", "MEMORY_MB"], ["VCPU"]),
    ):
        assert uuids(find_stages([steps[0], other])) == [["p"], ["k"]]


def test_a_provider_has_what_consumers_leave_and_what_they_get_while_they_move():
    """Its inventories are written twice: both first, and those that stay when the consumers have left."""
    exchange = inventories("p", ["VCPU", "DISK_GB"], ["PCPU"])
    steps = [exchange, holder("k", ["VCPU"], ["PCPU"])]
    (widened,) = find_widened(steps)
    assert set(widened.after.inventories) == {"VCPU", "PCPU"}
    assert (widened.facets, widened.before) == (("inventories",), exchange.before)
    assert uuids(find_stages(steps)) == [["k"], ["p"]]


def test_a_provider_is_not_written_twice_if_no_consumer_needs_it():
    """If it only loses a class, or if its consumers get nothing from it."""
    loses = inventories("p", ["VCPU", "DISK_GB"], ["VCPU"])
    assert find_widened([loses, holder("k", ["VCPU", "DISK_GB"], ["VCPU"])]) == []
    leaves = ProviderState(allocations={"p": {"VCPU": 1}}), ProviderState(allocations={"q": {"VCPU": 1}})
    assert find_widened([inventories("p", ["VCPU"], ["PCPU"]), Change(Consumer("k"), *leaves)]) == []


def test_parents_that_are_each_others_end_the_search():
    """A damaged cloud gets an order, and the server refuses what makes no sense."""
    steps = [provider("a", None, ("a", "b")), provider("b", None, ("b", "a"))]
    assert sorted(step.uuid for stage in find_stages(steps) for step in stage) == ["a", "b"]


def test_a_provider_gives_way_to_the_one_that_gets_its_name():
    """Swapped names and names of deleted providers; not one that keeps its name."""
    steps = [
        provider("a", ("one", None), ("two", None)),
        provider("b", ("two", None), ("one", None)),
        provider("c", ("three", None), None),
        provider("d", None, ("three", None)),
        provider("e", ("four", None), ("four", "a")),
    ]
    assert [step.uuid for step in find_names_in_the_way(steps, steps)] == ["a", "b", "c"]


def test_only_names_that_are_taken_are_in_the_way():
    """Of swapped names, the one that the first of the two takes belongs to the second."""
    steps = [provider("a", ("one", None), ("two", None)), provider("b", ("two", None), ("one", None))]
    assert find_names_in_the_way(steps[:1], steps) == steps[1:]
    assert find_names_in_the_way(steps[:1], steps[:1]) == []


def test_a_temporary_name_counts_as_the_name_of_the_image():
    """A run that died between two renames is resumed and undone as if it had not renamed."""
    subject = Provider("a", "a", 0)
    state = ProviderState(identity=describe_identity(temporary_name("a"), "parent"))
    image = describe_identity("one", "parent")
    assert read_identity(settle_name(state, subject, image).identity) == ("one", "parent")
    other = ProviderState(identity=describe_identity("else"))
    assert settle_name(other, subject, image) == other
