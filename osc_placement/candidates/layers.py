# SPDX-License-Identifier: Apache-2.0
"""The layers of a snapshot; a refresh replaces a whole layer if its source data changed. Pure.

`Topology` is computed from the places of providers in trees, `Contents` from their inventories, traits and
aggregates, `Sharing` from traits and aggregates alone, and `Derived` from everything. Each layer fills its
caches on demand; their entries are valid for as long as the layer is used.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from osc_placement.candidates.node import SHARING_TRAIT, Node
from osc_placement.candidates.sets import Mask, flags_of, mask_of, slots_in

if TYPE_CHECKING:
    from datetime import datetime

#: the largest number of sets of roots to keep, of a few kilobytes each
_KNOWN_ROOTS: Final = 64

#: an index: slots by the name of a class, a trait or an aggregate
Index = dict[str, list[int]]


class Kind:
    """An equivalence class of providers that are identical for every search.

    :ivar place: whether it is the root, and where in the tree its parent is
    """

    def __init__(self, place: Hashable) -> None:
        """Take the place in the tree."""
        self.place = place


class Topology:
    """The providers by slot, and the trees that they form.

    :ivar in_tree: the providers of each tree, ascending, by the slot of its root
    :ivar single: the roots of trees of one provider
    :ivar lineages: each provider and everything above it, by slot; filled by `Snapshot.lineage`
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        """Take the nodes by slot.

        A parent or root that is not among the nodes makes its child a root of its own.
        """
        self.slot_by_id = {node.id: slot for slot, node in enumerate(nodes)}
        self.slot_by_uuid = {node.uuid: slot for slot, node in enumerate(nodes)}
        self.uuids = [node.uuid for node in nodes]
        slots = self.slot_by_id
        self.parent_of = [None if node.parent_id is None else slots.get(node.parent_id) for node in nodes]
        self.root_of = [slots.get(node.root_id, slot) for slot, node in enumerate(nodes)]
        trees: dict[int, list[int]] = {}
        for slot, root in enumerate(self.root_of):
            trees.setdefault(root, []).append(slot)
        self.in_tree: Mapping[int, Sequence[int]] = {root: tuple(tree) for root, tree in trees.items()}
        self.size = len(nodes)
        self.everything: Mask = (1 << self.size) - 1
        self.roots = mask_of(self.in_tree, self.size)
        self.single = mask_of((root for root, tree in trees.items() if len(tree) == 1), self.size)
        self.lineages: dict[int, frozenset[int]] = {}
        self._known_roots: dict[Mask, Mask] = {}

    def roots_of(self, mask: Mask) -> Mask:
        """Return the roots of the trees that these providers are in.

        PERF: the last results are kept, because identical groups and consecutive requests ask for the same.
        Eight groups on 1,000 hosts with sixteen devices each took 32 ms without, and take 18.
        """
        roots = mask & self.roots
        below = mask & ~self.roots
        if not below:
            return roots
        known = self._known_roots
        above = known.get(below)
        if above is None:
            above = mask_of(set(compress(self.root_of, flags_of(below))), self.size)
            if len(known) >= _KNOWN_ROOTS:
                known.clear()
            known[below] = above
        return roots | above


class Contents:
    """The nodes by slot, with an index by class, by trait and by aggregate."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        """Index the nodes, which are given by slot."""
        self.nodes = nodes
        self.by_class: Index = {}
        self._by_trait: Index = {}
        self._by_aggregate: Index = {}
        self._masks: dict[tuple[str, str], Mask] = {}
        for slot, node in enumerate(nodes):
            for name in node.classes_left:
                self.by_class.setdefault(name, []).append(slot)
            for trait in node.traits:
                self._by_trait.setdefault(trait, []).append(slot)
            for aggregate in node.aggregates:
                self._by_aggregate.setdefault(aggregate, []).append(slot)

    def replace(self, changed: Mapping[int, Node]) -> Contents:
        """Return contents with the nodes in these slots replaced."""
        new = object.__new__(Contents)
        nodes = list(self.nodes)
        new.nodes = nodes
        new.by_class, new._by_trait = dict(self.by_class), dict(self._by_trait)
        new._by_aggregate = dict(self._by_aggregate)
        new._masks = dict(self._masks)
        for slot, node in changed.items():
            before = nodes[slot]
            nodes[slot] = node
            new._move("class", new.by_class, slot, before.classes_left, node.classes_left)
            new._move("trait", new._by_trait, slot, before.traits, node.traits)
            new._move("aggregate", new._by_aggregate, slot, before.aggregates, node.aggregates)
        return new

    def _move(
        self, kind: str, index: Index, slot: int, before: Collection[str], after: Collection[str]
    ) -> None:
        """Move a provider from the sets it was in to the sets it is in now."""
        if before == after:
            return
        masks = self._masks
        for name in set(before) ^ set(after):
            if name in after:
                index[name] = [*index.get(name, ()), slot]
            else:
                index[name] = [other for other in index[name] if other != slot]
            if (kind, name) in masks:
                masks[kind, name] ^= 1 << slot

    def _mask(self, kind: str, name: str, index: Index) -> Mask:
        if name not in index:
            # a result for an unknown name is not cached, as clients may ask for any number of names
            return 0
        key = kind, name
        if key not in self._masks:
            self._masks[key] = mask_of(index[name], len(self.nodes))
        return self._masks[key]

    def with_free_capacity(self, resource_class: str) -> Mask:
        """Return the providers with free capacity of a class."""
        return self._mask("class", resource_class, self.by_class)

    def with_any_trait(self, traits: Iterable[str]) -> Mask:
        """Return the providers that have at least one of the traits."""
        mask = 0
        for trait in traits:
            mask |= self._mask("trait", trait, self._by_trait)
        return mask

    def in_any_aggregate(self, aggregates: Iterable[str]) -> Mask:
        """Return the providers that are in at least one of the aggregates."""
        mask = 0
        for aggregate in aggregates:
            mask |= self._mask("aggregate", aggregate, self._by_aggregate)
        return mask


class Sharing:
    """The sharing providers and their trees, which change only with traits, aggregates and places.

    :ivar providers: those that share their inventory through their aggregates
    :ivar closed: the roots of the trees that no provider shares with, and that share with none
    :ivar lone: the closed roots of trees of one provider
    :ivar anchors: the roots of the trees that a provider with these aggregates shares with; filled by
        `Snapshot.anchors_of`
    """

    def __init__(self, topology: Topology, contents: Contents) -> None:
        self.providers = contents.with_any_trait((SHARING_TRAIT,))
        involved = self.providers
        for aggregates in {contents.nodes[slot].aggregates for slot in slots_in(self.providers)}:
            involved |= contents.in_any_aggregate(aggregates)
        self.closed = topology.roots & ~topology.roots_of(involved)
        self.lone = topology.single & self.closed
        self.anchors: dict[tuple[str, ...], Mask] = {}


class Derived:
    """Values computed for each provider; a refresh keeps those of the providers that did not change.

    :ivar free_capacity: of each class, the free capacity of each provider; filled by `Snapshot.free_capacity`
    :ivar plain: of each provider 2 if it takes any amount that fits, 1 if not, 0 if not known yet
    :ivar memos: by key, a variant and a value for each provider (see `Snapshot.memo`)
    :ivar outlines: the `Kind` of each provider of a tree, by root; filled by `Snapshot.outline`
    :ivar kinds: every `Kind` by what it is equal in; an entry lives while a tree in ``outlines`` refers to it
    """

    def __init__(self, size: int) -> None:
        """Start without values for this number of providers."""
        self.free_capacity: dict[str, list[int]] = {}
        self.plain = bytearray(size)
        self.memos: dict[Hashable, tuple[str, list[Any]]] = {}
        self.outlines: dict[int, tuple[Kind, ...]] = {}
        self.kinds: WeakValueDictionary[Hashable, Kind] = WeakValueDictionary()
        self._last_modified: tuple[datetime | None] | None = None

    def replace(self, changed: Mapping[int, Node], roots: Iterable[int]) -> Derived:
        """Return the values except those of changed providers and of the trees with these roots.

        A dictionary is copied before iterating, because requests that still use the old snapshot add to it.
        """
        new = object.__new__(Derived)
        new.free_capacity = {}
        for name, column in dict(self.free_capacity).items():
            new.free_capacity[name] = copy = list(column)
            for slot, node in changed.items():
                stock = node.stocks.get(name)
                copy[slot] = 0 if stock is None else max(0, stock.free_capacity)
        new.plain = bytearray(self.plain)
        for slot in changed:
            new.plain[slot] = 0
        new.memos = {}
        for key, (variant, memo) in dict(self.memos).items():
            copied = list(memo)
            for slot in changed:
                copied[slot] = None
            new.memos[key] = variant, copied
        new.outlines = dict(self.outlines)
        for root in roots:
            new.outlines.pop(root, None)
        new.kinds = self.kinds
        new._last_modified = None
        return new

    def last_modified(self, nodes: Iterable[Node]) -> datetime | None:
        """Return the time of the latest modification of any provider, or None if none was modified."""
        if self._last_modified is None:
            self._last_modified = (find_last_modified(nodes),)
        return self._last_modified[0]


def find_last_modified(nodes: Iterable[Node]) -> datetime | None:
    """Return the time of the latest modification of any of the nodes, or None if none was modified."""
    return max((node.modified for node in nodes if node.modified is not None), default=None)
