# SPDX-License-Identifier: Apache-2.0
"""MySQL and MariaDB, alone or as a Galera cluster."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from sqlalchemy import event

from osc_placement.server.db.dialects.base import (
    IDLE_SECONDS,
    PROBE_SECONDS,
    PROBES,
    TCP_USER_TIMEOUT,
    Dialect,
    EngineOptions,
    Purpose,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.engine import URL, Connection, Engine
    from sqlalchemy.engine.interfaces import DBAPIConnection

#: seconds that a process waits for another process that changes the schema
SCHEMA_LOCK_SECONDS = 600
#: the drivers with read and write timeouts of their own
_LIMITING_DRIVERS: Final = ("pymysql", "mysqldb")


class MySQL(Dialect):
    """MySQL or MariaDB, neither of which uses an id twice."""

    hashes_slowly = True

    def connect_arguments(self, url: URL, purpose: Purpose) -> dict[str, Any]:
        if url.get_driver_name() not in _LIMITING_DRIVERS or purpose not in self.SILENT_SECONDS:
            return {}
        names = ("read_timeout", "write_timeout")
        return {name: self.SILENT_SECONDS[purpose] for name in names if name not in url.query}

    def prepare(self, engine: Engine, purpose: Purpose, options: EngineOptions) -> None:
        event.listen(engine, "connect", _watch_socket)
        if options.mysql_sql_mode is not None:

            @event.listens_for(engine, "connect")
            def set_mode(connection: DBAPIConnection, record: object) -> None:
                cursor = connection.cursor()
                cursor.execute("SET SESSION sql_mode = %s", (options.mysql_sql_mode,))
                cursor.close()

    def accept_id_zero(self, connection: Connection) -> None:
        """Let the next inserts store an explicit id 0, which otherwise means "the next number"."""
        connection.execute(sa.text("SET SESSION sql_mode = CONCAT(@@sql_mode, ',NO_AUTO_VALUE_ON_ZERO')"))

    @contextmanager
    def schema_lock(self, connection: Connection) -> Iterator[None]:
        """Keep other processes from changing the schema until the transaction ends.

        On a Galera cluster this holds for processes on the same node only: the lock is not replicated.
        """
        # the lock is shared by all databases of the server, hence the name; it outlives the transaction
        name = sa.func.left(sa.func.concat("placement schema ", sa.func.database()), 64)
        connection.execute(sa.select(sa.func.get_lock(name, SCHEMA_LOCK_SECONDS)))
        try:
            yield
            # the next holder of the lock has to see what was written
            connection.exec_driver_sql("COMMIT")
        finally:
            connection.execute(sa.select(sa.func.release_lock(name)))

    def upsert(self, table: sa.Table, added: str) -> sa.Insert:
        # PERF: importing a dialect of SQLAlchemy takes a hundredth of a second of every start
        from sqlalchemy.dialects.mysql import insert

        statement = insert(table)
        return statement.on_duplicate_key_update({added: table.c[added] + statement.inserted[added]})

    def hash_of(self, *columns: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
        # PERF: concat_ws casts by itself and leaves NULL out; replacing NULL with '' takes three milliseconds
        # more for 10,000 rows. Columns that may be NULL are last, and of types that cannot be confused
        return sa.func.crc32(sa.func.crc32(sa.func.concat_ws(":", *columns)))

    def hash_of_names(self, *columns: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
        return sa.func.crc32(sa.func.sha1(sa.func.concat_ws(":", *columns)))


def _watch_socket(connection: DBAPIConnection, record: object) -> None:
    """Turn on TCP keepalive on the socket of a connection, for drivers that have no option for it."""
    sock = getattr(connection, "_sock", None)
    if not isinstance(sock, socket.socket) or sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", IDLE_SECONDS),
        ("TCP_KEEPINTVL", PROBE_SECONDS),
        ("TCP_KEEPCNT", PROBES),
        ("TCP_USER_TIMEOUT", TCP_USER_TIMEOUT),
    ):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
