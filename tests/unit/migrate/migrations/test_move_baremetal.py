# SPDX-License-Identifier: Apache-2.0
"""What becomes of a bare metal node, as nova's ironic driver would have it."""

import pytest

from osc_placement.batch.facets import ProviderState
from osc_placement.migrate.migrations.move_baremetal import (
    NodeEdit,
    claim_of_node,
    class_of_node,
    reported_class,
)
from osc_placement.migrate.nova.facts import IronicNode
from osc_placement.model import Inventory

CLASS = "CUSTOM_X"
FREE, RESERVED = Inventory(1, max_unit=1), Inventory(1, reserved=1, max_unit=1)
SIZES = {"VCPU": Inventory(8), "MEMORY_MB": Inventory(1024), "DISK_GB": Inventory(10)}
OLD = {"VCPU": 8, "MEMORY_MB": 1024, "DISK_GB": 10}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gold", "CUSTOM_GOLD"),
        ("bare.metal-gold 2", "CUSTOM_BARE_METAL_GOLD_2"),
        ("straße", "CUSTOM_STRA_E"),
        ("CUSTOM_GOLD", "CUSTOM_CUSTOM_GOLD"),
        ("", None),
    ],
)
def test_class_is_named_as_nova_names_it(name, expected):
    """Whatever is no letter or digit becomes one underscore, before case changes."""
    assert class_of_node(IronicNode("n", resource_class=name)) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, True),
        ({"power_state": "power on"}, True),
        ({"provision_state": None}, True),
        ({"maintenance": True}, False),
        ({"power_state": None}, False),
        ({"power_state": "error"}, False),
        ({"provision_state": "active"}, False),
        ({"provision_state": "enroll"}, False),
        ({"provision_state": "clean wait"}, False),
    ],
)
def test_node_is_available_as_for_novas_driver(fields, expected):
    """Maintenance, power and provision state decide."""
    node = IronicNode("n", **{"provision_state": "available", "power_state": "power off", **fields})
    assert node.is_available is expected


def decide(edit, inventories, allocations=None):
    """What a node is to have and who is to hold what, and the note."""
    decision = edit.decide(ProviderState(inventories=inventories, allocations=allocations or {}))
    return decision.after.inventories, decision.after.allocations, decision.reason


@pytest.mark.parametrize(
    ("edit", "current", "expected"),
    [
        (NodeEdit(CLASS, is_available=True), None, FREE),
        (NodeEdit(CLASS, is_available=False), None, RESERVED),
        (NodeEdit(CLASS, is_available=True), RESERVED, FREE),
        (NodeEdit(CLASS, is_available=False), FREE, RESERVED),
        (NodeEdit(CLASS, is_available=False, is_occupied=True), None, RESERVED),
        (NodeEdit(CLASS, is_available=False, is_occupied=True), FREE, FREE),
        (NodeEdit(CLASS, is_available=False, is_occupied=True), RESERVED, RESERVED),
        (NodeEdit(CLASS, is_available=True), Inventory(4, allocation_ratio=2.0), FREE),
        (NodeEdit(CLASS), Inventory(1, reserved=1), Inventory(1, reserved=1)),
    ],
)
def test_reserved_follows_the_driver_and_fights_no_older_one(edit, current, expected):
    """What is there stays while there is an instance, or while Ironic is not asked."""
    inventories, _, _ = decide(edit, SIZES | ({CLASS: current} if current else {}))
    assert inventories == {CLASS: expected}


def test_instance_holds_the_node_in_place_of_sizes():
    """Others keep what they hold, and what they hold stays in the inventory."""
    edit = NodeEdit(CLASS, "i", is_occupied=True, is_available=False)
    assert decide(edit, SIZES, {"i": OLD}) == (
        {CLASS: RESERVED},
        {"i": {CLASS: 1}},
        "reserved, as it is in use",
    )
    inventories, allocations, note = decide(edit, SIZES, {"i": OLD, "other": {"VCPU": 1}})
    assert inventories == {"VCPU": SIZES["VCPU"], CLASS: RESERVED}
    assert allocations == {"i": {CLASS: 1}, "other": {"VCPU": 1}}
    assert "VCPU stay" in note


def test_what_is_decided_is_decided_once():
    """Decided on its own result, it changes nothing; classes of others are never touched."""
    edit = NodeEdit(CLASS, "i", is_occupied=True, is_available=False)
    inventories, allocations, _ = decide(edit, SIZES | {"CUSTOM_OLD": FREE}, {"i": OLD})
    assert inventories == {"CUSTOM_OLD": FREE, CLASS: RESERVED}
    again = decide(edit, inventories, allocations)
    assert again == (inventories, allocations, "is one of its class already")


@pytest.mark.parametrize(
    ("inventories", "expected"),
    [
        ({CLASS: FREE}, CLASS),
        ({CLASS: RESERVED, **SIZES}, CLASS),
        ({CLASS: FREE, "CUSTOM_Y": FREE}, None),
        ({CLASS: Inventory(2)}, None),
        (SIZES, None),
    ],
)
def test_class_that_nova_compute_reported_is_the_only_one_of_one(inventories, expected):
    """Of two nobody knows which."""
    assert reported_class(inventories) == expected


@pytest.mark.parametrize(
    ("claim", "held", "inventories", "expected"),
    [
        (OLD, {}, {CLASS: FREE}, {CLASS: 1}),
        (OLD, {}, SIZES, OLD),
        (OLD, {}, {}, OLD),
        (OLD | {CLASS: 1}, {}, {CLASS: FREE}, {CLASS: 1}),
        (OLD, {CLASS: 1}, {CLASS: RESERVED, **SIZES}, {CLASS: 1}),
        (OLD, {"VCPU": 1}, {CLASS: RESERVED, **SIZES}, OLD),
    ],
)
def test_claim_of_an_older_flavor_is_the_node(claim, held, inventories, expected):
    """Sizes are claimed of a node that has them, and not of one that is held whole."""
    assert claim_of_node(claim, held, inventories) == expected
