# SPDX-License-Identifier: Apache-2.0
"""The view of a cloud that is searched: providers with what they have, offer and belong to. Pure.

Every provider has a *slot*, a small number; sets of them are those of `sets`.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import compress
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from osc_placement.candidates.node import Node
from osc_placement.candidates.sets import Mask, flags_of, mask_of, slots_in

if TYPE_CHECKING:
    from datetime import datetime

#: providers with this trait lend their inventory to the members of their aggregates
SHARING_TRAIT: Final = "MISC_SHARES_VIA_AGGREGATE"

#: how many sets of roots are kept at most, of a few kilobytes each
_KNOWN_ROOTS: Final = 64


class Kind:
    """What providers have in common that no search tells apart: one object for all of them.

    :ivar place: whether it is the root, and where in the tree its parent is
    """

    def __init__(self, place: Hashable) -> None:
        """Take the place in the tree."""
        self.place = place


class Snapshot:
    """Providers at one moment, with indexes for searching them. Nothing in it changes once it is made."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        """Index the nodes, in time linear in their number.

        A parent or root that is not among the nodes makes its child a root of its own.
        """
        self.nodes: Sequence[Node] = tuple(sorted(nodes, key=lambda node: node.id))
        self._slot_by_id = {node.id: slot for slot, node in enumerate(self.nodes)}
        self.parent_of: Sequence[int | None] = [
            None if node.parent_id is None else self._slot_by_id.get(node.parent_id) for node in self.nodes
        ]
        self.root_of: Sequence[int] = [
            self._slot_by_id.get(node.root_id, slot) for slot, node in enumerate(self.nodes)
        ]
        self._by_class: dict[str, list[int]] = {}
        self._by_trait: dict[str, list[int]] = {}
        self._by_aggregate: dict[str, list[int]] = {}
        for slot, node in enumerate(self.nodes):
            self._index(slot, node)
        trees: dict[int, list[int]] = {}
        for slot, root in enumerate(self.root_of):
            trees.setdefault(root, []).append(slot)
        self._in_tree: Mapping[int, Sequence[int]] = {root: tuple(slots) for root, slots in trees.items()}
        self._kinds: WeakValueDictionary[Hashable, Kind] = WeakValueDictionary()

    def _index(self, slot: int, node: Node) -> None:
        for name in node.classes_left:
            self._by_class.setdefault(name, []).append(slot)
        for trait in node.traits:
            self._by_trait.setdefault(trait, []).append(slot)
        for aggregate in node.aggregates:
            self._by_aggregate.setdefault(aggregate, []).append(slot)

    def node(self, id_: int) -> Node:
        """The provider with this id of the database's."""
        return self.nodes[self._slot_by_id[id_]]

    def replace(self, changed: Collection[Node], *, removed: Collection[int] = ()) -> Snapshot:
        """The snapshot with some nodes added or changed, and those with the ids ``removed`` gone."""
        if removed or any(self._is_elsewhere(node) for node in changed):
            nodes = {node.id: node for node in self.nodes}
            nodes.update((node.id, node) for node in changed)
            for id_ in removed:
                nodes.pop(id_, None)
            return Snapshot(nodes.values())
        return self._with_contents(changed)

    def _is_elsewhere(self, node: Node) -> bool:
        slot = self._slot_by_id.get(node.id)
        if slot is None:
            return True
        before = self.nodes[slot]
        return (before.uuid, before.parent_id, before.root_id) != (node.uuid, node.parent_id, node.root_id)

    def _with_contents(self, changed: Collection[Node]) -> Snapshot:
        """The snapshot with nodes that hold something else, in the same places.

        PERF: what was found out about the others is taken over; at 10,000 providers this is 1 ms, and making
        all indexes anew 60 ms.
        """
        new = object.__new__(Snapshot)
        new.__dict__.update(self.__dict__)
        nodes = list(self.nodes)
        new.nodes = nodes
        new._by_class, new._by_trait = dict(self._by_class), dict(self._by_trait)
        new._by_aggregate = dict(self._by_aggregate)
        new.__dict__["_masks"] = dict(self._masks)
        slots = [self._slot_by_id[node.id] for node in changed]
        for slot, node in zip(slots, changed, strict=True):
            before = nodes[slot]
            nodes[slot] = node
            new._move("class", new._by_class, slot, before.classes_left, node.classes_left)
            new._move("trait", new._by_trait, slot, before.traits, node.traits)
            new._move("aggregate", new._by_aggregate, slot, before.aggregates, node.aggregates)
            if (before.traits, before.aggregates) != (node.traits, node.aggregates):
                for name in ("sharing", "lone", "closed", "_anchors"):
                    new.__dict__.pop(name, None)
        new._forget(slots)
        return new

    def _move(
        self,
        kind: str,
        index: dict[str, list[int]],
        slot: int,
        before: Collection[str],
        after: Collection[str],
    ) -> None:
        """Take a provider out of the sets it was in and put it in those it is in now."""
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

    def _forget(self, slots: Sequence[int]) -> None:
        """Forget what was found out about providers.

        What is looked through is copied first: requests that still use the snapshot before add to it.
        """
        rooms: dict[str, Sequence[int]] = {}
        for name, column in dict(self._rooms).items():
            copy = list(column)
            for slot in slots:
                stock = self.nodes[slot].stocks.get(name)
                copy[slot] = 0 if stock is None else max(0, stock.room)
            rooms[name] = copy
        self.__dict__["_rooms"] = rooms
        plain = bytearray(self._plain)
        for slot in slots:
            plain[slot] = 0
        self.__dict__["_plain"] = plain
        memos = {}
        for key, (variant, memo) in dict(self._memos).items():
            copied = list(memo)
            for slot in slots:
                copied[slot] = None
            memos[key] = variant, copied
        self.__dict__["_memos"] = memos
        self.__dict__.pop("_last_modified", None)
        outlines = dict(self._outlines)
        for slot in slots:
            outlines.pop(self.root_of[slot], None)
        self.__dict__["_outlines"] = outlines

    @cached_property
    def _memos(self) -> dict[Hashable, tuple[str, list[Any]]]:
        return {}

    def memo(self, key: Hashable, variant: str = "") -> list[Any]:
        """A place per provider for what somebody derives of each; None where that has not been done yet.

        What is put there stays for as long as the provider holds the same, in later snapshots too, or until
        another variant is asked for.
        """
        known = self._memos.get(key)
        if known is None or known[0] != variant:
            self._memos[key] = known = variant, [None] * len(self.nodes)
        return known[1]

    @cached_property
    def slot_by_uuid(self) -> Mapping[str, int]:
        """The slot of each provider by its UUID."""
        return {node.uuid: slot for slot, node in enumerate(self.nodes)}

    @cached_property
    def uuids(self) -> Sequence[str]:
        """The UUID of each provider, by slot."""
        return [node.uuid for node in self.nodes]

    def last_modified(self, slots: Collection[int]) -> datetime | None:
        """When the last of these providers was modified that was; None if none was."""
        if len(slots) == len(self.nodes):
            return self._last_modified
        return _latest(self.nodes[slot] for slot in slots)

    @cached_property
    def _last_modified(self) -> datetime | None:
        return _latest(self.nodes)

    @cached_property
    def everything(self) -> Mask:
        """All providers."""
        return (1 << len(self.nodes)) - 1

    @cached_property
    def roots(self) -> Mask:
        """The providers that are the root of their tree."""
        return mask_of(self._in_tree, len(self.nodes))

    @cached_property
    def sharing(self) -> Mask:
        """The providers that lend their inventory through their aggregates."""
        return self.with_any_trait((SHARING_TRAIT,))

    @cached_property
    def _masks(self) -> dict[tuple[str, str], Mask]:
        return {}

    def _cached_mask(self, kind: str, name: str, index: Mapping[str, Sequence[int]]) -> Mask:
        if name not in index:
            # there is no end to the names that clients make up
            return 0
        key = kind, name
        if key not in self._masks:
            self._masks[key] = mask_of(index[name], len(self.nodes))
        return self._masks[key]

    def with_room(self, resource_class: str) -> Mask:
        """The providers that have some of a class left."""
        return self._cached_mask("class", resource_class, self._by_class)

    def with_any_trait(self, traits: Iterable[str]) -> Mask:
        """The providers that have at least one of the traits."""
        mask = 0
        for trait in traits:
            mask |= self._cached_mask("trait", trait, self._by_trait)
        return mask

    def in_any_aggregate(self, aggregates: Iterable[str]) -> Mask:
        """The providers that are in at least one of the aggregates."""
        mask = 0
        for aggregate in aggregates:
            mask |= self._cached_mask("aggregate", aggregate, self._by_aggregate)
        return mask

    def slots_of_tree(self, root: int) -> Sequence[int]:
        """The providers of the tree with this root, ascending."""
        return self._in_tree[root]

    def bits(self, mask: Mask) -> str:
        """A set as a text of as many characters as there are providers, ``1`` for those in it."""
        return bin(mask)[:1:-1].ljust(len(self.nodes), "0")

    @cached_property
    def lone(self) -> Mask:
        """The roots that are all of their tree, and that no other provider lends to."""
        alone = mask_of((root for root, slots in self._in_tree.items() if len(slots) == 1), len(self.nodes))
        return alone & self.closed

    @cached_property
    def closed(self) -> Mask:
        """The roots of the trees that nobody lends to, and that lend to nobody."""
        involved = self.sharing
        for aggregates in {self.nodes[slot].aggregates for slot in slots_in(self.sharing)}:
            involved |= self.in_any_aggregate(aggregates)
        return self.roots & ~self.roots_of(involved)

    @cached_property
    def _outlines(self) -> dict[int, tuple[Kind, ...]]:
        return {}

    def outline(self, root: int) -> tuple[Kind, ...]:
        """The kinds of the providers of a tree; equal for trees that are alike, and compared at once."""
        if root not in self._outlines:
            slots = self._in_tree[root]
            places = {slot: place for place, slot in enumerate(slots)}
            self._outlines[root] = tuple([self._kind(slot, root, places) for slot in slots])
        return self._outlines[root]

    def _kind(self, slot: int, root: int, places: Mapping[int, int]) -> Kind:
        node = self.nodes[slot]
        parent = self.parent_of[slot]
        # a parent in another tree is like no other's
        above = -1 if parent is None else places.get(parent, ("elsewhere", parent))
        place = slot == root, above
        stocks = tuple(
            [
                (name, stock.room, stock.inventory.min_unit, stock.inventory.step_size)
                for name, stock in node.stocks.items()
            ]
        )
        # it stays for as long as a tree is known to have it
        return self._kinds.setdefault((place, stocks, node.traits, node.aggregates), Kind(place))

    @cached_property
    def _rooms(self) -> dict[str, Sequence[int]]:
        return {}

    def rooms(self, resource_class: str) -> Sequence[int]:
        """Of each provider, the largest amount that it has room for; 0 or less if none."""
        if resource_class not in self._rooms:
            column = [0] * len(self.nodes)
            for slot in self._by_class.get(resource_class, ()):
                column[slot] = self.nodes[slot].stocks[resource_class].room
            self._rooms[resource_class] = column
        return self._rooms[resource_class]

    @cached_property
    def _plain(self) -> bytearray:
        return bytearray(len(self.nodes))

    def is_plain(self, slot: int) -> bool:
        """Whether a provider takes any amount, of each class, that it has room for."""
        known = self._plain[slot]
        if not known:
            plain = all(stock.takes_any_amount for stock in self.nodes[slot].stocks.values())
            self._plain[slot] = known = 2 if plain else 1
        return known == 2

    @cached_property
    def _lineages(self) -> dict[int, frozenset[int]]:
        return {}

    def lineage(self, slot: int) -> frozenset[int]:
        """A provider and everything above it, as a set."""
        if slot not in self._lineages:
            self._lineages[slot] = frozenset(self.ancestors(slot))
        return self._lineages[slot]

    def tree(self, root: int) -> Mask:
        """The providers of the tree with this root."""
        slots = self._in_tree[root]
        return 1 << root if len(slots) == 1 else mask_of(slots, len(self.nodes))

    def roots_of(self, mask: Mask) -> Mask:
        """The roots of the trees that these providers are in.

        PERF: the last ones are kept, for like groups, and requests after each other, ask for the same. Eight
        groups on 1,000 hosts with sixteen devices each took 32 ms without, and take 18.
        """
        roots = mask & self.roots
        below = mask & ~self.roots
        if not below:
            return roots
        known = self._known_roots
        above = known.get(below)
        if above is None:
            above = mask_of(set(compress(self.root_of, flags_of(below))), len(self.nodes))
            if len(known) >= _KNOWN_ROOTS:
                known.clear()
            known[below] = above
        return roots | above

    @cached_property
    def _known_roots(self) -> dict[Mask, Mask]:
        # stays true in later snapshots of the same trees
        return {}

    @cached_property
    def _anchors(self) -> dict[tuple[str, ...], Mask]:
        return {}

    def anchors_of(self, sharing_slot: int) -> Mask:
        """The roots of the trees that a sharing provider lends to: those with a member of its aggregates."""
        aggregates = self.nodes[sharing_slot].aggregates
        if aggregates not in self._anchors:
            self._anchors[aggregates] = self.roots_of(self.in_any_aggregate(aggregates))
        return self._anchors[aggregates]

    def ancestors(self, slot: int) -> list[int]:
        """A provider and everything above it."""
        line = [slot]
        parent = self.parent_of[slot]
        while parent is not None and parent not in line:
            line.append(parent)
            parent = self.parent_of[parent]
        return line


def _latest(nodes: Iterable[Node]) -> datetime | None:
    return max((node.modified for node in nodes if node.modified is not None), default=None)
