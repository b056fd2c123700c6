# SPDX-License-Identifier: Apache-2.0
"""Loading the view of the cloud that is searched, whole or as far as it changed, from one state.

`load` and `refresh` run in one read transaction, whose first statement takes the fingerprint; so a
fingerprint and the view kept under it are of one moment. A refresh looks only at what can have changed:

1. Providers are compared in blocks of ids, by the sums that the fingerprint has of all, and row by row in the
   blocks that differ. Inventories, traits and usage are read for those whose row or revision is another.
2. Usage is read for all if somebody else has changed usage: a generation moved further than this server moved
   it, or consumers came or went that it does not account for (see `revision`). That is when another program
   writes to the database; it costs a scan of the allocations' index.
3. Memberships are read for all if their numbers differ: a rare change, and cheap to read.
4. A class that was renamed makes everything be read again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from osc_placement.server import errors
from osc_placement.server.candidates.node import Node, Stock
from osc_placement.server.candidates.snapshot import Snapshot
from osc_placement.server.db import fingerprint
from osc_placement.server.db.own_tables import provider_revisions
from osc_placement.server.db.snapshot_rows import (
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
from osc_placement.server.db.tables import (
    resource_providers,
)

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from osc_placement.server.db.fingerprint import Fingerprint, Numbers

#: providers whose ids differ in the last bits only are one block, in which changes are looked for together
BLOCK_BITS: Final = 5
#: with more ids than that in question, reading everything is as cheap, and databases limit parameters
MANY: Final = 4000


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
    rows = read_rows(conn, None, revisions_kept)
    class_names = read_class_names(conn)
    memberships = read_memberships(conn)
    stocks = read_stocks(conn, None, class_names, read_usage(conn, None))
    trait_names = read_traits(conn, None)
    snapshot = Snapshot(
        _make_node(row, stocks.get(id_, {}), trait_names.get(id_, ()), memberships.get(id_, ()))
        for id_, row in rows.items()
    )
    blocks = _sum_known(rows.values())
    return Loaded(taken, snapshot, rows, blocks, class_names, read_trait_names(conn), memberships)


def refresh(conn: Connection, old: Loaded, *, revisions_kept: bool) -> Loaded:
    """What `load` would give, reading only what can have changed since."""
    taken = fingerprint.take(conn, revisions_kept=revisions_kept)
    if taken == old.fingerprint:
        return old
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
            memberships = read_memberships(conn)
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
    read = read_rows(conn, ids, revisions_kept)
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
    key = conn.dialect.name
    if key not in _block_texts:
        queries = _provider_blocks(conn.dialect), _revision_blocks()
        _block_texts[key] = [fingerprint.to_text(query, conn.dialect) for query in queries]
    of_providers, of_revisions = _block_texts[key]
    sums = {row[0]: [int(number or 0) for number in row[1:]] for row in conn.exec_driver_sql(of_providers)}
    revisions: dict[int, int] = {}
    if revisions_kept:
        revisions = {row[0]: int(row[1]) for row in conn.exec_driver_sql(of_revisions)}
    return {block: (*numbers, revisions.get(block, 0)) for block, numbers in sums.items()}


# PERF: a millisecond and a half of each refresh was the making of these
_block_texts: dict[str, list[str]] = {}


def _provider_blocks(dialect: sa.Dialect) -> sa.Select[Any]:
    block = resource_providers.c.id.op(">>")(sa.literal_column(str(BLOCK_BITS)))
    return sa.select(block, *fingerprint.provider_sums(dialect)).group_by(block)


def _revision_blocks() -> sa.Select[Any]:
    own = provider_revisions.c
    block = own.provider_id.op(">>")(sa.literal_column(str(BLOCK_BITS)))
    # those of providers that are gone are not of interest
    present = provider_revisions.join(resource_providers, resource_providers.c.id == own.provider_id)
    return sa.select(block, sa.func.sum(own.revision)).select_from(present).group_by(block)


def _changed_nodes(
    conn: Connection, old: Loaded, changes: _Changes, class_names: Mapping[int, str]
) -> list[Node]:
    """The nodes that are others now, with what had to be read of them."""
    nodes: dict[int, Node] = {}
    # whatever is another about a row: it may be of another provider with the id of one that was deleted
    reread = sorted(changes.changed)
    if reread:
        ids = None if len(reread) > MANY else reread
        usage = read_usage(conn, ids)
        stocks = read_stocks(conn, ids, class_names, usage)
        trait_names = read_traits(conn, ids)
        for id_ in reread:
            nodes[id_] = _make_node(
                changes.rows[id_],
                stocks.get(id_, {}),
                trait_names.get(id_, ()),
                changes.memberships.get(id_, ()),
            )
    for id_ in changes.moved - nodes.keys():
        present = old.snapshot.node(id_)
        nodes[id_] = _make_node(
            changes.rows[id_], present.stocks, present.traits, changes.memberships.get(id_, ())
        )
    if changes.all_usage:
        _apply_usage(old, changes, nodes, read_usage(conn, None), class_names)
    return list(nodes.values())


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
