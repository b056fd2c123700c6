# SPDX-License-Identifier: Apache-2.0
"""The functions that read the snapshot from the database, completely or as far as it changed.

What makes a snapshot stale, and what is read again then, is listed in the docstring of `server.snapshot`.

`load` and `refresh` run in one read transaction, whose first statement reads the mark of the vector (see
`vector`), so the vector and the snapshot kept with it belong to one moment. The cost of a refresh is
proportional to the changes that our servers recorded, and does not depend on the size of the cloud, unless
everything has to be compared. A fingerprint that was carried forward by the recorded changes and differs
nevertheless tells that another program wrote.
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
    find_stocked,
    read_class_names,
    read_memberships,
    read_rows,
    read_stock_times,
    read_stocks,
    read_trait_times,
    read_traits,
    read_usage,
)
from osc_placement.server.snapshot.vector import Vector, WentBack, find_changes, read_mark, read_vector

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.engine import Connection

    from osc_placement.server.db.writers import Changes
    from osc_placement.server.snapshot.fingerprint import Fingerprint


@dataclass(frozen=True, slots=True)
class Loaded:
    """A snapshot with the data that a refresh needs; it is immutable.

    :ivar vector: None without the tables of our own
    :ivar fingerprint: as it is if nobody but this server's processes wrote since it was taken
    :ivar class_names: the existing resource classes, by id
    :ivar trait_times: the time of the last modification of each of the existing traits, by name
    :ivar memberships: the aggregates of each provider, by provider's id
    """

    vector: Vector | None
    fingerprint: Fingerprint
    snapshot: Snapshot
    rows: Rows
    class_names: Mapping[int, str]
    trait_times: Mapping[str, datetime | None]
    memberships: Mapping[int, tuple[str, ...]]

    def check_names(self, trait_names: Collection[str], classes: Collection[str]) -> None:
        """Raise an error if one of these traits and classes does not exist.

        :raises errors.TraitNotFound: a trait does not exist
        :raises errors.ResourceClassNotFound: a class does not exist
        """
        for name in sorted(set(trait_names) - self.trait_times.keys()):
            raise errors.TraitNotFound(name)
        known = set(self.class_names.values())
        for name in classes:
            if name not in known:
                raise errors.ResourceClassNotFound(name)


class _Unrecorded(Exception):
    """A provider changed in another way than was recorded."""


def load(conn: Connection, *, own_tables: bool) -> Loaded:
    """Return all providers, with their inventories, traits and aggregates."""
    return _load(conn, read_vector(conn, read_mark(conn))[0] if own_tables else None)


def _load(conn: Connection, vector: Vector | None) -> Loaded:
    taken = fingerprint.take(conn, own_tables=vector is not None)
    rows = read_rows(conn, None)
    class_names = read_class_names(conn)
    memberships = read_memberships(conn, None)
    stocks = read_stocks(conn, None, class_names)
    stocked = read_stock_times(conn, None)
    trait_names = read_traits(conn, None)
    snapshot = Snapshot(
        _make_node(
            row, stocks.get(id_, {}), stocked.get(id_), trait_names.get(id_, ()), memberships.get(id_, ())
        )
        for id_, row in rows.items()
    )
    times = read_trait_times(conn)
    return Loaded(vector, taken, snapshot, Rows(rows), class_names, times, memberships)


def refresh(conn: Connection, old: Loaded, *, own_tables: bool, compare: bool = False) -> tuple[Loaded, bool]:
    """Return the same as `load`, reading only the data that can have changed since.

    :param compare: whether to find the changes of other programs, too; without the tables of our own this is
        always done
    :return: the snapshot, and whether another program was found to have written
    """
    if not own_tables:
        return _compare(conn, old, None)[0], False
    mark = read_mark(conn)
    if old.vector is None:
        return _load(conn, read_vector(conn, mark)[0]), False
    if mark == old.vector.mark:
        return _compare(conn, old, old.vector) if compare else (old, False)
    vector, recent = read_vector(conn, mark, old.vector)
    # a server of an earlier release wrote
    found = mark.counted_at > old.vector.mark.counted_at
    # another worker found that another program writes
    compare = compare or found or vector.strangers_at != old.vector.strangers_at
    try:
        changes = find_changes(old.vector, vector, recent)
    except WentBack:
        return _load(conn, vector), found
    if changes is None or changes.everything or len(changes.used) > MANY:
        touched = changes.used if changes is not None else ()
        return _compare(conn, old, vector, touched)[0], found
    try:
        followed = _follow(conn, old, vector, changes)
    except _Unrecorded:
        return _compare(conn, old, vector, changes.used)[0], True
    if not compare:
        return followed, False
    compared, differs = _compare(conn, followed, vector)
    return compared, found or differs


def _follow(conn: Connection, old: Loaded, vector: Vector, changes: Changes) -> Loaded:
    """Return the snapshot with the recorded changes.

    :raises _Unrecorded: another program changed one of the providers
    """
    before, sums = old.rows.by_id, old.fingerprint
    class_names, trait_times = old.class_names, old.trait_times
    if changes.names:
        class_names, trait_times = read_class_names(conn), read_trait_times(conn)
        if class_names != old.class_names:
            if any(class_names.get(id_, name) != name for id_, name in old.class_names.items()):
                return _load(conn, vector)
            # inventory of a class that was deleted stays if it was created meanwhile, and a new class may
            # have the id of a deleted one
            changes.contents |= find_stocked(conn, class_names.keys() ^ old.class_names.keys())
            changes.used |= changes.contents
        sums = sums._replace(traits=None, classes=None)
    sums = sums._replace(consumers=sums.consumers + changes.consumers)
    if not changes.used:
        return replace(old, vector=vector, fingerprint=sums, class_names=class_names, trait_times=trait_times)
    present = read_rows(conn, sorted(changes.used))
    for id_ in changes.used - changes.rows:
        # another program wrote to a row that is not as the recorded changes leave it
        was, row = before.get(id_), present.get(id_)
        if was is None or row is None or row.place != was.place:
            raise _Unrecorded
        if (row.generation or 0) != (was.generation or 0) + changes.moves[id_]:
            raise _Unrecorded
    removed = (changes.used - present.keys()) & before.keys()
    contents = changes.contents & present.keys()
    used = present.keys() - contents
    memberships = old.memberships
    if changes.contents:
        memberships = {**memberships, **_read_memberships(conn, contents)}
        for id_ in removed:
            memberships.pop(id_, None)
        sums = sums._replace(memberships=None)
    difference = old.rows.difference(present, removed)
    sums = sums._replace(providers=tuple(map(sum, zip(sums.providers, difference, strict=True))))
    rows = old.rows.replace(present, removed)
    unknown: set[int] = set()
    nodes = _read_nodes(conn, rows, contents, class_names, memberships, unknown)
    if unknown and not unknown.isdisjoint(read_class_names(conn)):
        # another program created the class
        raise _Unrecorded
    if any(not trait_times.keys() >= set(node.traits) for node in nodes.values()):
        raise _Unrecorded
    usage = _by_provider(read_usage(conn, sorted(used)), class_names) if used else {}
    for id_ in used:
        node = old.snapshot.node(id_)
        nodes[id_] = _make_node(
            rows.by_id[id_],
            _with_use(node.stocks, usage.get(id_, {})),
            node.stocked,
            node.traits,
            node.aggregates,
        )
    snapshot = old.snapshot.replace(list(nodes.values()), removed=removed)
    return Loaded(vector, sums, snapshot, rows, class_names, trait_times, memberships)


def _compare(
    conn: Connection, old: Loaded, vector: Vector | None, touched: Collection[int] = ()
) -> tuple[Loaded, bool]:
    """Return the snapshot after a comparison with all that there is, and whether it differs from ``old``.

    :param touched: the ids of providers that have to be read again in any case
    """
    taken = fingerprint.take(conn, own_tables=vector is not None)
    before = old.fingerprint
    if taken == before and not touched:
        return (old if vector == old.vector else replace(old, vector=vector)), False
    if taken.identity != before.identity:
        return _load(conn, vector), True
    class_names, trait_times, stocked = old.class_names, old.trait_times, frozenset[int]()
    if taken.traits != before.traits:
        trait_times = read_trait_times(conn)
    if taken.classes != before.classes:
        class_names = read_class_names(conn)
        if any(class_names.get(id_, name) != name for id_, name in old.class_names.items()):
            return _load(conn, vector), True
        stocked = frozenset(find_stocked(conn, class_names.keys() ^ old.class_names.keys()))
    found = RowChanges(old.rows)
    if taken.providers != before.providers:
        found = find_changed_rows(conn, old.rows)
    rows = found.rows.by_id
    contents = (found.changed | stocked | frozenset(touched)) & rows.keys()
    memberships = old.memberships
    if taken.memberships != before.memberships:
        memberships = read_memberships(conn, None)
    elif contents:
        memberships = {**memberships, **_read_memberships(conn, contents)}
    nodes = _read_nodes(conn, found.rows, contents, class_names, memberships)
    if memberships is not old.memberships:
        for id_ in rows.keys() - contents:
            if memberships.get(id_, ()) != old.memberships.get(id_, ()):
                nodes[id_] = replace(old.snapshot.node(id_), aggregates=memberships.get(id_, ()))
    if found.changed or found.removed or touched or taken.consumers != before.consumers:
        usage = _by_provider(read_usage(conn), class_names)
        for id_ in rows:
            node = nodes.get(id_) or old.snapshot.node(id_)
            used = usage.get(id_, {})
            if any(stock.used != used.get(name, 0) for name, stock in node.stocks.items()):
                nodes[id_] = replace(node, stocks=_with_use(node.stocks, used))
    snapshot = old.snapshot
    if nodes or found.removed:
        snapshot = snapshot.replace(list(nodes.values()), removed=found.removed)
    loaded = Loaded(vector, taken, snapshot, found.rows, class_names, trait_times, memberships)
    differs = (
        bool(nodes or found.removed)
        or taken.consumers != before.consumers
        or (trait_times, class_names) != (old.trait_times, old.class_names)
    )
    return loaded, differs


def _unless_many(ids: Collection[int]) -> list[int] | None:
    """Return the ids in order, or None, which stands for all providers, if reading all costs as much."""
    return None if len(ids) > MANY else sorted(ids)


def _read_memberships(conn: Connection, ids: Collection[int]) -> dict[int, tuple[str, ...]]:
    """Return the memberships of these providers, also of those without any."""
    present = read_memberships(conn, _unless_many(ids)) if ids else {}
    return {id_: present.get(id_, ()) for id_ in ids}


def _read_nodes(
    conn: Connection,
    rows: Rows,
    ids: Collection[int],
    class_names: Mapping[int, str],
    memberships: Mapping[int, tuple[str, ...]],
    unknown: set[int] | None = None,
) -> dict[int, Node]:
    """Read the inventories, usage and traits of these providers; ``unknown`` as for `read_stocks`."""
    if not ids:
        return {}
    wanted = _unless_many(ids)
    stocks = read_stocks(conn, wanted, class_names, unknown)
    stocked = read_stock_times(conn, wanted)
    trait_names = read_traits(conn, wanted)
    return {
        id_: _make_node(
            rows.by_id[id_],
            stocks.get(id_, {}),
            stocked.get(id_),
            trait_names.get(id_, ()),
            memberships.get(id_, ()),
        )
        for id_ in ids
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


def _make_node(
    row: Row,
    stocks: Mapping[str, Stock],
    stocked: datetime | None,
    trait_names: tuple[str, ...],
    aggregates: tuple[str, ...],
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
        stocked,
    )
