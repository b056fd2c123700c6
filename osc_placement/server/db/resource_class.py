# SPDX-License-Identifier: Apache-2.0
"""Resource classes: the standard ones, whose ids are fixed, and the custom ones above them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa
from oslo_db import exception as db_exc

from osc_placement.server import errors
from osc_placement.server.db import writers
from osc_placement.server.db.names import FIRST_CUSTOM_CLASS_ID
from osc_placement.server.db.tables import inventories, resource_classes

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.engine import Connection


@dataclass(frozen=True, slots=True)
class ResourceClass:
    """A resource class as it is stored; ``modified`` is UTC, None on rows from before it was recorded."""

    id: int
    name: str
    modified: datetime | None


_columns = resource_classes.c
_select = sa.select(_columns.id, _columns.name, sa.func.coalesce(_columns.updated_at, _columns.created_at))


#: the id of a standard class, whose row serves as the lock for choosing ids: it always exists
_TURN = 0


def load_all(conn: Connection) -> list[ResourceClass]:
    """Return every resource class, by id."""
    return [ResourceClass(*row) for row in conn.execute(_select.order_by(_columns.id))]


def load(conn: Connection, name: str, *, lock: bool = False) -> ResourceClass:
    """Return the class of this name; :raises errors.ResourceClassNotFound: there is none."""
    query = _select.where(_columns.name == name)
    row = conn.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise errors.ResourceClassNotFound(name)
    return ResourceClass(*row)


def create(conn: Connection, name: str) -> None:
    """Store a new custom class.

    Its id is chosen here, one above the greatest, so transactions that choose one take turns. Two nodes of a
    cluster, whose locks are separate, find a conflict by the primary key.

    :raises errors.ResourceClassExists: there is one of this name
    """
    if conn.execute(sa.select(_columns.id).where(_columns.name == name)).first():
        raise errors.ResourceClassExists(name)
    conn.execute(sa.select(_columns.id).where(_columns.id == _TURN).with_for_update())
    greatest = conn.scalar(sa.select(sa.func.max(_columns.id))) or 0
    id_ = max(greatest + 1, FIRST_CUSTOM_CLASS_ID)
    try:
        conn.execute(sa.insert(resource_classes).values(id=id_, name=name))
    except db_exc.DBDuplicateEntry as error:
        raise errors.Retry from error
    writers.record(conn, names=True)


def ensure(conn: Connection, name: str) -> bool:
    """Make sure a class of this name exists; return whether it had to be created."""
    try:
        create(conn, name)
    except errors.ResourceClassExists:
        return False
    return True


def rename(conn: Connection, name: str, new_name: str) -> None:
    """Give a custom class another name.

    :raises errors.ResourceClassNotFound: there is no such class
    :raises errors.StandardIsFixed: it is not a custom one
    :raises errors.ResourceClassExists: the new name is taken
    """
    found = load(conn, name, lock=True)
    if found.id < FIRST_CUSTOM_CLASS_ID:
        raise errors.StandardIsFixed(f"Cannot update standard resource class {name}")
    try:
        conn.execute(sa.update(resource_classes).where(_columns.id == found.id).values(name=new_name))
    except db_exc.DBDuplicateEntry as error:
        raise errors.ResourceClassExists(new_name) from error
    writers.record(conn, names=True)


def delete(conn: Connection, name: str) -> None:
    """Delete a custom class that no provider has inventory of; it is locked first, so none can get any.

    :raises errors.ResourceClassNotFound: there is no such class
    :raises errors.StandardIsFixed: it is not a custom one
    :raises errors.ResourceClassInUse: some provider has inventory of it
    """
    found = load(conn, name, lock=True)
    if found.id < FIRST_CUSTOM_CLASS_ID:
        raise errors.StandardIsFixed(f"Cannot delete standard resource class {name}.")
    stocked = sa.select(inventories.c.id).where(inventories.c.resource_class_id == found.id)
    if conn.execute(stocked.limit(1)).first():
        raise errors.ResourceClassInUse(name)
    conn.execute(sa.delete(resource_classes).where(_columns.id == found.id))
    writers.record(conn, names=True)
