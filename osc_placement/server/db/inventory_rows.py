# SPDX-License-Identifier: Apache-2.0
"""The rows of inventories of any number of locked providers: reading, comparing and writing them as sets.

What may be written is for the caller to judge. Statements are counted by what there is to do and not by
provider: a ratio raised on 500 providers is one update, and what it costs is mostly one round trip.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from osc_placement.model import INVENTORY_FIELDS, Inventory
from osc_placement.server.db import dialects
from osc_placement.server.db.portions import split
from osc_placement.server.db.tables import allocations, inventories, resource_classes

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

#: the id of a provider and that of a class
Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Row:
    """An inventory as it is stored, by the id of its row."""

    id: int
    inventory: Inventory


@dataclass(frozen=True, slots=True)
class Use:
    """How much consumers hold of an inventory, and the name of its class."""

    resource_class: str
    used: int


_COUNTS = [inventories.c[field] for field in INVENTORY_FIELDS[:-1]]
_use = (
    sa.select(sa.func.sum(allocations.c.used))
    .where(
        allocations.c.resource_provider_id == inventories.c.resource_provider_id,
        allocations.c.resource_class_id == inventories.c.resource_class_id,
    )
    .scalar_subquery()
)
_stocks = (
    sa.select(
        dialects.packed(
            inventories.c.resource_provider_id,
            inventories.c.resource_class_id,
            sa.func.coalesce(_use, 0),
            *_COUNTS,
        ),
        # by itself, as databases write such numbers in ways of their own
        inventories.c.allocation_ratio,
    )
    .where(inventories.c.resource_provider_id.in_(sa.bindparam("ids", expanding=True)))
    .order_by(inventories.c.resource_class_id)
)
_stocks_of_classes = _stocks.where(
    inventories.c.resource_class_id.in_(sa.bindparam("class_ids", expanding=True))
)


def read_stocks(
    conn: Connection, ids: Collection[int], class_ids: Collection[int] | None = None
) -> Iterator[tuple[Key, tuple[Any, ...], int]]:
    """What these providers have of these classes, or of all: the fields of each inventory, and its use."""
    statement: sa.Select[Any] = _stocks
    parameters = {"ids": list(ids)}
    if class_ids is not None:
        statement, parameters = _stocks_of_classes, {**parameters, "class_ids": list(class_ids)}
    for packed, ratio in conn.execute(statement, parameters):
        provider_id, class_id, used, *counts = map(int, packed.split())
        yield (provider_id, class_id), (*counts, ratio), used


_load = sa.select(
    inventories.c.resource_provider_id,
    inventories.c.resource_class_id,
    inventories.c.id,
    *(inventories.c[field] for field in INVENTORY_FIELDS),
).where(inventories.c.resource_provider_id.in_(sa.bindparam("ids", expanding=True)))


def load(conn: Connection, provider_ids: Collection[int]) -> dict[Key, Row]:
    """What the providers have."""
    return {
        (provider_id, class_id): Row(id_, Inventory(*fields))
        for portion in split(sorted(provider_ids))
        for provider_id, class_id, id_, *fields in conn.execute(_load, {"ids": portion})
    }


_used = (
    sa.select(
        allocations.c.resource_provider_id,
        allocations.c.resource_class_id,
        resource_classes.c.name,
        sa.func.sum(allocations.c.used),
    )
    .join(resource_classes, allocations.c.resource_class_id == resource_classes.c.id)
    .where(
        allocations.c.resource_provider_id.in_(sa.bindparam("ids", expanding=True)),
        allocations.c.resource_class_id.in_(sa.bindparam("class_ids", expanding=True)),
    )
    .group_by(allocations.c.resource_provider_id, allocations.c.resource_class_id, resource_classes.c.name)
)


def find_used(conn: Connection, keys: Collection[Key]) -> dict[Key, Use]:
    """Of these inventories those that consumers hold something of, by ascending id of class."""
    wanted = frozenset(keys)
    if not wanted:
        return {}
    class_ids = sorted({class_id for _, class_id in wanted})
    found = {
        (provider_id, class_id): Use(name, int(used))
        for portion in split(sorted({provider_id for provider_id, _ in wanted}))
        for provider_id, class_id, name, used in conn.execute(_used, {"ids": portion, "class_ids": class_ids})
    }
    return {key: found[key] for key in sorted(found.keys() & wanted)}


def replace(conn: Connection, present: Mapping[Key, Row], wanted: Mapping[Key, Inventory]) -> None:
    """Make ``wanted`` all that there is in place of ``present``."""
    _remove(conn, [row.id for key, row in present.items() if key not in wanted])
    overwrite(conn, present, {key: new for key, new in wanted.items() if key in present})
    _add(conn, {key: new for key, new in wanted.items() if key not in present})


_delete = sa.delete(inventories).where(inventories.c.id.in_(sa.bindparam("ids", expanding=True)))


def _remove(conn: Connection, row_ids: Collection[int]) -> None:
    for portion in split(sorted(row_ids)):
        conn.execute(_delete, {"ids": portion})


_delete_one = sa.delete(inventories).where(
    inventories.c.resource_provider_id == sa.bindparam("provider_id"),
    inventories.c.resource_class_id == sa.bindparam("class_id"),
)


def remove_one(conn: Connection, key: Key) -> bool:
    """Delete one inventory; whether it was there."""
    return conn.execute(_delete_one, {"provider_id": key[0], "class_id": key[1]}).rowcount > 0


_insert = sa.insert(inventories)


def _add(conn: Connection, new: Mapping[Key, Inventory]) -> None:
    rows = [
        {"resource_provider_id": provider_id, "resource_class_id": class_id} | inventory.to_json()
        for (provider_id, class_id), inventory in sorted(new.items(), key=lambda item: item[0])
    ]
    if rows:
        conn.execute(_insert, rows)


def overwrite(conn: Connection, present: Mapping[Key, Row], wanted: Mapping[Key, Inventory]) -> None:
    """Replace inventories that are there.

    PERF: rows that are to become alike in what changes are written together, as drivers send a statement for
    each set of values; 500 ratios of one class are one statement instead of 500. Rows that stay as they are
    get none, unless all of a provider do: then they were modified all the same, and say when.
    """
    alike: dict[tuple[tuple[str, Any], ...], list[int]] = defaultdict(list)
    changed: set[int] = set()
    for key, new in wanted.items():
        if difference := _difference(present[key].inventory, new):
            alike[difference].append(present[key].id)
            changed.add(key[0])
    for values, row_ids in alike.items():
        _update(conn, row_ids, dict(values))
    _update(conn, [present[key].id for key in wanted if key[0] not in changed], {})


def _difference(old: Inventory, new: Inventory) -> tuple[tuple[str, Any], ...]:
    if old == new:
        return ()
    before, after = old.to_json(), new.to_json()
    return tuple((field, value) for field, value in after.items() if before[field] != value)


_touch = sa.update(inventories).where(inventories.c.id.in_(sa.bindparam("ids", expanding=True)))


def _update(conn: Connection, row_ids: Iterable[int], values: Mapping[str, Any]) -> None:
    """Set some fields of rows; without any, only when they were modified."""
    for portion in split(sorted(row_ids)):
        conn.execute(_touch, {"ids": portion, **values})
