# SPDX-License-Identifier: Apache-2.0
"""SQLite, whose file admits one writer at a time."""

from __future__ import annotations

import hashlib
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import event
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import StaticPool

from osc_placement.server.db.dialects.base import (
    Dialect,
    EngineOptions,
    Purpose,
    packed,
    to_text,
    update_on_conflict,
)
from osc_placement.server.db.driver_errors import is_busy, is_read_only

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import URL, Connection, Engine
    from sqlalchemy.engine.interfaces import DBAPIConnection

#: seconds that a connection waits for another writer
BUSY_SECONDS = 30


class SQLite(Dialect):
    """SQLite, in a file or in memory."""

    is_server = False
    admits_many_writers = False
    limits_integers = False
    make_read_only = "PRAGMA query_only = ON"

    def is_memory(self, url: URL) -> bool:
        return url.database in (None, "", ":memory:")

    def find_file(self, url: URL) -> Path | None:
        if url.database is None or self.is_memory(url):
            return None
        # sqlite:///file:NAME?mode=ro&uri=true
        return Path(url.database.removeprefix("file:") if "uri" in url.query else url.database)

    def engine_arguments(self, url: URL, purpose: Purpose) -> dict[str, Any]:
        arguments: dict[str, Any] = {"connect_args": {"timeout": BUSY_SECONDS}}
        if self.is_memory(url):
            arguments["poolclass"] = StaticPool
            arguments["connect_args"]["check_same_thread"] = False
        return arguments

    def prepare(self, engine: Engine, purpose: Purpose, options: EngineOptions) -> None:
        begin = "BEGIN" if purpose == "read" else "BEGIN IMMEDIATE"

        @event.listens_for(engine, "connect")
        def configure(connection: DBAPIConnection, record: object) -> None:
            # otherwise the driver would begin and commit transactions by itself
            connection.isolation_level = None
            cursor = connection.cursor()
            if not options.read_only:
                _switch_to_wal(cursor)
            # with FULL, acknowledged commits survive a power failure
            cursor.execute(f"PRAGMA synchronous = {'FULL' if options.sqlite_synchronous else 'OFF'}")
            cursor.close()
            # SQLite has no hash function; this one takes bytes, as a Python function that takes text is five
            # times slower
            create_function = cast(Any, connection).create_function
            create_function("crc32", 1, zlib.crc32, deterministic=True)
            create_function(
                "sha1_32",
                1,
                lambda text: int.from_bytes(hashlib.sha1(text.encode(), usedforsecurity=False).digest()[:4]),
                deterministic=True,
            )

        @event.listens_for(engine, "begin")
        def start_transaction(connection: Connection) -> None:
            # IMMEDIATE takes the write lock before the first read, so data that a writer read cannot change
            connection.exec_driver_sql(begin)

    def try_to_write(self, connection: Connection, table: sa.Table) -> None:
        """Execute a DELETE of no row without waiting: if another connection writes, changes are accepted."""
        connection.exec_driver_sql("PRAGMA busy_timeout = 0")
        try:
            super().try_to_write(connection, table)
        except (sa.exc.OperationalError, db_exc.DBError) as error:
            if not is_busy(error):
                raise
        finally:
            # the unit is milliseconds
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {BUSY_SECONDS}000")

    def upsert(self, table: sa.Table, added: str) -> sa.Insert:
        # PERF: importing a dialect of SQLAlchemy takes a hundredth of a second of every start
        from sqlalchemy.dialects.sqlite import insert

        return update_on_conflict(insert(table), table, added)

    def hash_of(self, *columns: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
        return sa.func.crc32(_to_bytes(sa.func.crc32(_to_bytes(_join(columns)))))

    def hash_of_names(self, *columns: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
        return sa.func.sha1_32(_join(columns))


def _switch_to_wal(cursor: Any) -> None:
    """Switch to the write-ahead log, with which readers and the writer do not block each other.

    The first connection to a new file switches it. For this statement SQLite does not wait for other
    connections as it does for others.
    """
    import sqlite3  # PERF: a server with another database starts without it

    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if is_read_only(error):
                # another connection that can write to the file may switch it
                return
            if not is_busy(error) or time.monotonic() > end:
                raise
            time.sleep(0.01)
        else:
            return


def _join(columns: Sequence[sa.ColumnElement[Any]]) -> sa.ColumnElement[str]:
    # SQLite has concat_ws since 3.44 only
    text, *rest = map(to_text, columns)
    for part in rest:
        text = text + ":" + part
    return text


def _to_bytes(value: sa.ColumnElement[Any]) -> sa.ColumnElement[bytes]:
    return sa.cast(value, sa.LargeBinary)


@compiles(packed, "sqlite")
def _pack(element: packed, compiler: Any, **settings: Any) -> str:
    # SQLite has concat_ws since 3.44 only
    values = (f"({compiler.process(value, **settings)})" for value in element.clauses)
    return "(" + " || ' ' || ".join(values) + ")"
