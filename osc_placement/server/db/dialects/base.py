# SPDX-License-Identifier: Apache-2.0
"""The common behaviour of the databases, with a method for each difference."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from sqlalchemy.engine import URL, Connection, Engine

#: the use of a connection: `Database.read`, `Database.write`, or changes to the schema
Purpose = Literal["read", "write", "schema"]

#: seconds until TCP probes a silent database server, seconds between two probes, and the number of unanswered
#: probes: a server that is gone is noticed after half a minute, where TCP alone waits minutes or hours
IDLE_SECONDS, PROBE_SECONDS, PROBES = 15, 5, 3
TCP_USER_TIMEOUT: Final = 1000 * (IDLE_SECONDS + PROBE_SECONDS * PROBES)

#: values in a portion; SQLite accepts some 32,000 per statement, and MariaDB plans lists over 1,000 as a join
PORTION: Final = 500

#: the largest value of a column of type INTEGER
LARGEST_INTEGER: Final = (1 << 31) - 1

Value = TypeVar("Value")


def split(values: Sequence[Value]) -> Iterator[Sequence[Value]]:
    """Yield the values in order, `PORTION` at a time, which every database accepts in one statement."""
    return (values[begin : begin + PORTION] for begin in range(0, len(values), PORTION))


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The options of ``[placement_database]`` that depend on the database.

    :ivar read_only: whether the database is told to refuse changes from each connection; this is no option
        of the configuration
    """

    sqlite_synchronous: bool = True
    mysql_sql_mode: str | None = "TRADITIONAL"
    read_only: bool = False


class Dialect:
    """One kind of database, with the defaults of a database server.

    :cvar is_server: whether the database is a server, whose sessions may hang or be lost
    :cvar admits_many_writers: whether several transactions can write at the same time
    :cvar limits_integers: whether a generation cannot exceed the largest integer of SQL
    :cvar make_read_only: the statement after which the database refuses changes from a connection
    """

    is_server = True
    admits_many_writers = True
    limits_integers = True
    #: MariaDB's and MySQL's
    make_read_only = "SET SESSION TRANSACTION READ ONLY"

    #: seconds of silence after which a database server is considered to hang. Writes wait for the locks of
    #: other transactions, on MariaDB for 50 seconds by default; changes to the schema are not limited.
    SILENT_SECONDS: dict[Purpose, int] = {"read": 30, "write": 60}

    def with_driver(self, url: URL) -> URL:
        """Return the URL with the driver to use."""
        return url

    def is_memory(self, url: URL) -> bool:
        """Return whether the database lives only in its connection."""
        return False

    def find_file(self, url: URL) -> Path | None:
        """Return the file of the database, or None if it has none."""
        return None

    def identify_file(self, url: URL) -> tuple[int, int] | None:
        """Return device and inode of the database file, which a new file changes; None without a file."""
        path = self.find_file(url)
        try:
            status = path.stat() if path is not None else None
        except OSError:
            return None
        return status and (status.st_dev, status.st_ino)

    def engine_arguments(self, url: URL, purpose: Purpose) -> dict[str, Any]:
        """Return the arguments of ``create_engine`` for connections of one purpose.

        Reads run at REPEATABLE READ, so that the statements of one answer see one state. Writes run at READ
        COMMITTED and lock what they read: under REPEATABLE READ, MariaDB answers the reads after a lock from
        the snapshot taken before it, so a claim would be checked against stale usage.
        """
        return {
            "isolation_level": "REPEATABLE READ" if purpose == "read" else "READ COMMITTED",
            # PERF: two round trips less. Every user of a connection ends its transaction, so the pool need
            # not; a dead connection fails at the first statement, and the operation is repeated (see
            # `engine`).
            "pool_reset_on_return": None,
            "connect_args": self.connect_arguments(url, purpose),
        }

    def connect_arguments(self, url: URL, purpose: Purpose) -> dict[str, Any]:
        """Return the arguments of the driver's ``connect``."""
        return {}

    def prepare(self, engine: Engine, purpose: Purpose, options: EngineOptions) -> None:
        """Attach the listeners that prepare each new connection and transaction of an engine."""

    def accept_id_zero(self, connection: Connection) -> None:
        """Let the next inserts store an explicit id 0, which is VCPU's."""

    def limit_last_wait(self, connection: Connection) -> None:
        """Have the last transaction of a process wait for another writer for a second at most."""

    @contextmanager
    def waiting_briefly(self, connection: Connection) -> Iterator[None]:
        """Wait for each lock for a second at most, where locks are of rows."""
        yield

    @contextmanager
    def schema_lock(self, connection: Connection) -> Iterator[None]:
        """Keep other processes from changing the schema until the transaction ends."""
        yield

    def is_last_generation(self, generation: int) -> bool:
        """Return whether a generation cannot be incremented."""
        return generation >= LARGEST_INTEGER and self.limits_integers

    def try_to_write(self, connection: Connection, table: sa.Table) -> None:
        """Execute a DELETE of no row, which locks nothing and fails if the database refuses changes.

        Settings such as ``read_only`` are not sufficient: privileges of the account, or the state of the
        server, take precedence over them.
        """
        connection.execute(sa.delete(table).where(sa.false()))

    def upsert(self, table: sa.Table, added: str) -> sa.Insert:
        """Return an INSERT that, if there is a row with the same primary key, adds to one of its numbers.

        :param added: the column whose number is added to that of the present row
        """
        raise NotImplementedError


def update_on_conflict(statement: Any, table: sa.Table, added: str) -> sa.Insert:
    """Return an upsert made of an INSERT of SQLite or PostgreSQL, which have the same clause for it."""
    key = [column.name for column in table.primary_key]
    values = {added: table.c[added] + statement.excluded[added]}
    return cast("sa.Insert", statement.on_conflict_do_update(index_elements=key, set_=values))


class packed(FunctionElement[str]):  # noqa: N801  # it is written where functions are
    """Several values, none of which may be NULL, as one text with blanks between them.

    PERF: PyMySQL takes as long for each column of a result as for twenty rows of it, and longer for a field
    than Python for splitting a text and parsing a number; this was a fifth of Python's time for a claim.
    """

    name = "packed"
    type = sa.String()
    inherit_cache = True


class Integers(sa.types.TypeDecorator[tuple[int, ...]]):
    """The type of integers in one text with blanks between them."""

    impl = sa.String
    cache_ok = True

    def process_result_value(self, value: Any, dialect: object) -> tuple[int, ...]:
        return tuple(map(int, value.split()))


class packed_integers(packed):  # noqa: N801  # it is written where functions are
    """Integers `packed` as one text, which a row has as a tuple of integers again."""

    type = Integers()  # type: ignore[assignment]  # what arrives is the tuple
    inherit_cache = True


@compiles(packed)
def _pack(element: packed, compiler: Any, **settings: Any) -> str:
    values = (compiler.process(value, **settings) for value in element.clauses)
    return f"concat_ws(' ', {', '.join(values)})"
