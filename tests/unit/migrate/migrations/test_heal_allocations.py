# SPDX-License-Identifier: Apache-2.0
"""Instances whose ports are judged with what nova's databases and neutron say of them."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from osc_placement.flavor import Flavor
from osc_placement.migrate.migrations import heal_allocations
from osc_placement.migrate.migrations.base import Context, Grant
from osc_placement.migrate.migrations.cloud import AllocationView
from osc_placement.migrate.migrations.heal_allocations import HealAllocations
from osc_placement.migrate.migrations.healer import Healer
from osc_placement.migrate.migrations.port_claims import Network
from osc_placement.migrate.nova.facts import UNREADABLE_PORT, BootRequest, Cell, ComputeNode, Instance
from osc_placement.migrate.nova.hosts import Hosts, Moves
from osc_placement.migrate.nova.ports import Port
from osc_placement.migrate.nova.source import Unreadable
from osc_placement.model import Inventory, Provider, ProviderRecord

CELL = Cell("cell", "cell1")
EGRESS = "NET_BW_EGR_KILOBIT_PER_SEC"
CLAIM = {"VCPU": 2, "MEMORY_MB": 1, "DISK_GB": 1}
SIZES = {name: Inventory(8) for name in CLAIM}
SILENT = Network(unknown=Unreadable("neutron", "silent"))
PORT = Port("p", "i", "h1", granted={"g1": "bridge"})


def record(uuid, inventories, parent=None):
    provider = Provider(uuid, f"name of {uuid}", 0, parent, "host")
    return ProviderRecord(provider, inventories, None, frozenset(), frozenset())


def make_healer(network=None):
    """Return the healer of a cloud with one host and one instance, which holds its flavor's claim."""
    records = [record("host", SIZES), record("bridge", {}, "host")]
    node = ComputeNode("host", "h1", "h1", cell="cell")
    hosts = Hosts((CELL,), {("cell", "h1"): (node,)}, {"h1": "cell"}, {})
    return Healer(hosts, AllocationView(records, {"i": {"host": CLAIM}}), Moves((), {}), network)


def judge(healer, ports=("bridge",)):
    instance = Instance("i", "p", "u", "h1", "h1", flavor=Flavor(2, 1, 1), ports=frozenset(ports))
    healer.judge_all(CELL, [instance])
    return [(str(each.reason), each.text) for each in healer.problems]


@pytest.mark.parametrize(
    ("network", "text"),
    [
        (None, "only neutron knows how much"),
        (SILENT, "only neutron knows how much"),
        (Network(), "neutron shows no port with these"),
    ],
)
def test_provider_of_a_port_that_neutron_does_not_show_is_a_problem(network, text):
    """Nova's databases name it, and the instance does not hold it, whether neutron was read or not."""
    ((reason, found),) = judge(make_healer(network))
    assert reason == "port with a resource request"
    assert "its ports hold resources of name of bridge" in found
    assert text in found


def test_provider_of_a_port_that_neutron_shows_is_left_to_its_request():
    """The request says what is missing; here it asks for nothing."""
    assert judge(make_healer(Network({"i": [PORT]}))) == []


def test_unreadable_network_information_does_not_matter_where_neutron_was_read():
    """Neutron has the ports; without it they are unknown."""
    assert judge(make_healer(Network()), [UNREADABLE_PORT]) == []
    assert len(judge(make_healer(), [UNREADABLE_PORT])) == 1


def test_profiles_of_what_was_not_compared_again_are_not_written():
    """An instance lacks something and is not among the changes: another one has all that it needs."""
    healer = make_healer()
    grants = {name: (Grant(PORT, "bridge"),) for name in ("lost", "healed", "whole")}
    healer.grants = dict(grants)
    healer.incomplete = {name: {"bridge": {EGRESS: 1}} for name in ("lost", "healed")}
    assert healer.choose_grants({"healed"}).keys() == {"healed", "whole"}


@pytest.mark.parametrize(
    ("network", "is_doubtful"),
    [
        (Network(), True),
        (Network(devices=frozenset(["of another nova"])), True),
        (Network(devices=frozenset(["i0"])), False),
        (SILENT, False),
        (None, False),
    ],
)
def test_neutron_without_ports_of_the_instances_is_doubted(network, is_doubtful):
    """One of ten has a port, or hardly any, as with the neutron of another region or without a role."""
    healer = make_healer(network)
    instances = [Instance(f"i{number}", "p", "u", "h1", "h1") for number in range(10)]
    unplaced = [Instance(f"j{number}", "p", "u", None, None) for number in range(90)]
    assert list(healer.count([*instances, *unplaced])) == [*instances, *unplaced]
    texts = [str(each) for each in healer.doubt if each.reason == "unknown"]
    start = "neutron: of 10 instances on hosts 0 have a port in it; is it the neutron of this nova"
    assert [text.startswith(start) for text in texts] == [True] * is_doubtful


def test_nothing_is_planned_with_a_doubtful_neutron(monkeypatch):
    """The instance would be healed without what its ports ask for."""
    instance = Instance("i", "p", "u", "h1", "h1", flavor=Flavor(2, 1, 1))
    node = ComputeNode("host", "h1", "h1", cell="cell")
    cloud = AllocationView([record("host", SIZES)])
    monkeypatch.setattr(heal_allocations, "read_cloud", lambda *_, **__: cloud)
    source = SimpleNamespace(
        list_cells=lambda: [CELL],
        map_hosts=lambda: {"h1": "cell"},
        list_compute_nodes=lambda _cell: [node],
        count_instances=lambda: {"cell": 1},
        list_migrations=lambda _cell: [],
        iterate_instances=lambda _cell: [instance],
        list_aggregates=list,
        read_requests=lambda _cell, uuids: dict.fromkeys(uuids, BootRequest()),
    )
    neutron = SimpleNamespace(list_ports=list)
    context = Context(
        lambda: source,
        SimpleNamespace(allow_concurrency=lambda _: None, list_traits=list),
        1,
        open_neutron=lambda: neutron,
        names_neutron=True,
    )
    assessment = HealAllocations().assess(context)
    assert (list(assessment.plan.changes), dict(assessment.grants)) == ([], {})
    assert [each.subject for each in assessment.problems] == ["neutron"]
    neutron.list_ports = lambda: [replace(PORT, granted={})]
    assert [change.uuid for change in HealAllocations().assess(context).plan.changes] == ["i"]
