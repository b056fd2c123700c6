# SPDX-License-Identifier: Apache-2.0
"""What the databases have in common, and what each of them may do in another way."""

from __future__ import annotations

import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from osc_placement.model import MAX_AMOUNT
from osc_placement.server import errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from sqlalchemy.engine import URL, Connection, Engine

#: what connections are for: `Database.read`, `Database.write`, and changes to the schema
Purpose = Literal["read", "write", "schema"]

#: seconds until TCP probes a database server that says nothing, between two probes, and how many go
#: unanswered: a server that is gone is noticed after half a minute, where TCP alone waits minutes or hours
IDLE_SECONDS, PROBE_SECONDS, PROBES = 15, 5, 3
TCP_USER_TIMEOUT: Final = 1000 * (IDLE_SECONDS + PROBE_SECONDS * PROBES)

#: hashes have 32 bits, so that sums of them overflow nowhere
HASH_MASK: Final = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The options of ``[placement_database]`` that depend on the database."""

    sqlite_synchronous: bool = True
    mysql_sql_mode: str | None = "TRADITIONAL"


class Dialect:
    """One kind of database, with the defaults of a database server.

    :cvar is_server: whether sessions of a server are used, which may hang or be lost
    :cvar admits_many_writers: whether transactions that write run at the same time
    :cvar limits_integers: whether a generation cannot exceed the largest integer of SQL
    :cvar hashes_slowly: whether `hash_of` takes long for each column
    """

    is_server = True
    admits_many_writers = True
    limits_integers = True
    hashes_slowly = False

    #: seconds of silence after which a database server that is there is taken to hang. Writes wait for the
    #: locks of others, on MariaDB for 50 seconds by default; changes to the schema are not limited.
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
        """Return what tells the file of the database from one that replaced it, or None if there is none."""
        path = self.find_file(url)
        try:
            status = path.stat() if path is not None else None
        except OSError:
            return None
        return status and (status.st_dev, status.st_ino)

    def engine_arguments(self, url: URL, purpose: Purpose) -> dict[str, Any]:
        """Return the arguments of ``create_engine`` for connections of one purpose.

        Reads run at REPEATABLE READ, so that the statements of one answer see one state. Writes run at READ
        COMMITTED and lock what they judge: under REPEATABLE READ, MariaDB answers the reads after a lock from
        the snapshot taken before it, so a claim would be judged against stale usage.
        """
        return {
            "isolation_level": "REPEATABLE READ" if purpose == "read" else "READ COMMITTED",
            # PERF: two round trips less. Whoever takes a connection ends its transaction, so the pool need
            # not; a dead connection fails at the first statement, and the whole is done again (see `engine`).
            "pool_reset_on_return": None,
            "connect_args": self.connect_arguments(url, purpose),
        }

    def connect_arguments(self, url: URL, purpose: Purpose) -> dict[str, Any]:
        """Return the arguments of the driver's ``connect``."""
        return {}

    def prepare(self, engine: Engine, purpose: Purpose, options: EngineOptions) -> None:
        """Attach what each new connection and transaction of an engine needs."""

    def accept_id_zero(self, connection: Connection) -> None:
        """Let the next inserts store an explicit id 0, which is VCPU's."""

    @contextmanager
    def schema_lock(self, connection: Connection) -> Iterator[None]:
        """Keep out others who would change the schema too, until the transaction ends."""
        yield

    def check_generation(self, table: sa.Table, uuid: str, generation: int) -> None:
        """Raise GenerationExhausted if a generation cannot be incremented."""
        if generation >= MAX_AMOUNT and self.limits_integers:
            raise errors.GenerationExhausted(table.name, uuid, generation)

    def try_to_write(self, connection: Connection, table: sa.Table) -> None:
        """Delete no row: the database refuses that where it refuses changes, and otherwise locks nothing.

        Settings such as ``read_only`` do not tell: privileges of the account, or a state of the server,
        overrule them.
        """
        connection.execute(sa.delete(table).where(sa.false()))

    def adding_up(self, table: sa.Table, *, added: tuple[str, ...], replaced: tuple[str, ...]) -> sa.Insert:
        """Return an INSERT that changes the row instead, where there is one with the same primary key.

        :param added: the columns whose numbers are added to those of the present row
        :param replaced: the columns whose numbers replace those of the present row
        """
        return _adding_up(self, table, added, replaced)

    def upsert(self, table: sa.Table, added: tuple[str, ...], replaced: tuple[str, ...]) -> sa.Insert:
        """Return what `adding_up` does, made anew."""
        raise NotImplementedError

    def has_change_markers(self, connection: Connection) -> bool:
        """Return whether the database has change markers (see `ChangeDetector`)."""
        return False

    def read_change_marker(self, connection: Connection) -> object:
        """Return the change marker of a database that has them."""
        raise NotImplementedError

    def is_change_marker_stable(self, connection: Connection) -> bool:
        """Return whether data read from now on show all that the marker counts, which was just read."""
        return True

    def hash_of(self, *columns: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
        """Return a hash of numbers or UUIDs, from 0 to 2^32 - 1.

        Sums of hashes collide with probability 2^-32. CRC32 alone must not be summed: it is linear, so the
        sum of the hashes of some rows often stays when they exchange values. CRC32 of its decimal digits is
        not linear.
        """
        raise NotImplementedError

    def hash_of_names(self, *columns: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
        """Return what `hash_of` does for text that people choose, who may choose texts of equal CRC32."""
        raise NotImplementedError

    def sum_hashes(self, conn: Connection, weights: Mapping[str, int]) -> int:
        """Return the sum of what `hash_of` gives for each text, times its weight."""
        # PERF: by SQL it would be one more round trip of a claim
        return sum(weight * _hash(text) for text, weight in weights.items())


@cache
def _adding_up(
    dialect: Dialect, table: sa.Table, added: tuple[str, ...], replaced: tuple[str, ...]
) -> sa.Insert:
    return dialect.upsert(table, added, replaced)


def new_values(
    table: sa.Table, new: Any, added: tuple[str, ...], replaced: tuple[str, ...]
) -> dict[str, sa.ColumnElement[Any]]:
    """Return what an upsert sets each column to; ``new`` are the columns of the row to insert."""
    return {name: table.c[name] + new[name] for name in added} | {name: new[name] for name in replaced}


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


def to_text(column: sa.ColumnElement[Any]) -> sa.ColumnElement[str]:
    """Return a column as text, empty for NULL."""
    return sa.func.coalesce(sa.cast(column, sa.String(255)), "")


def masked_product(column: sa.ColumnElement[int], hash_: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    """Return the lower bits of a number from 0 to 2^31 - 1 times a hash, so that a sum does not overflow."""
    return (column * hash_).bitwise_and(HASH_MASK)


def mask_product(number: int, hash_: int) -> int:
    """Return what `masked_product` gives for these numbers."""
    return (number * hash_) & HASH_MASK


def _hash(text: str) -> int:
    """Return what `hash_of` gives on SQLite and MariaDB for a text."""
    return zlib.crc32(str(zlib.crc32(text.encode())).encode())
