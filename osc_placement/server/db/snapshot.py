# SPDX-License-Identifier: Apache-2.0
"""Loading the view of the cloud that is searched, whole or as far as it changed, from one state.

`load` and `refresh` run in one read transaction, whose first statement takes the fingerprint; so a
fingerprint and the view kept under it are of one moment. A refresh looks only at what can have changed:

1. Providers are compared in blocks of ids, by the sums that the fingerprint has of all, and row by row in the
   blocks that differ. Inventories, traits and usage are read for those whose generation or revision moved.
2. Usage is read for all if somebody else has changed usage: a generation moved further than this server moved
   it, or consumers came or went that it does not account for (see `revision`). That is when another program
   writes to the database; it costs a scan of the allocations' index.
3. Memberships are read for all if their numbers differ: a rare change, and cheap to read.
4. A class that was renamed makes everything be read again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import sqlalchemy as sa

from osc_placement.model import INVENTORY_FIELDS, Inventory
from osc_placement.server import errors
from osc_placement.server.candidates.node import Node, Stock
from osc_placement.server.candidates.snapshot import Snapshot
from osc_placement.server.db import fingerprint
from osc_placement.server.db.own_tables import provider_revisions
from osc_placement.server.db.tables import (
    allocations,
    inventories,
    placement_aggregates,
    resource_classes,
    resource_provider_aggregates,
    resource_provider_traits,
    resource_providers,
    traits,
)

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.engine import Connection

    from osc_placement.server.db.fingerprint import Fingerprint, Numbers

#: providers whose ids differ in the last bits only are one block, in which changes are looked for together
BLOCK_BITS: Final = 5
#: with more ids than that in question, reading everything is as cheap, and databases limit parameters
MANY: Final = 4000

#: (id of provider, id of resource class) to amount
Usage = dict[tuple[int, int], int]


class Row(NamedTuple):
    """A provider's row, and what `revision` counts of it."""

    id: int
    uuid: str
    name: str
    generation: int
    parent_id: int | None
    root_id: int
    modified: datetime | None
    hash: int
    revision: int
    generation_moves: int

    @property
    def moves_of_others(self) -> int:
        """How far the generation has moved that this server did not move it."""
        return self.generation - self.generation_moves


@dataclass(frozen=True, slots=True)
class Loaded:
    """A snapshot, and what has to be known to refresh it; nothing in it is changed once it is made.

    :ivar blocks: the sums of each block of rows
    :ivar class_names: the resource classes there are, by id
    :ivar trait_names: the traits there are
    :ivar memberships: by provider's id, the aggregates it is in
    """

    fingerprint: Fingerprint
    snapshot: Snapshot
    rows: Mapping[int, Row]
    blocks: Mapping[int, Numbers]
    class_names: Mapping[int, str]
    trait_names: frozenset[str]
    memberships: Mapping[int, tuple[str, ...]]

    def check_names(self, trait_names: Collection[str], classes: Collection[str]) -> None:
        """Return if all of these exist.

        :raises errors.TraitNotFound: a trait does not
        :raises errors.ResourceClassNotFound: a class does not
        """
        for name in sorted(set(trait_names) - self.trait_names):
            raise errors.TraitNotFound(name)
        known = set(self.class_names.values())
        for name in classes:
            if name not in known:
                raise errors.ResourceClassNotFound(name)


def load(conn: Connection, *, revisions_kept: bool) -> Loaded:
    """All providers, with what they have, offer and belong to."""
    taken = fingerprint.take(conn, revisions_kept=revisions_kept)
    return _load(conn, taken, revisions_kept)


def _load(conn: Connection, taken: Fingerprint, revisions_kept: bool) -> Loaded:
    rows = _read_rows(conn, None, revisions_kept)
    class_names = _read_class_names(conn)
    memberships = _read_memberships(conn)
    stocks = _read_stocks(conn, None, class_names, _read_usage(conn, None))
    trait_names = _read_traits(conn, None)
    snapshot = Snapshot(
        _make_node(row, stocks.get(id_, {}), trait_names.get(id_, ()), memberships.get(id_, ()))
        for id_, row in rows.items()
    )
    blocks = _sum_known(rows.values())
    return Loaded(taken, snapshot, rows, blocks, class_names, _read_trait_names(conn), memberships)


def refresh(conn: Connection, old: Loaded, *, revisions_kept: bool) -> Loaded:
    """What `load` would give, reading only what can have changed since."""
    taken = fingerprint.take(conn, revisions_kept=revisions_kept)
    if taken == old.fingerprint:
        return old
    class_names = old.class_names
    if taken.classes != old.fingerprint.classes:
        class_names = _read_class_names(conn)
        if any(class_names.get(id_, name) != name for id_, name in old.class_names.items()):
            return _load(conn, taken, revisions_kept)
    changes = _Changes.find(conn, old, taken, revisions_kept)
    trait_names = old.trait_names
    if taken.traits != old.fingerprint.traits:
        trait_names = _read_trait_names(conn)
    nodes = _changed_nodes(conn, old, changes, class_names)
    snapshot = old.snapshot.replace(nodes, removed=changes.removed)
    return Loaded(
        taken, snapshot, changes.rows, changes.blocks, class_names, trait_names, changes.memberships
    )


@dataclass(frozen=True, slots=True)
class _Changes:
    """What differs from what was loaded.

    :ivar changed: ids of providers that are new or whose row or revision is another
    :ivar removed: ids of providers that are gone
    :ivar moved: ids of providers whose memberships are others
    :ivar all_usage: whether usage may have changed anywhere
    """

    rows: Mapping[int, Row]
    blocks: Mapping[int, Numbers]
    changed: frozenset[int]
    removed: frozenset[int]
    memberships: Mapping[int, tuple[str, ...]]
    moved: frozenset[int]
    all_usage: bool

    @classmethod
    def find(cls, conn: Connection, old: Loaded, taken: Fingerprint, revisions_kept: bool) -> _Changes:
        before = old.fingerprint
        rows, blocks, changed, removed = old.rows, old.blocks, frozenset[int](), frozenset[int]()
        if (taken.providers, taken.revisions) != (before.providers, before.revisions):
            blocks = _sum_blocks(conn, revisions_kept)
            rows, changed, removed = _compare_rows(conn, old, blocks, revisions_kept)
        memberships, moved = old.memberships, frozenset[int]()
        if taken.memberships != before.memberships:
            memberships = _read_memberships(conn)
            moved = frozenset(id_ for id_ in rows if memberships.get(id_, ()) != old.memberships.get(id_, ()))
        all_usage = taken.consumers_of_others != before.consumers_of_others or any(
            rows[id_].moves_of_others != (old.rows[id_].moves_of_others if id_ in old.rows else 0)
            for id_ in changed
        )
        return cls(rows, blocks, changed, removed, memberships, moved, all_usage)


def _compare_rows(
    conn: Connection, loaded: Loaded, blocks: Mapping[int, Numbers], revisions_kept: bool
) -> tuple[Mapping[int, Row], frozenset[int], frozenset[int]]:
    """The rows as they are, and the ids of those that are new or others, and of those that are gone."""
    old, known = loaded.rows, loaded.blocks
    differing = {block for block in blocks.keys() | known.keys() if blocks.get(block) != known.get(block)}
    ids = _ids_in(differing) if len(differing) << BLOCK_BITS <= MANY else None
    read = _read_rows(conn, ids, revisions_kept)
    looked_at = old.keys() if ids is None else [id_ for id_ in ids if id_ in old]
    removed = frozenset(id_ for id_ in looked_at if id_ not in read)
    changed = frozenset(id_ for id_, row in read.items() if old.get(id_) != row)
    rows = {**old, **read}
    for id_ in removed:
        del rows[id_]
    return rows, changed, removed


def _ids_in(blocks: Iterable[int]) -> list[int]:
    return [id_ for block in sorted(blocks) for id_ in range(block << BLOCK_BITS, (block + 1) << BLOCK_BITS)]


def _sum_known(rows: Iterable[Row]) -> dict[int, Numbers]:
    sums: dict[int, list[int]] = {}
    for row in rows:
        block = sums.setdefault(row.id >> BLOCK_BITS, [0, 0, 0, 0, 0])
        block[0] += 1
        block[1] += row.id
        block[2] += row.generation
        block[3] += row.hash
        block[4] += row.revision
    return {block: tuple(numbers) for block, numbers in sums.items()}


def _sum_blocks(conn: Connection, revisions_kept: bool) -> dict[int, Numbers]:
    """The sums of each block of providers."""
    block = resource_providers.c.id.op(">>")(sa.literal_column(str(BLOCK_BITS)))
    query = sa.select(block, *fingerprint.provider_sums(conn.dialect)).group_by(block)
    sums = {row[0]: [int(number or 0) for number in row[1:]] for row in _run(conn, query)}
    revisions: dict[int, int] = {}
    if revisions_kept:
        block = provider_revisions.c.provider_id.op(">>")(sa.literal_column(str(BLOCK_BITS)))
        # those of providers that are gone are not of interest
        present = provider_revisions.join(
            resource_providers, resource_providers.c.id == provider_revisions.c.provider_id
        )
        total = sa.func.sum(provider_revisions.c.revision)
        query = sa.select(block, total).select_from(present).group_by(block)
        revisions = {row[0]: int(row[1]) for row in _run(conn, query)}
    return {block: (*numbers, revisions.get(block, 0)) for block, numbers in sums.items()}


def _run(conn: Connection, query: sa.Select[Any]) -> Any:
    return conn.exec_driver_sql(fingerprint.to_text(query, conn.dialect))


def _changed_nodes(
    conn: Connection, old: Loaded, changes: _Changes, class_names: Mapping[int, str]
) -> list[Node]:
    """The nodes that are others now, with what had to be read of them."""
    nodes: dict[int, Node] = {}
    reread = [
        id_
        for id_ in sorted(changes.changed)
        if id_ not in old.rows or _contents(old.rows[id_]) != _contents(changes.rows[id_])
    ]
    if reread:
        ids = None if len(reread) > MANY else reread
        usage = _read_usage(conn, ids)
        stocks = _read_stocks(conn, ids, class_names, usage)
        trait_names = _read_traits(conn, ids)
        for id_ in reread:
            nodes[id_] = _make_node(
                changes.rows[id_],
                stocks.get(id_, {}),
                trait_names.get(id_, ()),
                changes.memberships.get(id_, ()),
            )
    for id_ in (changes.changed | changes.moved) - nodes.keys():
        present = old.snapshot.node(id_)
        nodes[id_] = _make_node(
            changes.rows[id_], present.stocks, present.traits, changes.memberships.get(id_, ())
        )
    if changes.all_usage:
        _apply_usage(old, changes, nodes, _read_usage(conn, None), class_names)
    return list(nodes.values())


def _contents(row: Row) -> tuple[int, int, int]:
    """What moves when a provider's inventories, traits or usage do."""
    return row.generation, row.revision, row.generation_moves


def _apply_usage(
    old: Loaded,
    changes: _Changes,
    nodes: dict[int, Node],
    usage: Usage,
    class_names: Mapping[int, str],
) -> None:
    """Bring the usage of every node up to date, in ``nodes`` where it is another."""
    by_provider: dict[int, dict[str, int]] = {}
    for (id_, class_id), amount in usage.items():
        if class_id in class_names:
            by_provider.setdefault(id_, {})[class_names[class_id]] = amount
    for id_ in changes.rows:
        node = nodes.get(id_) or old.snapshot.node(id_)
        used = by_provider.get(id_, {})
        if any(stock.used != used.get(name, 0) for name, stock in node.stocks.items()):
            stocks = {name: replace(stock, used=used.get(name, 0)) for name, stock in node.stocks.items()}
            nodes[id_] = replace(node, stocks=stocks)


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


def _read_rows(conn: Connection, ids: Collection[int] | None, revisions_kept: bool) -> dict[int, Row]:
    columns = resource_providers.c
    counted: tuple[Any, ...] = (sa.literal(0), sa.literal(0))
    source: sa.FromClause = resource_providers
    if revisions_kept:
        own = provider_revisions.c
        counted = (sa.func.coalesce(own.revision, 0), sa.func.coalesce(own.generation_moves, 0))
        source = resource_providers.outerjoin(provider_revisions, own.provider_id == columns.id)
    query = sa.select(
        columns.id,
        columns.uuid,
        columns.name,
        columns.generation,
        columns.parent_provider_id,
        sa.func.coalesce(columns.root_provider_id, columns.id),
        sa.func.coalesce(columns.updated_at, columns.created_at),
        fingerprint.provider_hash(conn.dialect),
        *counted,
    ).select_from(source)
    return {row[0]: Row(*row) for row in conn.execute(_among(query, columns.id, ids))}


def _among(
    query: sa.Select[Any], column: sa.ColumnElement[int], ids: Collection[int] | None
) -> sa.Select[Any]:
    return query if ids is None else query.where(column.in_(ids))


def _read_class_names(conn: Connection) -> dict[int, str]:
    query = sa.select(resource_classes.c.id, resource_classes.c.name)
    return dict(conn.execute(query).all())


def _read_trait_names(conn: Connection) -> frozenset[str]:
    return frozenset(conn.scalars(sa.select(traits.c.name)))


def _read_usage(conn: Connection, ids: Collection[int] | None) -> Usage:
    columns = allocations.c
    key = columns.resource_provider_id, columns.resource_class_id
    query = sa.select(*key, sa.func.sum(columns.used)).group_by(*key)
    return {
        (row[0], row[1]): int(row[2])
        for row in conn.execute(_among(query, columns.resource_provider_id, ids))
    }


def _read_stocks(
    conn: Connection, ids: Collection[int] | None, class_names: Mapping[int, str], used: Usage
) -> dict[int, dict[str, Stock]]:
    columns = inventories.c
    query = sa.select(
        columns.resource_provider_id,
        columns.resource_class_id,
        *(columns[field] for field in INVENTORY_FIELDS),
    ).order_by(columns.resource_class_id)
    # PERF: thousands of hosts have the same inventory; one object for all saves memory
    known: dict[tuple[Any, ...], Inventory] = {}
    stocks: dict[int, dict[str, Stock]] = {}
    for id_, class_id, *fields in conn.execute(_among(query, columns.resource_provider_id, ids)):
        values = tuple(fields)
        inventory = known.get(values) or known.setdefault(values, Inventory(*values))
        stocks.setdefault(id_, {})[class_names[class_id]] = Stock(inventory, used.get((id_, class_id), 0))
    return stocks


def _read_traits(conn: Connection, ids: Collection[int] | None) -> dict[int, tuple[str, ...]]:
    of = resource_provider_traits.c
    query = sa.select(of.resource_provider_id, traits.c.name).join(traits, of.trait_id == traits.c.id)
    return _gather(conn.execute(_among(query.order_by(traits.c.id), of.resource_provider_id, ids)))


def _read_memberships(conn: Connection) -> dict[int, tuple[str, ...]]:
    of = resource_provider_aggregates.c
    aggregates = placement_aggregates.c
    query = sa.select(of.resource_provider_id, aggregates.uuid).join(
        placement_aggregates, of.aggregate_id == aggregates.id
    )
    return _gather(conn.execute(query.order_by(aggregates.id)))


def _gather(rows: Iterable[Any]) -> dict[int, tuple[str, ...]]:
    """Names by provider; equal lists are one object, as thousands of hosts have the same."""
    names: dict[int, list[str]] = {}
    for id_, name in rows:
        names.setdefault(id_, []).append(name)
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    return {id_: known.setdefault(tuple(listed), tuple(listed)) for id_, listed in names.items()}
