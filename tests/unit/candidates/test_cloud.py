# SPDX-License-Identifier: Apache-2.0
"""A cloud as a client reads it: trees, their order, and who shares with them."""

from osc_placement.candidates.cloud import CloudView
from osc_placement.candidates.node import SHARING_TRAIT
from osc_placement.model import Inventory, Provider, ProviderRecord


def record(uuid, parent=None, traits=(), aggregates=(), **totals):
    """A provider whose name is its UUID."""
    inventories = {name: Inventory(total) for name, total in totals.items()}
    provider = Provider(uuid, uuid, 3, parent)
    return ProviderRecord(provider, inventories, {"VCPU": 2}, frozenset(traits), frozenset(aggregates))


VIEW = CloudView(
    [
        record("pool", traits=[SHARING_TRAIT], aggregates=["x"], DISK_GB=100),
        record("b-device", "b-numa", VGPU=1),
        record("b-numa", "b", aggregates=["x"], VCPU=4),
        record("b"),
        record("a"),
        record("orphan", "somebody who was not read"),
    ]
)


def names(nodes):
    return [node.name for node in nodes]


def test_providers_are_sorted_by_name_and_records_are_not():
    """Nodes and roots are for people, the records in the order of the answer."""
    assert names(VIEW.nodes) == ["a", "b", "b-device", "b-numa", "orphan", "pool"]
    assert names(VIEW.roots) == ["a", "b", "orphan", "pool"]
    assert list(VIEW.records)[:2] == ["pool", "b-device"]


def test_a_tree_is_found_from_any_of_its_providers():
    """Each provider stands before its descendants; the way up ends at the root."""
    for uuid in ("b", "b-numa", "b-device"):
        assert names(VIEW.tree_of(uuid)) == ["b", "b-numa", "b-device"]
        assert VIEW.root_of(uuid).name == "b"
    assert names(VIEW.ancestry(VIEW.node("b-device"))) == ["b-device", "b-numa", "b"]
    assert names(VIEW.children(VIEW.node("b"))) == ["b-numa"]


def test_a_provider_without_its_parent_is_a_root():
    """A part of a tree is a tree too."""
    assert names(VIEW.tree_of("orphan")) == ["orphan"]


def test_a_provider_shares_with_the_trees_of_the_members_of_its_aggregates():
    """From outside: not with its own tree, nor with trees that have no member."""
    assert names(VIEW.sharing_with("b")) == names(VIEW.sharing_with("b-device")) == ["pool"]
    assert names(VIEW.sharing_with("a")) == names(VIEW.sharing_with("pool")) == []


def test_stocks_have_what_is_used():
    """A class without usage is unused; the classes of all providers are listed once."""
    assert VIEW.node("b-numa").stocks["VCPU"].free == 2
    assert VIEW.node("pool").stocks["DISK_GB"].free == 100
    assert list(VIEW.classes) == ["DISK_GB", "VCPU", "VGPU"]


def test_providers_below_each_other_have_a_root():
    """A server that is damaged may answer so, and reading its answer ends."""
    view = CloudView([record("a", "b"), record("b", "a")])
    assert {view.root_of(uuid).uuid for uuid in ("a", "b")} <= {"a", "b"}
