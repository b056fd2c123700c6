# SPDX-License-Identifier: Apache-2.0
"""Tables of names: traits, classes, projects, users, consumer types, aggregates.

The functions find the ids of names, and create names on first use; `standard_names` stores the standard ones.
Ids are looked up for each use and not cached: any worker may delete a name, and its id may be used for
another. Only the ids of the standard classes are the same everywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import os_resource_classes
import sqlalchemy as sa
from oslo_db import exception as db_exc

from osc_placement.server import errors
from osc_placement.server.db import tables
from osc_placement.server.db.dialects.base import split

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy.engine import Connection

    from osc_placement.server.db.engine import Database

#: custom resource classes have this id or a greater one; lower ids are the standard classes, by their order
FIRST_CUSTOM_CLASS_ID = 10000
#: the ids of the standard classes of this installation, by name; they are never changed or deleted
STANDARD_CLASSES: Final = {name: id_ for id_, name in enumerate(os_resource_classes.STANDARDS)}


def check_classes(names: Iterable[str], found: Mapping[str, int]) -> dict[str, int]:
    """Return the ids of these classes; :raises errors.ResourceClassNotFound: one was not found."""
    for name in names:
        if name not in found:
            raise errors.ResourceClassNotFound(name)
    return {name: found[name] for name in names}


def keep_class_ids(conn: Connection, names: Collection[str]) -> dict[str, int]:
    """Lock classes against deletion and renaming until the transaction ends, and return their ids.

    :raises errors.ResourceClassNotFound: one does not exist
    """
    return keep_classes(conn, names, find_ids(conn, tables.resource_classes, "name", names))


_keep = (
    sa.select(tables.resource_classes.c.name, tables.resource_classes.c.id)
    .where(tables.resource_classes.c.id.in_(sa.bindparam("ids", expanding=True)))
    .order_by(tables.resource_classes.c.id)
    .with_for_update(read=True)
)


def keep_classes(conn: Connection, names: Collection[str], found: Mapping[str, int]) -> dict[str, int]:
    """Lock classes that were looked up before, and return their ids.

    :raises errors.ResourceClassNotFound: one was not found
    :raises errors.Retry: one of them was deleted or renamed meanwhile
    """
    ids = check_classes(names, found)
    customs = {name: id_ for name, id_ in ids.items() if id_ >= FIRST_CUSTOM_CLASS_ID}
    if customs and dict(conn.execute(_keep, {"ids": sorted(customs.values())}).all()) != customs:
        raise errors.Retry
    return ids


#: the values to find in a column, by table and column
Wanted = Mapping[tuple[sa.Table, str], Collection[str]]


def find_ids(conn: Connection, table: sa.Table, column: str, values: Collection[str]) -> dict[str, int]:
    """Return by value the ids of the rows of a table that have one of the values in a column."""
    return dict(find_known(conn, {(table, column): values}).of(table))


@dataclass(frozen=True, slots=True)
class Known:
    """Names that exist, with their ids, by table; missing names are created by `ensure`.

    A transaction looks up names before it locks anything, or as late as possible, and creates missing ones
    last. A transaction that is refused then leaves no names behind, and transactions that use the same new
    name wait for each other's commit only, not for the locks that come before.
    """

    ids: Mapping[str, Mapping[str, int]]

    def of(self, table: sa.Table) -> Mapping[str, int]:
        """Return the known names of one table."""
        return self.ids.get(table.name, {})

    def ensure(
        self, conn: Connection, table: sa.Table, column: str, values: Collection[str]
    ) -> dict[str, int]:
        """Return ids by name, creating missing names; :raises errors.Retry: others create one now."""
        found = self.of(table)
        missing = set(values) - found.keys()
        return {**found, **_ensure_each(conn, table, column, missing)}


def find_known(conn: Connection, wanted: Wanted) -> Known:
    """Look up names in several tables and columns, portion by portion."""
    portions = {key: split(sorted(set(values))) for key, values in wanted.items()}
    ids: dict[str, dict[str, int]] = {}
    while values := {key: portion for key, rest in portions.items() if (portion := next(rest, None))}:
        parameters = {table.name: portion for (table, _), portion in values.items()}
        for table_name, value, id_ in conn.execute(_look_up(tuple(values)), parameters):
            ids.setdefault(table_name, {})[value] = id_
    return Known(ids)


@cache
def _look_up(columns: tuple[tuple[sa.Table, str], ...]) -> sa.CompoundSelect[Any]:
    return sa.union_all(
        *(
            sa.select(sa.literal(table.name), table.c[column], table.c.id).where(
                table.c[column].in_(sa.bindparam(table.name, expanding=True))
            )
            for table, column in columns
        )
    )


def ensure(database: Database, table: sa.Table, column: str, values: Collection[str]) -> dict[str, int]:
    """Return the ids of these rows, creating missing ones in a short separate transaction.

    This is for callers outside of a transaction; within one, use `Known`.
    """
    wanted = set(values)
    found = database.read(find_ids, table, column, wanted)
    missing = wanted - found.keys()
    return found | database.write(_ensure_each, table, column, missing) if missing else found


def _ensure_each(conn: Connection, table: sa.Table, column: str, values: Collection[str]) -> dict[str, int]:
    ids: dict[str, int] = {}
    # one at a time, as the database decides which names are equal; in MariaDB, "Blue" equals "blue"
    for value in sorted(values):
        id_ = conn.scalar(sa.select(table.c.id).where(table.c[column] == value))
        if id_ is None:
            try:
                result = conn.execute(sa.insert(table).values({column: value}))
            except db_exc.DBDuplicateEntry as error:
                raise errors.Retry from error
            id_ = result.inserted_primary_key[0]  # type: ignore[index]  # an INSERT of one row has it
        ids[value] = id_
    return ids
