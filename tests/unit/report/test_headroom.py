# SPDX-License-Identifier: Apache-2.0
"""Failure domains, the rows about them, and the reading of consumers."""

import pytest

from osc_placement import microversion
from osc_placement.api.concurrency import Reading
from osc_placement.api.consumer import Consumer
from osc_placement.candidates.headroom import Headroom, Rules, Shortage, Unplaced
from osc_placement.report.headroom import (
    Domain,
    describe_reason,
    domain_of_aggregate,
    domain_of_tree,
    domain_rows,
    domains_of_aggregates,
    domains_of_hosts,
    has_every_host,
    join_domains,
    judge,
)
from osc_placement.report.read import read_claims
from tests.unit.report.clouds import cloud, node, stock, storage

CLOUD = cloud(
    node("a", aggregates=["r1", "all"], VCPU=8),
    node("a0", "a", VGPU=2),
    node("b", aggregates=["r1", "all"], VCPU=8),
    node("c", aggregates=["all"]),
    node("c0", "c", aggregates=["r2"], VCPU=8),
    storage("pool", ["r1", "s"], DISK_GB=10),
    node("empty", aggregates=["r3"]),
)


def names(domain):
    return {CLOUD.nodes[slot].name for slot in domain.slots}


@pytest.mark.parametrize(
    ("aggregate", "members"),
    [
        ("r1", {"a", "a0", "b"}),
        ("r2", {"c", "c0"}),
        ("all", {"a", "a0", "b", "c", "c0"}),
        ("s", set()),
        ("unknown", set()),
    ],
)
def test_an_aggregate_has_whole_trees_without_those_that_share(aggregate, members):
    """A member below the root brings its tree; a sharing provider is no host."""
    assert names(domain_of_aggregate(CLOUD, aggregate)) == members


def test_each_aggregate_with_a_host_is_a_domain():
    """One that has sharing providers only is none; names are used where they are known."""
    domains = {domain.uuid: domain for domain in domains_of_aggregates(CLOUD, {"r1": "rack one"})}
    assert set(domains) == {"r1", "r2", "r3", "all"}
    assert (domains["r1"].name, domains["r2"].name) == ("rack one", "r2")


def test_an_aggregate_of_all_hosts_is_recognized():
    """Providers without inventories and sharing providers may be outside of it."""
    everything = {uuid: has_every_host(CLOUD, domain_of_aggregate(CLOUD, uuid)) for uuid in ("r1", "all")}
    assert everything == {"r1": False, "all": True}


def test_a_provider_stands_for_its_tree():
    """Any provider of it does, a sharing one too."""
    assert names(domain_of_tree(CLOUD, "a0")) == {"a", "a0"}
    assert domain_of_tree(CLOUD, "a0").name == "a"
    assert names(domain_of_tree(CLOUD, "pool")) == {"pool"}
    assert [domain.name for domain in domains_of_hosts(CLOUD)] == ["a", "b", "c"]


def test_several_domains_become_one():
    """Its name stays short."""
    domains = [Domain(name, name, frozenset([slot])) for slot, name in enumerate("abc")]
    assert join_domains(domains[:1]) == domains[0]
    assert join_domains(domains[:2]).name == "a and b"
    joined = join_domains(domains)
    assert (joined.name, joined.slots) == ("a and 2 more", frozenset([0, 1, 2]))


def test_the_worst_domain_comes_first():
    """With what is missing in all, and the reason of the first consumer."""
    view = cloud(node("a", VCPU=stock(8, 2)), node("b", VCPU=stock(10, 8)))
    held = {"x": {"a": {"VCPU": 2}}, "y": {"b": {"VCPU": 5}}, "z": {"b": {"VCPU": 3}}}
    rows = domain_rows(judge(view, Headroom(view, held.items(), Rules()), domains_of_hosts(view)))
    assert rows == [
        ("b", "b", "not found", 1, 2, 1, "VCPU=3", "VCPU: 3 asked, 1 free"),
        ("a", "a", "fits", 1, 1, 0, "", ""),
    ]


def test_what_was_cut_is_not_said_to_have_no_room():
    """Where an amount is free nowhere, that is proved nevertheless."""
    cut = Unplaced("x", {}, 3, Shortage(), is_cut=True)
    assert describe_reason(cut) == "its groups have too many combinations to tell whether a host has room"
    short = Unplaced("x", {}, 3, Shortage("VCPU", 4, 2), is_cut=True)
    assert describe_reason(short) == "VCPU: no host gives 4 at once"


@pytest.mark.parametrize(
    ("hosts", "shortage", "despite", "text"),
    [
        (0, Shortage("VCPU", 1), None, "no other host meets the conditions"),
        (3, Shortage(), None, "no host has all of it free"),
        (3, Shortage("VCPU", 4), None, "VCPU: no host gives 4 at once"),
        (3, Shortage("VCPU", 4, 2, CLOUD.node("b")), None, "VCPU: 4 asked, 2 free"),
        (0, Shortage("VCPU", 1), CLOUD.node("b"), "no room but on hosts with other traits, as b"),
    ],
)
def test_reasons_are_short(hosts, shortage, despite, text):
    """One short text for each."""
    assert describe_reason(Unplaced("x", {}, hosts, shortage, despite)) == text


class Client:
    """A client that knows these consumers."""

    version = microversion.MAX

    def __init__(self, consumers, *, in_bulk):
        self.consumers = consumers
        self.in_bulk = in_bulk

    def require(self, version):
        assert version <= self.version

    def list_consumers(self):
        if not self.in_bulk:
            return None
        return [{"uuid": one.uuid, **one.to_json(self.version)} for one in self.consumers]

    def read_consumers(self, providers, reading, *, used):
        assert set(used) <= set(providers)
        return [one for one in self.consumers if not set(used).isdisjoint(one.allocations)]


def test_usages_are_those_of_the_answer_with_the_consumers():
    """What was claimed after the providers were read is used, in the bulk read."""
    view = cloud(node("a", VCPU=stock(8, 2)), node("b", VCPU=stock(8, 1)))
    consumers = [Consumer("x", allocations={"a": {"VCPU": 2}}), Consumer("y", allocations={"b": {"VCPU": 5}})]
    claims = read_claims(Client(consumers, in_bulk=True), view, {0}, Reading())
    assert [one.uuid for one in claims.consumers] == ["x"]
    assert (claims.cloud.node("b").stocks["VCPU"].used, claims.changed) == (5, 0)


@pytest.mark.parametrize(("amount", "changed"), [(2, 0), (3, 1)])
def test_a_change_between_the_reads_is_noticed(amount, changed):
    """Provider by provider, the sums of the consumers should be what was used."""
    view = cloud(node("a", VCPU=stock(8, 2)), node("b", VCPU=stock(8, 1)))
    consumers = [Consumer("x", allocations={"a": {"VCPU": amount}})]
    claims = read_claims(Client(consumers, in_bulk=False), view, {0}, Reading())
    assert (claims.changed, claims.cloud) == (changed, view)
