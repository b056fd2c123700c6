# SPDX-License-Identifier: Apache-2.0
"""SQLite: a library in this process, and a file that admits one writer at a time."""

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
    new_values,
    packed,
    to_text,
)
from osc_placement.server.db.driver_errors import is_busy, is_read_only

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import URL, Connection, Engine
    from sqlalchemy.engine.interfaces import DBAPIConnection

#: seconds a connection waits for another writer before it gives up
BUSY_SECONDS = 30


class SQLite(Dialect):
    """SQLite, in a file or in memory."""

    is_server = False
    admits_many_writers = False
    limits_integers = False

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
            # the driver would otherwise open and commit transactions on its own
            connection.isolation_level = None
            cursor = connection.cursor()
            _switch_to_wal(cursor)
            # FULL keeps acknowledged commits through a power cut
            cursor.execute(f"PRAGMA synchronous = {'FULL' if options.sqlite_synchronous else 'OFF'}")
            cursor.close()
            # it has no function that hashes; of bytes, as a Python function that takes text is five times
            # slower
            cast(Any, connection).create_function("crc32", 1, zlib.crc32, deterministic=True)
            cast(Any, connection).create_function("sha1_32", 1, _sha1_32, deterministic=True)

        @event.listens_for(engine, "begin")
        def start_transaction(connection: Connection) -> None:
            # IMMEDIATE takes the write lock before the first read, so what a writer judged cannot change
            connection.exec_driver_sql(begin)

    def try_to_write(self, connection: Connection, table: sa.Table) -> None:
        """Delete no row, without waiting: another connection that writes shows that changes are accepted."""
        connection.exec_driver_sql("PRAGMA busy_timeout = 0")
        try:
            super().try_to_write(connection, table)
        except (sa.exc.OperationalError, db_exc.DBError) as error:
            if not is_busy(error):
                raise
        finally:
            # in milliseconds
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {BUSY_SECONDS}000")

    def upsert(self, table: sa.Table, added: tuple[str, ...], replaced: tuple[str, ...]) -> sa.Insert:
        # PERF: each of SQLAlchemy's dialects is a hundredth of a second of every start
        from sqlalchemy.dialects.sqlite import insert

        statement = insert(table)
        key = [column.name for column in table.primary_key]
        values = new_values(table, statement.excluded, added, replaced)
        return statement.on_conflict_do_update(index_elements=key, set_=values)

    def has_change_markers(self, connection: Connection) -> bool:
        return True

    def read_change_marker(self, connection: Connection) -> object:
        """Return ``data_version``, which exists for this purpose.

        A database in memory has one connection, which counts its changes.
        """
        if self.is_memory(connection.engine.url):
            return connection.exec_driver_sql("SELECT total_changes()").scalar()
        return connection.exec_driver_sql("PRAGMA data_version").scalar()

    def hash_of(self, *columns: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
        return sa.func.crc32(_to_bytes(sa.func.crc32(_to_bytes(_join(columns)))))

    def hash_of_names(self, *columns: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
        return sa.func.sha1_32(_join(columns))


def _switch_to_wal(cursor: Any) -> None:
    """Have readers not block the writer, nor it them.

    The first connection to a new file changes it, for which SQLite does not wait its turn as it does
    otherwise.
    """
    import sqlite3  # PERF: other databases start without it

    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if is_read_only(error):
                # whoever can write to the file is free to switch it
                return
            if not is_busy(error) or time.monotonic() > end:
                raise
            time.sleep(0.01)
        else:
            return


def _sha1_32(text: str) -> int:
    return int.from_bytes(hashlib.sha1(text.encode(), usedforsecurity=False).digest()[:4])


def _join(columns: Sequence[sa.ColumnElement[Any]]) -> sa.ColumnElement[str]:
    # concat_ws came with SQLite 3.44
    text, *rest = map(to_text, columns)
    for part in rest:
        text = text + ":" + part
    return text


def _to_bytes(value: sa.ColumnElement[Any]) -> sa.ColumnElement[bytes]:
    return sa.cast(value, sa.LargeBinary)


@compiles(packed, "sqlite")
def _pack(element: packed, compiler: Any, **settings: Any) -> str:
    # concat_ws came with SQLite 3.44
    values = (f"({compiler.process(value, **settings)})" for value in element.clauses)
    return "(" + " || ' ' || ".join(values) + ")"
