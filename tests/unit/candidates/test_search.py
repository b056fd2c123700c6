# SPDX-License-Identifier: Apache-2.0
"""The engine finds what a plain search finds, once each, and no more than it is asked for."""

import tracemalloc
from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osc_placement.candidates.node import Node, Stock
from osc_placement.candidates.request import CandidateRequest, Group
from osc_placement.candidates.search import expand
from osc_placement.candidates.search import search as search_
from osc_placement.candidates.snapshot import Snapshot
from osc_placement.candidates.work import Work
from osc_placement.model import Inventory
from tests.unit.candidates import brute_force
from tests.unit.candidates.clouds import CLASSES, clouds, crowded_clouds, crowded_requests, requests


def search(snapshot, request):
    """What is found, all of it as candidates, however long that takes."""
    return (expand(request, found) for found in search_(snapshot, request, Work(10**9)))


def describe(snapshot, candidate):
    """A candidate in the terms of the brute force."""
    uuids = [node.uuid for node in snapshot.nodes]
    lines = frozenset((uuids[slot], name, amount) for slot, name, amount in candidate.lines)
    mappings = frozenset(
        (suffix, frozenset(uuids[slot] for slot in slots)) for suffix, slots in candidate.mappings
    )
    return lines, mappings


@settings(max_examples=700)
@given(clouds(), requests())
def test_finds_the_same_as_brute_force_and_each_once(nodes, request):
    """On random trees, shares, traits, aggregates, groups and policies both agree."""
    snapshot = Snapshot(nodes)
    found = [describe(snapshot, candidate) for candidate in search(snapshot, request)]
    assert set(found) == brute_force.candidates(nodes, request)
    assert len(found) == len(set(found))


@settings(max_examples=700, deadline=None)
@given(crowded_clouds(), crowded_requests(), st.sampled_from([0, 1, 8]), st.sampled_from([1, 3, 500]))
def test_finds_all_and_nothing_else_where_hardly_anything_fits(nodes, request, patience, turn):
    """Whether each state is examined or few are, and however short the turns are."""
    snapshot = Snapshot(nodes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("osc_placement.candidates.combine.PATIENCE", patience)
        patch.setattr(Work, "TURN", turn)
        found = [describe(snapshot, candidate) for candidate in search(snapshot, request)]
    assert set(found) == brute_force.candidates(nodes, request)
    assert len(found) == len(set(found))


@settings(max_examples=300)
@given(clouds(), requests(), st.data())
def test_equivalent_trees_get_their_own_candidates(nodes, request, data):
    """Of a cloud that is there twice, but for some stocks, both halves give what brute force finds."""
    copies = []
    for node in nodes:
        twin = twin_of(node)
        if data.draw(st.integers(0, 4)) == 4:
            other = data.draw(st.sampled_from(nodes))
            twin = replace(twin, stocks=other.stocks, traits=other.traits)
        copies += [twin, node]
    found = [describe(Snapshot(copies), candidate) for candidate in search(Snapshot(copies), request)]
    assert set(found) == brute_force.candidates(copies, request)
    assert len(found) == len(set(found))


def twin_of(node):
    """A node like another, at the same place of another tree."""
    parent = None if node.parent_id is None else node.parent_id + 50
    uuid = f"1{node.uuid[1:]}"
    return replace(node, id=node.id + 50, uuid=uuid, parent_id=parent, root_id=node.root_id + 50)


@settings(max_examples=200)
@given(clouds(), clouds(), requests(), st.data())
def test_a_replaced_snapshot_equals_a_new_one(nodes, others, request, data):
    """Whatever was found out before some nodes change, come or go, does not show afterwards."""
    snapshot = Snapshot(nodes)
    list(search(snapshot, request))
    changed = {}
    for node, other in zip(nodes, others, strict=False):
        if data.draw(st.booleans()):
            contents = {"stocks": other.stocks, "traits": other.traits, "aggregates": other.aggregates}
            changed[node.id] = replace(node, **contents)
    added = data.draw(st.sampled_from([(), (Node(99, "new", None, 99, {"VCPU": Stock(Inventory(4))}),)]))
    after = snapshot.replace([*changed.values(), *added])
    anew = Snapshot([*(changed.get(node.id, node) for node in nodes), *added])
    assert list(after.nodes) == list(anew.nodes)
    assert list(search(after, request)) == list(search(anew, request))
    for name in CLASSES:
        assert list(after.free_capacity(name)) == list(anew.free_capacity(name))
    assert (after.lone, after.sharing) == (anew.lone, anew.sharing)


def test_a_new_provider_may_have_the_id_of_a_deleted_one():
    """It is found by its own UUID, and the other is not any more."""
    snapshot = Snapshot([Node(1, "old", None, 1)])
    assert snapshot.slot_by_uuid == {"old": 0}
    assert snapshot.replace([Node(1, "new", None, 1)]).slot_by_uuid == {"new": 0}


def test_unknown_aggregates_are_not_cached():
    """However many a client invents, they take no memory, and one that comes to be is found."""
    snapshot = Snapshot([Node(1, "one", None, 1)])
    snapshot.in_any_aggregate(["a"])
    tracemalloc.start()
    try:
        snapshot.in_any_aggregate(f"invented{number}" for number in range(1000))
        assert tracemalloc.get_traced_memory()[0] < 1000
    finally:
        tracemalloc.stop()
    assert snapshot.replace([Node(1, "one", None, 1, aggregates=("a",))]).in_any_aggregate(["a"]) == 1


@settings(max_examples=100)
@given(clouds(), requests())
def test_order_is_defined(nodes, request):
    """Equal clouds and requests give equal answers in equal order, however the nodes are listed."""
    once = list(search(Snapshot(nodes), request))
    again = list(search(Snapshot(reversed(nodes)), request))
    assert once == again


def hosts(count, gpus=0, units=1):
    """Hosts with VCPUs, each with some GPUs of one unit, or of so many, below it."""
    nodes = []
    for host in range(count):
        root = len(nodes)
        nodes.append(Node(root, f"host{host}", None, root, {"VCPU": Stock(Inventory(64))}))
        for gpu in range(gpus):
            id_ = len(nodes)
            nodes.append(Node(id_, f"host{host}-gpu{gpu}", root, root, {"VGPU": Stock(Inventory(units))}))
    return Snapshot(nodes)


def test_each_host_is_used_once_before_any_is_used_twice():
    """A limit as high as the number of hosts gets one candidate of each host."""
    snapshot = hosts(10, gpus=4)
    request = CandidateRequest([Group("1", {"VGPU": 1}), Group("2", {"VGPU": 1})])
    found = list(islice(search(snapshot, request), 10))
    assert len({snapshot.root_of[candidate.lines[0].slot] for candidate in found}) == 10


def test_a_limit_stops_the_work():
    """Ten candidates of a cloud that has millions are found by looking at ten hosts."""
    snapshot = hosts(100, gpus=16)
    request = CandidateRequest([Group(str(number), {"VGPU": 1}) for number in range(1, 9)])
    looked_at = []
    original = snapshot.slots_of_tree
    snapshot.slots_of_tree = lambda root: looked_at.append(root) or original(root)
    assert len(list(islice(search(snapshot, request), 10))) == 10
    assert len(set(looked_at)) == 10


def test_too_few_identical_devices_are_rejected_without_trying_all_orders():
    """Seventeen groups over sixteen like devices end with nothing, soon."""
    snapshot = hosts(1, gpus=16)
    request = CandidateRequest([Group(str(number), {"VGPU": 1}) for number in range(1, 18)])
    assert list(search(snapshot, request)) == []


def test_identical_devices_that_cannot_be_tied_are_rejected_soon():
    """Ten groups that want different devices below one of them end after a few steps for each device."""
    snapshot = hosts(1, gpus=16)
    suffixes = [str(number) for number in range(1, 11)]
    groups = [Group(suffix, {"VGPU": 1}) for suffix in suffixes]
    request = CandidateRequest(groups, isolated=True, same_subtrees=[frozenset(suffixes)])
    work = Work(10**6)
    assert list(search_(snapshot, request, work)) == []
    assert 10**6 - work.left < 1000


def test_work_limit_ends_a_search():
    """What is asked for is found until the work is over, and then no more."""
    snapshot = hosts(3, gpus=16)
    request = CandidateRequest([Group(str(number), {"VGPU": 1}) for number in range(1, 9)])
    found = list(search_(snapshot, request, Work(5000)))
    assert 100 < len(found) <= 5000
    assert len(found) == len(set(found))


def spend(snapshot, request, limit=None):
    """The steps that a search takes, to its end or to a limit."""
    work = Work(10**6)
    list(islice(search_(snapshot, request, work), limit))
    return 10**6 - work.left


def distinct(count):
    """As many groups, no two of which are satisfied by the same search."""
    return [Group(str(number), {"VGPU": number}) for number in range(1, count + 1)]


def test_remembering_failed_states_counts_as_work():
    """What many groups have taken, compared with what failed before, ends a search as steps do."""
    # all but one are multiples of three, so that a device of a hundred has one unit left over
    amounts = [*[27, 33, 39] * 40, 4]
    groups = [Group(str(number), {"VGPU": amount}) for number, amount in enumerate(amounts)]
    work = Work(20_000)
    assert list(search_(hosts(1, gpus=40, units=100), CandidateRequest(groups), work)) == []
    assert work.is_over


def test_the_group_that_failed_last_is_tried_first():
    """Where one group found nothing, the others are not looked for at every further host."""
    nodes = list(hosts(50, gpus=2, units=10**5).nodes)
    # hosts that are not alike
    nodes = [replace(node, stocks={"VGPU": Stock(Inventory(10**5 + node.id))}) for node in nodes]
    snapshot = Snapshot(nodes)
    looked_at = []
    original = snapshot.slots_of_tree
    snapshot.slots_of_tree = lambda root: looked_at.append(root) or original(root)
    groups = [*distinct(40), Group("last", {"VGPU": 2 * 10**5})]
    assert list(search(snapshot, CandidateRequest(groups))) == []
    assert len(looked_at) < 10 * 50


def test_examining_many_devices_counts_as_work():
    """The first candidate takes more steps where each group has more devices to choose from."""
    request = CandidateRequest(distinct(20))
    few, many = (spend(hosts(1, gpus, units=1000), request, limit=1) for gpus in (4, 64))
    assert many > few + 20 * 60 // Work.PARTS


def test_comparing_hosts_for_many_groups_counts_as_work():
    """Hosts that differ in what they have left are compared by all groups if not every amount fits."""
    inventories = [Inventory(1000 + number, min_unit=500) for number in range(100)]
    stocks = [{"VGPU": Stock(inventory)} for inventory in inventories]
    nodes = [replace(node, stocks=stocks[node.root_id // 2]) for node in hosts(100, gpus=1).nodes]
    assert spend(Snapshot(nodes), CandidateRequest(distinct(40))) > 300


def test_many_ties_count_as_work():
    """Each match that is tried is compared with all of them."""
    snapshot = hosts(1, gpus=8)
    suffixes = [str(number) for number in range(1, 6)]
    groups = [Group(suffix, {"VGPU": 1}) for suffix in suffixes]
    once, often = (
        spend(snapshot, CandidateRequest(groups, isolated=True, same_subtrees=[frozenset(suffixes)] * count))
        for count in (1, 40)
    )
    assert often > 2 * once


def test_many_groups_on_lone_hosts_count_as_work():
    """A search that compares a hundred amounts with the units of each of many hosts ends."""
    stock = Stock(Inventory(10**6, step_size=2))
    snapshot = Snapshot([Node(id_, f"host{id_}", None, id_, {"VGPU": stock}) for id_ in range(1000)])
    work = Work(1000)
    assert list(search_(snapshot, CandidateRequest(distinct(100)), work)) == []
    assert work.is_over
