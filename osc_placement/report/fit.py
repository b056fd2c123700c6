# SPDX-License-Identifier: Apache-2.0
"""How many more times a request fits, on each host and on all together. Pure.

The request is that of an instance without numbered groups: of a tree of providers and those that share with
it, each class comes whole from one provider, and different classes may come from different ones.

1. A provider takes ``free // amount`` more of a class, and none if min_unit, max_unit or step_size forbid the
   amount. A tree takes the sum of its providers; the request fits as often as its scarcest class.
2. A condition that only one of the providers has to meet (a required trait; that not everything is shared)
   can be met by another class each time: it bounds the number by the sum over all classes.
3. The total is the sum over the trees. What trees share is distributed to one tree after the other (see
   pools.py): with one shared class the result is exact, with several it is a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from osc_placement.report.cloud import Cloud, Node
from osc_placement.report.pools import Pools
from osc_placement.report.shortage import describe_shortage


@dataclass(frozen=True, slots=True)
class Want:
    """A request: amounts by class, and the traits that are required of and forbidden to the providers."""

    amounts: Mapping[str, int]
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class HostFit:
    """How often a request fits on the tree of a host, and which class or trait limits it."""

    host: Node
    count: int
    limited_by: str


@dataclass(frozen=True, slots=True)
class Fits:
    """How often a request fits; ``total`` is a lower bound unless it is ``exact``."""

    hosts: Sequence[HostFit]
    total: int
    exact: bool


def count_fits(cloud: Cloud, want: Want) -> Fits:
    """Count how often the request fits, for every tree that has something of it."""
    supplies = [supply for root in cloud.roots if (supply := _supply(cloud, root, want)).own_classes]
    total, exact = _count_together(supplies, want)
    hosts = [HostFit(supply.root, supply.count, supply.limited_by) for supply in supplies]
    return Fits(hosts, total, exact)


@dataclass(frozen=True, slots=True)
class _Supply:
    """The supply of a tree: how often each class is available, from its own and from sharing providers."""

    root: Node
    own: Mapping[str, int]
    lent: Mapping[str, Mapping[str, int]]
    own_classes: frozenset[str]
    count: int
    limited_by: str


def _supply(cloud: Cloud, root: Node, want: Want) -> _Supply:
    sharing = [node for node in cloud.sharing[root.uuid] if _is_allowed(node, want)]
    tree = [node for node in cloud.trees[root.uuid] if _is_allowed(node, want)]
    own = [node for node in tree if not node.shares]
    providers = [*own, *sharing]
    own_counts = {name: _sum_slots(own, name, amount) for name, amount in want.amounts.items()}
    lent = {
        name: {node.uuid: _slots(node, name, amount) for node in sharing if name in node.stocks}
        for name, amount in want.amounts.items()
    }
    bounds = {name: own_counts[name] + sum(lent[name].values()) for name in want.amounts}
    for trait in sorted(want.required):
        having = [node for node in providers if trait in node.traits]
        bounds[trait] = sum(_sum_slots(having, name, amount) for name, amount in want.amounts.items())
    # sharing providers are counted with their own trees only
    inside = sum(_sum_slots(tree, name, amount) for name, amount in want.amounts.items())
    count = min(*bounds.values(), inside)
    own_classes = frozenset(
        name for name in want.amounts for node in _present(cloud, root, want) if name in node.stocks
    )
    return _Supply(
        root, own_counts, lent, own_classes, count, _describe_limit(providers, want, bounds, count)
    )


def _present(cloud: Cloud, root: Node, want: Want) -> Iterable[Node]:
    """Return the providers that give a tree a row; a sharing provider of a part of the request is none."""
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
    """Return how often the request fits in all, and whether that number is exact."""
    shared = [name for name in want.amounts if any(supply.lent[name] for supply in supplies)]
    pools = {
        name: Pools({uuid: slots for supply in supplies for uuid, slots in supply.lent[name].items()})
        for name in shared
    }
    total = sum(_hand_out(supply, pools) for supply in supplies)
    exact = len(shared) < 2 or total == sum(supply.count for supply in supplies)
    return total, exact


def _hand_out(supply: _Supply, pools: Mapping[str, Pools]) -> int:
    """Return how often the request fits on the tree, after what was already taken from the pools."""
    drawn = {
        name: pool.take(frozenset(supply.lent[name]), supply.count - supply.own[name])
        for name, pool in pools.items()
    }
    count = min([supply.count, *(supply.own[name] + amount for name, amount in drawn.items())])
    for name, pool in pools.items():
        needed = max(0, count - supply.own[name])
        pool.give_back(frozenset(supply.lent[name]), drawn[name] - needed)
    return count
