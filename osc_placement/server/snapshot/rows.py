# SPDX-License-Identifier: Apache-2.0
"""The statements that read a snapshot, of all providers or of some; each function executes one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import sqlalchemy as sa

from osc_placement.candidates.node import Stock
from osc_placement.model import INVENTORY_FIELDS, Inventory
from osc_placement.server.db import dialects, inventory_rows, provider
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


#: the amount used, by (id of provider, id of resource class)
Usage = dict[tuple[int, int], int]


class Row(NamedTuple):
    """A provider's row; the hash is that of `fingerprint.provider_hash`.

    :ivar generation: None if it is NULL, which only other programs store
    """

    id: int
    uuid: str
    name: str
    generation: int | None
    parent_id: int | None
    root_id: int
    modified: datetime | None
    hash: int

    @property
    def place(self) -> tuple[Any, ...]:
        """Return what changes only if the provider is renamed, moved, deleted or created."""
        return self.uuid, self.name, self.parent_id, self.root_id


class _Read:
    """A statement for all providers and the same for some, both built once because building takes long."""

    def __init__(self, query: sa.Select[Any], provider_id: sa.ColumnElement[int]) -> None:
        self._all = query
        self._some = query.where(provider_id.in_(sa.bindparam("ids", expanding=True)))

    def run(self, conn: Connection, ids: Collection[int] | None) -> Any:
        """Return the rows about the providers with these ids, or about all."""
        return conn.execute(self._all) if ids is None else conn.execute(self._some, {"ids": list(ids)})


def read_rows(conn: Connection, ids: Collection[int] | None) -> dict[int, Row]:
    """Return the row of each of these providers, or of all, by id."""
    key = conn.dialect.name
    if key not in _rows:
        columns = resource_providers.c
        fields: Any = dialects.packed(
            columns.id,
            provider.packed_generation,
            sa.func.coalesce(columns.parent_provider_id, 0),
            sa.func.coalesce(columns.root_provider_id, columns.id),
            fingerprint.provider_hash(dialects.of(conn)),
            columns.uuid,
            # the name is the last field, as it may contain blanks
            sa.func.coalesce(columns.name, ""),
        )
        modified = sa.func.coalesce(columns.updated_at, columns.created_at)
        _rows[key] = _Read(sa.select(fields, modified), columns.id)
    found = {}
    for text, time in _rows[key].run(conn, ids):
        *numbers, uuid, name = text.split(" ", 6)
        id_, generation, parent_id, root_id, hash_ = map(int, numbers)
        stored = provider.to_generation(generation)
        found[id_] = Row(id_, uuid, name, stored, parent_id or None, root_id, time, hash_)
    return found


_rows: dict[str, _Read] = {}


def read_class_names(conn: Connection) -> dict[int, str]:
    """Return every resource class by id."""
    query = sa.select(resource_classes.c.id, resource_classes.c.name)
    return dict(conn.execute(query).all())


def read_trait_times(conn: Connection) -> dict[str, datetime | None]:
    """Return the time of the last modification of every trait, by name."""
    query = sa.select(traits.c.name, sa.func.coalesce(traits.c.updated_at, traits.c.created_at))
    return dict(conn.execute(query).all())


def _with_ids(provider_id: sa.ColumnElement[int], *values: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Select each combination of values, preceded by a text with the ids of the providers that have it.

    PERF: many providers have the same values, and drivers take microseconds for each row; loading the
    snapshot of 10,000 providers takes 0.31 s, and took 0.56. MySQL cuts such a text off after 1,024
    characters, which 64 ids do not reach.
    """
    ids = sa.func.aggregate_strings(sa.cast(provider_id, sa.String(12)), ",")
    return sa.select(ids, *values).group_by(*values, provider_id.op(">>")(sa.literal_column("6")))


_stocking = sa.select(inventories.c.resource_provider_id, inventories.c.resource_class_id).where(
    inventories.c.resource_class_id.in_(sa.bindparam("class_ids", expanding=True))
)


def find_stocked(conn: Connection, class_ids: Collection[int]) -> set[int]:
    """Return the ids of the providers with inventory of one of these classes."""
    return set(conn.scalars(_stocking, {"class_ids": sorted(class_ids)}))


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
    conn: Connection,
    ids: Collection[int] | None,
    class_names: Mapping[int, str],
    unknown: set[int] | None = None,
) -> dict[int, dict[str, Stock]]:
    """Return each provider's inventories with their usage, by name of class.

    :param unknown: a set to which the ids of other classes are added
    """
    # PERF: thousands of hosts have the same inventory, and sharing one object saves memory
    known: dict[tuple[Any, ...], Inventory] = {}
    stocks: dict[int, dict[str, Stock]] = {}
    for (id_, class_id), values, used in _read_stocks(conn, ids):
        if class_id not in class_names:
            # no foreign key prevents the deletion of a class; a deleted class cannot be requested any more
            if unknown is not None:
                unknown.add(class_id)
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


_STOCKED: Final = sa.func.coalesce(inventories.c.updated_at, inventories.c.created_at)
_STOCK_TIMES: Final = _Read(
    sa.select(_STOCK_KEY[0], sa.func.max(_STOCKED))
    .join(resource_classes, _STOCK_KEY[1] == resource_classes.c.id)
    .group_by(_STOCK_KEY[0]),
    _STOCK_KEY[0],
)


def read_stock_times(conn: Connection, ids: Collection[int] | None) -> dict[int, datetime]:
    """Return the time of the last modification of any inventory, of an existing class, of each provider."""
    # PERF: hosts that were added together have the same time, and sharing one object saves memory
    known: dict[datetime, datetime] = {}
    return {id_: known.setdefault(time, time) for id_, time in _STOCK_TIMES.run(conn, ids)}


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
