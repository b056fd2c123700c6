# SPDX-License-Identifier: Apache-2.0
"""Loading the view of the cloud that candidates are searched in: a statement per table, of one state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from osc_placement.model import INVENTORY_FIELDS, Inventory
from osc_placement.server.candidates.snapshot import Node, Snapshot, Stock
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
    from collections.abc import Iterable

    from sqlalchemy.engine import Connection


def load(conn: Connection) -> Snapshot:
    """All providers, with what they have, offer and belong to."""
    stocks = _load_stocks(conn)
    trait_names = _load_names(conn, resource_provider_traits.c.trait_id, traits, "name")
    aggregates = _load_names(conn, resource_provider_aggregates.c.aggregate_id, placement_aggregates, "uuid")
    columns = resource_providers.c
    query = sa.select(columns.id, columns.uuid, columns.parent_provider_id, columns.root_provider_id)
    return Snapshot(
        Node(
            id_,
            uuid,
            parent_id,
            root_id if root_id is not None else id_,
            stocks.get(id_, {}),
            trait_names.get(id_, ()),
            aggregates.get(id_, ()),
        )
        for id_, uuid, parent_id, root_id in conn.execute(query)
    )


def _load_stocks(conn: Connection) -> dict[int, dict[str, Stock]]:
    columns = allocations.c
    usage = sa.select(columns.resource_provider_id, columns.resource_class_id, sa.func.sum(columns.used))
    usage = usage.group_by(columns.resource_provider_id, columns.resource_class_id)
    used = {(row[0], row[1]): int(row[2]) for row in conn.execute(usage)}
    query = sa.select(
        inventories.c.resource_provider_id,
        inventories.c.resource_class_id,
        resource_classes.c.name,
        *(inventories.c[field] for field in INVENTORY_FIELDS),
    ).join(resource_classes, inventories.c.resource_class_id == resource_classes.c.id)
    stocks: dict[int, dict[str, Stock]] = {}
    for provider_id, class_id, name, *fields in conn.execute(query.order_by(inventories.c.resource_class_id)):
        stock = Stock(Inventory(*fields), used.get((provider_id, class_id), 0))
        stocks.setdefault(provider_id, {})[name] = stock
    return stocks


def _load_names(
    conn: Connection, of: sa.Column[int], table: sa.Table, column: str
) -> dict[int, tuple[str, ...]]:
    """By provider, the names of the things it is associated with, by their ids."""
    query = sa.select(of.table.c.resource_provider_id, table.c[column]).join(table, of == table.c.id)
    names: dict[int, list[str]] = {}
    for provider_id, name in conn.execute(query.order_by(table.c.id)):
        names.setdefault(provider_id, []).append(name)
    return _shared(names.items())


def _shared(items: Iterable[tuple[int, list[str]]]) -> dict[int, tuple[str, ...]]:
    """Equal lists as one object: thousands of hosts have the same traits."""
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    shared = {}
    for provider_id, names in items:
        frozen = tuple(names)
        shared[provider_id] = known.setdefault(frozen, frozen)
    return shared
