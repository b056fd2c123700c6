# SPDX-License-Identifier: Apache-2.0
"""The providers for the claim of an instance whose host is known. Pure.

A class is placed on the provider of the host's tree, or the sharing provider, that has inventory of it. If
several have free capacity, it is unknown which one nova's driver took, so the claim is not placed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from osc_placement.candidates.node import Stock
from osc_placement.migrate.migrations.cloud import AllocationView, iterate_amounts

_THOUSAND: Final = 1000


class Unplaceable(Exception):
    """An error: a claim cannot be placed, for the reason in its text."""


class NoInventory(Unplaceable):
    """An error: no provider of the host has inventory of a class."""


class Ambiguous(Unplaceable):
    """An error: several providers could have the allocation."""


@dataclass
class OverCapacity(Unplaceable):
    """An error: the only provider of a class is full; the allocation ratio ``ratio`` would make it fit."""

    provider: str
    resource: str
    amount: int
    ratio: float

    def __str__(self) -> str:
        room = f"{self.provider} has no room for {self.resource}={self.amount}"
        return f"{room}; an allocation ratio of {self.ratio:g} would fit it"


class Ledger:
    """The usage of each inventory, including what was placed since it was read."""

    def __init__(self, cloud: AllocationView) -> None:
        self._cloud = cloud
        self._used = defaultdict(int, cloud.usages())

    def place(self, claim: Mapping[str, int], node: str) -> dict[str, dict[str, int]]:
        """Place a claim on the host with this compute node, and take it; Unplaceable says why not."""
        reach = self._cloud.reach(node)
        placed: dict[str, dict[str, int]] = defaultdict(dict)
        for resource, amount in claim.items():
            placed[self._find(resource, amount, reach)][resource] = amount
        for provider, resource, amount in iterate_amounts(placed):
            self._used[provider, resource] += amount
        return dict(placed)

    def _find(self, resource: str, amount: int, reach: Sequence[str]) -> str:
        inventories = {uuid: self._cloud.inventory(uuid, resource) for uuid in reach}
        stocks = {
            uuid: Stock(inventory, self._used[uuid, resource])
            for uuid, inventory in inventories.items()
            if inventory and inventory.capacity > 0
        }
        if not stocks:
            raise NoInventory(f"no provider of its host has inventory of {resource}")
        fitting = [uuid for uuid, stock in stocks.items() if stock.fits(amount)]
        if len(fitting) == 1:
            return fitting[0]
        if len(stocks) == 1:
            ((uuid, stock),) = stocks.items()
            name = self._cloud.name(uuid)
            if stock.inventory.fits_unit(amount):
                raise OverCapacity(name, resource, amount, _find_ratio(stock, amount))
            raise NoInventory(
                f"{name} admits no {resource}={amount}: see its min_unit, max_unit and step_size"
            )
        if not fitting:
            names = ", ".join(sorted(map(self._cloud.name, stocks)))
            raise NoInventory(f"none of {names} has room for {resource}={amount}")
        choices = ", ".join(sorted(f"{self._cloud.name(uuid)} ({uuid})" for uuid in fitting))
        raise Ambiguous(f"{resource}={amount} may be on any of {choices}")


def _find_ratio(stock: Stock, amount: int) -> float:
    """Return the lowest allocation ratio, in thousandths, with which the amount fits."""
    inventory = stock.inventory
    total = inventory.total - inventory.reserved
    thousandths = math.ceil((stock.used + amount) / total * _THOUSAND)
    # 1000 * 1.001 is less than 1001
    while not replace(stock, inventory=replace(inventory, allocation_ratio=thousandths / _THOUSAND)).fits(
        amount
    ):
        thousandths += 1
    return thousandths / _THOUSAND
