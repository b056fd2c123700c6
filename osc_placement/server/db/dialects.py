# SPDX-License-Identifier: Apache-2.0
"""What differs between SQLite, MariaDB/MySQL and PostgreSQL, each difference with its reason.

Beside this file only `mark` asks which database is behind an engine.
"""

from __future__ import annotations

import hashlib
import socket
import time
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import event
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import StaticPool
from sqlalchemy.sql.functions import FunctionElement

from osc_placement.model import MAX_AMOUNT
from osc_placement.server import errors
from osc_placement.server.db import silence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sqlalchemy.engine import URL, Connection, Engine
    from sqlalchemy.engine.interfaces import DBAPIConnection

#: what connections are for: `Database.read`, `Database.write`, and changes to the schema
Purpose = Literal["read", "write", "schema"]

#: seconds a SQLite connection waits for another writer before it gives up
SQLITE_BUSY_SECONDS = 30
#: seconds a process waits for another one that changes the schema
SCHEMA_LOCK_SECONDS = 600
#: what PostgreSQL knows that lock by: any number that nobody else takes
_SCHEMA_LOCK = 0x706C6163656D656E


#: how soon a database server that is gone without a word is given up: after about half a minute, where TCP
#: alone would wait for minutes or hours.
_IDLE_SECONDS, _PROBE_SECONDS, _PROBES = 15, 5, 3
_LIBPQ_LIVENESS = {
    "connect_timeout": 10,
    "keepalives_idle": _IDLE_SECONDS,
    "keepalives_interval": _PROBE_SECONDS,
    "keepalives_count": _PROBES,
    "tcp_user_timeout": 1000 * (_IDLE_SECONDS + _PROBE_SECONDS * _PROBES),
}

#: seconds of silence after which a database server that is there is taken to hang. Writes wait for the locks
#: of others, on MariaDB for 50 seconds unless configured otherwise; changes to the schema are not limited.
SILENT_SECONDS: dict[Purpose, int] = {"read": 30, "write": 60}
#: the drivers that have such a limit themselves, by these names
_LIMITING_DRIVERS = ("pymysql", "mysqldb")


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The options of ``[placement_database]`` that depend on the database."""

    sqlite_synchronous: bool = True
    mysql_sql_mode: str | None = "TRADITIONAL"


def with_driver(url: URL) -> URL:
    """The URL with a driver that is installed, if it names PostgreSQL and no driver.

    Which one SQLAlchemy takes then depends on its release, and a placement.conf may be older.
    """
    if url.drivername != "postgresql":
        return url
    drivers = (url.get_driver_name(), "psycopg2", "psycopg")
    installed = (driver for driver in drivers if find_spec(driver))
    return url.set(drivername=f"postgresql+{next(installed, drivers[0])}")


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
    # sqlite:///file:NAME?mode=ro&uri=true
    return Path(url.database.removeprefix("file:") if "uri" in url.query else url.database)


def identify_file(url: URL) -> tuple[int, int] | None:
    """Return what tells the file of a SQLite database from one that has taken its place; None without one."""
    path = find_file(url)
    try:
        status = path.stat() if path is not None else None
    except OSError:
        return None
    return status and (status.st_dev, status.st_ino)


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
    # PERF: two round trips less. Whoever takes a connection ends its transaction, so the pool need not; and
    # that one is dead shows at the first statement, whereupon the whole is done again (see `engine`).
    arguments = {"isolation_level": isolation, "pool_reset_on_return": None}
    if url.get_driver_name() in ("psycopg2", "psycopg"):
        given = {name: value for name, value in _LIBPQ_LIVENESS.items() if name not in url.query}
        arguments["connect_args"] = given
    if url.get_driver_name() in _LIMITING_DRIVERS and purpose in SILENT_SECONDS:
        names = ("read_timeout", "write_timeout")
        given = {name: SILENT_SECONDS[purpose] for name in names if name not in url.query}
        arguments["connect_args"] = given
    return arguments


def prepare(engine: Engine, purpose: Purpose, options: EngineOptions) -> None:
    """Attach what each new connection and transaction of this engine needs."""
    if engine.dialect.name == "sqlite":
        _prepare_sqlite(engine, purpose, options)
    elif engine.dialect.name == "postgresql":
        if purpose in SILENT_SECONDS:
            silence.Limit(SILENT_SECONDS[purpose]).apply(engine)
    elif engine.dialect.name in ("mysql", "mariadb"):
        event.listen(engine, "connect", _watch_socket)
        if options.mysql_sql_mode is not None:
            event.listen(engine, "connect", _mysql_mode_setter(options.mysql_sql_mode))


def _prepare_sqlite(engine: Engine, purpose: Purpose, options: EngineOptions) -> None:
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
        # it has no function that hashes; of bytes, as a function written in Python takes five times as long
        cast(Any, connection).create_function("crc32", 1, zlib.crc32, deterministic=True)
        cast(Any, connection).create_function("sha1_32", 1, _sha1_32, deterministic=True)

    @event.listens_for(engine, "begin")
    def start_transaction(connection: Connection) -> None:
        # IMMEDIATE takes the write lock before the first read, so what a writer judged cannot change under it
        connection.exec_driver_sql(begin)


def _switch_to_wal(cursor: Any) -> None:
    """Have readers not block the writer, nor it them.

    The first to open a new file changes it, for which SQLite does not wait its turn as it does otherwise.
    """
    import sqlite3  # PERF: other databases start without it

    end = time.monotonic() + SQLITE_BUSY_SECONDS
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


def _watch_socket(connection: DBAPIConnection, record: object) -> None:
    """Have TCP find out that the server is gone; drivers without such an option show their socket at most."""
    sock = getattr(connection, "_sock", None)
    if not isinstance(sock, socket.socket) or sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _IDLE_SECONDS),
        ("TCP_KEEPINTVL", _PROBE_SECONDS),
        ("TCP_KEEPCNT", _PROBES),
        ("TCP_USER_TIMEOUT", _LIBPQ_LIVENESS["tcp_user_timeout"]),
    ):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _sha1_32(text: str) -> int:
    return int.from_bytes(hashlib.sha1(text.encode(), usedforsecurity=False).digest()[:4])


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
            # what was written has to be there for whoever gets the lock next
            connection.exec_driver_sql("COMMIT")
        finally:
            connection.execute(sa.select(sa.func.release_lock(name)))
    else:
        yield


def is_busy(error: BaseException) -> bool:
    """Whether SQLite gave up waiting for another writer."""
    return "database is locked" in str(error) or "database table is locked" in str(error)


#: how SQLite and MariaDB say that a table is not there, and PostgreSQL's code for it
_NO_TABLE = ("no such table", "(1146,")
_PG_NO_TABLE = "42P01"


def is_table_missing(error: BaseException) -> bool:
    """Return whether an error of a driver says that a table is not there."""
    return _has_state(error, _PG_NO_TABLE) or str(error).startswith(_NO_TABLE)


def _has_state(error: BaseException, state: str) -> bool:
    """Return whether a driver for PostgreSQL gives this code to its error, as each does by another name."""
    return state in (getattr(error, "sqlstate", None), getattr(error, "pgcode", None))


#: how the databases say that a disk, a quota or a largest size leaves no room
_FULL = (
    "database or disk is full",
    # what SQLite makes of a file that may not grow
    "disk I/O error",
    "(1021,",
    "(1114,",
    "No space left on device",
)


def is_full(error: BaseException) -> bool:
    """Whether the database had no room for what was to be written."""
    return any(words in str(error) for words in _FULL)


def check_generation(conn: Connection, table: sa.Table, uuid: str, generation: int) -> None:
    """Raise GenerationExhausted if a generation cannot be moved on; SQLite has no end of integers."""
    if generation >= MAX_AMOUNT and conn.dialect.name != "sqlite":
        raise errors.GenerationExhausted(table.name, uuid, generation)


#: what PostgreSQL calls a change in a transaction that may only read, in whatever language its message is
_PG_READ_ONLY = "25006"
_READ_ONLY = (
    "attempt to write a readonly database",
    # --read-only and --super-read-only; --innodb-read-only; a transaction, or a session, that may only read
    "(1290,",
    "(1836,",
    "(1792,",
)


def is_read_only(error: BaseException) -> bool:
    """Tell whether an error of a driver says that the database refused a change because it takes none."""
    # what comes after may quote a value of a client
    return _has_state(error, _PG_READ_ONLY) or str(error).startswith(_READ_ONLY)


def try_to_write(connection: Connection, table: sa.Table) -> None:
    """Delete no row: the database refuses that where it refuses changes, and otherwise locks nothing.

    Settings such as ``read_only`` do not tell: privileges of the account, or a state of the server, overrule
    them. SQLite does not wait for its turn to write, for who has it shows that there are changes.
    """
    if connection.dialect.name != "sqlite":
        connection.execute(sa.delete(table).where(sa.false()))
        return
    connection.exec_driver_sql("PRAGMA busy_timeout = 0")
    try:
        connection.execute(sa.delete(table).where(sa.false()))
    except (sa.exc.OperationalError, db_exc.DBError) as error:
        if not is_busy(error):
            raise
    finally:
        # in milliseconds
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {SQLITE_BUSY_SECONDS}000")


@cache
def adding_up(
    dialect_name: str, table: sa.Table, *, added: tuple[str, ...], replaced: tuple[str, ...]
) -> sa.Insert:
    """Return an INSERT that changes the row instead, where there is one with the same primary key.

    :param added: the columns whose numbers are added to those of the row that is there
    :param replaced: the columns whose numbers take the place of those that are there
    """
    # PERF: each of the dialects is a hundredth of a second of every start
    dialect: Any = import_module(f"sqlalchemy.dialects.{dialect_name.replace('mariadb', 'mysql')}")
    statement = dialect.insert(table)
    is_mysql = dialect_name in ("mysql", "mariadb")
    new = statement.inserted if is_mysql else statement.excluded
    values = {name: table.c[name] + new[name] for name in added} | {name: new[name] for name in replaced}
    changing: sa.Insert
    if is_mysql:
        changing = statement.on_duplicate_key_update(values)
    else:
        key = [column.name for column in table.primary_key]
        changing = statement.on_conflict_do_update(index_elements=key, set_=values)
    return changing


class packed(FunctionElement[str]):  # noqa: N801  # it is written where functions are
    """Values, none of which may be NULL, as one text with blanks between them.

    PERF: PyMySQL takes as long for each column of a result as for twenty rows of it, and each field takes
    longer than to split a text and to read a number; of all that Python did for a claim it was a fifth.
    """

    name = "packed"
    type = sa.String()
    inherit_cache = True


@compiles(packed)
def _pack(element: packed, compiler: Any, **settings: Any) -> str:
    values = (compiler.process(value, **settings) for value in element.clauses)
    return f"concat_ws(' ', {', '.join(values)})"


@compiles(packed, "sqlite")
def _pack_for_sqlite(element: packed, compiler: Any, **settings: Any) -> str:
    # it got concat_ws with 3.44
    values = (f"({compiler.process(value, **settings)})" for value in element.clauses)
    return "(" + " || ' ' || ".join(values) + ")"


def is_hashing_dear(dialect: sa.Dialect) -> bool:
    """Whether `hash_of` takes long for each column, as on MariaDB, which never gives an id again."""
    return dialect.name in ("mysql", "mariadb")


#: hashes have 32 bits, so that sums of them overflow nowhere
_HASH_MASK = (1 << 32) - 1


def hash_of_names(dialect: sa.Dialect, *columns: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    """Return what `hash_of` does, where columns hold text that people choose: of equal CRC32, for example."""
    if dialect.name == "postgresql":
        return hash_of(dialect, *columns)
    if dialect.name == "sqlite":
        return sa.func.sha1_32(_joined(columns))
    return sa.func.crc32(sa.func.sha1(sa.func.concat_ws(":", *columns)))


def hash_of(dialect: sa.Dialect, *columns: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    """Return a hash of numbers or UUIDs, from 0 to 2^32 - 1; sums of hashes collide with probability 2^-32.

    CRC32 alone must not be summed: it is linear, so the sum of the hashes of some rows often stays when they
    exchange values. CRC32 of its decimal digits is not linear.
    """
    if dialect.name == "postgresql":
        text = sa.func.concat_ws(":", *map(_to_text, columns))
        return sa.func.hashtextextended(text, 0).bitwise_and(_HASH_MASK)
    if dialect.name == "sqlite":
        return sa.func.crc32(_to_bytes(sa.func.crc32(_to_bytes(_joined(columns)))))
    # PERF: it casts by itself and leaves NULL out. Writing '' for it costs three milliseconds more for 10,000
    # rows; columns that may be NULL are last, and of kinds that cannot be taken for each other
    return sa.func.crc32(sa.func.crc32(sa.func.concat_ws(":", *columns)))


def _to_text(column: sa.ColumnElement[Any]) -> sa.ColumnElement[str]:
    return sa.func.coalesce(sa.cast(column, sa.String(255)), "")


def _joined(columns: Sequence[sa.ColumnElement[Any]]) -> sa.ColumnElement[str]:
    # concat_ws came with SQLite 3.44
    text, *rest = map(_to_text, columns)
    for part in rest:
        text = text + ":" + part
    return text


def _to_bytes(value: sa.ColumnElement[Any]) -> sa.ColumnElement[bytes]:
    return sa.cast(value, sa.LargeBinary)


def masked_product(column: sa.ColumnElement[int], hash_: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    """Return the lower bits of a number from 0 to 2^31 - 1 times a hash, so that a sum does not overflow."""
    return (column * hash_).bitwise_and(_HASH_MASK)


def mask_product(number: int, hash_: int) -> int:
    """Return what `masked_product` gives for these numbers."""
    return (number * hash_) & _HASH_MASK


def _hash(text: str) -> int:
    """Return what `hash_of` gives on SQLite and MariaDB for a text."""
    return zlib.crc32(str(zlib.crc32(text.encode())).encode())


def sum_hashes(conn: Connection, weights: Mapping[str, int]) -> int:
    """Return the sum of what `hash_of` gives for each text, times its weight.

    PERF: PostgreSQL is asked, as its hash is its own; elsewhere that would be one more round trip of a claim.
    """
    if conn.dialect.name != "postgresql" or not weights:
        return sum(weight * _hash(text) for text, weight in weights.items())
    parameters = {"texts": list(weights), "weights": list(weights.values())}
    return int(conn.scalar(_SUM_HASHES, parameters) or 0)


_SUM_HASHES = sa.text(
    "SELECT SUM((hashtextextended(t.text, 0) & 4294967295) * t.weight)"
    " FROM unnest(CAST(:texts AS text[]), CAST(:weights AS bigint[])) AS t(text, weight)"
)
