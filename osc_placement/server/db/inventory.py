# SPDX-License-Identifier: Apache-2.0
"""The inventories of providers, their usage, and their replacement.

Every change of one provider increments its generation by one; `inventory_rows` reads and writes the rows.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from osc_placement.model import INVENTORY_FIELDS, Inventory
from osc_placement.server import errors
from osc_placement.server.db import inventory_rows as rows
from osc_placement.server.db import names, provider
from osc_placement.server.db.tables import inventories, resource_classes

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.engine import Connection

LOG = logging.getLogger(__name__)

Inventories = Mapping[str, Inventory]


@dataclass(frozen=True, slots=True)
class Stored:
    """A provider's inventory of one class; ``modified`` is UTC, None if another program did not record it."""

    resource_class: str
    inventory: Inventory
    modified: datetime | None


_load = (
    sa.select(
        resource_classes.c.name,
        sa.func.coalesce(inventories.c.updated_at, inventories.c.created_at),
        *(inventories.c[field] for field in INVENTORY_FIELDS),
    )
    .join(resource_classes, inventories.c.resource_class_id == resource_classes.c.id)
    .where(inventories.c.resource_provider_id == sa.bindparam("provider_id"))
    .order_by(inventories.c.resource_class_id)
)


def load(conn: Connection, provider_id: int) -> list[Stored]:
    """Return a provider's inventories, in the order of the ids of their classes."""
    stored = conn.execute(_load, {"provider_id": provider_id})
    return [Stored(name, Inventory(*fields), modified) for name, modified, *fields in stored]


def load_of(conn: Connection, uuid: str) -> tuple[provider.Provider, list[Stored]]:
    """Return a provider and its inventories; :raises errors.ProviderNotFound: there is no such provider."""
    found = provider.load(conn, uuid)
    return found, load(conn, found.id)


@dataclass(frozen=True, slots=True)
class Replacement:
    """A checked replacement of all inventories of locked providers, ready to be written.

    :ivar refused: by provider, the error that prevents the replacement
    """

    present: Mapping[rows.Key, rows.Row]
    wanted: Mapping[rows.Key, Inventory]
    used: Mapping[rows.Key, rows.Use]
    refused: Mapping[provider.Locked, errors.PlacementError]

    def write(self, conn: Connection, providers: Collection[provider.Locked]) -> None:
        """Write the inventories of some providers, none of them refused, without changing generations."""
        ids = {locked.id for locked in providers}
        present = {key: row for key, row in self.present.items() if key[0] in ids}
        wanted = {key: new for key, new in self.wanted.items() if key[0] in ids}
        rows.replace(conn, present, wanted)
        uuids = {locked.id: locked.uuid for locked in providers}
        _warn_of_use(uuids, {key: new for key, new in wanted.items() if key in present}, self.used)


def judge(
    conn: Connection,
    wanted: Mapping[provider.Locked, Inventories],
    found: Mapping[str, int],
    *,
    may_reserve_all: bool | None = None,
    keeping: bool = False,
    created: Collection[str] = (),
) -> Replacement:
    """Check which of these providers may have these inventories and no others.

    :param found: the ids of the classes that exist, by name
    :param keeping: whether the providers keep their inventories of other classes
    :param may_reserve_all: whether an inventory may reserve its total; with None it may even reserve more, as
        in openstack-placement's reshaper
    :param created: UUIDs of providers that this transaction created, whose inventories need not be read
    """
    refused: dict[provider.Locked, errors.PlacementError] = {}
    for locked, new in wanted.items():
        try:
            check(locked.uuid, new, found, may_reserve_all=may_reserve_all)
        except errors.PlacementError as error:
            refused[locked] = error
    allowed = {locked: new for locked, new in wanted.items() if locked not in refused}
    ids = names.keep_classes(conn, {name for new in allowed.values() for name in new}, found)
    by_key = {
        (locked.id, ids[name]): inventory
        for locked, new in allowed.items()
        for name, inventory in new.items()
    }
    present = rows.load(conn, [locked.id for locked in allowed if locked.uuid not in created])
    if keeping:
        by_key = {key: row.inventory for key, row in present.items()} | by_key
    used = rows.find_used(conn, _shrinking(present, by_key))
    held: dict[int, list[str]] = defaultdict(list)
    for key, use in used.items():
        if key not in by_key:
            held[key[0]].append(use.resource_class)
    refused |= {
        locked: errors.InventoryInUse(held[locked.id], locked.uuid) for locked in allowed if locked.id in held
    }
    return Replacement(present, by_key, used, refused)


def check(
    uuid: str, wanted: Inventories, found: Mapping[str, int], *, may_reserve_all: bool | None = None
) -> None:
    """Check what needs no look at a provider of the inventories that it is to have.

    :param found: the ids of the classes that exist, by name
    :param may_reserve_all: as in `judge`
    :raises errors.ReservedTooLarge: an inventory leaves less to allocate than is allowed
    :raises errors.ResourceClassNotFound: a class does not exist
    """
    if may_reserve_all is not None:
        _check_reserved(uuid, wanted, may_reserve_all)
    names.check_classes(wanted, found)


def _shrinking(present: Mapping[rows.Key, rows.Row], wanted: Mapping[rows.Key, Inventory]) -> list[rows.Key]:
    """Return the inventories that are removed or shrink, which are the only ones whose usage matters.

    PERF: raising a ratio does not read the usage, which takes a round trip to the database.
    """
    return [
        key
        for key, row in present.items()
        if key not in wanted or wanted[key].capacity < row.inventory.capacity
    ]


def _check_reserved(uuid: str, wanted: Inventories, may_reserve_all: bool) -> None:
    for name, inventory in wanted.items():
        if inventory.capacity < (0 if may_reserve_all else 1):
            raise errors.ReservedTooLarge(name, uuid, may_equal_total=may_reserve_all)


def _warn_of_use(
    uuids: Mapping[int, str], changed: Mapping[rows.Key, Inventory], used: Mapping[rows.Key, rows.Use]
) -> None:
    """Log a warning for each inventory that shrinks below its usage, which is allowed."""
    for key, use in used.items():
        if key in changed and not changed[key].has_room(0, used=use.used):
            name = use.resource_class
            LOG.warning("Resource provider %s is now over-capacity for %s", uuids[key[0]], name)


def replace(
    conn: Connection,
    uuid: str,
    wanted: Inventories,
    *,
    generation: int | None = None,
    may_reserve_all: bool | None = None,
) -> int:
    """Replace all inventories of a provider by ``wanted``, and return the provider's new generation.

    The provider is locked first, so that nothing can be allocated from an inventory that is removed.

    :param generation: the generation the change is based on, if the client said one
    :param may_reserve_all: as in `judge`
    :raises errors.ProviderNotFound: there is no such provider
    :raises errors.ProviderChanged: its generation is another
    :raises errors.ReservedTooLarge: an inventory leaves less to allocate than is allowed
    :raises errors.ResourceClassNotFound: a class does not exist
    :raises errors.InventoryInUse: consumers hold allocations of a class that would go
    """
    locked = provider.lock(conn, uuid, generation=generation)
    found = names.find_ids(conn, resource_classes, "name", wanted)
    replacement = judge(conn, {locked: wanted}, found, may_reserve_all=may_reserve_all)
    for error in replacement.refused.values():
        raise error
    replacement.write(conn, [locked])
    provider.advance_generations(conn, [locked])
    return locked.generation + 1


def replace_many(conn: Connection, wanted: Mapping[int, Inventories], *, keeping: bool = False) -> None:
    """Replace all inventories of locked providers, given by the ids of the providers.

    :param keeping: whether the providers keep their inventories of other classes
    :raises errors.Retry: a provider does not exist
    :raises errors.ResourceClassNotFound: a class does not exist
    :raises errors.InventoryInUse: consumers hold allocations of a class that would go
    """
    if not wanted:
        return
    locked = provider.lock_ids(conn, wanted.keys()).values()
    found = names.find_ids(conn, resource_classes, "name", {name for new in wanted.values() for name in new})
    by_id = {each.id: each for each in locked}
    replacement = judge(conn, {by_id[id_]: new for id_, new in wanted.items()}, found, keeping=keeping)
    for error in replacement.refused.values():
        raise error
    replacement.write(conn, locked)
    provider.advance_generations(conn, locked)


def add(
    conn: Connection, uuid: str, resource_class: str, inventory: Inventory, *, may_reserve_all: bool = True
) -> int:
    """Add inventory of one class to a provider, and return the provider's new generation.

    :param may_reserve_all: whether the inventory may leave nothing to allocate
    :raises errors.ProviderNotFound: there is no such provider
    :raises errors.ReservedTooLarge: the inventory leaves less to allocate than is allowed
    :raises errors.ResourceClassNotFound: the class does not exist
    :raises errors.ConcurrentUpdate: the provider has inventory of the class already
    """
    locked = provider.lock(conn, uuid)
    _check_reserved(locked.uuid, {resource_class: inventory}, may_reserve_all)
    key = locked.id, names.keep_class_ids(conn, [resource_class])[resource_class]
    if key in rows.load(conn, [locked.id]):
        raise errors.ConcurrentUpdate
    rows.replace(conn, {}, {key: inventory})
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
    _check_reserved(locked.uuid, {resource_class: inventory}, may_reserve_all)
    key = locked.id, names.keep_class_ids(conn, [resource_class])[resource_class]
    stored = rows.load(conn, [locked.id])
    if key not in stored:
        raise errors.InventoryNotFound(resource_class)
    present, wanted = {key: stored[key]}, {key: inventory}
    rows.overwrite(conn, present, wanted)
    _warn_of_use({locked.id: locked.uuid}, wanted, rows.find_used(conn, _shrinking(present, wanted)))
    provider.advance_generations(conn, [locked])
    return locked.generation + 1


def delete(conn: Connection, uuid: str, resource_class: str) -> None:
    """Delete a provider's inventory of one class.

    :raises errors.ProviderNotFound: there is no such provider
    :raises errors.ResourceClassNotFound: the class does not exist
    :raises errors.InventoryInUse: consumers hold allocations of it
    :raises errors.InventoryNotFound: the provider has none of it
    """
    locked = provider.lock(conn, uuid)
    key = locked.id, names.keep_class_ids(conn, [resource_class])[resource_class]
    if held := rows.find_used(conn, [key]):
        raise errors.InventoryInUse([use.resource_class for use in held.values()], locked.uuid)
    if not rows.remove_one(conn, key):
        raise errors.InventoryNotFound(resource_class)
    provider.advance_generations(conn, [locked])
