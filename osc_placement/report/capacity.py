# SPDX-License-Identifier: Apache-2.0
"""The capacity, usage and free capacity of each class, by provider, tree or aggregate. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from osc_placement.candidates.cloud import CloudView
from osc_placement.candidates.node import Node, Stock
from osc_placement.report.bar import percent_of

By = Literal["provider", "root", "aggregate", "class"]
#: shown for a provider that is in no aggregate
NO_AGGREGATE: Final = "-"


@dataclass(frozen=True, slots=True)
class Amounts:
    """Sums over some providers.

    ``reserved`` counts units of the inventory; the others take the allocation ratio into account.
    """

    capacity: int = 0
    used: int = 0
    free: int = 0
    reserved: int = 0

    @property
    def percent(self) -> float | None:
        """Return the percentage that is used of what is used or free; None if there is neither.

        Where nothing is free it is that of the capacity, above 100 if more is used.
        """
        return percent_of(self.used, self.used + self.free if self.free else self.capacity)

    def add(self, stock: Stock) -> Amounts:
        """Return the sums with one more inventory added."""
        return Amounts(
            self.capacity + stock.capacity,
            self.used + stock.used,
            self.free + stock.free,
            self.reserved + stock.inventory.reserved,
        )


#: sums by the key of the row (such as the name of a provider) and by class
Table = Mapping[tuple[str, str], Amounts]


def sum_capacity(cloud: CloudView, by: By, selected: Collection[str] | None = None) -> Table:
    """Sum up the inventories of all or selected providers by ``by``, the fullest first."""
    # nova puts the root of a host in aggregates, so a provider is in those of its ancestors too
    keys_of: Mapping[By, Callable[[Node], Iterable[str]]] = {
        "provider": lambda node: (node.name,),
        "root": lambda node: (cloud.root_of(node.uuid).name,),
        "aggregate": lambda node: (
            frozenset[str]().union(*(above.aggregates for above in cloud.ancestry(node))) or (NO_AGGREGATE,)
        ),
        "class": lambda _node: ("",),
    }
    table: dict[tuple[str, str], Amounts] = {}
    for node in cloud.nodes:
        if selected is not None and node.uuid not in selected:
            continue
        for key in keys_of[by](node) if node.stocks else ():
            for name, stock in node.stocks.items():
                table[key, name] = table.get((key, name), Amounts()).add(stock)
    return dict(sorted(table.items(), key=_rank))


def _rank(row: tuple[tuple[str, str], Amounts]) -> tuple[float, tuple[str, str]]:
    key, sums = row
    # what is used of no capacity is more than full
    return -(sums.percent or (math.inf if sums.used else 0)), key
