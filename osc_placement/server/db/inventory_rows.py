# SPDX-License-Identifier: Apache-2.0
"""Statements that read, compare and write the inventory rows of any number of locked providers as sets.

The caller decides what may be written. The number of statements depends on the number of different changes
and not of providers: raising a ratio on 500 providers is one update, whose cost is mostly one round trip.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from osc_placement.model import INVENTORY_FIELDS, Inventory
from osc_placement.server.db import dialects
from osc_placement.server.db.tables import allocations, inventories, resource_classes

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

#: (id of a provider, id of a resource class)
Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Row:
    """An inventory as it is stored, by the id of its row."""

    id: int
    inventory: Inventory


@dataclass(frozen=True, slots=True)
class Use:
    """The amount that consumers hold of an inventory, and the name of its class."""

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
        dialects.packed_integers(
            inventories.c.resource_provider_id,
            inventories.c.resource_class_id,
            sa.func.coalesce(_use, 0),
            *_COUNTS,
        ),
        # not packed with the others, because databases differ in the text of such numbers
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
    """Yield the key, fields and usage of each inventory of these providers, of these classes or of all."""
    statement: sa.Select[Any] = _stocks
    parameters = {"ids": list(ids)}
    if class_ids is not None:
        statement, parameters = _stocks_of_classes, {**parameters, "class_ids": list(class_ids)}
    for (provider_id, class_id, used, *counts), ratio in conn.execute(statement, parameters):
        yield (provider_id, class_id), (*counts, ratio), used


_load = sa.select(
    inventories.c.resource_provider_id,
    inventories.c.resource_class_id,
    inventories.c.id,
    *(inventories.c[field] for field in INVENTORY_FIELDS),
).where(inventories.c.resource_provider_id.in_(sa.bindparam("ids", expanding=True)))


def load(conn: Connection, provider_ids: Collection[int]) -> dict[Key, Row]:
    """Return the inventories of the providers."""
    return {
        (provider_id, class_id): Row(id_, Inventory(*fields))
        for portion in dialects.split(sorted(provider_ids))
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
    """Return the usage of those of the inventories that consumers hold, by ascending id of class."""
    wanted = frozenset(keys)
    if not wanted:
        return {}
    class_ids = sorted({class_id for _, class_id in wanted})
    found = {
        (provider_id, class_id): Use(name, int(used))
        for portion in dialects.split(sorted({provider_id for provider_id, _ in wanted}))
        for provider_id, class_id, name, used in conn.execute(_used, {"ids": portion, "class_ids": class_ids})
    }
    return {key: found[key] for key in sorted(found.keys() & wanted)}


_delete = sa.delete(inventories).where(inventories.c.id.in_(sa.bindparam("ids", expanding=True)))
_insert = sa.insert(inventories)


def replace(conn: Connection, present: Mapping[Key, Row], wanted: Mapping[Key, Inventory]) -> None:
    """Replace the inventories ``present`` by ``wanted``."""
    for portion in dialects.split(sorted(row.id for key, row in present.items() if key not in wanted)):
        conn.execute(_delete, {"ids": portion})
    overwrite(conn, present, {key: new for key, new in wanted.items() if key in present})
    added = [
        {"resource_provider_id": key[0], "resource_class_id": key[1]} | wanted[key].to_json()
        for key in sorted(wanted.keys() - present.keys())
    ]
    if added:
        conn.execute(_insert, added)


_delete_one = sa.delete(inventories).where(
    inventories.c.resource_provider_id == sa.bindparam("provider_id"),
    inventories.c.resource_class_id == sa.bindparam("class_id"),
)


def remove_one(conn: Connection, key: Key) -> bool:
    """Delete one inventory; return whether it existed."""
    return conn.execute(_delete_one, {"provider_id": key[0], "class_id": key[1]}).rowcount > 0


def overwrite(conn: Connection, present: Mapping[Key, Row], wanted: Mapping[Key, Inventory]) -> None:
    """Update existing inventories.

    PERF: rows that get the same new values are updated together, as drivers send a statement for each set of
    values; 500 ratios of one class are one statement instead of 500. Unchanged rows are not written, unless
    all rows of a provider are unchanged: then the time of modification is set.
    """
    alike: dict[tuple[tuple[str, Any], ...], list[int]] = defaultdict(list)
    changed: set[int] = set()
    for key, new in wanted.items():
        old = present[key].inventory
        if old == new:
            continue
        before, after = old.to_json(), new.to_json()
        difference = tuple((field, value) for field, value in after.items() if before[field] != value)
        alike[difference].append(present[key].id)
        changed.add(key[0])
    for values, row_ids in alike.items():
        _update(conn, row_ids, dict(values))
    _update(conn, [present[key].id for key in wanted if key[0] not in changed], {})


_touch = sa.update(inventories).where(inventories.c.id.in_(sa.bindparam("ids", expanding=True)))


def _update(conn: Connection, row_ids: Iterable[int], values: Mapping[str, Any]) -> None:
    """Set some fields of rows and the time of modification; without fields, only that time."""
    for portion in dialects.split(sorted(row_ids)):
        conn.execute(_touch, {"ids": portion, **values})
