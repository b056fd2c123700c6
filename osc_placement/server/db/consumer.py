# SPDX-License-Identifier: Apache-2.0
"""Consumers: who holds allocations, for which project and user, of which type, at which generation."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import sqlalchemy as sa
from oslo_db import exception as db_exc

from osc_placement.model import canonical_uuid
from osc_placement.server import errors
from osc_placement.server.db.tables import consumers

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


@dataclass(frozen=True, slots=True)
class Owner:
    """The ids of the project and user a consumer belongs to, and of its type where it has one."""

    project_id: int
    user_id: int
    consumer_type_id: int | None


@dataclass(frozen=True, slots=True)
class Locked:
    """A consumer that nobody else can change before this transaction ends."""

    id: int
    generation: int
    owner: Owner


def lock(conn: Connection, uuids: Collection[str]) -> dict[str, Locked]:
    """Lock the consumers that exist of these, by ascending id, and return them by UUID."""
    columns = consumers.c
    query = sa.select(
        columns.id,
        columns.uuid,
        columns.generation,
        columns.project_id,
        columns.user_id,
        columns.consumer_type_id,
    )
    rows = conn.execute(
        query.where(columns.uuid.in_(sorted(set(uuids)))).order_by(columns.id).with_for_update()
    )
    # other servers may have stored capitals, which to MariaDB are the same
    return {canonical_uuid(row.uuid): Locked(row.id, row.generation, Owner(*row[3:])) for row in rows}


def save(conn: Connection, owners: Mapping[str, Owner], present: Mapping[str, Locked]) -> None:
    """Record that the allocations of consumers were changed: generations move on, from none to 1.

    :param owners: to whom the consumers belong now, by UUID; a type one has is kept if none is named
    :param present: those of them that existed before, by UUID
    :raises errors.Retry: somebody else created or changed a consumer in spite of the lock
    """
    _insert(conn, {uuid: owner for uuid, owner in owners.items() if uuid not in present})
    kept = [uuid for uuid in owners if uuid in present]
    _advance_generations(conn, [present[uuid] for uuid in kept])
    for uuid in kept:
        _change_owner(conn, present[uuid], owners[uuid])


def _insert(conn: Connection, owners: Mapping[str, Owner]) -> None:
    rows = [{"uuid": uuid, "generation": 1, **asdict(owner)} for uuid, owner in sorted(owners.items())]
    try:
        if rows:
            conn.execute(sa.insert(consumers), rows)
    except db_exc.DBDuplicateEntry as error:
        raise errors.Retry from error


def _advance_generations(conn: Connection, present: Sequence[Locked]) -> None:
    columns = consumers.c
    seen = [(consumer.id, consumer.generation) for consumer in present]
    statement = (
        sa.update(consumers)
        # the ids by themselves let SQLite use the primary key, which it does not for pairs
        .where(columns.id.in_([id_ for id_, _ in seen]), sa.tuple_(columns.id, columns.generation).in_(seen))
        .values(generation=columns.generation + 1)
    )
    if seen and conn.execute(statement).rowcount != len(seen):
        raise errors.Retry


def _change_owner(conn: Connection, present: Locked, owner: Owner) -> None:
    if owner.consumer_type_id is None:
        owner = replace(owner, consumer_type_id=present.owner.consumer_type_id)
    if owner != present.owner:
        conn.execute(sa.update(consumers).where(consumers.c.id == present.id).values(asdict(owner)))


def delete(conn: Connection, present: Sequence[Locked]) -> None:
    """Forget consumers that hold nothing any more."""
    if present:
        ids = sorted(consumer.id for consumer in present)
        conn.execute(sa.delete(consumers).where(consumers.c.id.in_(ids)))
