# SPDX-License-Identifier: Apache-2.0
"""One-time-use devices: their states, the edit that releases burned ones, and what is no release."""

from dataclasses import replace

import pytest

from osc_placement.batch.device import (
    ONE_TIME_USE,
    DeviceInUse,
    DeviceRelease,
    DeviceState,
    MayBeUsedAgain,
    find_state,
    is_releasing,
    refuse_planned_again,
    require_unused,
)
from osc_placement.batch.facets import ProviderState
from osc_placement.batch.plan import Change, EditRefused, plan_change
from osc_placement.microversion import MAX, Version
from osc_placement.model import Inventory, Provider

DEVICE = Provider("u", "compute-1_0000:81:00.0", 4)
TRAITS = frozenset([ONE_TIME_USE])


def inventory(reserved, total=1):
    return Inventory(total=total, reserved=reserved)


def state(reserved=1, total=1, traits=TRAITS):
    return ProviderState(inventories={"GPU": inventory(reserved, total)}, traits=traits)


def change(before, after):
    """The change of the inventories of a device."""
    states = [
        ProviderState(
            inventories=None if each is None else {name: inventory(*of) for name, of in each.items()}
        )
        for each in (before, after)
    ]
    return Change(DEVICE, *states)


@pytest.mark.parametrize(
    ("reserved", "total", "usages", "found"),
    [
        (0, 1, {}, "free"),
        (0, 1, {"GPU": 0}, "free"),
        (1, 2, {"GPU": 0}, "free"),
        (1, 1, {"GPU": 0}, "burned"),
        (2, 1, {}, "burned"),
        (1, 1, {"GPU": 1}, "in use"),
        (0, 1, {"GPU": 1}, "in use"),
        (1, 1, {"GPU": 0, "OTHER": 1}, "in use"),
    ],
)
def test_device_is_burned_if_all_is_reserved_and_nothing_is_used(reserved, total, usages, found):
    """A use of any class is one of the device."""
    assert find_state(inventory(reserved, total), usages) == DeviceState(found)


def test_device_without_inventory_is_not_burned():
    """Unless it is in use, it has a state of its own."""
    assert find_state(None, {}) is DeviceState.EMPTY
    assert find_state(None, {"GPU": 1}) is DeviceState.IN_USE


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        (state(traits=frozenset(["HW_PCI_OTHER"])), f"no trait {ONE_TIME_USE}"),
        (state(reserved=0), "is not burned"),
        (state(reserved=1, total=2), "is not burned"),
        (replace(state(), inventories={}), "no inventory"),
    ],
)
def test_release_leaves_what_is_not_burned(before, reason):
    """And says why."""
    step = plan_change(DeviceRelease(), DEVICE, before)
    assert (step.facets, step.reason) == ((), reason)


def test_release_sets_what_is_reserved_to_nothing():
    """Other fields and traits stay, and a second release changes nothing."""
    before = replace(state(), inventories={"GPU": replace(inventory(1), max_unit=1), "PART": inventory(1, 2)})
    step = plan_change(DeviceRelease(), DEVICE, before)
    assert step.facets == ("inventories",)
    assert step.after.inventories == {
        **before.inventories,
        "GPU": replace(before.inventories["GPU"], reserved=0),
    }
    assert plan_change(DeviceRelease(), DEVICE, step.after).facets == ()


def test_release_of_providers_that_are_no_devices_is_refused():
    """One device among them is enough."""
    other = state(traits=frozenset())
    with pytest.raises(EditRefused, match=f"{ONE_TIME_USE}.* device list$"):
        DeviceRelease().check([other, other])
    DeviceRelease().check([other, state()])
    DeviceRelease().check([])


@pytest.mark.parametrize(
    ("before", "after", "is_release"),
    [
        ({"GPU": (1,)}, {"GPU": (0,)}, True),
        ({"GPU": (1,)}, {"GPU": (1, 2)}, True),
        ({"GPU": (1,), "PART": (0,)}, {"GPU": (0,), "PART": (0,)}, True),
        ({"GPU": (1,)}, {"GPU": (2, 2)}, False),
        ({"GPU": (0,)}, {"GPU": (1,)}, False),
        ({"GPU": (1, 2)}, {"GPU": (0, 2)}, False),
        ({"GPU": (1,)}, {}, False),
        ({}, {"GPU": (0,)}, False),
        (None, None, False),
    ],
)
def test_change_releases_what_was_wholly_reserved(before, after, is_release):
    """Whatever its edit is."""
    assert is_releasing(change(before, after)) is is_release


class Server:
    """A client that counts what it is asked."""

    def __init__(self, usages, traits, version=MAX, reserved=1):
        self.version = version
        self._reserved = reserved
        self.asked = []
        self._usages = usages
        self._traits = traits

    def provider_usages(self, uuid):
        self.asked.append("usages")
        return self._usages

    def list_inventories(self, uuid):
        return {"inventories": {"GPU": inventory(self._reserved, 1).to_json()}}

    def list_provider_traits(self, uuid):
        self.asked.append("traits")
        return {"traits": self._traits}


@pytest.mark.parametrize(
    ("usages", "traits", "asked"),
    [
        ({"GPU": 1}, [ONE_TIME_USE], ["usages", "traits"]),
        ({"GPU": 1}, ["HW_PCI_OTHER"], ["usages", "traits"]),
        ({"GPU": 0}, [ONE_TIME_USE], ["usages"]),
    ],
)
def test_release_of_a_device_in_use_is_refused(usages, traits, asked):
    """Traits are read where the change has none and something is used."""
    server = Server(usages, traits)
    step = change({"GPU": (1,)}, {"GPU": (0,)})
    if usages["GPU"] and ONE_TIME_USE in traits:
        with pytest.raises(DeviceInUse, match="in use: 1 GPU allocated"):
            require_unused(server, step)
    else:
        require_unused(server, step)
    assert server.asked == asked


def test_nothing_is_read_of_a_change_that_releases_nothing():
    """As most changes are."""
    server = Server({"GPU": 1}, [ONE_TIME_USE])
    require_unused(server, change({"GPU": (0, 2)}, {"GPU": (1, 2)}))
    assert server.asked == []


def test_no_trait_is_read_where_there_are_none():
    """In a microversion without them."""
    server = Server({"GPU": 1}, [ONE_TIME_USE], Version(1, 5))
    require_unused(server, change({"GPU": (1,)}, {"GPU": (0,)}))
    assert server.asked == ["usages"]


def test_known_usages_and_traits_are_not_read_again():
    """They were read after the inventories."""
    server = Server({}, [])
    with pytest.raises(DeviceInUse):
        require_unused(server, Change(DEVICE, state(), state(reserved=0)), {"GPU": 1})
    assert server.asked == []


def test_release_that_is_planned_again_is_refused():
    """The device may have been used and burned once more; what is no device, or no release, is not asked."""
    again = change({"GPU": (1, 1)}, {"GPU": (0, 1)})
    with pytest.raises(MayBeUsedAgain, match="was changed since its release was planned"):
        refuse_planned_again(Server({}, [ONE_TIME_USE]), again)
    refuse_planned_again(Server({}, ["HW_PCI_OTHER"]), again)
    # an earlier write of the run has released it, and another facet was in conflict
    refuse_planned_again(Server({}, [ONE_TIME_USE], reserved=0), again)
    refuse_planned_again(Server({}, [ONE_TIME_USE], Version(1, 5)), again)
    server = Server({}, [ONE_TIME_USE])
    refuse_planned_again(server, change({"GPU": (0, 1)}, {"GPU": (0, 1)}))
    assert server.asked == []
