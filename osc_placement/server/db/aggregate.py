# SPDX-License-Identifier: Apache-2.0
"""The membership of providers in aggregates. An aggregate is a UUID whose meaning other services define."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import sqlalchemy as sa

from osc_placement.server.db import association, names, provider, writers
from osc_placement.server.db.tables import placement_aggregates, resource_provider_aggregates

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


def load(conn: Connection, uuid: str) -> tuple[provider.Provider, list[str]]:
    """Return a provider and the UUIDs of its aggregates; :raises errors.ProviderNotFound: there is none."""
    found = provider.load(conn, uuid)
    query = (
        sa.select(placement_aggregates.c.uuid)
        .join(
            resource_provider_aggregates,
            resource_provider_aggregates.c.aggregate_id == placement_aggregates.c.id,
        )
        .where(resource_provider_aggregates.c.resource_provider_id == found.id)
        .order_by(placement_aggregates.c.id)
    )
    return found, list(conn.scalars(query))


def replace(conn: Connection, uuid: str, aggregates: Collection[str], *, generation: int | None) -> int:
    """Make a provider a member of these aggregates and of no others; return its generation afterwards.

    :param aggregates: their UUIDs; those that are not in the database yet are created
    :param generation: the generation the change is based on, which the change increments; None for clients
        older than 1.19, whose changes do not increment it
    :raises errors.ProviderNotFound: there is no such provider
    :raises errors.ProviderChanged: its generation is a different one
    """
    locked = provider.lock(conn, uuid, generation=generation)
    # before the memberships are read, also for a change with a generation: one without does not write the
    # provider's row, so nothing else tells this transaction that another node has changed them
    writers.collide(conn, [locked.id])
    known = names.find_known(conn, {(placement_aggregates, "uuid"): aggregates})
    wanted = set(known.ensure(conn, placement_aggregates, "uuid", aggregates).values())
    association.AGGREGATES.replace(conn, {locked.id: wanted})
    if generation is None:
        writers.record(conn, contents=[locked.id])
        return locked.generation
    provider.advance_generations(conn, [locked])
    return locked.generation + 1
