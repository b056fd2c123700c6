# SPDX-License-Identifier: Apache-2.0
"""How many more fit: sums, units, trees, traits, numbered groups, and what hosts share."""

import random
from functools import cache

import pytest

from osc_placement.candidates.fit import count_request, count_total, make_request
from osc_placement.candidates.node import SHARING_TRAIT
from osc_placement.candidates.query import Traits
from osc_placement.candidates.request import CandidateRequest, Group, NotCountable
from osc_placement.report.explain import describe_limits
from tests.unit.report.clouds import cloud as make_cloud
from tests.unit.report.clouds import node, stock, storage


def cloud(*records):
    """The snapshot of a cloud."""
    return make_cloud(*records).snapshot


def counts(fits):
    return {fit.host.name: fit.count for fit in fits.hosts}


def test_the_scarcest_class_decides():
    """Of 12 free VCPU and 8 free GB four-VCPU-two-GB fit three times, and VCPU is why."""
    request = make_request({"VCPU": 4, "MEMORY_MB": 2})
    fits = count_request(cloud(node("h", VCPU=stock(16, 4), MEMORY_MB=stock(10, 2))), request)
    assert counts(fits) == {"h": 3}
    assert (fits.total, fits.exact, describe_limits(fits.hosts[0], request.groups[0])) == (3, True, "VCPU")


def test_ratio_and_reserved_count():
    """The capacity is (total - reserved) * ratio, rounded down, as for the server."""
    fits = count_request(
        cloud(node("h", VCPU=stock(5, 0, reserved=1, allocation_ratio=1.9))), make_request({"VCPU": 1})
    )
    assert counts(fits) == {"h": 7}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"max_unit": 3}, "VCPU: 4 asked, max_unit 3, 1 too much, 16 free"),
        ({"min_unit": 5}, "VCPU: 4 asked, min_unit 5, 16 free"),
        ({"step_size": 3}, "VCPU: 4 asked, step_size 3, 16 free"),
        ({"reserved": 14}, "VCPU: 4 asked, 2 free, 2 short"),
    ],
)
def test_a_host_on_which_nothing_fits_says_why(fields, reason):
    """The unit rules forbid an amount, or it is short by so much."""
    request = make_request({"VCPU": 4})
    fits = count_request(cloud(node("h", VCPU=stock(16, **fields))), request)
    assert [(fit.count, describe_limits(fit, request.groups[0])) for fit in fits.hosts] == [(0, reason)]


def test_classes_may_come_from_different_providers_of_a_tree():
    """Each class is summed over the tree, but no class is put together from two providers."""
    tree = cloud(node("h", DISK_GB=100), node("n0", "h", VCPU=5), node("n1", "h", VCPU=5))
    assert counts(count_request(tree, make_request({"VCPU": 3, "DISK_GB": 10}))) == {"h": 2}


def test_an_overallocated_provider_has_no_free_capacity():
    """A usage above the capacity counts as no free capacity, not as a negative one."""
    two = cloud(node("h", VCPU=8), node("n", "h", VCPU=stock(4, 10)))
    assert counts(count_request(two, make_request({"VCPU": 1}))) == {"h": 8}


def test_shared_storage_is_counted_once_for_all_hosts():
    """Each of two hosts could have all of the storage, but both together have it once."""
    shared = cloud(
        node("a", aggregates=["x"], VCPU=10),
        node("b", aggregates=["x"], VCPU=10),
        storage("s", ["x"], DISK_GB=12),
    )
    fits = count_request(shared, make_request({"VCPU": 1, "DISK_GB": 1}))
    assert counts(fits) == {"a": 10, "b": 10}
    assert (fits.total, fits.exact) == (12, True)


def test_a_request_for_shared_resources_only_fits_on_the_sharing_provider():
    """A request for nothing but shared storage fits on the storage, not on the hosts it serves."""
    shared = cloud(node("a", aggregates=["x"], VCPU=10), storage("s", ["x"], DISK_GB=12))
    fits = count_request(shared, make_request({"DISK_GB": 1}))
    assert (counts(fits), fits.total) == ({"s": 12}, 12)


def test_a_required_trait_may_be_on_any_provider_used():
    """With the trait on a provider of 5 slots, the request fits 5 times, whatever else there is."""
    tree = cloud(node("h", VCPU=20), node("d", "h", traits=["T"], DISK_GB=5), node("e", "h", DISK_GB=50))
    want = make_request({"VCPU": 1, "DISK_GB": 1}, Traits(required=(frozenset(["T"]),)))
    assert counts(count_request(tree, want)) == {"h": 5}


def test_a_provider_with_a_forbidden_trait_gives_nothing():
    """A provider with a forbidden trait is not counted."""
    tree = cloud(node("h", VCPU=20), node("d", "h", traits=["T"], VCPU=20))
    want = make_request({"VCPU": 1}, Traits(forbidden=(frozenset(["T"]),)))
    assert counts(count_request(tree, want)) == {"h": 20}


def test_two_shared_classes_give_a_lower_bound():
    """The number that fits is marked as not exact."""
    shared = cloud(
        *(node(name, aggregates=["x"], VCPU=10) for name in "abc"),
        storage("s", ["x"], DISK_GB=12, IPV4_ADDRESS=7),
    )
    fits = count_request(shared, make_request({"VCPU": 1, "DISK_GB": 1, "IPV4_ADDRESS": 1}))
    assert (fits.total, fits.exact) == (7, False)


@pytest.mark.parametrize("seed", range(60))
def test_total_is_that_of_all_hosts(seed):
    """With hosts alone, trees, shared storage, traits, units and reserved amounts."""
    dice = random.Random(seed)
    records = []
    for name in "abcdefgh":
        parent = dice.choice([None, None, *(record.provider.uuid for record in records)])
        stocks = {
            each: stock(dice.randint(1, 9), dice.randint(0, 4), step_size=dice.choice((1, 1, 2)))
            for each in dice.sample(["VCPU", "DISK_GB"], dice.randint(0, 2))
        }
        traits = dice.sample(["T", "U", SHARING_TRAIT], dice.randint(0, 1))
        records.append(node(name, parent, traits, dice.sample(["x", "y"], dice.randint(0, 1)), **stocks))
    for amounts in ({"VCPU": 1}, {"VCPU": 2, "DISK_GB": 1}):
        for traits in (
            Traits(),
            Traits(required=(frozenset(["T"]),)),
            Traits(forbidden=(frozenset(["T"]),)),
        ):
            request = make_request(amounts, traits)
            assert count_total(cloud(*records), request) == count_request(cloud(*records), request).total


def gpus(*free, vcpu=100, **more):
    """A host with a GPU for each number of vGPUs that are free."""
    children = [node(f"gpu{number}", "h", VGPU=each, **more) for number, each in enumerate(free)]
    return cloud(node("h", VCPU=vcpu), *children)


def ask(*groups, isolated=True, unnamed=None):
    """A request for a VCPU and these groups."""
    named = [Group(str(number), amounts) for number, amounts in enumerate(groups, 1)]
    (own,) = make_request(unnamed or {"VCPU": 1}).groups
    return CandidateRequest([own, *named], isolated=isolated)


def counted(snapshot, request):
    fits = count_request(snapshot, request)
    return fits.total, fits.exact


@pytest.mark.parametrize(
    ("free", "isolated", "number"),
    [
        ((4, 4), True, 4),
        ((4, 1), True, 1),
        ((4, 1), False, 2),
        ((3, 3, 3), True, 4),
        ((5, 1, 1), True, 2),
        ((5,), True, 0),
        ((5,), False, 2),
    ],
)
def test_isolated_vgpus_come_from_different_gpus(free, isolated, number):
    """Two vGPUs in groups of their own; without isolation one GPU may give both."""
    request = ask({"VGPU": 1}, {"VGPU": 1}, isolated=isolated)
    assert counted(gpus(*free), request) == (number, True)


def test_two_vgpus_in_one_group_come_from_one_gpu():
    """Placement takes a class of a group from one provider, so one free vGPU on each of two is not enough."""
    assert counted(gpus(1, 1), ask({"VGPU": 2})) == (0, True)
    assert counted(gpus(1, 1), ask({"VGPU": 1}, {"VGPU": 1})) == (1, True)


@pytest.mark.parametrize(
    ("groups", "max_unit", "free", "expected"),
    [
        ((1, 1), 1, (8,), (0, True)),
        ((1, 1), 1, (8, 3), (3, True)),
        ((1, 1, 1), 2, (8, 3), (3, True)),
        ((1, 3), 3, (8,), (0, False)),
        ((1, 3), 4, (8,), (2, False)),
    ],
)
def test_max_unit_limits_the_sum_of_the_groups_on_a_provider(groups, max_unit, free, expected):
    """Placement compares what an instance has of a provider, in all its groups, with max_unit."""
    children = [
        node(f"gpu{number}", "h", VGPU=stock(each, max_unit=max_unit)) for number, each in enumerate(free)
    ]
    snapshot = cloud(node("h", VCPU=100), *children)
    request = ask(*({"VGPU": amount} for amount in groups), isolated=False)
    assert counted(snapshot, request) == expected


def test_the_scarcer_part_of_the_request_decides():
    """The number, and what limits it."""
    request = ask({"VGPU": 1}, {"VGPU": 1})
    (few,) = count_request(gpus(4, 4, vcpu=3), request).hosts
    assert (few.count, few.limits) == (3, ["VCPU"])
    (none,) = count_request(gpus(4), request).hosts
    assert (none.count, none.limits) == (0, ["resources1", "resources2"])


def test_a_group_with_a_trait_is_on_a_provider_with_it():
    """Of two GPUs one has the trait."""
    tree = cloud(node("h", VCPU=9), node("gold", "h", traits=["T"], VGPU=2), node("other", "h", VGPU=5))
    wanted = Group("1", {"VGPU": 1}, Traits((frozenset(["T"]),)))
    request = CandidateRequest([*make_request({"VCPU": 1}).groups, wanted])
    assert counted(tree, request) == (2, True)


def test_shared_disks_are_distributed_to_what_the_groups_leave():
    """Two hosts share a disk of 3; one of them has vGPUs for one instance only."""
    snapshot = cloud(
        node("a", aggregates=["x"], VCPU=9),
        node("a-gpu", "a", VGPU=1),
        node("b", aggregates=["x"], VCPU=9),
        node("b-gpu", "b", VGPU=9),
        storage("s", ["x"], DISK_GB=3),
    )
    request = ask({"VGPU": 1}, unnamed={"VCPU": 1, "DISK_GB": 1})
    fits = count_request(snapshot, request)
    assert {fit.host.name: fit.count for fit in fits.hosts if fit.count} == {"a": 1, "b": 3}
    assert fits.total == 3


def test_a_class_inside_and_outside_of_numbered_groups_is_refused():
    """They would compete for it, which is not counted."""
    with pytest.raises(NotCountable, match="asks for VCPU with and without a numbered request group"):
        count_request(gpus(1), ask({"VCPU": 1}))
    with pytest.raises(NotCountable, match="numbered request groups only"):
        count_request(gpus(1), CandidateRequest([Group("1", {"VGPU": 1})]))


def count_all_ways(free, groups, isolated, max_units):
    """The largest number of instances, by trying every way."""
    nothing = tuple((0,) * len(each) for each in free)

    @cache
    def best(left):
        return max((1 + best(after) for after in ways(left, 0, nothing)), default=0)

    def ways(left, index, taken):
        if index == len(groups):
            yield left
            return
        wanted = tuple(groups[index].get(name, 0) for name in range(len(max_units[0])))
        for number, have in enumerate(left):
            if isolated and any(taken[number]):
                continue
            own = tuple(map(sum, zip(taken[number], wanted, strict=True)))
            rest = tuple(each - amount for each, amount in zip(have, wanted, strict=True))
            over = any(amount > most for amount, most in zip(own, max_units[number], strict=True))
            if min(rest) >= 0 and not over:
                yield from ways(
                    (*left[:number], rest, *left[number + 1 :]),
                    index + 1,
                    (*taken[:number], own, *taken[number + 1 :]),
                )

    return best(free)


def test_numbers_equal_those_of_every_way_or_are_lower_bounds():
    """For random GPUs with two classes and random groups; what is called exact is exact."""
    chance = random.Random(5)
    exact = lower = 0
    for _ in range(400):
        free = tuple((chance.randrange(4), chance.randrange(3)) for _ in range(chance.choice((1, 2, 3))))
        choices = ({0: 1}, {0: 1}, {0: 2}, {1: 1}, {0: 1, 1: 1})
        groups = [chance.choice(choices) for _ in range(chance.choice((1, 2)))]
        isolated = chance.random() < 0.6
        max_units = [tuple(chance.choice((1, 2, 3, 9)) for _ in have) for have in free]
        stocks = [
            {
                f"C{name}": stock(each, max_unit=most)
                for name, (each, most) in enumerate(zip(have, own, strict=True))
                if each
            }
            for have, own in zip(free, max_units, strict=True)
        ]
        children = [node(f"gpu{number}", "h", **each) for number, each in enumerate(stocks)]
        snapshot = cloud(node("h", VCPU=100), *children)
        request = ask(
            *({f"C{name}": amount for name, amount in group.items()} for group in groups), isolated=isolated
        )
        best = count_all_ways(free, groups, isolated, max_units)
        total, is_exact = counted(snapshot, request)
        if is_exact:
            exact += 1
            assert total == best, (free, groups, isolated, max_units)
        else:
            lower += 1
            assert total <= best, (free, groups, isolated, max_units)
    assert exact > 200
    assert lower > 20
