# SPDX-License-Identifier: Apache-2.0
"""Statements that count and repair rows written by old releases of placement.

Providers of releases without trees have no root; allocations of releases without consumers have no consumer.
The schema may be at any revision, so no statement uses a column that was added later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

import sqlalchemy as sa
from oslo_db import exception as db_exc

from osc_placement.server import errors
from osc_placement.server.db import dialects, provider, writers
from osc_placement.server.db.tables import allocations, consumers, resource_providers

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


def is_root_missing(conn: Connection) -> bool:
    """Return whether a provider without a root exists."""
    rootless = resource_providers.c.root_provider_id.is_(None)
    return conn.execute(sa.select(resource_providers.c.id).where(rootless).limit(1)).first() is not None


def set_roots(conn: Connection, limit: int) -> int:
    """Set the roots of providers without one, or with another than their parent's; return how many were set.

    At most ``limit`` are looked for, and their ancestors are repaired with them. All are locked, as by a
    move, so that the provider at the top of the tree stays there.

    :raises errors.Retry: one of them was moved or deleted before it was locked
    """
    columns, above = resource_providers.c, resource_providers.alias()
    is_wrong = columns.root_provider_id.is_(None) | (columns.root_provider_id != above.c.root_provider_id)
    query = sa.select(columns.id).outerjoin(above, columns.parent_provider_id == above.c.id).where(is_wrong)
    unread = set(conn.scalars(query.order_by(columns.id).limit(limit)))
    parents: dict[int, int | None] = {}
    while unread:
        found: dict[int, int | None] = {}
        for portion in dialects.split(sorted(unread)):
            place = sa.select(columns.id, columns.parent_provider_id).where(columns.id.in_(portion))
            found |= dict(conn.execute(place).all())
        parents |= found
        unread = {id_ for id_ in found.values() if id_ is not None} - parents.keys()
    locked = provider.lock_ids(conn, parents).values()
    if {each.id: each.parent_id for each in locked} != parents:
        raise errors.Retry
    trees: dict[int | None, list[int]] = defaultdict(list)
    for id_ in sorted(parents):
        root_id = _find_top(id_, parents)
        # PERF: providers without a parent, which is most of them, are updated together
        trees[None if root_id == id_ else root_id].append(id_)
    repaired = 0
    for top, ids in trees.items():
        root = columns.id if top is None else sa.literal(top)
        differs = columns.root_provider_id.is_(None) | (columns.root_provider_id != root)
        for portion in dialects.split(ids):
            statement = sa.update(resource_providers).where(columns.id.in_(portion), differs)
            repaired += conn.execute(statement.values(root_provider_id=root)).rowcount
    if repaired:
        writers.record(conn, everything=True)
    return repaired


def _find_top(id_: int, parents: Mapping[int, int | None]) -> int:
    """Return the highest ancestor of a provider, or the first id of a circle that a script made."""
    path = [id_]
    while (above := parents[path[-1]]) is not None and above in parents:
        if above in path:
            return min(path[path.index(above) :])
        path.append(above)
    return path[-1]


def _select_missing_consumers() -> sa.Select[tuple[str]]:
    known = sa.exists().where(consumers.c.uuid == allocations.c.consumer_id)
    return sa.select(allocations.c.consumer_id).where(~known).distinct()


def count_missing_consumers(conn: Connection) -> int:
    """Return the number of consumers that have allocations but no row."""
    missing = _select_missing_consumers().subquery()
    return conn.execute(sa.select(sa.func.count()).select_from(missing)).scalar_one()


def create_consumers(conn: Connection, project_id: int, user_id: int, limit: int) -> int:
    """Create at most ``limit`` missing consumers, owned by this project and user; return how many.

    Their allocations are locked, as by claims, so that none of them loses its last one meanwhile.

    :raises errors.Retry: another transaction created one of them
    """
    missing, uuid = _select_missing_consumers(), allocations.c.consumer_id
    created = 0
    for portion in dialects.split(conn.scalars(missing.order_by(uuid).limit(limit)).all()):
        conn.execute(sa.select(allocations.c.id).where(uuid.in_(portion)).with_for_update()).all()
        owner = {"project_id": project_id, "user_id": user_id}
        rows = [{"uuid": each, **owner} for each in conn.scalars(missing.where(uuid.in_(portion)))]
        if len(rows) < len(portion):
            raise errors.Retry
        try:
            conn.execute(sa.insert(consumers), rows)
        except db_exc.DBDuplicateEntry as error:
            raise errors.Retry from error
        created += len(rows)
    if created:
        writers.record(conn, everything=True)
    return created
