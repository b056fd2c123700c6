# SPDX-License-Identifier: Apache-2.0
"""Where the claim of an instance lies, whose host is known."""

import pytest

from osc_placement.candidates.node import SHARING_TRAIT
from osc_placement.migrate.migrations.cloud import AllocationView
from osc_placement.migrate.migrations.placing import Ambiguous, Ledger, NoInventory, OverCapacity
from osc_placement.model import Inventory, Provider, ProviderRecord


def record(uuid, inventories=None, parent=None, root=None, aggregates=(), traits=()):
    provider = Provider(uuid, f"name of {uuid}", 0, parent, root or uuid)
    return ProviderRecord(provider, inventories or {}, None, frozenset(traits), frozenset(aggregates))


def cloud(*records, held=None):
    return AllocationView(records, held)


def test_classes_lie_where_the_inventory_is():
    """The host's own, a child's and what somebody shares are each found."""
    ledger = Ledger(
        cloud(
            record("host", {"VCPU": Inventory(8)}, aggregates=["a"]),
            record("card", {"VGPU": Inventory(4)}, "host", "host"),
            record("disk", {"DISK_GB": Inventory(100)}, aggregates=["a"], traits=[SHARING_TRAIT]),
            record("far", {"DISK_GB": Inventory(100)}, aggregates=["b"], traits=[SHARING_TRAIT]),
            record("other", {"VGPU": Inventory(4), "DISK_GB": Inventory(100)}, aggregates=["a"]),
        )
    )
    placed = ledger.place({"VCPU": 2, "VGPU": 1, "DISK_GB": 20}, "host")
    assert placed == {"host": {"VCPU": 2}, "card": {"VGPU": 1}, "disk": {"DISK_GB": 20}}


def test_what_is_placed_is_used():
    """The next claim finds what the last one left, besides what is held already."""
    ledger = Ledger(cloud(record("host", {"VCPU": Inventory(4)}), held={"c": {"host": {"VCPU": 1}}}))
    assert ledger.place({"VCPU": 3}, "host") == {"host": {"VCPU": 3}}
    with pytest.raises(OverCapacity) as caught:
        ledger.place({"VCPU": 1}, "host")
    assert (caught.value.ratio, caught.value.provider) == (1.25, "name of host")


def test_refused_claim_uses_nothing():
    """A claim is placed whole or not at all."""
    ledger = Ledger(cloud(record("host", {"VCPU": Inventory(4)})))
    with pytest.raises(NoInventory, match="VGPU"):
        ledger.place({"VCPU": 4, "VGPU": 1}, "host")
    assert ledger.place({"VCPU": 4}, "host")


def test_choice_is_nobodys_guess():
    """Of two with room, both are named; when only one has room, that is where it lies."""
    cards = [record(name, {"VGPU": Inventory(1)}, "host", "host") for name in ("card1", "card2")]
    host = record("host")
    with pytest.raises(Ambiguous, match=r"name of card1 \(card1\), name of card2 \(card2\)"):
        Ledger(cloud(host, *cards)).place({"VGPU": 1}, "host")
    held = {"c": {"card1": {"VGPU": 1}}}
    assert Ledger(cloud(host, *cards, held=held)).place({"VGPU": 1}, "host") == {"card2": {"VGPU": 1}}


@pytest.mark.parametrize("ratio", [1.0, 1.1, 1.3, 16.0])
@pytest.mark.parametrize("total", [3, 7, 1000])
def test_ratio_that_is_told_fits(ratio, total):
    """With the ratio of the message there is room."""
    amount = int(total * ratio) + 1
    with pytest.raises(OverCapacity) as caught:
        Ledger(cloud(record("host", {"VCPU": Inventory(total, allocation_ratio=ratio)}))).place(
            {"VCPU": amount}, "host"
        )
    inventory = Inventory(total, allocation_ratio=caught.value.ratio)
    assert Ledger(cloud(record("host", {"VCPU": inventory}))).place({"VCPU": amount}, "host")


def test_unit_that_is_not_admitted_is_said():
    """No ratio helps against min_unit, max_unit and step_size."""
    ledger = Ledger(cloud(record("host", {"VCPU": Inventory(8, max_unit=2)})))
    with pytest.raises(NoInventory, match="max_unit"):
        ledger.place({"VCPU": 3}, "host")
