# SPDX-License-Identifier: Apache-2.0
"""The distribution of shared inventories."""

import random

import pytest

from osc_placement.candidates.pools import Pools


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
