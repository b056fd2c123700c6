# SPDX-License-Identifier: Apache-2.0
"""How many more fit: sums, units, trees, traits, and what hosts share."""

import random

import pytest

from osc_placement.candidates.fit import Pools, count_fits, count_total, make_request
from osc_placement.candidates.node import SHARING_TRAIT
from osc_placement.candidates.query import Traits
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
    fits = count_fits(cloud(node("h", VCPU=stock(16, 4), MEMORY_MB=stock(10, 2))), request)
    assert counts(fits) == {"h": 3}
    assert (fits.total, fits.exact, describe_limits(fits.hosts[0], request)) == (3, True, "VCPU")


def test_ratio_and_reserved_count():
    """The capacity is (total - reserved) * ratio, rounded down, as for the server."""
    fits = count_fits(
        cloud(node("h", VCPU=stock(5, 0, reserved=1, allocation_ratio=1.9))), make_request({"VCPU": 1})
    )
    assert counts(fits) == {"h": 7}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"max_unit": 3}, "VCPU: 4 asked, max_unit 3, 1 too much"),
        ({"min_unit": 5}, "VCPU: 4 asked, min_unit 5"),
        ({"step_size": 3}, "VCPU: 4 asked, step_size 3"),
        ({"reserved": 14}, "VCPU: 4 asked, 2 free, 2 short"),
    ],
)
def test_a_host_on_which_nothing_fits_says_why(fields, reason):
    """The unit rules forbid an amount, or it is short by so much."""
    request = make_request({"VCPU": 4})
    fits = count_fits(cloud(node("h", VCPU=stock(16, **fields))), request)
    assert [(fit.count, describe_limits(fit, request)) for fit in fits.hosts] == [(0, reason)]


def test_classes_may_come_from_different_providers_of_a_tree():
    """Each class is summed over the tree, but no class is put together from two providers."""
    tree = cloud(node("h", DISK_GB=100), node("n0", "h", VCPU=5), node("n1", "h", VCPU=5))
    assert counts(count_fits(tree, make_request({"VCPU": 3, "DISK_GB": 10}))) == {"h": 2}


def test_an_overallocated_provider_has_no_free_capacity():
    """A usage above the capacity counts as no free capacity, not as a negative one."""
    two = cloud(node("h", VCPU=8), node("n", "h", VCPU=stock(4, 10)))
    assert counts(count_fits(two, make_request({"VCPU": 1}))) == {"h": 8}


def test_shared_storage_is_counted_once_for_all_hosts():
    """Each of two hosts could have all of the storage, but both together have it once."""
    shared = cloud(
        node("a", aggregates=["x"], VCPU=10),
        node("b", aggregates=["x"], VCPU=10),
        storage("s", ["x"], DISK_GB=12),
    )
    fits = count_fits(shared, make_request({"VCPU": 1, "DISK_GB": 1}))
    assert counts(fits) == {"a": 10, "b": 10}
    assert (fits.total, fits.exact) == (12, True)


def test_a_request_for_shared_resources_only_fits_on_the_sharing_provider():
    """A request for nothing but shared storage fits on the storage, not on the hosts it serves."""
    shared = cloud(node("a", aggregates=["x"], VCPU=10), storage("s", ["x"], DISK_GB=12))
    fits = count_fits(shared, make_request({"DISK_GB": 1}))
    assert (counts(fits), fits.total) == ({"s": 12}, 12)


def test_a_required_trait_may_be_on_any_provider_used():
    """With the trait on a provider of 5 slots, the request fits 5 times, whatever else there is."""
    tree = cloud(node("h", VCPU=20), node("d", "h", traits=["T"], DISK_GB=5), node("e", "h", DISK_GB=50))
    want = make_request({"VCPU": 1, "DISK_GB": 1}, Traits(required=(frozenset(["T"]),)))
    assert counts(count_fits(tree, want)) == {"h": 5}


def test_a_provider_with_a_forbidden_trait_gives_nothing():
    """A provider with a forbidden trait is not counted."""
    tree = cloud(node("h", VCPU=20), node("d", "h", traits=["T"], VCPU=20))
    want = make_request({"VCPU": 1}, Traits(forbidden=(frozenset(["T"]),)))
    assert counts(count_fits(tree, want)) == {"h": 20}


def test_two_shared_classes_give_a_lower_bound():
    """The number that fits is marked as not exact."""
    shared = cloud(
        *(node(name, aggregates=["x"], VCPU=10) for name in "abc"),
        storage("s", ["x"], DISK_GB=12, IPV4_ADDRESS=7),
    )
    fits = count_fits(shared, make_request({"VCPU": 1, "DISK_GB": 1, "IPV4_ADDRESS": 1}))
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
            assert count_total(cloud(*records), request) == count_fits(cloud(*records), request).total


def brute_force(demands, pools):
    """The largest sum over what each taker gets, trying everything."""
    if not demands:
        return 0
    (group, wanted), rest = demands[0], demands[1:]
    best = brute_force(rest, pools)
    if wanted:
        for pool in group:
            if pools[pool]:
                left = {**pools, pool: pools[pool] - 1}
                best = max(best, 1 + brute_force([(group, wanted - 1), *rest], left))
    return best


@pytest.mark.parametrize("seed", range(40))
def test_pools_distribute_the_maximum(seed):
    """In any order the sum is the maximum, and nothing is given to two takers."""
    dice = random.Random(seed)
    pools = {name: dice.randint(0, 2) for name in "abc"}
    demands = [
        (frozenset(dice.sample("abc", dice.randint(1, 3))), dice.randint(0, 2))
        for _ in range(dice.randint(1, 3))
    ]
    handed = Pools(pools)
    got = [handed.take(group, wanted) for group, wanted in demands]
    assert sum(got) == brute_force(demands, pools)
    assert all(0 <= amount <= wanted for amount, (_, wanted) in zip(got, demands, strict=True))


def test_a_returned_amount_can_be_taken_again():
    """A taker that cannot use all of an amount returns it for the next."""
    pools = Pools({"a": 3})
    group = frozenset("a")
    assert pools.take(group, 5) == 3
    pools.give_back(group, 2)
    assert pools.take(frozenset("a"), 5) == 2
