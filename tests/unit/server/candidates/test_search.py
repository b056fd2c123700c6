# SPDX-License-Identifier: Apache-2.0
"""The engine finds what a plain search finds, once each, and no more than it is asked for."""

from itertools import islice

from hypothesis import given, settings

from osc_placement.model import Inventory
from osc_placement.server.candidates.request import CandidateRequest, Group
from osc_placement.server.candidates.search import search
from osc_placement.server.candidates.snapshot import Node, Snapshot, Stock
from tests.unit.server.candidates import brute_force
from tests.unit.server.candidates.clouds import clouds, requests


def describe(snapshot, candidate):
    """A candidate in the terms of the brute force."""
    uuids = [node.uuid for node in snapshot.nodes]
    lines = frozenset((uuids[slot], name, amount) for slot, name, amount in candidate.lines)
    mappings = frozenset(
        (suffix, frozenset(uuids[slot] for slot in slots)) for suffix, slots in candidate.mappings
    )
    return lines, mappings


@settings(max_examples=700, deadline=None)
@given(clouds(), requests())
def test_finds_the_same_as_brute_force_and_each_once(nodes, request):
    """On random trees, shares, traits, aggregates, groups and policies both agree."""
    snapshot = Snapshot(nodes)
    found = [describe(snapshot, candidate) for candidate in search(snapshot, request)]
    assert set(found) == brute_force.candidates(nodes, request)
    assert len(found) == len(set(found))


@settings(max_examples=100, deadline=None)
@given(clouds(), requests())
def test_order_is_defined(nodes, request):
    """Equal clouds and requests give equal answers in equal order, however the nodes are listed."""
    once = list(search(Snapshot(nodes), request))
    again = list(search(Snapshot(reversed(nodes)), request))
    assert once == again


def hosts(count, gpus=0):
    """Hosts with VCPUs, each with some GPUs of one unit below it."""
    nodes = []
    for host in range(count):
        root = len(nodes)
        nodes.append(Node(root, f"host{host}", None, root, {"VCPU": Stock(Inventory(64))}))
        for gpu in range(gpus):
            id_ = len(nodes)
            nodes.append(Node(id_, f"host{host}-gpu{gpu}", root, root, {"VGPU": Stock(Inventory(1))}))
    return Snapshot(nodes)


def test_every_host_comes_before_any_comes_twice():
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
    original = snapshot.tree
    snapshot.tree = lambda root: looked_at.append(root) or original(root)
    assert len(list(islice(search(snapshot, request), 10))) == 10
    assert len(looked_at) == 10


def test_too_few_like_devices_are_found_out_without_trying_all_orders():
    """Seventeen groups over sixteen like devices end with nothing, soon."""
    snapshot = hosts(1, gpus=16)
    request = CandidateRequest([Group(str(number), {"VGPU": 1}) for number in range(1, 18)])
    assert list(search(snapshot, request)) == []
