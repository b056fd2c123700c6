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
    from sqlalchemy.pool import ConnectionPoolEntry

#: seconds that a process waits for another process that changes the schema
SCHEMA_LOCK_SECONDS = 600
#: the drivers with read and write timeouts of their own
_LIMITING_DRIVERS: Final = ("pymysql", "mysqldb")
#: seconds that a connection gets to be opened by PyMySQL, unless the URL says otherwise
_CONNECT_SECONDS: Final = 10
#: the key in the information about a connection of the limits of its statements
_ALLOWED: Final = "_osc_placement_timeouts"


class MySQL(Dialect):
    """MySQL or MariaDB, neither of which uses an id twice."""

    def with_driver(self, url: URL) -> URL:
        """Return the URL with the dialect for both databases; oslo.db does not know the errors of another."""
        backend, plus, driver = url.drivername.partition("+")
        return url.set(drivername=f"mysql{plus}{driver}") if backend == "mariadb" else url

    def connect_arguments(self, url: URL, purpose: Purpose) -> dict[str, Any]:
        if url.get_driver_name() not in _LIMITING_DRIVERS or purpose not in self.SILENT_SECONDS:
            return {}
        names = ("read_timeout", "write_timeout")
        return {name: self.SILENT_SECONDS[purpose] for name in names if name not in url.query}

    def prepare(self, engine: Engine, purpose: Purpose, options: EngineOptions) -> None:
        if engine.driver == "pymysql":
            event.listen(engine, "do_connect", _connect_in_time)
        event.listen(engine, "connect", _watch_socket)

        @event.listens_for(engine, "connect")
        def set_variables(connection: DBAPIConnection, record: ConnectionPoolEntry) -> None:
            cursor = connection.cursor()
            # MySQL cuts off what GROUP_CONCAT returns after 1,024 characters by default
            cursor.execute("SET SESSION group_concat_max_len = 1048576")
            if options.mysql_sql_mode is not None:
                cursor.execute("SET SESSION sql_mode = %s", (options.mysql_sql_mode,))
            cursor.close()
            if engine.driver == "pymysql":
                _allow_statements(connection, record)

    def accept_id_zero(self, connection: Connection) -> None:
        """Let the next inserts store an explicit id 0, which otherwise means "the next number"."""
        connection.execute(sa.text("SET SESSION sql_mode = CONCAT(@@sql_mode, ',NO_AUTO_VALUE_ON_ZERO')"))

    @contextmanager
    def waiting_briefly(self, connection: Connection) -> Iterator[None]:
        # the limit is the session's, and survives a rollback
        connection.exec_driver_sql(
            "SET @oscp_usual = @@innodb_lock_wait_timeout, SESSION innodb_lock_wait_timeout = 1"
        )
        try:
            yield
        finally:
            if not connection.invalidated:
                connection.exec_driver_sql("SET SESSION innodb_lock_wait_timeout = @oscp_usual")

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
            if not connection.invalidated:
                connection.execute(sa.select(sa.func.release_lock(name)))

    def upsert(self, table: sa.Table, added: str) -> sa.Insert:
        # PERF: importing a dialect of SQLAlchemy takes a hundredth of a second of every start
        from sqlalchemy.dialects.mysql import insert

        statement = insert(table)
        return statement.on_duplicate_key_update({added: table.c[added] + statement.inserted[added]})


def _connect_in_time(
    dialect: object, record: ConnectionPoolEntry, positional: object, named: dict[str, Any]
) -> None:
    """Let a connection wait no longer for each answer than for being opened.

    PyMySQL limits the opening of the socket only, and would wait for a silent server's greeting, and answers
    to its first statements, as long as for any statement. `_allow_statements` ends this.
    """
    seconds = named.get("connect_timeout", _CONNECT_SECONDS)
    record.info[_ALLOWED] = (named.get("read_timeout"), named.get("write_timeout"))
    named.update(read_timeout=seconds, write_timeout=seconds)


def _allow_statements(connection: DBAPIConnection, record: ConnectionPoolEntry) -> None:
    """Let a connection that has been opened wait for statements as long as configured."""
    # PyMySQL compares these with the limits of its socket at each packet
    driver: Any = getattr(connection, "driver_connection", connection)
    driver._read_timeout, driver._write_timeout = record.info.pop(_ALLOWED)


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
