# SPDX-License-Identifier: Apache-2.0
"""A database of nova of any release: read-only by default, explicit columns, pages by primary key."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine, RowMapping, make_url

from osc_placement.errors import one_line
from osc_placement.migrate.nova.source import Unreadable
from osc_placement.package import how_to_install_driver

#: rows of one page
PAGE: Final = 1000
#: seconds that a database server has to accept a connection
_PATIENCE: Final = 10
#: seconds that it has for an answer, with drivers that have a timeout: a lost connection must end a run
_READ_PATIENCE: Final = 600
_CAN_WAIT: Final = ("pymysql", "mysqldb")

#: what aborts a transaction that may succeed when it is repeated: a wait for a lock that takes too long, a
#: deadlock (also if Galera finds a conflict), and a row that was changed since the snapshot of MariaDB; the
#: same of PostgreSQL, and of SQLite
_COLLISIONS: Final = (1205, 1213, 1020, "40001", "40P01", "database is locked")

#: how a session is made to refuse writes
_READ_ONLY: Final[Mapping[str, str]] = {
    "sqlite": "PRAGMA query_only = ON",
    "mysql": "SET SESSION TRANSACTION READ ONLY",
    "mariadb": "SET SESSION TRANSACTION READ ONLY",
    "postgresql": "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
}


class Collision(Exception):
    """An error: a transaction was aborted because of another one, or its connection was lost; repeat it."""


class NovaDatabase:
    """A database of nova or another service, called ``label`` in messages."""

    def __init__(self, url: str, label: str, service: str = "nova", *, is_read_only: bool = True) -> None:
        self.label = label
        self._service = service
        self._engine = _connect(url, label, is_read_only=is_read_only)
        self._columns: dict[str, frozenset[str]] = {}

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def columns(self, table: str) -> frozenset[str]:
        """Return the columns of a table; none if there is no such table."""
        if table not in self._columns:
            # PERF: a query without rows takes a millisecond; to inspect a table of MariaDB takes forty
            statement = sa.select(sa.text("*")).select_from(sa.table(table)).where(sa.false())
            with self._reading() as connection:
                try:
                    names = frozenset(connection.execute(statement).keys())
                except (sa.exc.ProgrammingError, sa.exc.OperationalError):
                    # it is not there, or not all of it may be read
                    connection.rollback()
                    inspector = sa.inspect(connection)
                    found = inspector.get_columns(table) if inspector.has_table(table) else ()
                    names = frozenset(column["name"] for column in found)
            self._columns[table] = names
        return self._columns[table]

    def table(self, name: str, required: Iterable[str], optional: Iterable[str] = ()) -> sa.TableClause:
        """Return a table with these columns, without those of ``optional`` that the schema lacks.

        Raise Unreadable if the table or a required column is missing.
        """
        present, required = self.columns(name), list(required)
        if not present:
            raise Unreadable(self.label, f"there is no table {name}; is this a database of {self._service}?")
        missing = sorted(set(required) - present)
        if missing:
            raise Unreadable(self.label, f"table {name} has no column {', '.join(missing)}")
        wanted = [*required, *(column for column in optional if column in present)]
        return sa.table(name, *(sa.column(column) for column in wanted))

    def fetch(self, statement: sa.Select[Any]) -> Sequence[RowMapping]:
        """Return all rows of a statement."""
        with self._reading() as connection:
            return connection.execute(statement).mappings().all()

    def pages(self, statement: sa.Select[Any], key: Any) -> Iterator[Sequence[RowMapping]]:
        """Yield the rows of a statement in pages; ``key`` is a selected column that orders them."""
        last = None
        while True:
            page = statement if last is None else statement.where(key > last)
            rows = self.fetch(page.order_by(key).limit(PAGE))
            if rows:
                yield rows
            if len(rows) < PAGE:
                return
            last = rows[-1][key.name]

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction of a database that is not read-only.

        Raise Collision if it has to be repeated, and Unreadable if the database refuses it.
        """
        try:
            with self._engine.begin() as connection:
                yield connection
        except sa.exc.SQLAlchemyError as error:
            if _is_collision(error):
                raise Collision from error
            raise Unreadable(self.label, _reason(error)) from error

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Connection]:
        try:
            with self._engine.connect() as connection:
                yield connection
        except sa.exc.SQLAlchemyError as error:
            raise Unreadable(self.label, _reason(error)) from error


def _connect(url: str, label: str, *, is_read_only: bool) -> Engine:
    """Return an engine, whose sessions refuse writes if it is read-only.

    Raise Unreadable if the URL cannot be used.
    """
    try:
        parsed = make_url(url)
        dialect = parsed.get_backend_name()
        limits = {}
        if dialect != "sqlite":
            reading = {"read_timeout": _READ_PATIENCE} if parsed.get_driver_name() in _CAN_WAIT else {}
            limits = {"connect_timeout": _PATIENCE, **reading}
        elif parsed.database not in (None, "", ":memory:") and not pathlib.Path(parsed.database).exists():
            # SQLite would create it
            raise Unreadable(label, f"there is no file {parsed.database}")
        engine = sa.create_engine(parsed, pool_pre_ping=True, connect_args=limits)
    except (sa.exc.SQLAlchemyError, ValueError) as error:
        raise Unreadable(label, f"its connection is not a database URL: {_reason(error)}") from error
    except ImportError as error:
        remedy = how_to_install_driver(dialect, parsed.get_driver_name())
        raise Unreadable(
            label, f"the driver of {parsed.drivername} is not installed: {error}; {remedy}"
        ) from error
    if (statement := _READ_ONLY.get(dialect)) and is_read_only:

        @sa.event.listens_for(engine, "connect")
        def refuse_writes(connection: Any, _record: object) -> None:
            cursor = connection.cursor()
            cursor.execute(statement)
            cursor.close()
            connection.commit()

    return engine


def _is_collision(error: sa.exc.SQLAlchemyError) -> bool:
    if getattr(error, "connection_invalidated", False):
        return True
    cause = getattr(error, "orig", None)
    state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    # what a driver says first may be a mapping, which is in no set
    return any(code in _COLLISIONS for code in (state, *getattr(cause, "args", ())[:1]))


def _reason(error: Exception) -> str:
    """Return the message of the database in one line."""
    cause = getattr(error, "orig", None) or error
    arguments = [text for text in cause.args if isinstance(text, str)]
    return one_line(arguments[-1] if arguments else cause)


def resolve_connection(template: str, main: str | None, label: str) -> str:
    """Fill a cell's connection template with the parts of ``[database]/connection``.

    What has no parts to fill in stays as it is; without a main connection so does everything, as in nova.
    """
    if not main or "{" not in template:
        return template
    try:
        return template.format(**describe_url(main))
    except (KeyError, ValueError, IndexError) as error:
        reason = f"its connection template {error} cannot be filled from [database]/connection"
        raise Unreadable(label, reason) from error


def describe_url(url: str) -> dict[str, str]:
    """Return the parts of a URL under nova's names; each of several hosts has a number too."""
    parts = urlsplit(url)
    hosts = parts.netloc.split(",")
    described = {
        "scheme": parts.scheme,
        "path": parts.path.lstrip("/"),
        "query": parts.query,
        "fragment": parts.fragment,
        **_describe_host(parts, hosts[0], ""),
    }
    for number, host in enumerate(hosts, 1):
        if len(hosts) > 1:
            described |= _describe_host(parts, host, str(number))
    return described


def _describe_host(parts: SplitResult, netloc: str, number: str) -> dict[str, str]:
    host = parts._replace(netloc=netloc)
    return {
        f"username{number}": host.username or "",
        f"password{number}": host.password or "",
        f"hostname{number}": host.hostname or "",
        f"port{number}": str(host.port or ""),
    }
