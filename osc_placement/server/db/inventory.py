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


_is_of_provider = inventories.c.resource_provider_id == sa.bindparam("provider_id")
_has_class = inventories.c.resource_class_id.in_(sa.bindparam("class_ids", expanding=True))

_load = (
    sa.select(
        resource_classes.c.name,
        sa.func.coalesce(inventories.c.updated_at, inventories.c.created_at),
        *(inventories.c[field] for field in INVENTORY_FIELDS),
    )
    .join(resource_classes, inventories.c.resource_class_id == resource_classes.c.id)
    .where(_is_of_provider)
    .order_by(inventories.c.resource_class_id)
)


def load(conn: Connection, provider_id: int) -> list[Stored]:
    """A provider's inventories, in the order of the ids of their classes."""
    rows = conn.execute(_load, {"provider_id": provider_id})
    return [Stored(name, Inventory(*fields), modified) for name, modified, *fields in rows]


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
    may_reserve_all: bool | None = None,
) -> int:
    """Make ``wanted`` all the inventory a provider has, and return the provider's new generation.

    The provider is locked first, so allocations cannot appear on what is being removed.

    :param generation: the generation the change is based on, if the client said one
    :param may_reserve_all: whether an inventory may leave nothing to allocate; None, and it may even reserve
        more than there is, as in openstack-placement's reshaper
    :raises errors.ProviderNotFound: there is no such provider
    :raises errors.ProviderChanged: its generation is another
    :raises errors.ReservedTooLarge: an inventory leaves less to allocate than is allowed
    :raises errors.ResourceClassNotFound: a class does not exist
    :raises errors.InventoryInUse: consumers hold allocations of a class that would go
    """
    locked = provider.lock(conn, uuid, generation=generation)
    if may_reserve_all is not None:
        _check_reserved(locked, wanted, may_reserve_all)
    ids = names.keep_class_ids(conn, wanted)
    by_id = {ids[name]: (name, inventory) for name, inventory in wanted.items()}
    present = _load_present(conn, locked)
    _remove(conn, locked, present.keys() - by_id.keys())
    _overwrite(conn, locked, present, {id_: by_id[id_] for id_ in sorted(present.keys() & by_id.keys())})
    _add(conn, locked, {class_id: by_id[class_id][1] for class_id in by_id.keys() - present.keys()})
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
    if class_id in _load_present(conn, locked):
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
    present = _load_present(conn, locked)
    if class_id not in present:
        raise errors.InventoryNotFound(resource_class)
    _overwrite(conn, locked, present, {class_id: (resource_class, inventory)})
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


_present = sa.select(
    inventories.c.resource_class_id, *(inventories.c[field] for field in INVENTORY_FIELDS)
).where(_is_of_provider)


def _load_present(conn: Connection, locked: provider.Locked) -> dict[int, Inventory]:
    """What a provider has now, by id of class."""
    rows = conn.execute(_present, {"provider_id": locked.id})
    return {class_id: Inventory(*fields) for class_id, *fields in rows}


_insert = sa.insert(inventories)


def _add(conn: Connection, locked: provider.Locked, new: Mapping[int, Inventory]) -> None:
    keys = {"resource_provider_id": locked.id}
    rows = [keys | {"resource_class_id": id_} | new[id_].to_json() for id_ in sorted(new)]
    if rows:
        conn.execute(_insert, rows)


_update = sa.update(inventories).where(
    _is_of_provider, inventories.c.resource_class_id == sa.bindparam("class_id")
)
_used = (
    sa.select(allocations.c.resource_class_id, sa.func.sum(allocations.c.used))
    .where(
        allocations.c.resource_provider_id == sa.bindparam("provider_id"),
        allocations.c.resource_class_id.in_(sa.bindparam("class_ids", expanding=True)),
    )
    .group_by(allocations.c.resource_class_id)
)


def _overwrite(
    conn: Connection,
    locked: provider.Locked,
    present: Mapping[int, Inventory],
    wanted: Mapping[int, tuple[str, Inventory]],
) -> None:
    """Replace inventories that are there. They may shrink below what is used of them, which is logged.

    PERF: drivers send an update for each row, so rows that stay as they are get none, unless all do: then the
    provider's inventories were modified all the same, and say when. A ratio raised on one class of three
    takes 10 round trips to MariaDB instead of 13, with the usage that is read only where something shrinks.

    :param wanted: names and new inventories, by id of class
    """
    if not wanted:
        return
    keys = {"provider_id": locked.id}
    changed = {id_: new for id_, (_, new) in wanted.items() if new != present[id_]} or {
        id_: new for id_, (_, new) in wanted.items()
    }
    conn.execute(_update, [keys | {"class_id": id_} | new.to_json() for id_, new in changed.items()])
    shrunk = [id_ for id_, new in changed.items() if new.capacity < present[id_].capacity]
    _warn_of_use(conn, locked, {id_: wanted[id_] for id_ in shrunk})


def _warn_of_use(
    conn: Connection, locked: provider.Locked, shrunk: Mapping[int, tuple[str, Inventory]]
) -> None:
    if not shrunk:
        return
    for class_id, used in conn.execute(_used, {"provider_id": locked.id, "class_ids": list(shrunk)}):
        name, inventory = shrunk[class_id]
        if not inventory.has_room(0, used=int(used)):
            LOG.warning("Resource provider %s is now over-capacity for %s", locked.uuid, name)


_names_in_use = (
    sa.select(resource_classes.c.name)
    .join(allocations, allocations.c.resource_class_id == resource_classes.c.id)
    .where(
        allocations.c.resource_provider_id == sa.bindparam("provider_id"),
        resource_classes.c.id.in_(sa.bindparam("class_ids", expanding=True)),
    )
    .group_by(resource_classes.c.id, resource_classes.c.name)
    .order_by(resource_classes.c.id)
)
_delete = sa.delete(inventories).where(_is_of_provider, _has_class)


def _remove(conn: Connection, locked: provider.Locked, class_ids: set[int]) -> int:
    """Delete inventories nobody uses; return how many there were."""
    if not class_ids:
        return 0
    keys = {"provider_id": locked.id, "class_ids": sorted(class_ids)}
    if in_use := conn.scalars(_names_in_use, keys).all():
        raise errors.InventoryInUse(in_use, locked.uuid)
    return conn.execute(_delete, keys).rowcount
