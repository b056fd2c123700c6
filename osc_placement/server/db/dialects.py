# SPDX-License-Identifier: Apache-2.0
"""What differs between SQLite, MariaDB/MySQL and PostgreSQL, each difference with its reason.

Nothing outside this file asks which database is behind an engine.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.pool import StaticPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy.engine import URL, Connection, Engine
    from sqlalchemy.engine.interfaces import DBAPIConnection

Purpose = Literal["read", "write"]

#: seconds a SQLite connection waits for another writer before it gives up
SQLITE_BUSY_SECONDS = 30
#: seconds a process waits for another one that changes the schema
SCHEMA_LOCK_SECONDS = 600
#: what PostgreSQL knows that lock by: any number that nobody else takes
_SCHEMA_LOCK = 0x706C6163656D656E


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The options of ``[placement_database]`` that depend on the database."""

    sqlite_synchronous: bool = True
    mysql_sql_mode: str | None = "TRADITIONAL"


def is_sqlite(url: URL) -> bool:
    """Whether the URL names a SQLite database."""
    return url.get_backend_name() == "sqlite"


def is_memory(url: URL) -> bool:
    """Whether the URL names a SQLite database that lives only in its connection."""
    return is_sqlite(url) and url.database in (None, "", ":memory:")


def find_file(url: URL) -> Path | None:
    """The file that a SQLite database is; None if it is in memory, or another kind of database."""
    if url.get_backend_name() != "sqlite" or url.database is None or is_memory(url):
        return None
    return Path(url.database)


def engine_arguments(url: URL, purpose: Purpose) -> dict[str, Any]:
    """The arguments of ``create_engine`` for connections of one purpose.

    Reads run at REPEATABLE READ, so that the statements of one answer see one state. Writes run at READ
    COMMITTED and lock what they judge: under REPEATABLE READ, MariaDB answers the reads after a lock from the
    snapshot taken before it, which is how a claim comes to be judged against stale usage.
    """
    backend = url.get_backend_name()
    if backend == "sqlite":
        arguments: dict[str, Any] = {"connect_args": {"timeout": SQLITE_BUSY_SECONDS}}
        if is_memory(url):
            arguments["poolclass"] = StaticPool
            arguments["connect_args"]["check_same_thread"] = False
        return arguments
    isolation = "REPEATABLE READ" if purpose == "read" else "READ COMMITTED"
    return {"isolation_level": isolation, "pool_pre_ping": True}


def prepare(engine: Engine, purpose: Purpose, options: EngineOptions) -> None:
    """Attach what each new connection and transaction of this engine needs."""
    if engine.dialect.name == "sqlite":
        _prepare_sqlite(engine, purpose, options)
    elif engine.dialect.name in ("mysql", "mariadb") and options.mysql_sql_mode is not None:
        event.listen(engine, "connect", _mysql_mode_setter(options.mysql_sql_mode))


def _prepare_sqlite(engine: Engine, purpose: Purpose, options: EngineOptions) -> None:
    begin = "BEGIN" if purpose == "read" else "BEGIN IMMEDIATE"

    @event.listens_for(engine, "connect")
    def configure(connection: DBAPIConnection, record: object) -> None:
        # the driver would otherwise open and commit transactions on its own
        connection.isolation_level = None
        cursor = connection.cursor()
        # readers do not block the writer, nor it them; FULL keeps acknowledged commits through a power cut
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute(f"PRAGMA synchronous = {'FULL' if options.sqlite_synchronous else 'OFF'}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def start_transaction(connection: Connection) -> None:
        # IMMEDIATE takes the write lock before the first read, so what a writer judged cannot change under it
        connection.exec_driver_sql(begin)


def _mysql_mode_setter(mode: str) -> Callable[[DBAPIConnection, object], None]:
    def set_mode(connection: DBAPIConnection, record: object) -> None:
        cursor = connection.cursor()
        cursor.execute("SET SESSION sql_mode = %s", (mode,))
        cursor.close()

    return set_mode


def accept_id_zero(connection: Connection) -> None:
    """Let the next inserts store an explicit id 0, which is VCPU's; MySQL takes 0 for "the next number"."""
    if connection.dialect.name in ("mysql", "mariadb"):
        connection.execute(sa.text("SET SESSION sql_mode = CONCAT(@@sql_mode, ',NO_AUTO_VALUE_ON_ZERO')"))


@contextmanager
def schema_lock(connection: Connection) -> Iterator[None]:
    """Keep out others who would change the schema too, until the transaction ends; on SQLite it does already.

    On a Galera cluster that is others on the same node: the lock is not replicated.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_SCHEMA_LOCK)))
        yield
    elif connection.dialect.name in ("mysql", "mariadb"):
        # the lock is the server's, hence the name; it would outlive the transaction in the pool
        name = sa.func.left(sa.func.concat("placement schema ", sa.func.database()), 64)
        connection.execute(sa.select(sa.func.get_lock(name, SCHEMA_LOCK_SECONDS)))
        try:
            yield
        finally:
            connection.execute(sa.select(sa.func.release_lock(name)))
    else:
        yield


def is_busy(error: BaseException) -> bool:
    """Whether SQLite gave up waiting for another writer."""
    return "database is locked" in str(error) or "database table is locked" in str(error)
