# SPDX-License-Identifier: Apache-2.0
"""How many more of the same request fit, on each host and in all. Pure.

The request is that of an instance without numbered groups: of a tree of providers and those that share with
it, each class comes whole from one provider, and different classes may come from different ones.

1. A provider takes ``free // amount`` more of a class, and none if min_unit, max_unit or step_size forbid the
   amount. A tree takes the sum of its providers; the request fits as often as its scarcest class.
2. A condition that only one of the providers has to meet (a required trait; that not everything is shared)
   can be met by another class each time: it bounds the number by the sum over all classes.
3. In all it is the sum over the trees, but for what they share: that is handed out to one tree after the
   other (see pools.py). With one shared class that is the most there can be, with more it is what is
   certainly possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from osc_placement.report.cloud import Cloud, Node
from osc_placement.report.pools import Pools
from osc_placement.report.shortage import describe_shortage


@dataclass(frozen=True, slots=True)
class Want:
    """What is asked for: amounts by class, traits that the providers have together, and that none has."""

    amounts: Mapping[str, int]
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class HostFit:
    """How often a request fits on the tree of a host, and what it is that limits it."""

    host: Node
    count: int
    limited_by: str


@dataclass(frozen=True, slots=True)
class Fits:
    """How often a request fits; ``total`` may be more if it is not ``exact``."""

    hosts: Sequence[HostFit]
    total: int
    exact: bool


def count_fits(cloud: Cloud, want: Want) -> Fits:
    """Count for every tree that has something of what is wanted."""
    supplies = [supply for root in cloud.roots if (supply := _supply(cloud, root, want)).own_classes]
    total, exact = _count_together(supplies, want)
    hosts = [HostFit(supply.root, supply.count, supply.limited_by) for supply in supplies]
    return Fits(hosts, total, exact)


@dataclass(frozen=True, slots=True)
class _Supply:
    """What a tree can draw on: how often each class is there, in its own providers and in those that lend."""

    root: Node
    own: Mapping[str, int]
    lent: Mapping[str, Mapping[str, int]]
    own_classes: frozenset[str]
    count: int
    limited_by: str


def _supply(cloud: Cloud, root: Node, want: Want) -> _Supply:
    lenders = [node for node in cloud.lenders[root.uuid] if _is_allowed(node, want)]
    tree = [node for node in cloud.trees[root.uuid] if _is_allowed(node, want)]
    own = [node for node in tree if not node.shares]
    providers = [*own, *lenders]
    own_counts = {name: _sum_slots(own, name, amount) for name, amount in want.amounts.items()}
    lent = {
        name: {node.uuid: _slots(node, name, amount) for node in lenders if name in node.stocks}
        for name, amount in want.amounts.items()
    }
    bounds = {name: own_counts[name] + sum(lent[name].values()) for name in want.amounts}
    for trait in sorted(want.required):
        having = [node for node in providers if trait in node.traits]
        bounds[trait] = sum(_sum_slots(having, name, amount) for name, amount in want.amounts.items())
    # what is nobody's but the lenders' is counted where the lenders are
    inside = sum(_sum_slots(tree, name, amount) for name, amount in want.amounts.items())
    count = min(*bounds.values(), inside)
    own_classes = frozenset(
        name for name in want.amounts for node in _present(cloud, root, want) if name in node.stocks
    )
    return _Supply(
        root, own_counts, lent, own_classes, count, _describe_limit(providers, want, bounds, count)
    )


def _present(cloud: Cloud, root: Node, want: Want) -> Iterable[Node]:
    """The providers that make a tree worth a row; a lender of a part of the request is none."""
    tree = cloud.trees[root.uuid]
    if all(any(name in node.stocks for node in tree) for name in want.amounts):
        return tree
    return [node for node in tree if not node.shares]


def _is_allowed(node: Node, want: Want) -> bool:
    return not node.traits & want.forbidden


def _slots(node: Node, resource_class: str, amount: int) -> int:
    stock = node.stocks.get(resource_class)
    return 0 if stock is None else stock.inventory.how_many(amount, stock.used)


def _sum_slots(nodes: Iterable[Node], resource_class: str, amount: int) -> int:
    return sum(_slots(node, resource_class, amount) for node in nodes)


def _describe_limit(providers: Sequence[Node], want: Want, bounds: Mapping[str, int], count: int) -> str:
    limits = [name for name, bound in bounds.items() if bound == count]
    if count:
        return ", ".join(limits)
    shortages = [
        describe_shortage(providers, name, want.amounts[name])
        if name in want.amounts
        else f"no room with trait {name}"
        for name in limits
    ]
    return "; ".join(shortages) or "nothing of its own"


def _count_together(supplies: Sequence[_Supply], want: Want) -> tuple[int, bool]:
    """How often the request fits in all, and whether it is certain that it fits no more often."""
    shared = [name for name in want.amounts if any(supply.lent[name] for supply in supplies)]
    pools = {
        name: Pools({uuid: slots for supply in supplies for uuid, slots in supply.lent[name].items()})
        for name in shared
    }
    total = sum(_hand_out(supply, pools) for supply in supplies)
    exact = len(shared) < 2 or total == sum(supply.count for supply in supplies)
    return total, exact


def _hand_out(supply: _Supply, pools: Mapping[str, Pools]) -> int:
    """How often the request fits on a tree beside what the pools have already given."""
    drawn = {
        name: pool.take(frozenset(supply.lent[name]), supply.count - supply.own[name])
        for name, pool in pools.items()
    }
    count = min([supply.count, *(supply.own[name] + amount for name, amount in drawn.items())])
    for name, pool in pools.items():
        needed = max(0, count - supply.own[name])
        pool.give_back(frozenset(supply.lent[name]), drawn[name] - needed)
    return count
