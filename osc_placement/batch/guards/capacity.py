# SPDX-License-Identifier: Apache-2.0
"""The rule that a change must leave a provider the capacity that is allocated, and its errors. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from osc_placement.errors import PlacementError

if TYPE_CHECKING:
    from osc_placement.batch.plan import Change


@dataclass(frozen=True, slots=True)
class Excess:
    """More of a class is allocated than there would be."""

    resource_class: str
    used: int
    capacity: int

    @property
    def missing(self) -> int:
        """Return how much more is allocated than there would be."""
        return self.used - self.capacity

    def __str__(self) -> str:
        have = f"{self.used} allocated, the capacity would be {self.capacity}"
        return f"{self.resource_class} would be over capacity by {self.missing}: {have}"


class Overcommitted(PlacementError):
    """A change would leave less of something than is allocated."""

    error_code = "overcommitted"

    def __init__(self, name: str, excesses: Sequence[Excess]) -> None:
        self.name = name
        self.excesses = tuple(excesses)
        told = "; ".join(str(excess) for excess in excesses)
        super().__init__(f"{told}; --force does it all the same")


class InUse(PlacementError):
    """A change would take away what is allocated, which the server refuses."""

    def __init__(self, name: str, excesses: Sequence[Excess]) -> None:
        self.name = name
        self.excesses = tuple(excesses)
        self.told = " and ".join(f"{excess.used} {excess.resource_class}" for excess in excesses)
        super().__init__(f"in use: {self.told} allocated; keep it, or move the allocations first")


def is_shrinking(change: Change) -> bool:
    """Return whether a change leaves less of some class than there was."""
    return any(True for _ in _shrunk(change))


def _shrunk(change: Change) -> Iterable[tuple[str, int]]:
    before, after = change.before.inventories or {}, change.after.inventories or {}
    for name, inventory in before.items():
        capacity = after[name].capacity if name in after else 0
        if capacity < inventory.capacity:
            yield name, capacity


def find_excesses(change: Change, usages: Mapping[str, int]) -> list[Excess]:
    """Return the classes of which more is allocated than the change leaves."""
    return [
        # more may be reserved than the total, in data of old servers
        Excess(name, usages[name], max(0, capacity))
        for name, capacity in _shrunk(change)
        if usages.get(name, 0) > max(0, capacity)
    ]


def find_refusal(change: Change, usages: Mapping[str, int]) -> Overcommitted | InUse | None:
    """Return why a change must not be made, if more is allocated than it leaves."""
    excesses = find_excesses(change, usages)
    removed = [each for each in excesses if each.resource_class not in (change.after.inventories or {})]
    if removed:
        return InUse(change.subject.name, removed)
    return Overcommitted(change.subject.name, excesses) if excesses else None
