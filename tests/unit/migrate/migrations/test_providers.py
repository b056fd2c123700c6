# SPDX-License-Identifier: Apache-2.0
"""The move of everything that is allocated from a provider to another."""

import pytest

from osc_placement.api.consumer import Consumer
from osc_placement.batch.reshape import Replacement, ReshapeRefused, World
from osc_placement.model import Inventory, Provider

SIZES = {"VCPU": Inventory(8), "MEMORY_MB": Inventory(4096)}


def make_world(held, right=None, had=SIZES, also=None):
    """Return a world in which consumers hold something of the old provider, and perhaps of the right one."""
    claims = {consumer: {"old": amounts, "disk": {"DISK_GB": 5}} for consumer, amounts in held.items()}
    return World(
        {"old": Provider("old", "h1", 3), "new": Provider("new", "h1", 7)},
        {"old": had, "new": right or {}},
        {"old": held, "new": also or {}},
        {consumer: Consumer(consumer, 1, "p", "u", allocations=each) for consumer, each in claims.items()},
    )


def test_everything_moves_and_nothing_else():
    """What consumers hold of other providers stays, and all generations are sent."""
    plan = Replacement("old", "new").plan(make_world({"a": {"VCPU": 2, "MEMORY_MB": 64}, "b": {"VCPU": 1}}))
    document = plan.to_json()
    sent = {
        uuid: (set(each["inventories"]), each["resource_provider_generation"])
        for uuid, each in document["inventories"].items()
    }
    assert sent == {"old": (set(), 3), "new": (set(SIZES), 7)}
    allocations = {
        consumer: {uuid: held["resources"] for uuid, held in each["allocations"].items()}
        for consumer, each in document["allocations"].items()
    }
    assert allocations == {
        "a": {"new": {"VCPU": 2, "MEMORY_MB": 64}, "disk": {"DISK_GB": 5}},
        "b": {"new": {"VCPU": 1}, "disk": {"DISK_GB": 5}},
    }
    assert {each["consumer_generation"] for each in document["allocations"].values()} == {1}


def test_right_provider_keeps_its_inventories():
    """What nova-compute reported of the machine is right."""
    right = {"VCPU": Inventory(16), "MEMORY_MB": Inventory(99)}
    plan = Replacement("old", "new").plan(make_world({"a": {"VCPU": 2}}, right))
    assert plan.inventories == {"old": {}, "new": right}


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"also": {"a": {"VCPU": 1}}}, "holds VCPU of h1 and of the provider of the compute node too"),
        ({"right": {"MEMORY_MB": Inventory(9)}}, "has no inventory of it"),
        ({"right": {"VCPU": Inventory(8, max_unit=1)}}, "max_unit or step_size of provider h1 .new. forbid"),
        (
            {"right": {"VCPU": Inventory(3)}, "also": {"b": {"VCPU": 2}}},
            "4 of VCPU would be allocated in all, and provider h1 .new.",
        ),
        ({"had": {"VCPU": Inventory(1)}}, "2 of VCPU would be allocated in all, and provider h1 .old."),
    ],
)
def test_what_does_not_fit_is_refused(settings, text):
    """The reason names what stands in the way."""
    with pytest.raises(ReshapeRefused, match=text):
        Replacement("old", "new").plan(make_world({"a": {"VCPU": 2}}, **settings))
