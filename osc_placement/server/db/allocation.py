# SPDX-License-Identifier: Apache-2.0
"""The allocations of consumers, and their replacement without ever exceeding a capacity.

`replace` locks the consumers concerned, by ascending id, then the providers that they will have allocations
on, by ascending id. It compares the generations of the consumers with those that the client knows and, at the
end, the generations of the providers with those read under the lock. The data that it reads after locking, at
READ COMMITTED, include everything that other claims on these providers have committed; no other claim can add
to them before this one commits. After a conflict the whole transaction is repeated
(`engine.Database.write`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from osc_placement.model import Inventory, canonical_uuid
from osc_placement.server import errors
from osc_placement.server.db import consumer, dialects, inventory_rows, names, provider, writers
from osc_placement.server.db.tables import (
    allocations,
    consumer_types,
    consumers,
    projects,
    resource_classes,
    resource_providers,
    users,
)

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.engine import Connection

#: amounts by name of resource class, by UUID of provider
Resources = Mapping[str, Mapping[str, int]]

#: (id of provider, id of resource class)
Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Claim:
    """All that a consumer will hold; nothing if ``resources`` is empty.

    :ivar generation: the consumer's generation as the client knows it, None for a new consumer; compared
        only if ``checked``, which clients older than 1.28 cannot request
    """

    consumer_uuid: str
    owner: consumer.Owner
    resources: Resources
    generation: int | None = None
    checked: bool = False


@dataclass(frozen=True, slots=True)
class Held:
    """One allocation as it is stored, with the data that answers show about it; ``modified`` is UTC."""

    provider_uuid: str
    provider_generation: int
    consumer_uuid: str
    consumer_generation: int
    resource_class: str
    used: int
    modified: datetime
    project_id: str
    user_id: str
    consumer_type: str | None


_held: sa.Select[Any] = (
    sa.select(
        resource_providers.c.uuid,
        resource_providers.c.generation,
        consumers.c.uuid,
        consumers.c.generation,
        resource_classes.c.name,
        allocations.c.used,
        sa.func.coalesce(allocations.c.updated_at, allocations.c.created_at),
        projects.c.external_id,
        users.c.external_id,
        consumer_types.c.name,
    )
    .select_from(allocations)
    .join(resource_providers, allocations.c.resource_provider_id == resource_providers.c.id)
    .join(resource_classes, allocations.c.resource_class_id == resource_classes.c.id)
    .join(consumers, allocations.c.consumer_id == consumers.c.uuid)
    .join(projects, consumers.c.project_id == projects.c.id)
    .join(users, consumers.c.user_id == users.c.id)
    .outerjoin(consumer_types, consumers.c.consumer_type_id == consumer_types.c.id)
    .order_by(allocations.c.id)
)


_held_by_consumer = _held.where(allocations.c.consumer_id == sa.bindparam("uuid"))
_held_of_provider = _held.where(allocations.c.resource_provider_id == sa.bindparam("id"))


def load_of_consumer(conn: Connection, consumer_uuid: str) -> list[Held]:
    """Return the allocations of a consumer; none if there is no such consumer."""
    return [Held(*row) for row in conn.execute(_held_by_consumer, {"uuid": consumer_uuid})]


def load_all(conn: Connection) -> Sequence[Any]:
    """Return all allocations, as rows of consumer, generation, project, user, type, provider, class, amount.

    PERF: the rows of the driver are returned as they are, because every instance of a cloud has some. They
    are ordered by consumer, so that a caller can render one consumer at a time.
    """
    columns = (
        consumers.c.uuid,
        consumers.c.generation,
        projects.c.external_id,
        users.c.external_id,
        consumer_types.c.name,
        resource_providers.c.uuid,
        resource_classes.c.name,
        allocations.c.used,
    )
    return conn.execute(_held.with_only_columns(*columns).order_by(None).order_by(consumers.c.id)).all()


def load_of_provider(conn: Connection, uuid: str) -> tuple[provider.Provider, list[Held]]:
    """Return a provider and the allocations on it; :raises errors.ProviderNotFound: there is none."""
    found = provider.load(conn, uuid)
    return found, [Held(*row) for row in conn.execute(_held_of_provider, {"id": found.id})]


def delete(conn: Connection, consumer_uuid: str) -> None:
    """Delete a consumer and all its allocations.

    :raises errors.AllocationsNotFound: it holds nothing
    """
    locked = consumer.lock(conn, [consumer_uuid])
    # without a row nothing was locked, and allocations that another claim has added since must stay
    held = _held_by(conn, locked)
    if not locked or not _delete_of(conn, [consumer_uuid]):
        raise errors.AllocationsNotFound(consumer_uuid)
    consumer.delete(conn, list(locked.values()))
    changes = consumer.weigh_changes(locked, kept=())
    writers.record(conn, touched=_providers_of(held), consumers=changes, of_use_only=True)


def _providers_of(held: Mapping[str, Counter[Key]]) -> set[int]:
    return {provider_id for amounts in held.values() for provider_id, _ in amounts}


_delete = sa.delete(allocations).where(allocations.c.consumer_id.in_(sa.bindparam("uuids", expanding=True)))


def _delete_of(conn: Connection, consumer_uuids: Collection[str]) -> int:
    return sum(
        conn.execute(_delete, {"uuids": uuids}).rowcount for uuids in dialects.split(sorted(consumer_uuids))
    )


def replace(conn: Connection, claims: Sequence[Claim]) -> None:
    """Replace the allocations of each claim's consumer; if one claim is refused, none is carried out.

    A claim may reduce the usage of a provider that is over its capacity already.

    :raises errors.ConsumerChanged: a consumer is not at the generation the client knows
    :raises errors.ProviderNotFound: a provider does not exist
    :raises errors.ResourceClassNotFound: a class does not exist
    :raises errors.InventoryUnfit: a provider lacks the inventory, or an amount is not allowed, or too much
    """
    # names are looked up before anything is locked; a name deleted meanwhile is noticed later. PERF: a single
    # provider is found by its lock, and the owner of a single consumer by its insertion, so that most claims
    # look up nothing, which took a tenth of their time
    named = list(dict.fromkeys(uuid for claim in claims for uuid in claim.resources))
    is_only = len(named) == 1 and all(claim.resources for claim in claims)
    classes = {name for claim in claims for amounts in claim.resources.values() for name in amounts}
    mentioned: dict[Any, Collection[str]] = {}
    mentioned[resource_classes, "name"] = classes - names.STANDARD_CLASSES.keys()
    if len(claims) > 1:
        mentioned |= consumer.names_of([claim.owner for claim in claims if claim.resources])
    if not is_only:
        mentioned[resource_providers, "uuid"] = named
    known = names.find_known(conn, mentioned)
    by_consumer = consumer.lock(conn, [claim.consumer_uuid for claim in claims])
    for claim in claims:
        present = by_consumer.get(claim.consumer_uuid)
        generation = None if present is None else present.generation
        if claim.checked and generation != claim.generation:
            raise errors.ConsumerChanged(generation, claim.generation)
    before = _held_by(conn, by_consumer)
    if is_only:
        locked = {named[0]: provider.lock(conn, named[0])}
    else:
        ids = known.of(resource_providers)
        for uuid in named:
            if uuid not in ids:
                raise errors.ProviderNotFound(uuid)
        locked = provider.lock_ids(conn, {*ids.values(), *_released(claims, before)})
    wanted = _Wanted.resolve(conn, claims, known, {uuid: locked_.id for uuid, locked_ in locked.items()})
    _judge(conn, wanted, {locked_.id: uuid for uuid, locked_ in locked.items()}, before)
    if before:
        _delete_of(conn, before)
    wanted.insert(conn)
    owners = {claim.consumer_uuid: claim.owner for claim in claims if claim.resources}
    provider.advance_generations(
        conn,
        list(locked.values()),
        touched=_providers_of(before),
        consumers=consumer.weigh_changes(by_consumer, kept=owners.keys()),
        of_use_only=True,
    )
    if len(claims) > 1:
        consumer.save(conn, consumer.number(conn, owners, known), by_consumer)
    else:
        for uuid, owner in owners.items():
            consumer.save_one(conn, uuid, owner, by_consumer.get(uuid))
    consumer.delete(conn, [present for uuid, present in by_consumer.items() if uuid not in owners])


def find_released(conn: Connection, claims: Sequence[Claim]) -> set[int]:
    """Return the ids of the providers that locked consumers give back all their allocations on."""
    return _released(claims, _held_by(conn, [claim.consumer_uuid for claim in claims]))


def _released(claims: Sequence[Claim], before: Mapping[str, Counter[Key]]) -> set[int]:
    # their generations are incremented, as by openstack-placement, although nothing is claimed on them
    emptied = {claim.consumer_uuid for claim in claims if not claim.resources}
    return {key[0] for uuid in emptied for key in before.get(uuid, ())}


_used_by = sa.select(
    allocations.c.consumer_id,
    allocations.c.resource_provider_id,
    allocations.c.resource_class_id,
    allocations.c.used,
).where(allocations.c.consumer_id.in_(sa.bindparam("uuids", expanding=True)))


def _held_by(conn: Connection, consumer_uuids: Collection[str]) -> dict[str, Counter[Key]]:
    """Return the present allocations by consumer."""
    held: dict[str, Counter[Key]] = {}
    for uuids in dialects.split(sorted(consumer_uuids)):
        for uuid, provider_id, class_id, used in conn.execute(_used_by, {"uuids": uuids}):
            held.setdefault(canonical_uuid(uuid), Counter())[provider_id, class_id] += used
    return held


_insert = sa.insert(allocations)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Claims with ids in place of names: (consumer's UUID, (provider's id, class's id), amount)."""

    amounts: Sequence[tuple[str, Key, int]]
    class_names: Mapping[int, str]

    @classmethod
    def resolve(
        cls,
        conn: Connection,
        claims: Sequence[Claim],
        known: names.Known,
        provider_ids: Mapping[str, int],
    ) -> _Wanted:
        """Return the claims with the ids of providers and classes; raise as `replace` does."""
        lines = [
            (claim.consumer_uuid, provider_uuid, resource_class, amount)
            for claim in claims
            for provider_uuid, resources in claim.resources.items()
            for resource_class, amount in resources.items()
        ]
        if not lines:
            return cls((), {})
        classes = dict.fromkeys(line[2] for line in lines)
        found = {**names.STANDARD_CLASSES, **known.of(resource_classes)}
        class_ids = names.keep_classes(conn, classes, found)
        amounts = [(uuid, (provider_ids[of], class_ids[name]), amount) for uuid, of, name, amount in lines]
        return cls(amounts, {id_: name for name, id_ in class_ids.items()})

    def insert(self, conn: Connection) -> None:
        """Store the allocations."""
        rows = [
            {"consumer_id": uuid, "resource_provider_id": key[0], "resource_class_id": key[1], "used": amount}
            for uuid, key, amount in self.amounts
        ]
        if rows:
            conn.execute(_insert, rows)


def _judge(
    conn: Connection,
    wanted: _Wanted,
    provider_uuids: Mapping[int, str],
    before: Mapping[str, Counter[Key]],
) -> None:
    """Raise InventoryUnfit if a provider cannot have the wanted allocations in place of the present ones."""
    if not wanted.amounts:
        return
    stock: dict[Key, Inventory] = {}
    used: dict[Key, int] = {}
    class_ids = sorted(wanted.class_names)
    for ids in dialects.split(sorted({provider_id for _, (provider_id, _), _ in wanted.amounts})):
        for key, fields, amount in inventory_rows.read_stocks(conn, ids, class_ids):
            stock[key], used[key] = Inventory(*fields), amount
    # one error names every provider without inventory of any of the classes
    stocked = {provider_id for provider_id, _ in stock}
    if bare := {provider_id for _, (provider_id, _), _ in wanted.amounts} - stocked:
        classes = ", ".join(wanted.class_names[id_] for id_ in class_ids)
        raise errors.InventoryUnfit(classes, ", ".join(provider_uuids[id_] for id_ in sorted(bare)))
    given_back: Counter[Key] = sum(before.values(), Counter())
    so_far: Counter[Key] = Counter()
    for _, key, amount in wanted.amounts:
        so_far[key] += amount
        inventory = stock.get(key)
        names_of = (wanted.class_names[key[1]], provider_uuids[key[0]])
        if inventory is None:
            raise errors.InventoryUnfit(*names_of)
        if not inventory.fits_unit(amount):
            raise errors.ConstraintsViolated(*names_of)
        others = used[key] - given_back[key]
        if not inventory.has_room(so_far[key], used=others) and so_far[key] > given_back[key]:
            raise errors.CapacityExceeded(*names_of)
