# SPDX-License-Identifier: Apache-2.0
"""The allocations of consumers, and their replacement without ever exceeding a capacity.

`replace` locks the consumers concerned, by ascending id, then the providers that they will have allocations
on, by ascending id. It compares the generations of the consumers with those that the client knows and, at the
end, the generations of the providers with those read under the lock. The data that it reads after locking, at
READ COMMITTED, include everything that other claims on these providers have committed; no other claim can add
to them before this one commits. After a conflict the whole transaction is repeated
(`engine.Database.write`).

A consumer without a record, as releases before Rocky left them, has no generation, like one without
allocations. The rows of its allocations are locked in place of the record, and are replaced.

`replace_first` is the short form for the claim of a new consumer on one provider, which is most of a cloud's
claims: there is no consumer to lock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

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


class OnProvider(NamedTuple):
    """An allocation on a known provider; ``modified`` is UTC, None if another program did not record it."""

    consumer_uuid: str
    consumer_generation: int
    resource_class: str
    used: int
    modified: datetime | None


class OfConsumer(NamedTuple):
    """An allocation of a known consumer, with the consumer's owner; ``modified`` as in `OnProvider`."""

    provider_uuid: str
    provider_generation: int | None
    resource_class: str
    used: int
    modified: datetime | None
    consumer_generation: int
    project_id: str
    user_id: str
    consumer_type: str | None


_joined: sa.Select[Any] = (
    sa.select(allocations.c.id)
    .select_from(allocations)
    .join(resource_providers, allocations.c.resource_provider_id == resource_providers.c.id)
    .join(resource_classes, allocations.c.resource_class_id == resource_classes.c.id)
    .join(consumers, allocations.c.consumer_id == consumers.c.uuid)
    .join(projects, consumers.c.project_id == projects.c.id)
    .join(users, consumers.c.user_id == users.c.id)
)
_held = _joined.with_only_columns(
    # the fields that contain no blanks in one text, because each column of a row costs
    dialects.packed(
        resource_providers.c.uuid,
        provider.packed_generation,
        consumers.c.uuid,
        consumers.c.generation,
        resource_classes.c.name,
        allocations.c.used,
    ),
    sa.func.coalesce(allocations.c.updated_at, allocations.c.created_at),
).order_by(allocations.c.id)
_held_of_provider = _held.where(resource_providers.c.uuid == sa.bindparam("uuid"))
_held_by_consumer = (
    _held.add_columns(projects.c.external_id, users.c.external_id, consumer_types.c.name)
    .outerjoin(consumer_types, consumers.c.consumer_type_id == consumer_types.c.id)
    .where(allocations.c.consumer_id == sa.bindparam("uuid"))
)


def load_of_consumer(conn: Connection, consumer_uuid: str) -> list[OfConsumer]:
    """Return the allocations of a consumer; none if there is no such consumer."""
    held = []
    for packed, modified, *owner in conn.execute(_held_by_consumer, {"uuid": consumer_uuid}):
        uuid, generation, _, consumer_generation, resource_class, used = packed.split()
        held.append(
            OfConsumer(
                uuid,
                provider.to_generation(int(generation)),
                resource_class,
                int(used),
                modified,
                int(consumer_generation),
                *owner,
            )
        )
    return held


def load_of_provider(conn: Connection, uuid: str) -> tuple[int | None, list[OnProvider]]:
    """Return a provider's generation and the allocations on it.

    :raises errors.ProviderNotFound: there is no such provider
    """
    held = []
    generation = ""
    for packed, modified in conn.execute(_held_of_provider, {"uuid": uuid}):
        _, generation, consumer_uuid, consumer_generation, resource_class, used = packed.split()
        held.append(OnProvider(consumer_uuid, int(consumer_generation), resource_class, int(used), modified))
    if not held:
        return provider.load(conn, uuid).generation, held
    return provider.to_generation(int(generation)), held


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
    query = _joined.with_only_columns(*columns)
    query = query.outerjoin(consumer_types, consumers.c.consumer_type_id == consumer_types.c.id)
    return conn.execute(query.order_by(consumers.c.id)).all()


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
    writers.record(conn, used=_providers_of(held))


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
    (error,) = replace_each(conn, [claims])
    if error is not None:
        raise error


_lock_for_first: sa.Select[Any] = (
    sa.select(
        dialects.packed_integers(
            *provider.LOCKED_COLUMNS,
            # a subquery locks nothing
            *(
                sa.select(sa.func.count()).where(uuid == sa.bindparam("consumer_uuid")).scalar_subquery()
                for uuid in (consumers.c.uuid, allocations.c.consumer_id)
            ),
        )
    )
    .where(resource_providers.c.uuid == sa.bindparam("uuid"))
    .with_for_update(of=resource_providers)
)


def is_first(claim: Claim) -> bool:
    """Return whether `replace_first` is for this claim.

    The client must have said that the consumer is new. Custom classes could be renamed meanwhile.
    """
    if not claim.checked or claim.generation is not None or len(claim.resources) != 1:
        return False
    (amounts,) = claim.resources.values()
    return amounts.keys() <= names.STANDARD_CLASSES.keys()


def replace_first(conn: Connection, claim: Claim) -> bool:
    """Carry out a claim that `is_first`, as `replace` does, and return True.

    Return False, and write nothing, if there is such a consumer, or allocations of it without a record. The
    transaction must end then, because `replace` locks consumers first. A consumer that another transaction
    creates meanwhile is found by its insertion, and the transaction is repeated.

    :raises errors.PlacementError: as `replace` does
    """
    ((uuid, amounts),) = claim.resources.items()
    class_ids = {name: names.STANDARD_CLASSES[name] for name in amounts}
    parameters = {"consumer_uuid": claim.consumer_uuid, "uuid": uuid}
    locked = {}
    for ((*columns, records, held),) in conn.execute(_lock_for_first, parameters):
        if records or held:
            return False
        locked = {uuid: provider.Locked.from_columns(uuid, columns)}
    judge = _Judge.read(conn, {}, {}, locked, class_ids)
    judge.grant([claim])
    _write(conn, [[claim]], judge, names.Known({}))
    return True


def replace_each(conn: Connection, requests: Sequence[Sequence[Claim]]) -> list[errors.PlacementError | None]:
    """Carry out several requests as `replace` does, in order, and return the error of each that is refused.

    Each request is judged as if the ones granted before it were committed already. All consumers and
    providers that any request names are locked before the first is judged, and everything is written after
    the last, so a refused request writes nothing and changes no verdict on the others. No two requests may
    have a consumer in common.
    """
    # names are looked up before anything is locked; a name deleted meanwhile is noticed later. PERF: a single
    # provider is found by its lock, and the owner of a single consumer by its insertion, so that most claims
    # look up nothing, which took a tenth of their time
    claims = [claim for request in requests for claim in request]
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
    by_consumer, before = _lock_consumers(conn, claims)
    if is_only:
        locked = provider.lock_named(conn, named[0])
    else:
        locked = provider.lock_ids(conn, known.of(resource_providers).values(), _released(claims, before))
    class_ids = {**names.STANDARD_CLASSES, **known.of(resource_classes)}
    class_ids = names.keep_classes(conn, classes & class_ids.keys(), class_ids)
    judge = _Judge.read(conn, by_consumer, before, locked, class_ids)
    verdicts: list[errors.PlacementError | None] = []
    granted: list[Sequence[Claim]] = []
    for request in requests:
        try:
            judge.grant(request)
        except errors.PlacementError as error:
            verdicts.append(error)
        else:
            verdicts.append(None)
            granted.append(request)
    if granted:
        _write(conn, granted, judge, known)
    return verdicts


def _write(conn: Connection, granted: Sequence[Sequence[Claim]], judge: _Judge, known: names.Known) -> None:
    """Store the granted requests and increment the generation of each provider once for each request."""
    claims = [claim for request in granted for claim in request]
    consumer_uuids = {claim.consumer_uuid for claim in claims}
    present = {uuid: locked for uuid, locked in judge.consumers.items() if uuid in consumer_uuids}
    before = {uuid: amounts for uuid, amounts in judge.before.items() if uuid in consumer_uuids}
    if before:
        _delete_of(conn, before)
    rows = [
        {"consumer_id": uuid, "resource_provider_id": key[0], "resource_class_id": key[1], "used": amount}
        for claim in claims
        for uuid, key, amount in judge.resolve(claim)
    ]
    if rows:
        conn.execute(_insert, rows)
    owners = {claim.consumer_uuid: claim.owner for claim in claims if claim.resources}
    by_id = {locked.id: locked for locked in judge.providers.values()}
    provider.advance_generations(
        conn,
        [by_id[id_] for request in granted for id_ in sorted(judge.concerned(request))],
        touched=_providers_of(before),
        of_use_only=True,
    )
    if len(claims) > 1:
        consumer.save(conn, consumer.number(conn, owners, known), present)
    else:
        for uuid, owner in owners.items():
            consumer.save_one(conn, uuid, owner, present.get(uuid))
    consumer.delete(conn, [locked for uuid, locked in present.items() if uuid not in owners])


def lock_consumers(conn: Connection, claims: Sequence[Claim]) -> set[int]:
    """Lock the consumers of claims; return the ids of providers that they give back all allocations on."""
    return _released(claims, _lock_consumers(conn, claims)[1])


def _lock_consumers(
    conn: Connection, claims: Sequence[Claim]
) -> tuple[dict[str, consumer.Locked], dict[str, Counter[Key]]]:
    """Lock the consumers of claims until the transaction ends; return those with a record, and what all hold.

    Of a consumer without a record, its allocations are locked, and then it must still have none.

    :raises errors.Retry: another transaction created one of the consumers
    """
    uuids = [claim.consumer_uuid for claim in claims]
    locked = consumer.lock(conn, uuids)
    held = _held_by(conn, uuids)
    if unrecorded := held.keys() - locked.keys():
        held = _held_by(conn, locked) | _held_by(conn, unrecorded, _used_by.with_for_update())
        if names.find_ids(conn, consumers, "uuid", unrecorded):
            raise errors.Retry
    return locked, held


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


def _held_by(
    conn: Connection, consumer_uuids: Collection[str], query: sa.Select[Any] = _used_by
) -> dict[str, Counter[Key]]:
    """Return the present allocations by consumer."""
    held: dict[str, Counter[Key]] = {}
    for uuids in dialects.split(sorted(consumer_uuids)):
        for uuid, provider_id, class_id, used in conn.execute(query, {"uuids": uuids}):
            held.setdefault(canonical_uuid(uuid), Counter())[provider_id, class_id] += used
    return held


_insert = sa.insert(allocations)


@dataclass(slots=True)
class _Judge:
    """The state that claims are judged by, as read under the locks; grants so far are added to it.

    :ivar consumers: the locked consumers, by UUID
    :ivar before: the allocations of these consumers when they were locked
    :ivar providers: the locked providers, by UUID
    :ivar class_ids: the ids of the classes that exist, by name
    :ivar stock: the inventories that a claim may be allocated from
    :ivar used: the usage of each of them
    """

    consumers: Mapping[str, consumer.Locked]
    before: Mapping[str, Counter[Key]]
    providers: Mapping[str, provider.Locked]
    class_ids: Mapping[str, int]
    stock: dict[Key, Inventory]
    used: dict[Key, int]

    @classmethod
    def read(
        cls,
        conn: Connection,
        consumers: Mapping[str, consumer.Locked],
        before: Mapping[str, Counter[Key]],
        providers: Mapping[str, provider.Locked],
        class_ids: Mapping[str, int],
    ) -> _Judge:
        """Read the inventories of these classes on the locked providers, with their usage."""
        stock: dict[Key, Inventory] = {}
        used: dict[Key, int] = {}
        if class_ids:
            for ids in dialects.split(sorted(locked.id for locked in providers.values())):
                for key, fields, amount in inventory_rows.read_stocks(conn, ids, sorted(class_ids.values())):
                    stock[key], used[key] = Inventory(*fields), amount
        return cls(consumers, before, providers, class_ids, stock, used)

    def resolve(self, claim: Claim) -> list[tuple[str, Key, int]]:
        """Return the lines of a claim, with ids in place of names: (consumer's UUID, key, amount)."""
        return [
            (claim.consumer_uuid, (self.providers[uuid].id, self.class_ids[name]), amount)
            for uuid, resources in claim.resources.items()
            for name, amount in resources.items()
        ]

    def concerned(self, request: Sequence[Claim]) -> set[int]:
        """Return the ids of the providers whose generation a request increments."""
        named = {self.providers[uuid].id for claim in request for uuid in claim.resources}
        # a script may have deleted a provider in use
        present = {locked.id for locked in self.providers.values()}
        return named | (_released(request, self.before) & present)

    def grant(self, request: Sequence[Claim]) -> None:
        """Add the claims of a request to the usage; :raises errors.PlacementError: as `replace` does."""
        for claim in request:
            present = self.consumers.get(claim.consumer_uuid)
            generation = None if present is None else present.generation
            if claim.checked and generation != claim.generation:
                raise errors.ConsumerChanged(generation, claim.generation)
        for claim in request:
            for uuid in claim.resources:
                if uuid not in self.providers:
                    raise errors.ProviderNotFound(uuid)
        names.check_classes(
            (name for claim in request for amounts in claim.resources.values() for name in amounts),
            self.class_ids,
        )
        lines = [line for claim in request for line in self.resolve(claim)]
        given_back: Counter[Key] = sum(
            (self.before[claim.consumer_uuid] for claim in request if claim.consumer_uuid in self.before),
            Counter(),
        )
        provider_names = {locked.id: uuid for uuid, locked in self.providers.items()}
        class_names = {id_: name for name, id_ in self.class_ids.items()}
        # one error names every provider without inventory of any of the classes
        wanted_classes = {key[1] for _, key, _ in lines}
        stocked = {provider_id for provider_id, class_id in self.stock if class_id in wanted_classes}
        if bare := {key[0] for _, key, _ in lines} - stocked:
            classes = ", ".join(class_names[id_] for id_ in sorted(wanted_classes))
            raise errors.InventoryUnfit(classes, ", ".join(provider_names[id_] for id_ in sorted(bare)))
        wanted: Counter[Key] = Counter()
        for _, key, amount in lines:
            wanted[key] += amount
            inventory = self.stock.get(key)
            names_of = (class_names[key[1]], provider_names[key[0]])
            if inventory is None:
                raise errors.InventoryUnfit(*names_of)
            if not inventory.fits_unit(amount):
                raise errors.ConstraintsViolated(*names_of)
            others = self.used[key] - given_back[key]
            if not inventory.has_room(wanted[key], used=others) and wanted[key] > given_back[key]:
                raise errors.CapacityExceeded(*names_of)
        for key in self.used.keys() & (wanted.keys() | given_back.keys()):
            self.used[key] += wanted[key] - given_back[key]
