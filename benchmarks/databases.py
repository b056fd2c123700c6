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
def made_on(server: URL) -> Iterator[str]:
    """A database on this MariaDB server; raise Unavailable if it makes none."""
    name = f"osc_placement_bench_{uuid.uuid4().hex[:8]}"
    try:
        _execute(server, f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    except sqlalchemy.exc.OperationalError as error:
        raise Unavailable(f"no MariaDB at {server.host}:{server.port} ({MARIADB} names another)") from error
    try:
        yield server.set(database=name).render_as_string(hide_password=False)
    finally:
        _execute(server, f"DROP DATABASE {name}")


def _execute(server: URL, statement: str) -> None:
    engine = sqlalchemy.create_engine(server)
    try:
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text(statement))
    finally:
        engine.dispose()
