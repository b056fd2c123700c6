# SPDX-License-Identifier: Apache-2.0
"""SQLite, whose file admits one writer at a time."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    update_on_conflict,
)
from osc_placement.server.db.driver_errors import Kind, classify, find

if TYPE_CHECKING:
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
            if classify(find(error)) is not Kind.BUSY:
                raise
        finally:
            # the unit is milliseconds
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {BUSY_SECONDS}000")

    def limit_last_wait(self, connection: Connection) -> None:
        # the driver's connection, as a transaction of SQLAlchemy's would wait when it begins
        driver: Any = connection.connection.driver_connection
        driver.execute("PRAGMA busy_timeout = 1000").close()

    def upsert(self, table: sa.Table, added: str) -> sa.Insert:
        # PERF: importing a dialect of SQLAlchemy takes a hundredth of a second of every start
        from sqlalchemy.dialects.sqlite import insert

        return update_on_conflict(insert(table), table, added)


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
            kind = classify(error)
            if kind is Kind.READ_ONLY:
                # another connection that can write to the file may switch it
                return
            if kind is not Kind.BUSY or time.monotonic() > end:
                raise
            time.sleep(0.01)
        else:
            return


@compiles(packed, "sqlite")
def _pack(element: packed, compiler: Any, **settings: Any) -> str:
    # SQLite has concat_ws since 3.44 only, and makes a text of 15 digits of a number that may have 17
    values = (
        f"printf('%!.17g', {compiler.process(value, **settings)})"
        if isinstance(value.type, sa.Float)
        else f"({compiler.process(value, **settings)})"
        for value in element.clauses
    )
    return "(" + " || ' ' || ".join(values) + ")"
