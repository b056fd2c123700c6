# SPDX-License-Identifier: Apache-2.0
"""The resource providers of a cloud with their inventories, traits and aggregates, and their trees. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from osc_placement.model import Inventory, Provider

#: a provider with this trait shares its inventory with the trees that have a member of its aggregates
SHARING_TRAIT: Final = "MISC_SHARES_VIA_AGGREGATE"


@dataclass(frozen=True, slots=True)
class Stock:
    """A provider's inventory of one class, and how much of it is allocated."""

    inventory: Inventory
    used: int = 0

    @property
    def capacity(self) -> int:
        """Return the capacity: how much may be allocated in all."""
        return self.inventory.capacity

    @property
    def free(self) -> int:
        """Return the free capacity; 0 if more is used than the capacity."""
        return max(0, self.capacity - self.used)


@dataclass(frozen=True, slots=True)
class Node:
    """A provider with its inventories, usages, traits and aggregates, as far as they were read."""

    provider: Provider
    stocks: Mapping[str, Stock] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()

    @property
    def uuid(self) -> str:
        """Return the UUID of the provider."""
        return self.provider.uuid

    @property
    def name(self) -> str:
        """Return the name of the provider."""
        return self.provider.name

    @property
    def shares(self) -> bool:
        """Return whether the provider shares its inventory through its aggregates."""
        return SHARING_TRAIT in self.traits


class Cloud:
    """The providers of a cloud at one time, sorted by name; immutable.

    A provider whose parent is not among them is a root, so a part of a tree is a tree too.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes: Sequence[Node] = sorted(nodes, key=lambda node: (node.name, node.uuid))

    @cached_property
    def by_uuid(self) -> Mapping[str, Node]:
        """Return every provider by its UUID."""
        return {node.uuid: node for node in self.nodes}

    @cached_property
    def roots(self) -> Sequence[Node]:
        """Return the roots of all trees."""
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
        """Return the providers directly below one."""
        return self._children.get(node.uuid, ())

    def ancestry(self, node: Node) -> Iterator[Node]:
        """Yield a provider, its parent and so on up to the root."""
        current: Node | None = node
        while current is not None:
            yield current
            current = self.by_uuid.get(current.provider.parent_provider_uuid or "")

    @cached_property
    def trees(self) -> Mapping[str, Sequence[Node]]:
        """Return all providers of each tree by the UUID of its root, each provider before its descendants."""
        return {root.uuid: list(self._walk(root)) for root in self.roots}

    def _walk(self, root: Node) -> Iterator[Node]:
        # not recursive: a chain of providers may be longer than Python's recursion limit
        waiting = [root]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(self.children(node)))

    @cached_property
    def root_of(self) -> Mapping[str, Node]:
        """Return the root of each provider's tree by the provider's UUID."""
        return {node.uuid: nodes[0] for nodes in self.trees.values() for node in nodes}

    @cached_property
    def sharing(self) -> Mapping[str, Sequence[Node]]:
        """Return the sharing providers of each tree, its own ones included, by the UUID of the root."""
        members: dict[str, set[str]] = {}
        for node in self.nodes:
            for aggregate in node.aggregates:
                members.setdefault(aggregate, set()).add(self.root_of[node.uuid].uuid)
        sharing: dict[str, list[Node]] = {root.uuid: [] for root in self.roots}
        for node in self.nodes:
            if node.shares:
                served = {self.root_of[node.uuid].uuid}.union(*(members[name] for name in node.aggregates))
                for root in served:
                    sharing[root].append(node)
        return sharing

    @cached_property
    def classes(self) -> Sequence[str]:
        """Return every resource class of which a provider has an inventory."""
        return sorted({name for node in self.nodes for name in node.stocks})
