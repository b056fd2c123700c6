# SPDX-License-Identifier: Apache-2.0
"""The statements that read a snapshot, of all providers or of some; one in each function."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import sqlalchemy as sa

from osc_placement.candidates.node import Stock
from osc_placement.model import INVENTORY_FIELDS, Inventory
from osc_placement.server.db import dialects, inventory_rows
from osc_placement.server.db.own_tables import provider_revisions
from osc_placement.server.db.revision import OF_USE
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
from osc_placement.server.snapshot import fingerprint

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.engine import Connection

    from osc_placement.server.db.dialects import Dialect

#: (id of provider, id of resource class) to amount
Usage = dict[tuple[int, int], int]


class Row(NamedTuple):
    """A provider's row, and its row of `db.revision`."""

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
    changed_at: int
    contents_at: int

    @property
    def moves_of_others(self) -> int:
        """Return how often other programs incremented the generation."""
        return self.generation - self.generation_moves

    def differs_in_use_only(self, old: Row) -> bool:
        """Return whether nothing changed since but what is used of the provider (see `db.revision`).

        On SQLite, which may give the id to another, and on PostgreSQL the hash is of the time of the change
        too, so that only what moves no generation is such a change.
        """
        return old._beside_use == self._beside_use

    @property
    def _beside_use(self) -> tuple[Any, ...]:
        # servers of before do not write the time
        return self.uuid, self.hash, self.moves_of_others, self.contents_at, self.revision % OF_USE


class _Read:
    """A statement about all providers and the same about some, built once as building takes long."""

    def __init__(self, query: sa.Select[Any], provider_id: sa.ColumnElement[int]) -> None:
        self._all = query
        self._some = query.where(provider_id.in_(sa.bindparam("ids", expanding=True)))

    def run(self, conn: Connection, ids: Collection[int] | None) -> Any:
        """Return the rows about the providers with these ids, or about all."""
        return conn.execute(self._all) if ids is None else conn.execute(self._some, {"ids": list(ids)})


def read_rows(conn: Connection, ids: Collection[int] | None, revisions_kept: bool) -> dict[int, Row]:
    """Return the row of each provider by id."""
    key = conn.dialect.name, revisions_kept
    if key not in _rows:
        _rows[key] = _Read(_select_rows(dialects.of(conn), revisions_kept), resource_providers.c.id)
    return dict(_row(*fields) for fields in _rows[key].run(conn, ids))


_rows: dict[tuple[str, bool], _Read] = {}
#: the columns of `revision` that a `Row` ends with
_COUNTED: Final = "revision", "generation_moves", "changed_at", "contents_at"


def _select_rows(dialect: Dialect, revisions_kept: bool) -> sa.Select[Any]:
    columns = resource_providers.c
    counted: list[Any] = [sa.literal(0) for _ in _COUNTED]
    source: sa.FromClause = resource_providers
    if revisions_kept:
        own = provider_revisions.c
        counted = [sa.func.coalesce(own[name], 0) for name in _COUNTED]
        source = resource_providers.outerjoin(provider_revisions, own.provider_id == columns.id)
    return sa.select(*_row_columns(dialect, *counted)).select_from(source)


def _row_columns(dialect: Dialect, *counted: Any) -> tuple[Any, Any]:
    """Return the columns that `_row` reads; ``counted`` are those of `_COUNTED`."""
    columns = resource_providers.c
    fields = dialects.packed(
        columns.id,
        sa.func.coalesce(columns.generation, 0),
        sa.func.coalesce(columns.parent_provider_id, 0),
        sa.func.coalesce(columns.root_provider_id, columns.id),
        fingerprint.provider_hash(dialect),
        *counted,
        columns.uuid,
        # at the end, as there may be blanks in it
        sa.func.coalesce(columns.name, ""),
    )
    return fields, sa.func.coalesce(columns.updated_at, columns.created_at)


def _row(fields: str, modified: datetime | None) -> tuple[int, Row]:
    *numbers, uuid, name = fields.split(" ", 10)
    id_, generation, parent_id, root_id, hash_, *counted = map(int, numbers)
    return id_, Row(id_, uuid, name, generation, parent_id or None, root_id, modified, hash_, *counted)


def read_last_changed(conn: Connection, most: int) -> dict[int, Row]:
    """Return the rows of the providers that this server changed last, by the clocks of its hosts."""
    key = conn.dialect.name, most
    if key not in _last_changed:
        _last_changed[key] = _select_last_changed(dialects.of(conn), most)
    return dict(_row(*fields) for fields in conn.execute(_last_changed[key]))


_last_changed: dict[tuple[str, int], sa.Select[Any]] = {}


def _select_last_changed(dialect: Dialect, most: int) -> sa.Select[Any]:
    own = provider_revisions.c
    last = sa.select(provider_revisions).order_by(own.changed_at.desc()).limit(most).subquery()
    columns = _row_columns(dialect, *(last.c[name] for name in _COUNTED))
    return sa.select(*columns).join(last, last.c.provider_id == resource_providers.c.id)


def read_class_names(conn: Connection) -> dict[int, str]:
    """Return every resource class by id."""
    query = sa.select(resource_classes.c.id, resource_classes.c.name)
    return dict(conn.execute(query).all())


def read_trait_names(conn: Connection) -> frozenset[str]:
    """Return every trait."""
    return frozenset(conn.scalars(sa.select(traits.c.name)))


def _with_ids(provider_id: sa.ColumnElement[int], *values: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Select each combination of values, after a text with the ids of the providers that have it.

    PERF: providers have much in common, and drivers take microseconds for each row; the snapshot of 10,000
    takes 0.31 s to load, and took 0.56. MySQL cuts such a text off after 1,024 characters: 64 ids are less.
    """
    ids = sa.func.aggregate_strings(sa.cast(provider_id, sa.String(12)), ",")
    return sa.select(ids, *values).group_by(*values, provider_id.op(">>")(sa.literal_column("6")))


_USAGE_KEY: Final = allocations.c.resource_provider_id, allocations.c.resource_class_id
_USAGE: Final = _Read(
    sa.select(dialects.packed(*_USAGE_KEY, sa.func.sum(allocations.c.used))).group_by(*_USAGE_KEY),
    _USAGE_KEY[0],
)


def read_usage(conn: Connection, ids: Collection[int] | None = None) -> Usage:
    """Return how much is used of each inventory, or former one, of these providers or of all."""
    found = (map(int, packed.split()) for (packed,) in _USAGE.run(conn, ids))
    return {(id_, class_id): used for id_, class_id, used in found}


_STOCK_KEY: Final = inventories.c.resource_provider_id, inventories.c.resource_class_id
_STOCK_VALUES: Final = _STOCK_KEY[1], *(inventories.c[field] for field in INVENTORY_FIELDS)
_STOCKS: Final = _with_ids(_STOCK_KEY[0], *_STOCK_VALUES).order_by(_STOCK_KEY[1])


def read_stocks(
    conn: Connection, ids: Collection[int] | None, class_names: Mapping[int, str]
) -> dict[int, dict[str, Stock]]:
    """Return each provider's inventories with what is used of them, by name of class."""
    # PERF: thousands of hosts have the same inventory; one object for all saves memory
    known: dict[tuple[Any, ...], Inventory] = {}
    stocks: dict[int, dict[str, Stock]] = {}
    for (id_, class_id), values, used in _read_stocks(conn, ids):
        if class_id not in class_names:
            # no key keeps a class that is deleted elsewhere at this moment; nobody can ask for it any more
            continue
        inventory = known.get(values) or known.setdefault(values, Inventory(*values))
        stocks.setdefault(id_, {})[class_names[class_id]] = Stock(inventory, used)
    return stocks


def _read_stocks(
    conn: Connection, ids: Collection[int] | None
) -> Iterator[tuple[tuple[int, int], tuple[Any, ...], int]]:
    if ids is not None:
        yield from inventory_rows.read_stocks(conn, ids)
        return
    # for all of them, the index of allocations is gone through once
    usage = read_usage(conn)
    for listed, class_id, *fields in conn.execute(_STOCKS):
        values = tuple(fields)
        for id_ in map(int, listed.split(",")):
            yield (id_, class_id), values, usage.get((id_, class_id), 0)


_OF: Final = resource_provider_traits.c
_TRAITS: Final = _Read(
    _with_ids(_OF.resource_provider_id, traits.c.id, traits.c.name)
    .join(traits, _OF.trait_id == traits.c.id)
    .order_by(traits.c.id),
    _OF.resource_provider_id,
)


def read_traits(conn: Connection, ids: Collection[int] | None) -> dict[int, tuple[str, ...]]:
    """Return each provider's traits."""
    return _gather(_TRAITS.run(conn, ids))


_IN: Final = resource_provider_aggregates.c
_MEMBERSHIPS: Final = _Read(
    _with_ids(_IN.resource_provider_id, placement_aggregates.c.id, placement_aggregates.c.uuid)
    .join(placement_aggregates, _IN.aggregate_id == placement_aggregates.c.id)
    .order_by(placement_aggregates.c.id),
    _IN.resource_provider_id,
)


def read_memberships(conn: Connection, ids: Collection[int] | None) -> dict[int, tuple[str, ...]]:
    """Return each provider's aggregates."""
    return _gather(_MEMBERSHIPS.run(conn, ids))


def _gather(rows: Iterable[Any]) -> dict[int, tuple[str, ...]]:
    """Return the names by provider; equal lists are one object, as thousands of hosts have the same."""
    names: dict[int, list[str]] = {}
    for listed, _, name in rows:
        for id_ in map(int, listed.split(",")):
            names.setdefault(id_, []).append(name)
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    return {id_: known.setdefault(tuple(listed), tuple(listed)) for id_, listed in names.items()}
