# SPDX-License-Identifier: Apache-2.0
"""The functions that read the snapshot from the database, completely or as far as it changed.

`load` and `refresh` run in one read transaction, whose first statement takes the fingerprint, so the
fingerprint and the snapshot kept with it belong to one moment. A refresh reads only what can have changed:

1. Inventories, traits, memberships and usage are read for providers whose row or revision differs
   (`changes`), regardless of the sums; only usage, if the revision shows that this server changed nothing
   else, and the generation shows that no other program did.
2. Usage is read for all if another program changed usage: a generation was incremented more often than this
   server did, or the sum of consumers changed by more than this server's changes (see `db.revision`). This
   takes a scan of the allocations' index.
3. Memberships are read for all providers if their sums differ, because other programs change them without
   changing the provider's row. Such a change is rare, and reading is cheap.
4. Everything is read again if a class was renamed, or if the database was replaced.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from osc_placement.candidates.node import Node, Stock
from osc_placement.candidates.snapshot import Snapshot
from osc_placement.server import errors
from osc_placement.server.snapshot import fingerprint
from osc_placement.server.snapshot.changes import MANY, RowChanges, Rows, find_changed_rows
from osc_placement.server.snapshot.rows import (
    Row,
    Usage,
    read_class_names,
    read_memberships,
    read_rows,
    read_stocks,
    read_trait_names,
    read_traits,
    read_usage,
)

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from osc_placement.server.snapshot.fingerprint import Fingerprint


@dataclass(frozen=True, slots=True)
class Loaded:
    """A snapshot with the data that a refresh needs; it is immutable.

    :ivar class_names: the existing resource classes, by id
    :ivar trait_names: the existing traits
    :ivar memberships: the aggregates of each provider, by provider's id
    """

    fingerprint: Fingerprint
    snapshot: Snapshot
    rows: Rows
    class_names: Mapping[int, str]
    trait_names: frozenset[str]
    memberships: Mapping[int, tuple[str, ...]]

    def check_names(self, trait_names: Collection[str], classes: Collection[str]) -> None:
        """Raise an error if one of these traits and classes does not exist.

        :raises errors.TraitNotFound: a trait does not exist
        :raises errors.ResourceClassNotFound: a class does not exist
        """
        for name in sorted(set(trait_names) - self.trait_names):
            raise errors.TraitNotFound(name)
        known = set(self.class_names.values())
        for name in classes:
            if name not in known:
                raise errors.ResourceClassNotFound(name)


def load(conn: Connection, *, revisions_kept: bool) -> Loaded:
    """Return all providers, with their inventories, traits and aggregates."""
    taken = fingerprint.take(conn, revisions_kept=revisions_kept)
    return _load(conn, taken, revisions_kept)


def _load(conn: Connection, taken: Fingerprint, revisions_kept: bool) -> Loaded:
    rows = read_rows(conn, None, revisions_kept)
    class_names = read_class_names(conn)
    memberships = read_memberships(conn, None)
    stocks = read_stocks(conn, None, class_names)
    trait_names = read_traits(conn, None)
    snapshot = Snapshot(
        _make_node(row, stocks.get(id_, {}), trait_names.get(id_, ()), memberships.get(id_, ()))
        for id_, row in rows.items()
    )
    return Loaded(taken, snapshot, Rows.of(rows), class_names, read_trait_names(conn), memberships)


def refresh(conn: Connection, old: Loaded, *, revisions_kept: bool) -> Loaded:
    """Return the same as `load`, reading only the data that can have changed since."""
    taken = fingerprint.take(conn, revisions_kept=revisions_kept)
    if taken == old.fingerprint:
        return old
    if taken.identity != old.fingerprint.identity:
        return _load(conn, taken, revisions_kept)
    class_names = old.class_names
    if taken.classes != old.fingerprint.classes:
        class_names = read_class_names(conn)
        if any(class_names.get(id_, name) != name for id_, name in old.class_names.items()):
            return _load(conn, taken, revisions_kept)
    changes = _Changes.find(conn, old, taken, revisions_kept)
    trait_names = old.trait_names
    if taken.traits != old.fingerprint.traits:
        trait_names = read_trait_names(conn)
    nodes = _changed_nodes(conn, old, changes, class_names)
    snapshot = old.snapshot.replace(nodes, removed=changes.found.removed)
    return Loaded(taken, snapshot, changes.found.rows, class_names, trait_names, changes.memberships)


@dataclass(frozen=True, slots=True)
class _Changes:
    """The differences from the loaded snapshot.

    :ivar found: the changes of the rows of providers
    :ivar used: ids of providers of which only the usage differs
    :ivar moved: ids of providers whose memberships differ
    :ivar all_usage: whether usage may have changed anywhere
    """

    found: RowChanges
    used: frozenset[int]
    memberships: Mapping[int, tuple[str, ...]]
    moved: frozenset[int]
    all_usage: bool

    @classmethod
    def find(cls, conn: Connection, old: Loaded, taken: Fingerprint, revisions_kept: bool) -> _Changes:
        before = old.fingerprint
        found = find_changed_rows(conn, old.rows, before, taken, revisions_kept=revisions_kept)
        rows, old_rows = found.rows.by_id, old.rows.by_id
        used = frozenset(
            id_ for id_ in found.changed if id_ in old_rows and rows[id_].differs_in_use_only(old_rows[id_])
        )
        memberships, moved = old.memberships, frozenset[int]()
        if taken.memberships != before.memberships:
            memberships = read_memberships(conn, None)
            moved = frozenset(id_ for id_ in rows if memberships.get(id_, ()) != old.memberships.get(id_, ()))
        elif anew := found.changed - used:
            present = read_memberships(conn, _unless_many(anew))
            memberships = {**old.memberships, **{id_: present.get(id_, ()) for id_ in anew}}
        all_usage = taken.consumers_of_others != before.consumers_of_others or any(
            rows[id_].moves_of_others != (old_rows[id_].moves_of_others if id_ in old_rows else 0)
            for id_ in found.changed
        )
        return cls(found, used, memberships, moved, all_usage)


def _unless_many(ids: Collection[int]) -> list[int] | None:
    """Return the ids in order, or None, which stands for all providers, if reading all costs as much."""
    return None if len(ids) > MANY else sorted(ids)


def _changed_nodes(
    conn: Connection, old: Loaded, changes: _Changes, class_names: Mapping[int, str]
) -> list[Node]:
    """Return the nodes that changed, reading only the parts that may differ."""
    rows, used = changes.found.rows.by_id, changes.used
    nodes = _reread(conn, changes, changes.found.changed - used, class_names)
    usage: dict[int, dict[str, int]] = {}
    if used or changes.all_usage:
        ids = None if changes.all_usage else _unless_many(used)
        usage = _by_provider(read_usage(conn, ids), class_names)
    for id_ in used:
        present = old.snapshot.node(id_)
        stocks = _with_use(present.stocks, usage.get(id_, {}))
        nodes[id_] = _make_node(rows[id_], stocks, present.traits, present.aggregates)
    for id_ in changes.moved:
        present = nodes.get(id_) or old.snapshot.node(id_)
        nodes[id_] = replace(present, aggregates=changes.memberships.get(id_, ()))
    if changes.all_usage:
        _apply_usage(old, changes, nodes, usage)
    return list(nodes.values())


def _reread(
    conn: Connection, changes: _Changes, changed: Collection[int], class_names: Mapping[int, str]
) -> dict[int, Node]:
    """Read the nodes with these ids again; an id may belong to a new provider, if one was deleted."""
    if not changed:
        return {}
    ids = _unless_many(changed)
    stocks = read_stocks(conn, ids, class_names)
    trait_names = read_traits(conn, ids)
    return {
        id_: _make_node(
            changes.found.rows.by_id[id_],
            stocks.get(id_, {}),
            trait_names.get(id_, ()),
            changes.memberships.get(id_, ()),
        )
        for id_ in changed
    }


def _by_provider(usage: Usage, class_names: Mapping[int, str]) -> dict[int, dict[str, int]]:
    """Return the amounts by name of class, by id of provider."""
    by_provider: dict[int, dict[str, int]] = {}
    for (id_, class_id), amount in usage.items():
        if class_id in class_names:
            by_provider.setdefault(id_, {})[class_names[class_id]] = amount
    return by_provider


def _with_use(stocks: Mapping[str, Stock], used: Mapping[str, int]) -> dict[str, Stock]:
    return {name: replace(stock, used=used.get(name, 0)) for name, stock in stocks.items()}


def _apply_usage(
    old: Loaded, changes: _Changes, nodes: dict[int, Node], usage: Mapping[int, Mapping[str, int]]
) -> None:
    """Add the nodes whose usage changed to ``nodes``."""
    for id_ in changes.found.rows.by_id:
        node = nodes.get(id_) or old.snapshot.node(id_)
        used = usage.get(id_, {})
        if any(stock.used != used.get(name, 0) for name, stock in node.stocks.items()):
            nodes[id_] = replace(node, stocks=_with_use(node.stocks, used))


def _make_node(
    row: Row, stocks: Mapping[str, Stock], trait_names: tuple[str, ...], aggregates: tuple[str, ...]
) -> Node:
    return Node(
        row.id,
        row.uuid,
        row.parent_id,
        row.root_id,
        stocks,
        trait_names,
        aggregates,
        row.name,
        row.generation,
        row.modified,
    )
