# SPDX-License-Identifier: Apache-2.0
"""Statements that count and repair rows written by old releases of placement.

Providers of releases without trees have no root; allocations of releases without consumers have no consumer.
The schema may be at any revision, so no statement uses a column that was added later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from oslo_db import exception as db_exc

from osc_placement.server import errors
from osc_placement.server.db import writers
from osc_placement.server.db.tables import allocations, consumers, resource_providers

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


def is_root_missing(conn: Connection) -> bool:
    """Return whether a provider without a root exists."""
    rootless = resource_providers.c.root_provider_id.is_(None)
    return conn.execute(sa.select(resource_providers.c.id).where(rootless).limit(1)).first() is not None


def set_roots(conn: Connection, limit: int) -> int:
    """Set the root of at most ``limit`` providers without one to themselves; return how many were set."""
    columns = resource_providers.c
    query = sa.select(columns.id).where(columns.root_provider_id.is_(None)).order_by(columns.id)
    ids = conn.scalars(query.limit(limit).with_for_update()).all()
    if ids:
        statement = sa.update(resource_providers).where(columns.id.in_(ids))
        conn.execute(statement.values(root_provider_id=columns.id))
        writers.record(conn, everything=True)
    return len(ids)


def _select_missing_consumers() -> sa.Select[tuple[str]]:
    known = sa.exists().where(consumers.c.uuid == allocations.c.consumer_id)
    return sa.select(allocations.c.consumer_id).where(~known).distinct()


def count_missing_consumers(conn: Connection) -> int:
    """Return the number of consumers that have allocations but no row."""
    missing = _select_missing_consumers().subquery()
    return conn.execute(sa.select(sa.func.count()).select_from(missing)).scalar_one()


def create_consumers(conn: Connection, project_id: int, user_id: int, limit: int) -> int:
    """Create at most ``limit`` missing consumers, owned by this project and user; return how many."""
    query = _select_missing_consumers().order_by(allocations.c.consumer_id).limit(limit)
    rows = [{"uuid": uuid, "project_id": project_id, "user_id": user_id} for uuid in conn.scalars(query)]
    try:
        if rows:
            conn.execute(sa.insert(consumers), rows)
            writers.record(conn, everything=True)
    except db_exc.DBDuplicateEntry as error:
        raise errors.Retry from error
    return len(rows)
