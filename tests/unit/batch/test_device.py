# SPDX-License-Identifier: Apache-2.0
"""One-time-use devices: their states, and the edit that releases burned ones."""

from dataclasses import replace

import pytest

from osc_placement.batch.device import DeviceRelease, DeviceState
from osc_placement.batch.facets import ProviderState
from osc_placement.batch.plan import Change, EditRefused, plan_change
from osc_placement.model import ONE_TIME_USE, Inventory, Provider

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
    assert DeviceState.of(inventory(reserved, total), usages) == DeviceState(found)


def test_device_without_inventory_is_not_burned():
    """Unless it is in use, it has a state of its own."""
    assert DeviceState.of(None, {}) is DeviceState.EMPTY
    assert DeviceState.of(None, {"GPU": 1}) is DeviceState.IN_USE


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
