# SPDX-License-Identifier: Apache-2.0
"""A provider in the snapshot: its place in a tree, and what it has, offers and belongs to. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime

    from osc_placement.model import Inventory

#: a provider with this trait shares its inventory with the trees that have a member of its aggregates
SHARING_TRAIT: Final = "MISC_SHARES_VIA_AGGREGATE"
#: nova's scheduler excludes compute services whose root has this trait from every request
DISABLED_TRAIT: Final = "COMPUTE_STATUS_DISABLED"


@dataclass(frozen=True, slots=True)
class Stock:
    """A provider's inventory of one class, and how much of it is used."""

    inventory: Inventory
    used: int = 0

    @property
    def capacity(self) -> int:
        """Return how much may be allocated in all."""
        return self.inventory.capacity

    @property
    def free(self) -> int:
        """Return the part of the capacity that is not used; 0 if more is used than the capacity."""
        return max(0, self.inventory.capacity - self.used)

    @property
    def free_capacity(self) -> int:
        """Return the largest amount that one more allocation may have; 0 or less if it may have none."""
        return min(self.inventory.capacity - self.used, self.inventory.max_unit)

    @property
    def takes_any_amount(self) -> bool:
        """Return whether every amount up to the free capacity is allowed."""
        return self.inventory.min_unit <= 1 and self.inventory.step_size == 1

    def fits(self, amount: int) -> bool:
        """Return whether one more allocation may have this amount."""
        return amount <= self.free_capacity and (self.takes_any_amount or self.inventory.fits_unit(amount))


@dataclass(frozen=True, slots=True)
class Node:
    """A provider in the snapshot; ids are the database's, or numbers given to what a client has read.

    :ivar modified: the time of the last modification of the provider, in UTC
    :ivar stocked: the time of the last modification of any of its inventories, in UTC
    """

    id: int
    uuid: str
    parent_id: int | None
    root_id: int
    stocks: Mapping[str, Stock] = field(default_factory=dict)
    traits: tuple[str, ...] = ()
    aggregates: tuple[str, ...] = ()
    name: str = ""
    generation: int | None = 0
    modified: datetime | None = None
    stocked: datetime | None = None

    @property
    def shares(self) -> bool:
        """Return whether the provider shares its inventory through its aggregates."""
        return SHARING_TRAIT in self.traits

    @property
    def classes_left(self) -> list[str]:
        """Return the classes with free capacity."""
        return [name for name, stock in self.stocks.items() if stock.free_capacity > 0]
