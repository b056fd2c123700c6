# SPDX-License-Identifier: Apache-2.0
"""Where requests fit on hosts that are used, disabled or empty, and what they leave unused."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osc_placement.candidates.flavor_fit import FlavorFit
from osc_placement.candidates.node import DISABLED_TRAIT, SHARING_TRAIT
from osc_placement.candidates.query import Membership, Traits
from osc_placement.candidates.request import CandidateRequest, Group
from tests.unit.report.clouds import cloud, node, stock, storage


def ask(*required, forbidden=(), **amounts):
    """A request without named groups."""
    traits = Traits(
        tuple(frozenset((name,)) for name in required), tuple(frozenset((name,)) for name in forbidden)
    )
    return CandidateRequest([Group("", amounts, traits)])


def judge(nodes, request, *others):
    """The cloud of the nodes, for this request and others."""
    return FlavorFit(cloud(*nodes), [request, *others])


def test_used_host_fits_when_empty_only():
    """What is used counts for the hosts as they are."""
    request = ask(VCPU=2)
    fit = judge([node("a", VCPU=stock(4, used=3))], request)
    assert (fit.fits_now(request), fit.fits_empty(request)) == (False, True)


def test_conditions_on_roots_and_aggregates_hold_for_empty_hosts_too():
    """Hosts that differ in nothing else are of different kinds."""
    nodes = [
        node("a", aggregates=["x"], VCPU=4),
        node("b", aggregates=["y"], VCPU=4),
        node("c", traits=["GOLD"], aggregates=["y"], VCPU=2),
        node("d", aggregates=["z"], VCPU=4),
    ]
    inside = CandidateRequest([Group("", {"VCPU": 3}, membership=Membership((frozenset("y"),)))])
    gold = replace(inside, root=Traits((frozenset(("GOLD",)),)))
    fit = judge(nodes, inside, gold)
    assert [each.name for each in fit.empty.nodes] == ["a", "b", "c"]
    assert (fit.fits_empty(inside), fit.fits_empty(gold)) == (True, False)
    assert (fit.find_best(inside).host.name, fit.find_best(gold)) == ("b", None)


def test_named_groups_need_a_provider_each_if_isolated():
    """The policy of the request is followed."""
    groups = [Group("1", {"VGPU": 1}), Group("2", {"VGPU": 1})]
    nodes = [node("a", VCPU=4), node("gpu", "a", VGPU=8)]
    apart, together = CandidateRequest(groups, isolated=True), CandidateRequest(groups)
    fit = judge(nodes, apart, together)
    assert (fit.fits_empty(apart), fit.fits_empty(together)) == (False, True)


def test_equal_hosts_are_one_empty_host():
    """Traits and classes that no request names make no difference."""
    request = ask("GOLD", VCPU=1)
    nodes = [
        node("a", traits=["GOLD"], VCPU=stock(4, used=1)),
        node("b", traits=["GOLD", "OTHER"], VCPU=4, VGPU=1),
        node("c", VCPU=4),
        node("d", traits=["GOLD"], VCPU=8),
    ]
    assert [each.name for each in judge(nodes, request).empty.nodes] == ["a", "c", "d"]
    assert len(judge(nodes, request, ask("OTHER", VGPU=1)).empty.nodes) == 4


def test_hosts_with_other_sharing_providers_are_kept_apart():
    """What is shared with a host belongs to what it can give."""
    request = ask(VCPU=1, DISK_GB=10)
    nodes = [
        node("a", aggregates=["x"], VCPU=4),
        node("b", aggregates=["x"], VCPU=4),
        node("c", aggregates=["y"], VCPU=4),
        storage("pool", ["x"], DISK_GB=stock(10, used=10)),
    ]
    fit = judge(nodes, request)
    assert [each.name for each in fit.empty.nodes] == ["a", "c", "pool"]
    assert (fit.fits_now(request), fit.fits_empty(request)) == (False, True)


def test_share_that_stays_unused_is_of_what_is_really_there():
    """Capacity that only a ratio makes is not lost, and what is reserved cannot be used."""
    request = ask(VCPU=1, MEMORY_MB=100)
    host = node("a", VCPU=stock(8, allocation_ratio=16.0), MEMORY_MB=stock(1000, reserved=600))
    best = judge([host], request).find_best(request)
    assert (best.count, best.limits, best.unused) == (4, ["MEMORY_MB"], {"VCPU": 0.5, "MEMORY_MB": 0.0})


def test_ratio_below_one_reduces_what_is_there():
    """Then the capacity is all that can be used."""
    request = ask(VCPU=1, MEMORY_MB=1)
    host = node("a", VCPU=stock(8, allocation_ratio=0.5), MEMORY_MB=4)
    assert judge([host], request).find_best(request).unused == {"VCPU": 0.0, "MEMORY_MB": 0.0}


def test_best_host_leaves_least_unused():
    """Not the one that takes the most."""
    request = ask(VCPU=1, MEMORY_MB=100)
    nodes = [node("large", VCPU=100, MEMORY_MB=1000), node("right", VCPU=4, MEMORY_MB=400)]
    best = judge(nodes, request).find_best(request)
    assert (best.host.name, best.count, best.unused["VCPU"]) == ("right", 4, 0.0)


def test_shared_inventory_is_no_part_of_a_host():
    """A pool that is larger than a host needs is not left unused by its flavor."""
    request = ask(VCPU=1, DISK_GB=1)
    nodes = [node("a", aggregates=["x"], VCPU=4), storage("pool", ["x"], DISK_GB=1000)]
    assert judge(nodes, request).find_best(request).unused == {"VCPU": 0.0}


def test_devices_of_numbered_groups_are_part_of_a_host():
    """Two instances with a vGPU of either card leave a half of the other card, and of the CPUs."""
    groups = [Group("", {"VCPU": 1}), Group("1", {"VGPU": 1}), Group("2", {"VGPU": 1})]
    nodes = [node("a", VCPU=4), node("gpu0", "a", VGPU=2), node("gpu1", "a", VGPU=4)]
    best = judge(nodes, request := CandidateRequest(groups, isolated=True)).find_best(request)
    assert (best.count, best.limits) == (2, ["resources1", "resources2"])
    assert best.unused == {"VCPU": 0.5, "VGPU": pytest.approx(1 / 3)}


def test_device_that_only_a_numbered_group_may_use_is_part_of_a_host():
    """The group without a suffix forbids its trait."""
    own = Group("", {"VCPU": 1}, Traits((), (frozenset(("FAST",)),)))
    nodes = [node("a", VCPU=1), node("gpu", "a", traits=["FAST"], VGPU=4)]
    best = judge(nodes, request := CandidateRequest([own, Group("1", {"VGPU": 1})])).find_best(request)
    assert best.unused == {"VCPU": 0.0, "VGPU": 0.75}


def test_number_of_different_isolated_groups_is_a_lower_bound():
    """They are placed one after the other."""
    groups = [Group("", {"VCPU": 1}), Group("1", {"VGPU": 1}), Group("2", {"VGPU": 2})]
    nodes = [node("a", VCPU=9), node("gpu0", "a", VGPU=2), node("gpu1", "a", VGPU=4)]
    best = judge(nodes, request := CandidateRequest(groups, isolated=True)).find_best(request)
    assert (best.count > 0, best.exact) == (True, False)


def test_request_that_cannot_be_counted_has_no_best_host():
    """One with numbered groups only, or that asks for a class both in such a group and without."""
    own, numbered = Group("", {"VGPU": 1}), Group("1", {"VGPU": 1})
    requests = [CandidateRequest([numbered]), CandidateRequest([own, numbered])]
    fit = judge([node("a", VGPU=4)], *requests)
    assert [fit.find_best(request) for request in requests] == [None, None]


@pytest.mark.parametrize(
    ("wanted", "names"), [((), "abp"), (("GOLD",), "bp"), (("FAST",), "abp"), (("NO",), "p")]
)
def test_suitable_providers_have_the_traits_and_are_enabled(wanted, names):
    """By themselves, by a child, or by a provider that shares with them; the root is not disabled."""
    nodes = [
        node("a", aggregates=["x"], VCPU=4),
        node("b", traits=["GOLD"], aggregates=["x"], VCPU=4),
        node("c", traits=["GOLD", DISABLED_TRAIT], VCPU=4),
        node("d", traits=["GOLD"], aggregates=["y"], VCPU=4),
        node("p", traits=[SHARING_TRAIT, "FAST"], aggregates=["x"], DISK_GB=10),
    ]
    group = replace(ask(*wanted, VCPU=1).groups[0], membership=Membership((), (frozenset("y"),)))
    request = CandidateRequest([group], root=Traits((), (frozenset((DISABLED_TRAIT,)),)))
    assert "".join(each.name for each in judge(nodes, request).find_suitable(request)) == names


@st.composite
def hosts(draw):
    """Hosts of a few kinds, some with a child, some with what another provider shares."""
    nodes = [storage("pool", ["x"], DISK_GB=draw(st.integers(1, 4)))]
    for number in range(draw(st.integers(1, 6))):
        name = f"h{number}"
        stocks = {"VCPU": stock(draw(st.integers(1, 3)), used=draw(st.integers(0, 3)))}
        traits = draw(st.lists(st.sampled_from(("A", "B")), unique=True))
        nodes.append(
            node(name, traits=traits, aggregates=draw(st.sampled_from(((), ("x",), ("y",)))), **stocks)
        )
        if draw(st.booleans()):
            nodes.append(node(f"{name}_gpu", name, VGPU=draw(st.integers(1, 2))))
    return nodes


@settings(max_examples=200, deadline=None)
@given(
    nodes=hosts(),
    amounts=st.dictionaries(st.sampled_from(("VCPU", "VGPU", "DISK_GB")), st.integers(1, 4), min_size=1),
    required=st.lists(st.sampled_from(("A", "B")), unique=True),
    of_root=st.sampled_from((Traits(), Traits((frozenset("A"),)), Traits((), (frozenset("A"),)))),
    membership=st.sampled_from(
        (Membership(), Membership((frozenset("xy"),)), Membership((), (frozenset("y"),)))
    ),
)
def test_kinds_answer_as_all_empty_hosts(nodes, amounts, required, of_root, membership):
    """One host of each kind fits exactly if one of all hosts does, with nothing used."""
    group = replace(ask(*required, **amounts).groups[0], membership=membership)
    request = CandidateRequest([group], root=of_root)
    emptied = [
        node(
            each.provider.name,
            each.provider.parent_provider_uuid,
            each.traits,
            each.aggregates,
            **{name: stock(inventory.total) for name, inventory in each.inventories.items()},
        )
        for each in nodes
    ]
    fit, whole = judge(nodes, request), judge(emptied, request)
    assert fit.fits_empty(request) == whole.fits_now(request)
