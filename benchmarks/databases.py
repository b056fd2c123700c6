# SPDX-License-Identifier: Apache-2.0
"""Empty databases for a server to be measured on, dropped afterwards."""

from __future__ import annotations

import contextlib
import os
import pathlib
import uuid
from collections.abc import Callable, Iterator

import sqlalchemy
from sqlalchemy.engine import URL, make_url

from benchmarks.case import Unavailable

#: makes a database, given a directory that is removed in the end; yields its URL
Kind = Callable[[pathlib.Path], contextlib.AbstractContextManager[str]]

#: an account that may make databases; the same variable as for the tests
MARIADB = "OSC_PLACEMENT_TEST_MYSQL_URL"
MARIADB_DEFAULT = "mysql+pymysql://root@127.0.0.1:3306/"
POSTGRESQL = "OSC_PLACEMENT_TEST_POSTGRESQL_URL"
POSTGRESQL_DEFAULT = "postgresql://postgres:postgres@127.0.0.1:5432/postgres"


@contextlib.contextmanager
def sqlite(directory: pathlib.Path) -> Iterator[str]:
    """A database file in a directory, which the caller removes."""
    yield f"sqlite:///{directory}/placement.db"


@contextlib.contextmanager
def mariadb(directory: pathlib.Path) -> Iterator[str]:
    """A database on the MariaDB server of this machine, which keeps it elsewhere."""
    with made_on(make_url(os.environ.get(MARIADB) or MARIADB_DEFAULT)) as url:
        yield url


@contextlib.contextmanager
def postgresql(directory: pathlib.Path) -> Iterator[str]:
    """A database on the PostgreSQL server of this machine, which keeps it elsewhere."""
    server = make_url(os.environ.get(POSTGRESQL) or POSTGRESQL_DEFAULT)
    with made_on(server.set(drivername="postgresql+psycopg2"), variable=POSTGRESQL) as url:
        yield url


@contextlib.contextmanager
def made_on(server: URL, *, variable: str = MARIADB) -> Iterator[str]:
    """A database on this server of MariaDB or PostgreSQL; raise Unavailable if it makes none."""
    name = f"osc_placement_bench_{uuid.uuid4().hex[:8]}"
    options = "CHARACTER SET utf8mb4" if variable == MARIADB else "ENCODING 'UTF8' TEMPLATE template0"
    try:
        _execute(server, f"CREATE DATABASE {name} {options}")
    except sqlalchemy.exc.OperationalError as error:
        where = f"{server.host}:{server.port}"
        raise Unavailable(f"no database server at {where} ({variable} names another)") from error
    try:
        yield server.set(database=name).render_as_string(hide_password=False)
    finally:
        _execute(server, f"DROP DATABASE {name}{'' if variable == MARIADB else ' WITH (FORCE)'}")


def _execute(server: URL, statement: str) -> None:
    engine = sqlalchemy.create_engine(server, isolation_level="AUTOCOMMIT")
    try:
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text(statement))
    finally:
        engine.dispose()
