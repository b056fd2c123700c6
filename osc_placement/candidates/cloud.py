# SPDX-License-Identifier: Apache-2.0
"""A cloud as a client reads it; the candidate search decides what a tree is and who shares with it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from osc_placement.candidates.node import Node, Stock
from osc_placement.candidates.sets import slots_in
from osc_placement.candidates.snapshot import Snapshot
from osc_placement.model import ProviderRecord


class CloudView:
    """The providers of a cloud at one time; immutable.

    A provider whose parent is not among them is a root, so a part of a tree is a tree too.

    :ivar records: the providers by UUID, in the order in which they were given
    :ivar snapshot: the same as the candidate search (`candidates.search`) reads it; slots are in the order of
        names
    :ivar nodes: the nodes of the snapshot, sorted by name
    """

    def __init__(self, records: Iterable[ProviderRecord]) -> None:
        self.records: Mapping[str, ProviderRecord] = {record.provider.uuid: record for record in records}
        self.snapshot = Snapshot(_make_nodes(self.records))
        self.nodes = self.snapshot.nodes
        #: the sharing providers by the aggregates of the trees that they share with
        self._sharing: dict[frozenset[str], Sequence[int]] = {}

    def node(self, uuid: str) -> Node:
        """Return the provider with this UUID."""
        return self.nodes[self.snapshot.slot_by_uuid[uuid]]

    @cached_property
    def roots(self) -> Sequence[Node]:
        """Return the roots of all trees."""
        return [self.nodes[slot] for slot in slots_in(self.snapshot.roots)]

    @cached_property
    def _children(self) -> Mapping[int, Sequence[Node]]:
        children: dict[int, list[Node]] = {}
        for node, parent in zip(self.nodes, self.snapshot.parent_of, strict=True):
            if parent is not None:
                children.setdefault(parent, []).append(node)
        return children

    def children(self, node: Node) -> Sequence[Node]:
        """Return the providers directly below one."""
        return self._children.get(self.snapshot.slot_by_uuid[node.uuid], ())

    def ancestry(self, node: Node) -> Sequence[Node]:
        """Return a provider, its parent and so on up to the root."""
        slots = self.snapshot.ancestors(self.snapshot.slot_by_uuid[node.uuid])
        return [self.nodes[slot] for slot in slots]

    def root_of(self, uuid: str) -> Node:
        """Return the root of the tree that a provider is in."""
        return self.nodes[self.snapshot.root_of[self.snapshot.slot_by_uuid[uuid]]]

    def tree_of(self, uuid: str) -> Sequence[Node]:
        """Return the tree that a provider is in, each provider before its descendants."""
        # not recursive: a chain of providers may be longer than Python's recursion limit
        tree = []
        waiting = [self.root_of(uuid)]
        while waiting:
            node = waiting.pop()
            tree.append(node)
            waiting.extend(reversed(self.children(node)))
        return tree

    def sharing_with(self, uuid: str) -> Sequence[Node]:
        """Return the providers outside the tree of a provider that share with it."""
        tree = self.snapshot.slots_of_tree(self.snapshot.root_of[self.snapshot.slot_by_uuid[uuid]])
        aggregates = frozenset(aggregate for slot in tree for aggregate in self.nodes[slot].aggregates)
        if aggregates not in self._sharing:
            self._sharing[aggregates] = tuple(slots_in(self.snapshot.sharing_in(aggregates)))
        return [self.nodes[slot] for slot in self._sharing[aggregates] if slot not in tree]

    @cached_property
    def classes(self) -> Sequence[str]:
        """Return every resource class of which a provider has an inventory."""
        return sorted({name for node in self.nodes for name in node.stocks})


def _make_nodes(records: Mapping[str, ProviderRecord]) -> list[Node]:
    """Return the nodes of the providers, numbered in the order of their names."""
    ordered = sorted(records, key=lambda uuid: (records[uuid].provider.name, uuid))
    ids = {uuid: number for number, uuid in enumerate(ordered)}
    parents = {uuid: ids.get(record.provider.parent_provider_uuid or "") for uuid, record in records.items()}
    roots: dict[str, int] = {}
    nodes = []
    for uuid in ordered:
        # the topmost ancestor among the given providers, which may have been found already
        path = [uuid]
        while path[-1] not in roots and (above := parents[path[-1]]) is not None:
            if ordered[above] in path:
                # a server that is damaged may have a provider below itself
                break
            path.append(ordered[above])
        root = roots.get(path[-1], ids[path[-1]])
        roots.update(dict.fromkeys(path, root))
        record = records[uuid]
        usages = record.usages or {}
        nodes.append(
            Node(
                ids[uuid],
                uuid,
                parents[uuid],
                root,
                {
                    name: Stock(inventory, usages.get(name, 0))
                    for name, inventory in sorted((record.inventories or {}).items())
                },
                tuple(sorted(record.traits or ())),
                tuple(sorted(record.aggregates or ())),
                record.provider.name,
                record.provider.generation,
            )
        )
    return nodes
