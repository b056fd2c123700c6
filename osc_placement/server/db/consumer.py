# SPDX-License-Identifier: Apache-2.0
"""Consumers: the owners of allocations, each with its project, user, type and generation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from oslo_db import exception as db_exc

from osc_placement.model import canonical_uuid
from osc_placement.server import errors
from osc_placement.server.db import dialects, names
from osc_placement.server.db.tables import consumer_types, consumers, projects, users

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


@dataclass(frozen=True, slots=True)
class Owner:
    """The project and user of a consumer, and its type if it has one, as clients name them."""

    project: str
    user: str
    consumer_type: str | None = None


@dataclass(frozen=True, slots=True)
class OwnerIds:
    """The project, user and type of a consumer by their ids in the database."""

    project_id: int
    user_id: int
    consumer_type_id: int | None


@dataclass(frozen=True, slots=True)
class Locked:
    """A consumer that no other transaction can change before this one ends."""

    id: int
    generation: int
    owner: OwnerIds


_select_locking = (
    sa.select(
        consumers.c.uuid,
        dialects.packed_integers(
            consumers.c.id,
            consumers.c.generation,
            consumers.c.project_id,
            consumers.c.user_id,
            sa.func.coalesce(consumers.c.consumer_type_id, 0),
        ),
    )
    .order_by(consumers.c.id)
    .with_for_update()
)
_lock_named = _select_locking.where(consumers.c.uuid.in_(sa.bindparam("uuids", expanding=True)))
_lock_by_ids = _select_locking.where(consumers.c.id.in_(sa.bindparam("ids", expanding=True)))


def lock(conn: Connection, uuids: Collection[str]) -> dict[str, Locked]:
    """Lock those of the consumers that exist, by ascending id, and return them by UUID."""
    wanted = sorted(set(uuids))
    if len(wanted) <= dialects.PORTION:
        rows: Iterable[Any] = conn.execute(_lock_named, {"uuids": wanted})
    else:
        # locking in portions by UUID would not be in the order of other transactions
        ids = sorted(names.find_ids(conn, consumers, "uuid", wanted).values())
        rows = chain.from_iterable(
            conn.execute(_lock_by_ids, {"ids": portion}) for portion in dialects.split(ids)
        )
    # other servers may have stored capital letters, which MariaDB treats as equal
    return {
        canonical_uuid(uuid): Locked(id_, generation, OwnerIds(project_id, user_id, type_id or None))
        for uuid, (id_, generation, project_id, user_id, type_id) in rows
    }


def names_of(owners: Collection[Owner]) -> names.Wanted:
    """Return the projects, users and types of these owners, for a lookup."""
    return {
        (projects, "external_id"): {owner.project for owner in owners},
        (users, "external_id"): {owner.user for owner in owners},
        (consumer_types, "name"): {owner.consumer_type for owner in owners if owner.consumer_type},
    }


def number(conn: Connection, owners: Mapping[str, Owner], known: names.Known) -> dict[str, OwnerIds]:
    """Return the owners as ids, by the same keys; create projects, users and types that do not exist.

    All projects come first, then all users, then all types, so that transactions which create the same names
    wait for each other in one order.
    """
    every = owners.values()
    project_ids = known.ensure(conn, projects, "external_id", {owner.project for owner in every})
    user_ids = known.ensure(conn, users, "external_id", {owner.user for owner in every})
    types = {owner.consumer_type for owner in every if owner.consumer_type}
    type_ids = known.ensure(conn, consumer_types, "name", types)
    return {
        key: OwnerIds(
            project_ids[owner.project],
            user_ids[owner.user],
            type_ids[owner.consumer_type] if owner.consumer_type else None,
        )
        for key, owner in owners.items()
    }


_insert = sa.insert(consumers)
_advance = (
    sa.update(consumers)
    # the condition on ids lets SQLite use the primary key, which it does not for pairs
    .where(
        consumers.c.id.in_(sa.bindparam("ids", expanding=True)),
        sa.tuple_(consumers.c.id, consumers.c.generation).in_(sa.bindparam("seen", expanding=True)),
    )
    .values(generation=consumers.c.generation + 1)
)


def save(conn: Connection, owners: Mapping[str, OwnerIds], present: Mapping[str, Locked]) -> None:
    """Increment the generations of consumers whose allocations changed; a new consumer gets generation 1.

    :param owners: the new owners, by the consumer's UUID; without a type, a consumer keeps the one it has
    :param present: those of the consumers that existed before, by UUID
    :raises errors.Retry: another transaction created or changed a consumer in spite of the lock
    :raises errors.GenerationExhausted: a generation is the largest that the database stores
    """
    rows = [
        {"uuid": uuid, "generation": 1, **asdict(owner)}
        for uuid, owner in sorted(owners.items())
        if uuid not in present
    ]
    if rows:
        with _retrying_duplicates():
            conn.execute(_insert, rows)
    kept = {uuid: present[uuid] for uuid in owners if uuid in present}
    for uuid, consumer in kept.items():
        if dialects.of(conn).is_last_generation(consumer.generation):
            raise errors.GenerationExhausted(consumers.name, uuid, consumer.generation)
    for seen in dialects.split([(consumer.id, consumer.generation) for consumer in kept.values()]):
        if conn.execute(_advance, {"ids": [id_ for id_, _ in seen], "seen": seen}).rowcount != len(seen):
            raise errors.Retry
    for uuid, consumer in kept.items():
        owner = owners[uuid]
        if owner.consumer_type_id is None:
            owner = replace(owner, consumer_type_id=consumer.owner.consumer_type_id)
        if owner != consumer.owner:
            conn.execute(sa.update(consumers).where(consumers.c.id == consumer.id).values(asdict(owner)))


def save_one(conn: Connection, uuid: str, owner: Owner, present: Locked | None) -> None:
    """Do as `save` for one consumer whose owner was not looked up; ``present`` if it existed before.

    A new consumer whose project, user and type exist is inserted by one statement. MariaDB lets no other
    transaction insert consumers until such a statement ends. The statement may wait for a transaction that
    inserts the same consumer, which at that point has only its commit left.
    """
    if present is None:
        with _retrying_duplicates():
            values = {"uuid": uuid, **asdict(owner)}
            if conn.execute(_insert_by_names[owner.consumer_type is not None], values).rowcount > 0:
                return
    ids = number(conn, {uuid: owner}, names.find_known(conn, names_of([owner])))
    save(conn, ids, {} if present is None else {uuid: present})


def _inserting_by_names(*, typed: bool) -> sa.Insert:
    """Return a statement that inserts a consumer by names, and inserts nothing if one does not exist."""
    looked_up = [
        _id_of(projects, "external_id", "project").label("project_id"),
        _id_of(users, "external_id", "user").label("user_id"),
    ]
    if typed:
        looked_up.append(_id_of(consumer_types, "name", "consumer_type").label("consumer_type_id"))
    found = sa.select(*looked_up).subquery()
    values = (sa.bindparam("uuid", type_=sa.String), sa.literal(1), *found.c)
    there = (id_.is_not(None) for id_ in found.c)
    inserted = sa.insert(consumers).from_select(
        ("uuid", "generation", *found.c.keys()), sa.select(*values).where(*there)
    )
    # otherwise the row count would be read from a closed cursor, which psycopg 3 does not allow
    return inserted.execution_options(preserve_rowcount=True)


def _id_of(table: sa.Table, column: str, parameter: str) -> sa.ScalarSelect[Any]:
    return sa.select(table.c.id).where(table.c[column] == sa.bindparam(parameter)).scalar_subquery()


_insert_by_names = {typed: _inserting_by_names(typed=typed) for typed in (False, True)}


@contextmanager
def _retrying_duplicates() -> Iterator[None]:
    """Raise Retry if another transaction created the consumer meanwhile."""
    try:
        yield
    except db_exc.DBDuplicateEntry as error:
        raise errors.Retry from error


_delete = sa.delete(consumers).where(consumers.c.id.in_(sa.bindparam("ids", expanding=True)))


def delete(conn: Connection, present: Sequence[Locked]) -> None:
    """Delete consumers that have no allocations any more."""
    for ids in dialects.split(sorted(consumer.id for consumer in present)):
        conn.execute(_delete, {"ids": ids})
