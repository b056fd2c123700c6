# SPDX-License-Identifier: Apache-2.0
"""The distribution of what trees share, so that together they get as much as possible. Pure."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Mapping

#: the pools that a tree may draw on, by the UUIDs of the sharing providers
PoolGroup = frozenset[str]


class Pools:
    """Shared inventories, distributed among trees so that the sum of what they get is as large as possible.

    A maximum flow, one tree at a time. Trees that may draw on the same pools are one *group*; there are few
    groups and few pools, so paths between them are short. When a group finds its pools empty, another group
    that drew on one of them is moved to a pool that it alone can reach (an augmenting path).

    It has the amount left in each pool, and the amount that each group has drawn from each pool.
    """

    def __init__(self, amounts: Mapping[str, int]) -> None:
        self._left = dict(amounts)
        self._drawn: dict[tuple[PoolGroup, str], int] = {}
        self._groups: set[PoolGroup] = set()

    def take(self, group: PoolGroup, wanted: int) -> int:
        """Draw up to ``wanted`` and return how much was drawn."""
        self._groups.add(group)
        got = 0
        while got < wanted:
            path = self._find_path(group)
            if path is None:
                break
            # each group on the path draws on its own step's pool in place of that of the step before
            moved = [(taker, before[1]) for before, (taker, _) in itertools.pairwise(path)]
            amount = min(wanted - got, self._left[path[-1][1]], *(self._drawn[key] for key in moved))
            for key in moved:
                self._drawn[key] -= amount
            for key in path:
                self._drawn[key] = self._drawn.get(key, 0) + amount
            self._left[path[-1][1]] -= amount
            got += amount
        return got

    def give_back(self, group: PoolGroup, amount: int) -> None:
        """Return some of what a group has drawn."""
        for pool in group:
            drawn = self._drawn.get((group, pool), 0)
            back = min(drawn, amount)
            self._drawn[group, pool] = drawn - back
            self._left[pool] += back
            amount -= back

    def _find_path(self, group: PoolGroup) -> list[tuple[PoolGroup, str]] | None:
        """Return the steps that lead from the group to a pool that is not empty: which group draws on which
        pool instead.
        """
        came: dict[str, tuple[PoolGroup, str | None]] = dict.fromkeys(sorted(group), (group, None))
        waiting = deque(came)
        while waiting:
            pool = waiting.popleft()
            if self._left[pool] > 0:
                path: list[tuple[PoolGroup, str]] = []
                current: str | None = pool
                while current is not None:
                    taker, before = came[current]
                    path.append((taker, current))
                    current = before
                return path[::-1]
            for other in self._groups:
                if self._drawn.get((other, pool), 0) > 0:
                    for alternative in sorted(other - came.keys()):
                        came[alternative] = (other, pool)
                        waiting.append(alternative)
        return None
