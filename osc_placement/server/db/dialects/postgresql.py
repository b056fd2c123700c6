# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL, with psycopg2 or psycopg."""

from __future__ import annotations

from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from osc_placement.server.db import silence
from osc_placement.server.db.dialects.base import (
    IDLE_SECONDS,
    PROBE_SECONDS,
    PROBES,
    TCP_USER_TIMEOUT,
    Dialect,
    EngineOptions,
    Purpose,
    update_on_conflict,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.engine import URL, Connection, Engine

#: the number of the advisory lock on the schema: any number that no other program uses
_SCHEMA_LOCK: Final = 0x706C6163656D656E
#: of each connection, unless the URL says otherwise
_LIBPQ_OPTIONS: Final = {
    # otherwise that of the database, which may have fewer characters, or which the driver does not decode
    "client_encoding": "utf8",
    "connect_timeout": 10,
    "keepalives_idle": IDLE_SECONDS,
    "keepalives_interval": PROBE_SECONDS,
    "keepalives_count": PROBES,
    "tcp_user_timeout": TCP_USER_TIMEOUT,
}


class PostgreSQL(Dialect):
    """The PostgreSQL database."""

    make_read_only = "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"

    def with_driver(self, url: URL) -> URL:
        """Return the URL with a driver that is installed, if it names none.

        Without it, the driver depends on SQLAlchemy's release, which may be newer than placement.conf.
        """
        if url.drivername != "postgresql":
            return url
        drivers = (url.get_driver_name(), "psycopg2", "psycopg")
        installed = (driver for driver in drivers if find_spec(driver))
        return url.set(drivername=f"postgresql+{next(installed, drivers[0])}")

    def connect_arguments(self, url: URL, purpose: Purpose) -> dict[str, Any]:
        if url.get_driver_name() not in ("psycopg2", "psycopg"):
            return {}
        return {name: value for name, value in _LIBPQ_OPTIONS.items() if name not in url.query}

    def prepare(self, engine: Engine, purpose: Purpose, options: EngineOptions) -> None:
        if purpose in self.SILENT_SECONDS:
            silence.Limit(self.SILENT_SECONDS[purpose]).apply(engine)

    @contextmanager
    def waiting_briefly(self, connection: Connection) -> Iterator[None]:
        # until the transaction ends
        connection.exec_driver_sql("SET LOCAL lock_timeout = '1s'")
        yield

    @contextmanager
    def schema_lock(self, connection: Connection) -> Iterator[None]:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_SCHEMA_LOCK)))
        yield

    def upsert(self, table: sa.Table, added: str) -> sa.Insert:
        # PERF: importing a dialect of SQLAlchemy takes a hundredth of a second of every start
        from sqlalchemy.dialects.postgresql import insert

        return update_on_conflict(insert(table), table, added)
