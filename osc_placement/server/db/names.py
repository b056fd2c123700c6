# SPDX-License-Identifier: Apache-2.0
"""Rows that are little more than a name: traits, classes, projects, users, consumer types, aggregates.

Finding their ids, creating them on first mention, and keeping the standard ones in the database. Ids are
looked up where they are used and not remembered: any worker may delete a name and give its id to another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import os_resource_classes
import os_traits
import sqlalchemy as sa
from oslo_db import exception as db_exc

from osc_placement.server import errors
from osc_placement.server.db import dialects, tables

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy.engine import Connection

    from osc_placement.server.db.engine import Database

#: custom resource classes have this id or a greater one; lower ids are the standard classes, by their order
FIRST_CUSTOM_CLASS_ID = 10000


def synchronize(database: Database) -> None:
    """Bring the standard traits and resource classes of this installation into the database.

    What is there stays, also if this installation is too old to know it. Workers that start together may all
    try: whoever finds the names inserted meanwhile looks again and has less to do.
    """
    if not database.read(_is_complete):
        database.write(_add_standard_names)


def _is_complete(conn: Connection) -> bool:
    return not _missing_traits(conn) and not _missing_classes(conn)


def _missing_traits(conn: Connection) -> list[str]:
    present = set(conn.scalars(sa.select(tables.traits.c.name)))
    return [name for name in os_traits.get_traits() if name not in present]


def _missing_classes(conn: Connection) -> list[tuple[int, str]]:
    present = set(conn.scalars(sa.select(tables.resource_classes.c.name)))
    return [(id_, name) for id_, name in enumerate(os_resource_classes.STANDARDS) if name not in present]


def _add_standard_names(conn: Connection) -> None:
    try:
        if missing_traits := _missing_traits(conn):
            conn.execute(sa.insert(tables.traits), [{"name": name} for name in missing_traits])
        if missing_classes := _missing_classes(conn):
            dialects.accept_id_zero(conn)
            rows = [{"id": id_, "name": name} for id_, name in missing_classes]
            conn.execute(sa.insert(tables.resource_classes), rows)
    except db_exc.DBDuplicateEntry as error:
        raise errors.Retry from error


def class_ids(conn: Connection, names: Collection[str]) -> dict[str, int]:
    """The ids of resource classes by name; :raises errors.ResourceClassNotFound: for one that is none."""
    found = find_ids(conn, tables.resource_classes, "name", names)
    for name in names:
        if name not in found:
            raise errors.ResourceClassNotFound(name)
    return found


def keep_class_ids(conn: Connection, names: Collection[str]) -> dict[str, int]:
    """The same, and until the transaction ends nobody can delete these classes."""
    found = class_ids(conn, names)
    customs = [id_ for id_ in found.values() if id_ >= FIRST_CUSTOM_CLASS_ID]
    if customs:
        classes = tables.resource_classes
        query = sa.select(classes.c.id).where(classes.c.id.in_(customs)).order_by(classes.c.id)
        if len(conn.execute(query.with_for_update(read=True)).all()) != len(customs):
            raise errors.Retry
    return found


def find_ids(conn: Connection, table: sa.Table, column: str, values: Collection[str]) -> dict[str, int]:
    """The ids of the rows of a table that have one of the values in a column, by value."""
    if not values:
        return {}
    query = sa.select(table.c[column], table.c.id).where(table.c[column].in_(sorted(set(values))))
    return dict(conn.execute(query).all())


def ensure(database: Database, table: sa.Table, column: str, values: Collection[str]) -> dict[str, int]:
    """The ids of such rows, creating what is missing in a short transaction of its own.

    Made before the transaction that uses them, so that requests naming the same new project do not wait for
    each other's claims; a name that stays behind unused after a failed claim is harmless and is reused.
    """
    wanted = set(values)
    found = database.read(find_ids, table, column, wanted)
    missing = wanted - found.keys()
    return found | database.write(_ensure_each, table, column, missing) if missing else found


def _ensure_each(conn: Connection, table: sa.Table, column: str, values: Collection[str]) -> dict[str, int]:
    return {value: _ensure_one(conn, table, column, value) for value in sorted(values)}


def _ensure_one(conn: Connection, table: sa.Table, column: str, value: str) -> int:
    # one at a time: what is equal is for the database to say, and to MariaDB "Blue" is "blue"
    id_ = conn.scalar(sa.select(table.c.id).where(table.c[column] == value))
    if id_ is not None:
        return int(id_)
    try:
        result = conn.execute(sa.insert(table).values({column: value}))
    except db_exc.DBDuplicateEntry as error:
        raise errors.Retry from error
    return int(result.inserted_primary_key[0])  # type: ignore[index]  # an INSERT of one row has it
