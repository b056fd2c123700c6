# SPDX-License-Identifier: Apache-2.0
"""The statements that read a snapshot, of all providers or of some; each function executes one."""

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

#: the amount used, by (id of provider, id of resource class)
Usage = dict[tuple[int, int], int]


class Row(NamedTuple):
    """A provider's row together with its row of `db.revision`."""

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
        """Return whether only the usage of the provider changed since (see `db.revision`).

        On SQLite, which may use an id again, and on PostgreSQL the hash includes the time of the change, so
        that only a change that increments no generation counts as one of usage.
        """
        return old._beside_use == self._beside_use

    @property
    def _beside_use(self) -> tuple[Any, ...]:
        # servers of earlier releases do not write the time
        return self.uuid, self.hash, self.moves_of_others, self.contents_at, self.revision % OF_USE


class _Read:
    """A statement for all providers and the same for some, both built once because building takes long."""

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
#: the columns of `revision` that are the last fields of a `Row`
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
        # the name is the last field, as it may contain blanks
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
    """Select each combination of values, preceded by a text with the ids of the providers that have it.

    PERF: many providers have the same values, and drivers take microseconds for each row; loading the
    snapshot of 10,000 providers takes 0.31 s, and took 0.56. MySQL cuts such a text off after 1,024
    characters, which 64 ids do not reach.
    """
    ids = sa.func.aggregate_strings(sa.cast(provider_id, sa.String(12)), ",")
    return sa.select(ids, *values).group_by(*values, provider_id.op(">>")(sa.literal_column("6")))


_USAGE_KEY: Final = allocations.c.resource_provider_id, allocations.c.resource_class_id
_USAGE: Final = _Read(
    sa.select(dialects.packed(*_USAGE_KEY, sa.func.sum(allocations.c.used))).group_by(*_USAGE_KEY),
    _USAGE_KEY[0],
)


def read_usage(conn: Connection, ids: Collection[int] | None = None) -> Usage:
    """Return the usage of each inventory, existing or deleted, of these providers or of all."""
    found = (map(int, packed.split()) for (packed,) in _USAGE.run(conn, ids))
    return {(id_, class_id): used for id_, class_id, used in found}


_STOCK_KEY: Final = inventories.c.resource_provider_id, inventories.c.resource_class_id
_STOCK_VALUES: Final = _STOCK_KEY[1], *(inventories.c[field] for field in INVENTORY_FIELDS)
_STOCKS: Final = _with_ids(_STOCK_KEY[0], *_STOCK_VALUES).order_by(_STOCK_KEY[1])


def read_stocks(
    conn: Connection, ids: Collection[int] | None, class_names: Mapping[int, str]
) -> dict[int, dict[str, Stock]]:
    """Return each provider's inventories with their usage, by name of class."""
    # PERF: thousands of hosts have the same inventory, and sharing one object saves memory
    known: dict[tuple[Any, ...], Inventory] = {}
    stocks: dict[int, dict[str, Stock]] = {}
    for (id_, class_id), values, used in _read_stocks(conn, ids):
        if class_id not in class_names:
            # no foreign key prevents the deletion of a class; a deleted class cannot be requested any more
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
    # for all providers, one scan of the index of allocations is enough
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
    """Return the names by provider; equal lists share one object, as thousands of hosts have the same."""
    names: dict[int, list[str]] = {}
    for listed, _, name in rows:
        for id_ in map(int, listed.split(",")):
            names.setdefault(id_, []).append(name)
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    return {id_: known.setdefault(tuple(listed), tuple(listed)) for id_, listed in names.items()}
