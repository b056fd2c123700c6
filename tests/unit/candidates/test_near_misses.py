# SPDX-License-Identifier: Apache-2.0
"""Clouds of hosts that nearly fit, one of which does: it is found, or the search says that it was cut."""

from dataclasses import replace

import pytest

from osc_placement.candidates.node import SHARING_TRAIT, Node, Stock
from osc_placement.candidates.query import Traits
from osc_placement.candidates.request import CandidateRequest, Group
from osc_placement.candidates.search import STEPS, expand, search
from osc_placement.candidates.snapshot import Snapshot
from osc_placement.candidates.work import Work
from osc_placement.model import Inventory

NEEDED = Traits(required=(frozenset({"CUSTOM_NEEDED"}),))


class Cloud:
    """Providers that are added one by one; each call returns the id."""

    def __init__(self):
        self.nodes = []

    def add(self, parent=None, aggregates=(), traits=(), **totals):
        id_ = len(self.nodes)
        root = id_ if parent is None else self.nodes[parent].root_id
        stocks = {name: Stock(Inventory(total)) for name, total in totals.items()}
        self.nodes.append(Node(id_, f"node{id_}", parent, root, stocks, tuple(traits), tuple(aggregates)))
        return id_

    def tell_apart(self, host, number):
        """Add what no request asks for in another form for each number, so that each host is searched."""
        last = host
        for bit in range(10):
            last = self.add(last if number >> bit & 1 else host)

    def host(self, devices, **kwargs):
        """Add a host with devices: what each has, and the traits that it has beside one of its own."""
        host = self.add(VCPU=64, **kwargs)
        for number, (traits, totals) in enumerate(devices):
            self.add(host, traits=(f"CUSTOM_{host}_{number}", *traits), **totals)
        return host

    def find(self, request, steps=STEPS):
        """Return the roots of the hosts with candidates, and what is left of the work."""
        snapshot, work = Snapshot(self.nodes), Work(steps)
        found = [expand(request, each) for each in take_ten(search(snapshot, request, work))]
        roots = {snapshot.root_of[slot] for one in found for _, slots in one.mappings for slot in slots}
        return {self.nodes[root].id for root in roots}, work


def take_ten(found):
    return [each for each, _ in zip(found, range(10), strict=False)]


def groups(count, traits=None, **amounts):
    return [Group(f"_{number}", amounts, traits or Traits()) for number in range(count)]


def devices(count, traits=(), **totals):
    return [(traits, totals)] * count


def test_hosts_that_share_storage_and_lack_one_device():
    """Two hundred of them do not hide the one that has all."""
    cloud = Cloud()
    for _ in range(200):
        cloud.host(devices(7, VGPU=1), aggregates=("a",))
    last = cloud.host(devices(8, VGPU=1), aggregates=("a",))
    pool = cloud.add(aggregates=("a",), traits=(SHARING_TRAIT,), DISK_GB=1000)
    request = CandidateRequest([Group("", {"DISK_GB": 10}), *groups(8, VGPU=1)])
    found, work = cloud.find(request)
    assert found == {last, pool}
    assert not work.is_over


def test_devices_of_three_units_take_one_group_of_two():
    """What is left over of each device adds up to an amount that no group can take."""
    cloud = Cloud()
    for _ in range(200):
        cloud.host(devices(13, VGPU=3))
    last = cloud.host(devices(14, VGPU=3))
    found, _ = cloud.find(CandidateRequest(groups(14, VGPU=2)))
    assert found == {last}


@pytest.mark.parametrize("isolated", [True, False])
def test_unlike_hosts_with_one_device_too_few_of_a_trait(isolated):
    """The work that each of them takes leaves enough for the one that has all."""
    cloud = Cloud()
    for number in range(250):
        host = cloud.host([*devices(11, ["CUSTOM_NEEDED"], VGPU=1), *devices(1, VGPU=1)])
        cloud.tell_apart(host, number)
    last = cloud.host(devices(12, ["CUSTOM_NEEDED"], VGPU=1))
    found, _ = cloud.find(CandidateRequest(groups(12, NEEDED, VGPU=1), isolated=isolated))
    assert found == {last}


def test_many_unlike_hosts_without_a_candidate_are_known_to_have_none():
    """A thousand are rejected one by one, and the search ends with a proof."""
    cloud = Cloud()
    for number in range(1000):
        host = cloud.host([*devices(11, ["CUSTOM_NEEDED"], VGPU=1), *devices(1, VGPU=1)])
        cloud.tell_apart(host, number)
    found, work = cloud.find(CandidateRequest(groups(12, NEEDED, VGPU=1)))
    assert (found, work.is_over) == (set(), False)


def test_groups_of_two_kinds_that_want_the_same_devices():
    """Where one kind of group may use any device and another only some, devices are counted for both."""
    cloud = Cloud()
    for number in range(250):
        host = cloud.host([*devices(5, ["CUSTOM_NEEDED"], VGPU=2), *devices(7, VGPU=2)])
        cloud.tell_apart(host, number)
    last = cloud.host([*devices(6, ["CUSTOM_NEEDED"], VGPU=2), *devices(6, VGPU=2)])
    any_device = [Group(f"_any{number}", {"VGPU": 1}) for number in range(6)]
    request = CandidateRequest([*any_device, *groups(6, NEEDED, VGPU=1)], isolated=True)
    found, _ = cloud.find(request)
    assert last in found


def test_hosts_whose_devices_cannot_be_tied():
    """``same_subtree`` is asked before devices are combined."""
    cloud = Cloud()

    def add(host, sizes):
        for size in sizes:
            numa = cloud.add(host, HW_NUMA=1)
            for _ in range(size):
                cloud.add(numa, VGPU=2, traits=(f"CUSTOM_{len(cloud.nodes)}",))
        return host

    for number in range(250):
        cloud.tell_apart(add(cloud.add(VCPU=64), [7, 7]), number)
    last = add(cloud.add(VCPU=64), [2, 8])
    tied = [Group("_numa", {"HW_NUMA": 1}), *groups(8, VGPU=1)]
    request = CandidateRequest(tied, isolated=True, same_subtrees=[frozenset(one.suffix for one in tied)])
    found, _ = cloud.find(request)
    assert found == {last}


def test_hosts_that_lack_a_trait_together():
    """Of the group without a suffix, providers that cannot have its traits together are not combined."""
    cloud = Cloud()
    classes = [f"CUSTOM_{letter}" for letter in "ABCDEF"]
    for number in range(250):
        host = cloud.add()
        cloud.tell_apart(host, number)
        for _ in range(8):
            cloud.add(host, **dict.fromkeys(classes, 1))
        # the two traits are there, but never on providers that are chosen together
        cloud.add(host, traits=["HW_A"], **{classes[0]: 1})
        cloud.add(host, traits=["HW_B"], **{classes[0]: 1})
    last = cloud.add(traits=["HW_A", "HW_B"], **dict.fromkeys(classes, 1))
    traits = Traits(required=(frozenset({"HW_A"}), frozenset({"HW_B"})))
    found, work = cloud.find(CandidateRequest([Group("", dict.fromkeys(classes, 1), traits)]))
    assert (found, work.is_over) == ({last}, False)


def test_an_expensive_tree_leaves_others_their_turn():
    """Amounts that have to be packed are a hard problem; hosts that have one share the work with others."""
    cloud = Cloud()
    for number in range(300):
        cloud.tell_apart(cloud.host(devices(12, VGPU=100)), number)
    last = cloud.host(devices(14, VGPU=400))
    # all but one are multiples of three, so that a device of a hundred has one unit left over
    amounts = [*[27, 33, 39] * 12, 4]
    request = CandidateRequest([Group(f"_{number}", {"VGPU": each}) for number, each in enumerate(amounts)])
    found, _ = cloud.find(request)
    assert found == {last}


@pytest.mark.parametrize("count", [1000, 3000])
def test_more_groups_than_python_has_frames(count):
    """Each is decided, one after the other."""
    cloud = Cloud()
    host = cloud.host(devices(1, VGPU=count))
    found, _ = cloud.find(CandidateRequest(groups(count, VGPU=1)))
    assert found == {host}


def test_a_thousand_groups_over_many_lone_hosts():
    """Equal amounts are compared once with the units that a host gives."""
    cloud = Cloud()
    for _ in range(2000):
        cloud.add(VCPU=1000)
    stocks = {"VCPU": Stock(Inventory(1000, min_unit=2))}
    cloud.nodes = [replace(node, stocks=stocks) if node.id < 1990 else node for node in cloud.nodes]
    found, work = cloud.find(CandidateRequest(groups(1000, VCPU=1)))
    assert len(found) == 10
    assert not work.is_over


def test_the_conditions_of_many_amounts_leave_work_for_the_search():
    """A thousand amounts that fit easily are not compared with each other for each of them."""
    cloud = Cloud()
    host = cloud.host(devices(64, VGPU=10**6))
    wanted = [Group(f"_{number}", {"VGPU": 1000 + number}) for number in range(1000)]
    found, _ = cloud.find(CandidateRequest(wanted))
    assert found == {host}


def test_a_device_that_is_taken_is_passed_at_little_cost():
    """A thousand isolated groups over as many devices pass half a million that are taken."""
    cloud = Cloud()
    host = cloud.host([((f"CUSTOM_KIND_{number % 7}",), {"VGPU": 1}) for number in range(1000)])
    kinds = [Traits(required=(frozenset({f"CUSTOM_KIND_{number}"}),)) for number in range(7)]
    wanted = [
        Group(f"_{number}", {"VGPU": 1}, kinds[number % 7] if number % 3 else Traits())
        for number in range(1000)
    ]
    found, _ = cloud.find(CandidateRequest(wanted, isolated=True))
    assert found == {host}
