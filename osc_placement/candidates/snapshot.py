# SPDX-License-Identifier: Apache-2.0
"""The providers to search, with their inventories, traits and aggregates. Pure.

Every provider has a *slot*, a small number; sets of slots are those of `sets`.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from osc_placement.candidates.layers import Contents, Derived, Kind, Sharing, Topology, find_last_modified
from osc_placement.candidates.sets import Mask, mask_of

if TYPE_CHECKING:
    from datetime import datetime

    from osc_placement.candidates.node import Node

__all__ = ["Kind", "Snapshot"]


class Snapshot:
    """Providers at one moment, with indexes for searching them. Nothing in it changes once it is made.

    :ivar nodes: the providers by slot
    :ivar parent_of: the slot of each provider's parent, None for a root
    :ivar root_of: the slot of the root of each provider's tree
    :ivar slot_by_uuid: the slot of each provider by its UUID
    :ivar uuids: the UUID of each provider, by slot
    :ivar everything: all providers
    :ivar roots: the providers that are the root of their tree
    :ivar sharing: the providers that share their inventory through their aggregates
    :ivar closed: the roots of the trees that no provider shares with, and that share with none
    :ivar lone: the closed roots of trees of one provider
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        """Index the nodes, in time linear in their number.

        A parent or root that is not among the nodes makes its child a root of its own.
        """
        ordered = tuple(sorted(nodes, key=lambda node: node.id))
        topology, contents = Topology(ordered), Contents(ordered)
        self._assemble(topology, contents, Sharing(topology, contents), Derived(len(ordered)))

    def _assemble(self, topology: Topology, contents: Contents, sharing: Sharing, derived: Derived) -> None:
        self._topology, self._contents, self._sharing, self._derived = topology, contents, sharing, derived
        # PERF: searches read these for each provider and each tree
        self.nodes: Sequence[Node] = contents.nodes
        self.parent_of: Sequence[int | None] = topology.parent_of
        self.root_of: Sequence[int] = topology.root_of
        self._in_tree = topology.in_tree
        self.slot_by_uuid: Mapping[str, int] = topology.slot_by_uuid
        self.uuids: Sequence[str] = topology.uuids
        self.everything, self.roots = topology.everything, topology.roots
        self.sharing, self.closed, self.lone = sharing.providers, sharing.closed, sharing.lone
        self.with_free_capacity = contents.with_free_capacity
        self.with_any_trait = contents.with_any_trait
        self.in_any_aggregate = contents.in_any_aggregate
        self.roots_of = topology.roots_of

    def node(self, id_: int) -> Node | None:
        """Return the provider with this database id, or None if there is none."""
        slot = self._topology.slot_by_id.get(id_)
        return None if slot is None else self.nodes[slot]

    def replace(self, changed: Collection[Node], *, removed: Collection[int] = ()) -> Snapshot:
        """Return a snapshot with some nodes added or changed, and without those with the ids ``removed``.

        PERF: if all nodes keep their places, values computed of the other nodes are kept; at 10,000 providers
        this takes 1 ms, and making all indexes again 60 ms.
        """
        slots = self._topology.slot_by_id
        before = {node.id: self.nodes[slots[node.id]] for node in changed if node.id in slots}
        if removed or any(
            node.id not in before
            or (node.uuid, node.parent_id, node.root_id)
            != (before[node.id].uuid, before[node.id].parent_id, before[node.id].root_id)
            for node in changed
        ):
            nodes = {node.id: node for node in self.nodes}
            nodes.update((node.id, node) for node in changed)
            for id_ in removed:
                nodes.pop(id_, None)
            return Snapshot(nodes.values())
        by_slot = {slots[node.id]: node for node in changed}
        contents = self._contents.replace(by_slot)
        sharing = self._sharing
        if any(
            (before[node.id].traits, before[node.id].aggregates) != (node.traits, node.aggregates)
            for node in changed
        ):
            sharing = Sharing(self._topology, contents)
        derived = self._derived.replace(by_slot, {self.root_of[slot] for slot in by_slot})
        new = object.__new__(Snapshot)
        new._assemble(self._topology, contents, sharing, derived)
        return new

    def memo(self, key: Hashable, variant: str = "") -> list[Any]:
        """Return a list with an entry per provider for a value that the caller computes, None at first.

        An entry is kept until the provider changes, also in later snapshots, or until another variant is
        requested.
        """
        memos = self._derived.memos
        known = memos.get(key)
        if known is None or known[0] != variant:
            memos[key] = known = variant, [None] * len(self.nodes)
        return known[1]

    def last_modified(self, slots: Collection[int]) -> datetime | None:
        """Return the time of the latest modification of these providers, or None if none was modified."""
        if len(slots) == len(self.nodes):
            return self._derived.last_modified(self.nodes)
        return find_last_modified(self.nodes[slot] for slot in slots)

    def sharing_in(self, aggregates: Iterable[str]) -> Mask:
        """Return the providers that share with the trees that have a member of these aggregates."""
        return self.sharing & self.in_any_aggregate(aggregates)

    def slots_of_tree(self, root: int) -> Sequence[int]:
        """Return the providers of the tree with this root, ascending."""
        return self._in_tree[root]

    def bits(self, mask: Mask) -> str:
        """Return a set as a text with a character for each provider, ``1`` for those in the set."""
        return bin(mask)[:1:-1].ljust(len(self.nodes), "0")

    def outline(self, root: int) -> tuple[Kind, ...]:
        """Return the `Kind` of each provider of a tree (see `shape`)."""
        outlines = self._derived.outlines
        if root not in outlines:
            slots = self._in_tree[root]
            places = {slot: place for place, slot in enumerate(slots)}
            known, kinds = self._derived.kinds, []
            for slot in slots:
                node = self.nodes[slot]
                parent = self.parent_of[slot]
                # a parent in another tree makes the provider different from all others
                above = -1 if parent is None else places.get(parent, ("elsewhere", parent))
                place = slot == root, above
                stocks = tuple(
                    [
                        (name, stock.free_capacity, stock.inventory.min_unit, stock.inventory.step_size)
                        for name, stock in node.stocks.items()
                    ]
                )
                kinds.append(known.setdefault((place, stocks, node.traits, node.aggregates), Kind(place)))
            outlines[root] = tuple(kinds)
        return outlines[root]

    def free_capacity(self, resource_class: str) -> Sequence[int]:
        """Return the largest amount that fits on each provider, by slot; 0 or less if none."""
        free = self._derived.free_capacity
        if resource_class not in free:
            column = [0] * len(self.nodes)
            for slot in self._contents.by_class.get(resource_class, ()):
                column[slot] = self.nodes[slot].stocks[resource_class].free_capacity
            free[resource_class] = column
        return free[resource_class]

    def is_plain(self, slot: int) -> bool:
        """Return whether a provider takes, of each class, any amount up to its free capacity."""
        known = self._derived.plain[slot]
        if not known:
            plain = all(stock.takes_any_amount for stock in self.nodes[slot].stocks.values())
            self._derived.plain[slot] = known = 2 if plain else 1
        return known == 2

    def lineage(self, slot: int) -> frozenset[int]:
        """Return a provider and everything above it, as a set."""
        lineages = self._topology.lineages
        if slot not in lineages:
            lineages[slot] = frozenset(self.ancestors(slot))
        return lineages[slot]

    def tree(self, root: int) -> Mask:
        """Return the providers of the tree with this root."""
        slots = self._in_tree[root]
        return 1 << root if len(slots) == 1 else mask_of(slots, len(self.nodes))

    def anchors_of(self, sharing_slot: int) -> Mask:
        """Return the roots of the trees with a member of the aggregates of a sharing provider."""
        aggregates = self.nodes[sharing_slot].aggregates
        anchors = self._sharing.anchors
        if aggregates not in anchors:
            anchors[aggregates] = self.roots_of(self.in_any_aggregate(aggregates))
        return anchors[aggregates]

    def ancestors(self, slot: int) -> list[int]:
        """Return a provider and everything above it."""
        line = [slot]
        parent = self.parent_of[slot]
        while parent is not None and parent not in line:
            line.append(parent)
            parent = self.parent_of[parent]
        return line
