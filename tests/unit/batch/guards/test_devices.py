# SPDX-License-Identifier: Apache-2.0
"""The guard of one-time-use devices: what is a release, and which is refused."""

import pytest

from osc_placement.batch.facets import ProviderState
from osc_placement.batch.guards.devices import DeviceInUse, MayBeUsedAgain, guard_devices, is_releasing
from osc_placement.batch.plan import Change, Plan
from osc_placement.batch.repeat import Recorded
from osc_placement.microversion import MAX, Version
from osc_placement.model import ONE_TIME_USE, Inventory, Provider

DEVICE = Provider("u", "compute-1_0000:81:00.0", 4)


def inventory(reserved, total=1):
    return Inventory(total=total, reserved=reserved)


def change(before, after, traits=None):
    """The change of the inventories of a device."""
    states = [
        ProviderState(
            inventories=None if each is None else {name: inventory(*of) for name, of in each.items()},
            traits=traits,
        )
        for each in (before, after)
    ]
    return Change(DEVICE, *states)


RELEASE = change({"GPU": (1,)}, {"GPU": (0,)})


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

    def allow_concurrency(self, number):
        pass

    def provider_usages(self, uuid):
        self.asked.append("usages")
        return self._usages

    def list_inventories(self, uuid):
        self.asked.append("inventories")
        fields = inventory(self._reserved, 1).to_json()
        return {"inventories": {"GPU": fields}, "resource_provider_generation": 9}

    def list_provider_traits(self, uuid):
        self.asked.append("traits")
        if isinstance(self._traits, Exception):
            raise self._traits
        return {"traits": self._traits, "resource_provider_generation": 9}


def guard(server, step, **options):
    """The plan of one change, guarded by what a server says, and what that was asked."""
    plan = guard_devices(server, Plan(Recorded("edit", ("inventories",)), (step,)), **options)
    return plan, server.asked


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
    plan, found = guard(Server(usages, traits), RELEASE)
    assert found == asked
    if usages["GPU"] and ONE_TIME_USE in traits:
        assert isinstance(plan.refused["u"], DeviceInUse)
        assert "in use: 1 GPU allocated" in str(plan.refused["u"])
    else:
        assert not plan.untried


def test_nothing_is_read_of_a_change_that_releases_nothing():
    """As most changes are."""
    plan, asked = guard(Server({"GPU": 1}, [ONE_TIME_USE]), change({"GPU": (0, 2)}, {"GPU": (1, 2)}))
    assert (asked, plan.untried) == ([], {})


def test_nothing_is_a_device_where_there_are_no_traits():
    """In a microversion without them."""
    plan, asked = guard(Server({"GPU": 1}, [ONE_TIME_USE], Version(1, 5)), RELEASE)
    assert (asked, plan.untried) == ([], {})


def test_known_traits_are_not_read_again():
    """They were read with the inventories."""
    device = change({"GPU": (1,)}, {"GPU": (0,)}, frozenset([ONE_TIME_USE]))
    plan, asked = guard(Server({"GPU": 1}, []), device)
    assert (asked, list(plan.refused)) == (["usages"], ["u"])


def test_a_provider_whose_traits_cannot_be_read_is_not_changed():
    """It may be a device that is in use."""
    error = OSError("reset")
    plan, _ = guard(Server({"GPU": 1}, error), RELEASE)
    assert (plan.unreadable, plan.refused) == ({"u": error}, {})


def test_release_that_is_planned_again_is_refused():
    """The device may have been used and burned once more; what is no device, or no release, is not asked."""
    again = change({"GPU": (1, 1)}, {"GPU": (0, 1)})
    plan, _ = guard(Server({}, [ONE_TIME_USE]), again, is_again=True)
    assert isinstance(plan.refused["u"], MayBeUsedAgain)
    assert "was changed since its release was planned" in str(plan.refused["u"])
    for server in (
        Server({}, ["HW_PCI_OTHER"]),
        # an earlier write of the run has released it, and another facet was in conflict
        Server({}, [ONE_TIME_USE], reserved=0),
        Server({}, [ONE_TIME_USE], Version(1, 5)),
    ):
        plan, _ = guard(server, again, is_again=True)
        assert not plan.untried
    plan, asked = guard(Server({}, [ONE_TIME_USE]), change({"GPU": (0, 1)}, {"GPU": (0, 1)}), is_again=True)
    assert (asked, plan.untried) == ([], {})


@pytest.mark.parametrize("generation", [3, 4])
def test_device_that_was_changed_since_its_plan_is_refused_by_each_resume(generation):
    """The step keeps the generation of the first plan, which a journal records."""
    earlier = Change(Provider("u", DEVICE.name, generation), RELEASE.before, RELEASE.after)
    plan, _ = guard(Server({}, [ONE_TIME_USE]), RELEASE, planned=[earlier])
    is_changed = generation != DEVICE.generation
    assert list(plan.refused) == (["u"] if is_changed else [])
    assert plan.steps[0].subject.generation == generation
