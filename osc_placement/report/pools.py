# SPDX-License-Identifier: Apache-2.0
"""Distribution of shared pools among takers, so that the sum of what they get is as large as possible. Pure.

A maximum flow, one taker at a time. Takers that may draw on the same pools are one *group*; there are few
groups and few pools, so paths between them are short. When a group finds its pools empty, another group that
drew on one of them is moved to a pool that it alone can reach (an augmenting path).
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Mapping

#: the pools that a taker may draw on
Group = frozenset[str]


class Pools:
    """The amount left in each pool, and the amount that each group has drawn from each pool."""

    def __init__(self, amounts: Mapping[str, int]) -> None:
        self._left = dict(amounts)
        self._drawn: dict[tuple[Group, str], int] = {}
        self._groups: set[Group] = set()

    def take(self, group: Group, wanted: int) -> int:
        """Draw up to ``wanted`` and return how much was drawn."""
        self._groups.add(group)
        got = 0
        while got < wanted:
            path = self._find_path(group)
            if path is None:
                break
            got += self._draw(path, wanted - got)
        return got

    def give_back(self, group: Group, amount: int) -> None:
        """Return some of what a group has drawn."""
        for pool in group:
            drawn = self._drawn.get((group, pool), 0)
            back = min(drawn, amount)
            self._drawn[group, pool] = drawn - back
            self._left[pool] += back
            amount -= back

    def _find_path(self, group: Group) -> list[tuple[Group, str]] | None:
        """Return the steps that lead from the group to a pool that is not empty: which group draws on which
        pool instead.
        """
        came: dict[str, tuple[Group, str | None]] = dict.fromkeys(sorted(group), (group, None))
        waiting = deque(came)
        while waiting:
            pool = waiting.popleft()
            if self._left[pool] > 0:
                return _trace(came, pool)
            for other in self._groups:
                if self._drawn.get((other, pool), 0) > 0:
                    for alternative in sorted(other - came.keys()):
                        came[alternative] = (other, pool)
                        waiting.append(alternative)
        return None

    def _draw(self, path: list[tuple[Group, str]], wanted: int) -> int:
        """Draw along a path: each group on it draws on its own step's pool in place of that of the step
        before.
        """
        moved = [(group, before[1]) for before, (group, _) in itertools.pairwise(path)]
        amount = min(wanted, self._left[path[-1][1]], *(self._drawn[key] for key in moved))
        for key in moved:
            self._drawn[key] -= amount
        for key in path:
            self._drawn[key] = self._drawn.get(key, 0) + amount
        self._left[path[-1][1]] -= amount
        return amount


def _trace(came: Mapping[str, tuple[Group, str | None]], pool: str) -> list[tuple[Group, str]]:
    path: list[tuple[Group, str]] = []
    current: str | None = pool
    while current is not None:
        group, before = came[current]
        path.append((group, current))
        current = before
    return path[::-1]
