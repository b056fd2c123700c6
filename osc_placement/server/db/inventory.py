# SPDX-License-Identifier: Apache-2.0
"""Inventories of providers: what is there, what is used of it, and replacing it.

Every change here moves the provider's generation on by one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from osc_placement.model import INVENTORY_FIELDS, Inventory
from osc_placement.server import errors
from osc_placement.server.db import names, provider
from osc_placement.server.db.tables import allocations, inventories, resource_classes

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.engine import Connection

LOG = logging.getLogger(__name__)

Inventories = Mapping[str, Inventory]


@dataclass(frozen=True, slots=True)
class Stored:
    """A provider's inventory of one class as it is in the database; ``modified`` is UTC."""

    resource_class: str
    inventory: Inventory
    modified: datetime


_FIELD_COLUMNS = [inventories.c[field] for field in INVENTORY_FIELDS]


def load(conn: Connection, provider_id: int) -> list[Stored]:
    """A provider's inventories, in the order of the ids of their classes."""
    query = (
        sa.select(
            resource_classes.c.name,
            sa.func.coalesce(inventories.c.updated_at, inventories.c.created_at),
            *_FIELD_COLUMNS,
        )
        .join(resource_classes, inventories.c.resource_class_id == resource_classes.c.id)
        .where(inventories.c.resource_provider_id == provider_id)
        .order_by(inventories.c.resource_class_id)
    )
    return [Stored(name, Inventory(*fields), modified) for name, modified, *fields in conn.execute(query)]


def load_of(conn: Connection, uuid: str) -> tuple[provider.Provider, list[Stored]]:
    """A provider and its inventories; :raises errors.ProviderNotFound: there is no such provider."""
    found = provider.load(conn, uuid)
    return found, load(conn, found.id)


def usages(conn: Connection, uuid: str) -> tuple[provider.Provider, dict[str, int]]:
    """A provider, and the amount used of each class that it has inventory of.

    :raises errors.ProviderNotFound: there is no such provider
    """
    found = provider.load(conn, uuid)
    used = sa.func.coalesce(sa.func.sum(allocations.c.used), 0)
    query = (
        sa.select(resource_classes.c.name, used)
        .select_from(inventories)
        .join(resource_classes, inventories.c.resource_class_id == resource_classes.c.id)
        .outerjoin(
            allocations,
            (allocations.c.resource_provider_id == inventories.c.resource_provider_id)
            & (allocations.c.resource_class_id == inventories.c.resource_class_id),
        )
        .where(inventories.c.resource_provider_id == found.id)
        .group_by(resource_classes.c.id, resource_classes.c.name)
        .order_by(resource_classes.c.id)
    )
    return found, {name: int(amount) for name, amount in conn.execute(query)}


def replace(
    conn: Connection,
    uuid: str,
    wanted: Inventories,
    *,
    generation: int | None = None,
    may_reserve_all: bool = True,
) -> int:
    """Make ``wanted`` all the inventory a provider has, and return the provider's new generation.

    The provider is locked first, so allocations cannot appear on what is being removed.

    :param generation: the generation the change is based on, if the client said one
    :param may_reserve_all: whether an inventory may leave nothing to allocate
    :raises errors.ProviderNotFound: there is no such provider
    :raises errors.ProviderChanged: its generation is another
    :raises errors.ReservedTooLarge: an inventory leaves less to allocate than is allowed
    :raises errors.ResourceClassNotFound: a class does not exist
    :raises errors.InventoryInUse: consumers hold allocations of a class that would go
    """
    locked = provider.lock(conn, uuid, generation=generation)
    _check_reserved(locked, wanted, may_reserve_all)
    ids = names.keep_class_ids(conn, wanted)
    by_id = {ids[name]: (name, inventory) for name, inventory in wanted.items()}
    columns = inventories.c
    present = set(
        conn.scalars(sa.select(columns.resource_class_id).where(columns.resource_provider_id == locked.id))
    )
    _remove(conn, locked, present - by_id.keys())
    _overwrite(conn, locked, {class_id: by_id[class_id] for class_id in sorted(present & by_id.keys())})
    _add(conn, locked, {class_id: by_id[class_id][1] for class_id in by_id.keys() - present})
    provider.advance_generations(conn, [locked])
    return locked.generation + 1


def _check_reserved(locked: provider.Locked, wanted: Inventories, may_reserve_all: bool) -> None:
    for name, inventory in wanted.items():
        if inventory.capacity < (0 if may_reserve_all else 1):
            raise errors.ReservedTooLarge(name, locked.uuid, may_equal_total=may_reserve_all)


def add(
    conn: Connection, uuid: str, resource_class: str, inventory: Inventory, *, may_reserve_all: bool = True
) -> int:
    """Give a provider inventory of one more class, and return the provider's new generation.

    :param may_reserve_all: whether the inventory may leave nothing to allocate
    :raises errors.ProviderNotFound: there is no such provider
    :raises errors.ReservedTooLarge: the inventory leaves less to allocate than is allowed
    :raises errors.ResourceClassNotFound: the class does not exist
    :raises errors.ConcurrentUpdate: the provider has inventory of the class already
    """
    locked = provider.lock(conn, uuid)
    _check_reserved(locked, {resource_class: inventory}, may_reserve_all)
    class_id = names.keep_class_ids(conn, [resource_class])[resource_class]
    if conn.execute(sa.select(inventories.c.id).where(*_of(locked, class_id))).first():
        raise errors.ConcurrentUpdate
    _add(conn, locked, {class_id: inventory})
    provider.advance_generations(conn, [locked])
    return locked.generation + 1


def update(
    conn: Connection,
    uuid: str,
    resource_class: str,
    inventory: Inventory,
    *,
    generation: int,
    may_reserve_all: bool = True,
) -> int:
    """Replace a provider's inventory of one class, and return the provider's new generation.

    :param may_reserve_all: whether the inventory may leave nothing to allocate
    :raises errors.ProviderNotFound: there is no such provider
    :raises errors.ProviderChanged: its generation is another
    :raises errors.ReservedTooLarge: the inventory leaves less to allocate than is allowed
    :raises errors.ResourceClassNotFound: the class does not exist
    :raises errors.InventoryNotFound: the provider has none of it
    """
    locked = provider.lock(conn, uuid, generation=generation)
    _check_reserved(locked, {resource_class: inventory}, may_reserve_all)
    class_id = names.keep_class_ids(conn, [resource_class])[resource_class]
    if not conn.execute(sa.select(inventories.c.id).where(*_of(locked, class_id))).first():
        raise errors.InventoryNotFound(resource_class)
    _overwrite(conn, locked, {class_id: (resource_class, inventory)})
    provider.advance_generations(conn, [locked])
    return locked.generation + 1


def delete(conn: Connection, uuid: str, resource_class: str) -> None:
    """Take one class of inventory from a provider.

    :raises errors.ProviderNotFound: there is no such provider
    :raises errors.ResourceClassNotFound: the class does not exist
    :raises errors.InventoryInUse: consumers hold allocations of it
    :raises errors.InventoryNotFound: the provider has none of it
    """
    locked = provider.lock(conn, uuid)
    class_id = names.keep_class_ids(conn, [resource_class])[resource_class]
    if not _remove(conn, locked, {class_id}):
        raise errors.InventoryNotFound(resource_class)
    provider.advance_generations(conn, [locked])


def _of(locked: provider.Locked, class_id: int | sa.BindParameter[int]) -> tuple[sa.ColumnElement[bool], ...]:
    return inventories.c.resource_provider_id == locked.id, inventories.c.resource_class_id == class_id


def _add(conn: Connection, locked: provider.Locked, new: Mapping[int, Inventory]) -> None:
    keys = {"resource_provider_id": locked.id}
    rows = [keys | {"resource_class_id": id_} | new[id_].to_json() for id_ in sorted(new)]
    if rows:
        conn.execute(sa.insert(inventories), rows)


def _overwrite(
    conn: Connection, locked: provider.Locked, changed: Mapping[int, tuple[str, Inventory]]
) -> None:
    """Replace inventories that are there. They may shrink below what is used of them, which is logged.

    :param changed: names and new inventories, by id of class
    """
    if not changed:
        return
    statement = sa.update(inventories).where(*_of(locked, sa.bindparam("class_id")))
    conn.execute(statement, [{"class_id": id_} | new.to_json() for id_, (_, new) in changed.items()])
    columns = allocations.c
    query = sa.select(columns.resource_class_id, sa.func.sum(columns.used))
    query = query.where(columns.resource_provider_id == locked.id, columns.resource_class_id.in_(changed))
    for class_id, used in conn.execute(query.group_by(columns.resource_class_id)):
        name, inventory = changed[class_id]
        if not inventory.has_room(0, used=int(used)):
            LOG.warning("Resource provider %s is now over-capacity for %s", locked.uuid, name)


def _remove(conn: Connection, locked: provider.Locked, class_ids: set[int]) -> int:
    """Delete inventories nobody uses; return how many there were."""
    if not class_ids:
        return 0
    wanted = sorted(class_ids)
    in_use = conn.scalars(
        sa.select(resource_classes.c.name)
        .join(allocations, allocations.c.resource_class_id == resource_classes.c.id)
        .where(allocations.c.resource_provider_id == locked.id, resource_classes.c.id.in_(wanted))
        .group_by(resource_classes.c.id, resource_classes.c.name)
        .order_by(resource_classes.c.id)
    ).all()
    if in_use:
        raise errors.InventoryInUse(in_use, locked.uuid)
    statement = sa.delete(inventories).where(
        inventories.c.resource_provider_id == locked.id, inventories.c.resource_class_id.in_(wanted)
    )
    return conn.execute(statement).rowcount
