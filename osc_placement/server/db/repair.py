# SPDX-License-Identifier: Apache-2.0
"""Statements about rows that old releases of placement wrote: how many there are, and their repair.

Providers from before there were trees have no root; allocations from before there were consumers have none.
They are read from a schema of any revision, so nothing here touches a column that came later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from oslo_db import exception as db_exc

from osc_placement.server import errors
from osc_placement.server.db.tables import allocations, consumers, resource_providers

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


def is_root_missing(conn: Connection) -> bool:
    """Whether a provider has no root."""
    rootless = resource_providers.c.root_provider_id.is_(None)
    return conn.execute(sa.select(resource_providers.c.id).where(rootless).limit(1)).first() is not None


def set_roots(conn: Connection, limit: int) -> int:
    """Make at most so many providers that have no root the roots they are; how many."""
    columns = resource_providers.c
    query = sa.select(columns.id).where(columns.root_provider_id.is_(None)).order_by(columns.id)
    ids = conn.scalars(query.limit(limit).with_for_update()).all()
    if ids:
        statement = sa.update(resource_providers).where(columns.id.in_(ids))
        conn.execute(statement.values(root_provider_id=columns.id))
    return len(ids)


def _select_missing_consumers() -> sa.Select[tuple[str]]:
    known = sa.exists().where(consumers.c.uuid == allocations.c.consumer_id)
    return sa.select(allocations.c.consumer_id).where(~known).distinct()


def count_missing_consumers(conn: Connection) -> int:
    """How many consumers have allocations and no row of their own."""
    missing = _select_missing_consumers().subquery()
    return conn.execute(sa.select(sa.func.count()).select_from(missing)).scalar_one()


def create_consumers(conn: Connection, project_id: int, user_id: int, limit: int) -> int:
    """Create at most so many of the missing consumers, owned by this project and user; how many."""
    query = _select_missing_consumers().order_by(allocations.c.consumer_id).limit(limit)
    rows = [{"uuid": uuid, "project_id": project_id, "user_id": user_id} for uuid in conn.scalars(query)]
    try:
        if rows:
            conn.execute(sa.insert(consumers), rows)
    except db_exc.DBDuplicateEntry as error:
        raise errors.Retry from error
    return len(rows)
