# SPDX-License-Identifier: Apache-2.0
"""The standard traits and resource classes of this installation, which the database has to have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import os_traits
import sqlalchemy as sa
from oslo_db import exception as db_exc

from osc_placement.server import errors
from osc_placement.server.db import dialects, writers
from osc_placement.server.db.names import STANDARD_CLASSES
from osc_placement.server.db.tables import resource_classes, traits

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from osc_placement.server.db.engine import Database


def synchronize(database: Database) -> None:
    """Bring the standard traits and resource classes of this installation into the database.

    Existing names stay, also those that are newer than this installation. Workers that start together may
    all do this: a worker that finds names inserted meanwhile reads again and inserts the rest.
    """

    def add(conn: Connection) -> None:
        try:
            if missing := _missing_traits(conn):
                conn.execute(sa.insert(traits), missing)
            if missing := _missing_classes(conn):
                dialects.of(conn).accept_id_zero(conn)
                conn.execute(sa.insert(resource_classes), missing)
            writers.record(conn, names=True)
        except db_exc.DBDuplicateEntry as error:
            raise errors.Retry from error

    if database.read(lambda conn: bool(_missing_traits(conn) or _missing_classes(conn))):
        database.write(add)


def _missing_traits(conn: Connection) -> list[dict[str, object]]:
    present = set(conn.scalars(sa.select(traits.c.name)))
    return [{"name": name} for name in os_traits.get_traits() if name not in present]


def _missing_classes(conn: Connection) -> list[dict[str, object]]:
    present = set(conn.scalars(sa.select(resource_classes.c.name)))
    return [{"id": id_, "name": name} for name, id_ in STANDARD_CLASSES.items() if name not in present]
