# SPDX-License-Identifier: Apache-2.0
"""The largest consumers and projects by what they have allocated. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from osc_placement.candidates.cloud import CloudView


@dataclass(frozen=True, slots=True)
class Holding:
    """The allocations of a consumer, from all providers together."""

    consumer: str
    project: str
    user: str
    amounts: Mapping[str, int]
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Rank:
    """The rank of a holder; ``percent`` is its share of the capacity of ``scarcest``, its largest share."""

    holder: Holding
    consumers: int
    scarcest: str
    percent: float


def sum_by_project(holdings: Iterable[Holding]) -> Sequence[tuple[Holding, int]]:
    """Sum up the consumers of each project, and count them."""
    sums: dict[str, dict[str, int]] = {}
    numbers: dict[str, int] = {}
    for holding in holdings:
        amounts = sums.setdefault(holding.project, {})
        numbers[holding.project] = numbers.get(holding.project, 0) + 1
        for name, amount in holding.amounts.items():
            amounts[name] = amounts.get(name, 0) + amount
    return [
        (Holding("", project, "", dict(sorted(sums[project].items()))), numbers[project])
        for project in sorted(sums)
    ]


def class_capacities(cloud: CloudView) -> Mapping[str, int]:
    """Return the capacity of each class in the whole cloud."""
    capacities: dict[str, int] = {}
    for node in cloud.nodes:
        for name, stock in node.stocks.items():
            capacities[name] = capacities.get(name, 0) + stock.capacity
    return capacities


def rank(
    holders: Iterable[tuple[Holding, int]], capacities: Mapping[str, int], resource_class: str | None = None
) -> Sequence[Rank]:
    """Sort the holders, largest first, by their share of one class or by the largest of their shares."""
    ranks = []
    for holding, consumers in holders:
        if resource_class is None or resource_class in holding.amounts:
            names = [resource_class] if resource_class else sorted(holding.amounts)
            shares = [(100 * holding.amounts[name] / max(1, capacities.get(name, 0)), name) for name in names]
            percent, scarcest = max(shares, key=lambda share: share[0])
            ranks.append(Rank(holding, consumers, scarcest, percent))
    return sorted(ranks, key=lambda rank: (-rank.percent, rank.holder.project, rank.holder.consumer))
