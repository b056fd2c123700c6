# SPDX-License-Identifier: Apache-2.0
"""Providers with what they have, use and belong to, and the trees they form. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from osc_placement.model import Inventory, Provider

#: providers with this trait lend their inventory to the trees that have a member of their aggregates
SHARING_TRAIT: Final = "MISC_SHARES_VIA_AGGREGATE"


@dataclass(frozen=True, slots=True)
class Stock:
    """A provider's inventory of one class, and how much of it is allocated."""

    inventory: Inventory
    used: int = 0

    @property
    def capacity(self) -> int:
        """What may be allocated in all."""
        return self.inventory.capacity

    @property
    def free(self) -> int:
        """What may still be allocated; nothing where more is used than there is."""
        return max(0, self.capacity - self.used)


@dataclass(frozen=True, slots=True)
class Node:
    """A provider with all that was read of it."""

    provider: Provider
    stocks: Mapping[str, Stock] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()

    @property
    def uuid(self) -> str:
        """The UUID of the provider."""
        return self.provider.uuid

    @property
    def name(self) -> str:
        """The name of the provider."""
        return self.provider.name

    @property
    def shares(self) -> bool:
        """Whether its inventory is lent to others through its aggregates."""
        return SHARING_TRAIT in self.traits


class Cloud:
    """Providers at one time, in alphabetical order; nothing in it changes once it is made.

    A provider whose parent is not among them begins a tree, so a part of a tree is a tree too.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes: Sequence[Node] = sorted(nodes, key=lambda node: (node.name, node.uuid))

    @cached_property
    def by_uuid(self) -> Mapping[str, Node]:
        """Every provider by its UUID."""
        return {node.uuid: node for node in self.nodes}

    @cached_property
    def roots(self) -> Sequence[Node]:
        """The providers that begin a tree."""
        return [node for node in self.nodes if node.provider.parent_provider_uuid not in self.by_uuid]

    @cached_property
    def _children(self) -> Mapping[str, Sequence[Node]]:
        children: dict[str, list[Node]] = {}
        for node in self.nodes:
            parent = node.provider.parent_provider_uuid
            if parent is not None:
                children.setdefault(parent, []).append(node)
        return children

    def children(self, node: Node) -> Sequence[Node]:
        """The providers directly below one."""
        return self._children.get(node.uuid, ())

    def ancestry(self, node: Node) -> Iterator[Node]:
        """A provider, its parent and so on up to the root."""
        current: Node | None = node
        while current is not None:
            yield current
            current = self.by_uuid.get(current.provider.parent_provider_uuid or "")

    @cached_property
    def trees(self) -> Mapping[str, Sequence[Node]]:
        """All providers of each tree by the UUID of its root, a provider before what is below it."""
        return {root.uuid: list(self._walk(root)) for root in self.roots}

    def _walk(self, root: Node) -> Iterator[Node]:
        # not recursive: a chain of providers may be longer than the stack is deep
        waiting = [root]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(self.children(node)))

    @cached_property
    def root_of(self) -> Mapping[str, Node]:
        """The root of the tree that each provider is in, by the provider's UUID."""
        return {node.uuid: nodes[0] for nodes in self.trees.values() for node in nodes}

    @cached_property
    def lenders(self) -> Mapping[str, Sequence[Node]]:
        """The sharing providers that serve each tree, by the root's UUID; those in the tree come too."""
        members: dict[str, set[str]] = {}
        for node in self.nodes:
            for aggregate in node.aggregates:
                members.setdefault(aggregate, set()).add(self.root_of[node.uuid].uuid)
        lenders: dict[str, list[Node]] = {root.uuid: [] for root in self.roots}
        for node in self.nodes:
            if node.shares:
                served = {self.root_of[node.uuid].uuid}.union(*(members[name] for name in node.aggregates))
                for root in served:
                    lenders[root].append(node)
        return lenders

    @cached_property
    def classes(self) -> Sequence[str]:
        """Every resource class that a provider has."""
        return sorted({name for node in self.nodes for name in node.stocks})
