# SPDX-License-Identifier: Apache-2.0
"""The differences between SQLite, MySQL or MariaDB, and PostgreSQL: a class for each, with the reasons.

No other part of the server asks which database it has: it calls `of` or `for_url` and uses the `Dialect`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from osc_placement.server.db.dialects.base import (
    PORTION,
    Dialect,
    EngineOptions,
    Purpose,
    packed,
    packed_integers,
    split,
)
from osc_placement.server.db.dialects.mysql import MySQL
from osc_placement.server.db.dialects.postgresql import PostgreSQL
from osc_placement.server.db.dialects.sqlite import SQLite

if TYPE_CHECKING:
    from sqlalchemy.engine import URL, Connection

__all__ = [
    "PORTION",
    "Dialect",
    "EngineOptions",
    "Purpose",
    "for_url",
    "of",
    "packed",
    "packed_integers",
    "split",
]

_MYSQL = MySQL()
_BY_NAME: dict[str, Dialect] = {
    "sqlite": SQLite(),
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
    "postgresql": PostgreSQL(),
}
#: for any other database, which SQLAlchemy refuses with its own message
_UNKNOWN = Dialect()


def of(connection: Connection) -> Dialect:
    """Return the dialect of a connection."""
    return _BY_NAME[connection.dialect.name]


def for_url(url: URL) -> Dialect:
    """Return the dialect of the database that a URL names."""
    return _BY_NAME.get(url.get_backend_name(), _UNKNOWN)
