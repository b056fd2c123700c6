# SPDX-License-Identifier: Apache-2.0
"""What ports claim, compared with what their instance holds."""

from types import SimpleNamespace

import pytest

from osc_placement.flavor import Flavor
from osc_placement.migrate.migrations.cloud import AllocationView
from osc_placement.migrate.migrations.placing import Ambiguous, Ledger, NoInventory, OverCapacity
from osc_placement.migrate.migrations.port_claims import (
    Network,
    PortClaims,
    PortJudge,
    Unclear,
    add_claims,
    describe_surplus,
    read_network,
)
from osc_placement.migrate.nova.facts import Instance
from osc_placement.migrate.nova.ports import Port, RequestGroup
from osc_placement.migrate.nova.source import Unreadable
from osc_placement.model import Inventory, Provider, ProviderRecord

EGRESS, RATE = "NET_BW_EGR_KILOBIT_PER_SEC", "NET_PACKET_RATE_KILOPACKET_PER_SEC"
CLAIM = {"VCPU": 2}


def record(uuid, inventories=None, parent=None, traits=()):
    provider = Provider(uuid, f"name of {uuid}", 0, parent, "host" if parent else uuid)
    return ProviderRecord(provider, inventories or {}, None, frozenset(traits), frozenset())


#: two agents with a bridge each, and another bridge below the first
TREE = (
    record("host", {"VCPU": Inventory(8)}),
    record("agent", {RATE: Inventory(100)}, "host", ["VNIC"]),
    record("bridge", {EGRESS: Inventory(1000)}, "agent", ["VNIC", "NET0"]),
    record("other", {EGRESS: Inventory(1000)}, "agent", ["VNIC", "NET1"]),
    record("agent2", {RATE: Inventory(100)}, "host", ["DIRECT"]),
    record("twin", {EGRESS: Inventory(1000)}, "agent2", ["VNIC", "NET1"]),
)


def bandwidth(amount=100, traits=("VNIC", "NET0"), name="g1"):
    return RequestGroup(name, {EGRESS: amount}, frozenset(traits))


def packets(amount=10, traits=("VNIC",), name="g2"):
    return RequestGroup(name, {RATE: amount}, frozenset(traits))


def port(*groups, uuid="p", **fields):
    same = frozenset(group.id for group in groups)
    return Port(uuid, "i", **{"host": "h1", "groups": groups, "same_subtree": same, **fields})


def judge(*ports, held=None, claim=CLAIM, specs=None, records=TREE, network=None):
    cloud = AllocationView(records, {"i": held} if held else {})
    instance = Instance("i", "p", "u", "h1", "h1", flavor=Flavor(2, 1, 1, extra_specs=specs or {}))
    found = PortJudge(network or Network({"i": ports}), cloud, Ledger(cloud))
    return found.judge(instance, held or {}, claim, "host")


def test_groups_lie_where_the_traits_are():
    """Each group of a port has a provider of its own, in one subtree."""
    found = judge(port(bandwidth(), packets()))
    assert found.missing == {"bridge": {EGRESS: 100}, "agent": {RATE: 10}}
    assert [(grant.port.uuid, grant.allocation) for grant in found.grants] == [
        ("p", {"g1": "bridge", "g2": "agent"})
    ]


def test_profile_of_the_format_with_one_group_names_one_provider():
    """Neutron wants the UUID alone there."""
    (grant,) = judge(port(bandwidth(), is_grouped=False)).grants
    assert grant.allocation == "bridge"


def test_ports_of_an_instance_are_added_up():
    """Of one provider, and beside what others hold."""
    found = judge(port(bandwidth(), uuid="p"), port(bandwidth(300, name="g3"), uuid="q"))
    assert found.missing == {"bridge": {EGRESS: 400}}


def test_isolated_groups_need_a_provider_each():
    """As the flavor of the instance asks; without that one provider serves both."""
    ports = port(bandwidth(), uuid="p"), port(bandwidth(name="g3"), uuid="q")
    with pytest.raises(NoInventory):
        judge(*ports, specs={"group_policy": "isolate"})


def test_subtree_decides_between_two_providers():
    """Both have the network, and one of them is below the provider of the packets."""
    found = judge(port(bandwidth(traits=["VNIC", "NET1"]), packets()))
    assert found.missing == {"other": {EGRESS: 100}, "agent": {RATE: 10}}
    with pytest.raises(Ambiguous, match="name of other"):
        judge(port(bandwidth(traits=["VNIC", "NET1"])))


def test_capacity_decides_for_all_ports_together():
    """Only one of two choices leaves enough for the other port."""
    small = record("twin", {EGRESS: Inventory(150)}, "agent2", ["VNIC", "NET1", "FAST"])
    records = (*TREE[:5], small)
    either = port(bandwidth(100, ["VNIC", "NET1"]), uuid="p")
    fast = port(bandwidth(100, ["FAST"], name="g3"), uuid="q")
    assert judge(either, fast, records=records).missing == {"other": {EGRESS: 100}, "twin": {EGRESS: 100}}


@pytest.mark.parametrize(
    ("group", "error"),
    [(bandwidth(5000), OverCapacity), (bandwidth(traits=["NET9"]), NoInventory)],
)
def test_port_that_fits_nowhere_is_refused(group, error):
    """With the kind of reason that a claim of the flavor has."""
    with pytest.raises(error):
        judge(port(group))


def test_binding_profile_decides():
    """Its provider is taken, whichever else would do."""
    found = judge(port(bandwidth(), granted={"g1": "other"}))
    assert found == PortClaims({"other": {EGRESS: 100}})


@pytest.mark.parametrize(("held", "missing"), [(100, 300), (300, 100), (400, 0)])
@pytest.mark.parametrize("names", ["pq", "qp"])
def test_order_of_ports_does_not_decide_which_is_held(held, missing, names):
    """Of two on one provider the one of which exactly as much is held has it."""
    amounts = dict(zip(names, (100, 300), strict=True))
    ports = [
        port(bandwidth(amounts[name], name=f"g{name}"), uuid=name, granted={f"g{name}": "bridge"})
        for name in sorted(amounts)
    ]
    found = judge(*ports, held={"host": CLAIM, "bridge": {EGRESS: held}})
    assert (found.missing, found.surplus) == ({"bridge": {EGRESS: missing}} if missing else {}, {})


def test_too_many_combinations_are_ambiguous():
    """Of eight devices none has room for what is left of seventeen ports; not all ways are tried."""
    cards = [record(f"c{n}", {EGRESS: Inventory(200)}, "host", ["VNIC", "NET0"]) for n in range(8)]
    ports = [port(bandwidth(name=f"g{n}"), uuid=f"p{n}") for n in range(17)]
    with pytest.raises(Ambiguous, match="17 groups"):
        judge(*ports, records=(TREE[0], *cards))


def test_full_provider_of_a_binding_profile_is_refused():
    """It is checked like any other."""
    with pytest.raises(OverCapacity):
        judge(port(bandwidth(5000), granted={"g1": "bridge"}))


def test_what_is_held_is_not_missing():
    """With and without a binding profile, which is then to name the provider."""
    held = {"host": CLAIM, "bridge": {EGRESS: 100}}
    assert judge(port(bandwidth(), granted={"g1": "bridge"}), held=held) == PortClaims()
    found = judge(port(bandwidth()), held=held)
    assert (found.missing, found.surplus) == ({}, {})
    assert found.grants[0].allocation == {"g1": "bridge"}


@pytest.mark.parametrize(
    ("ports", "surplus"),
    [((), 700), ((port(bandwidth(300), granted={"g1": "bridge"}),), 400), ((port(bandwidth(300)),), 400)],
)
def test_surplus_is_what_no_port_asks_for(ports, surplus):
    """The rest of what is held of the classes of ports."""
    held = {"host": CLAIM, "bridge": {EGRESS: 700}}
    assert judge(*ports, held=held).surplus == {"bridge": {EGRESS: surplus}}


@pytest.mark.parametrize(
    ("ports", "held", "reason"),
    [
        ((port(bandwidth(), error="no"),), {}, "unknown"),
        ((port(device_profile="x"),), {"host": CLAIM, "bridge": {EGRESS: 1}}, "accelerator"),
        ((port(bandwidth(), granted={"g1": "elsewhere"}),), {}, "port with a resource request"),
        ((port(bandwidth(), host=""),), {}, "port with a resource request"),
        ((port(bandwidth(), host="h2"),), {}, "port with a resource request"),
        ((port(bandwidth(), host="", granted={"g1": "bridge"}),), {}, "port with a resource request"),
        ((port(bandwidth(), granted={"g1": "bridge"}),), {"bridge": {EGRESS: 50}}, "wrong amount"),
        ((port(bandwidth()),), {"bridge": {EGRESS: 50}}, "wrong amount"),
        ((port(bandwidth(), packets(), granted={"g1": "bridge"}),), {}, "port with a resource request"),
        ((port(bandwidth(), packets(), granted={"": "bridge"}),), {}, "port with a resource request"),
        ((port(bandwidth(), granted={"g1": "other"}),), {"bridge": {EGRESS: 100}}, "wrong amount"),
        ((port(bandwidth(traits=["NET1"])),), {"bridge": {EGRESS: 100}}, "wrong amount"),
        (
            (port(bandwidth(traits=["NET1"])),),
            {"other": {EGRESS: 100}, "twin": {EGRESS: 100}},
            "ambiguous",
        ),
    ],
)
def test_what_is_not_clear_has_a_reason(ports, held, reason):
    """Nothing is planned of such an instance, and nothing removed."""
    with pytest.raises(Unclear) as caught:
        judge(*ports, held=held)
    assert caught.value.reason == reason


def test_flavor_that_asks_for_bandwidth_is_not_clear():
    """The parts of flavor and port cannot be told apart; without ports nothing is missing or leaked."""
    held = {"host": CLAIM, "bridge": {EGRESS: 700}}
    with pytest.raises(Unclear, match="its flavor and its ports"):
        judge(port(bandwidth()), claim={**CLAIM, EGRESS: 700}, held=held)
    assert judge(claim={**CLAIM, EGRESS: 700}, held=held) == PortClaims()


def test_unreadable_neutron_matters_where_there_is_bandwidth():
    """An instance on any other host has no such ports."""
    network = Network(unknown=Unreadable("neutron", "silent"))
    with pytest.raises(Unclear, match="neutron: silent"):
        judge(network=network)
    assert judge(network=network, records=TREE[:1]) == PortClaims()


def context(ports=(), **fields):
    source = SimpleNamespace(list_ports=lambda: list(ports))
    return SimpleNamespace(**{"open_neutron": lambda: source, "names_neutron": False, **fields})


def test_neutron_is_read_only_if_a_port_may_ask_for_something():
    """Unless the command line names it."""
    cloud, bare = AllocationView(TREE), AllocationView(TREE[:1])
    ports = [port(bandwidth())]
    assert read_network(context(ports), cloud).ports == {"i": ports}
    assert read_network(context(ports), bare) is None
    assert read_network(context(ports, names_neutron=True), bare).ports == {"i": ports}


def test_neutron_without_an_address_is_unreadable():
    """It is not taken for a cloud without ports."""
    found = read_network(context(open_neutron=lambda: None), AllocationView(TREE))
    assert "no address of neutron" in str(found.unknown)


def test_claims_are_added():
    """By provider and class."""
    first, second = {"a": {"X": 1}}, {"a": {"X": 2, "Y": 1}, "b": {"X": 1}}
    assert add_claims(first, second) == {"a": {"X": 3, "Y": 1}, "b": {"X": 1}}


def test_surplus_is_described_with_what_to_check():
    """The amounts and the provider, and the commands that show the ports and remove it."""
    problem = describe_surplus("i", {"bridge": {EGRESS: 700}}, AllocationView(TREE))
    assert problem.reason == "wrong amount"
    assert f"it holds {EGRESS}=700 of name of bridge beyond what its ports ask for" in problem.text
    assert "openstack port list --server i" in problem.text
    assert "openstack resource provider allocation set or unset" in problem.text
