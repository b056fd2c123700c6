# SPDX-License-Identifier: Apache-2.0
"""Change markers of each database: every commit changes them, and when they are stable."""

import threading
import time
import uuid
from contextlib import contextmanager

import pytest
import sqlalchemy as sa

from osc_placement.server.db import dialects
from osc_placement.server.db.tables import traits


@pytest.fixture
def watching(database):
    """A connection of its own."""
    engine = sa.create_engine(database.url)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


@pytest.fixture
def name(database):
    """A trait that is there."""
    name = f"CUSTOM_{uuid.uuid4().hex.upper()}"
    database.write(lambda conn: conn.execute(sa.insert(traits).values(name=name)))
    return name


WRITES = {
    "insert": lambda name: sa.insert(traits).values(name=f"{name}_2"),
    "update": lambda name: sa.update(traits).where(traits.c.name == name).values(name=f"{name}_3"),
    "delete": lambda name: sa.delete(traits).where(traits.c.name == name),
}


@pytest.mark.parametrize("write", WRITES)
def test_every_commit_changes_the_marker(database, watching, name, write):
    before = dialects.of(watching).read_change_marker(watching)
    watching.rollback()
    assert before is not None
    database.write(lambda conn: conn.execute(WRITES[write](name)))
    assert dialects.of(watching).read_change_marker(watching) != before


@pytest.mark.parametrize("write", WRITES)
def test_the_commit_itself_changes_the_marker(database, watching, name, write):
    """A change by the write alone is not sufficient, as the marker may be read after it."""
    engine = sa.create_engine(database.url)
    with engine.connect() as writing:
        writing.execute(WRITES[write](name))
        before = dialects.of(watching).read_change_marker(watching)
        watching.rollback()
        writing.commit()
        assert dialects.of(watching).read_change_marker(watching) != before
    engine.dispose()


@pytest.mark.parametrize("backend", ["mariadb"], indirect=True)
def test_marker_is_not_stable_while_another_connection_executes_a_statement(database, watching):
    with _asleep(database.url):
        assert not dialects.of(watching).is_change_marker_stable(watching)
    deadline = time.monotonic() + 30
    while not dialects.of(watching).is_change_marker_stable(watching):
        # what other tests do at the same server
        assert time.monotonic() < deadline


@contextmanager
def _asleep(url):
    """Another connection sleeps in the database, for a second at most."""
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        number = connection.exec_driver_sql("SELECT CONNECTION_ID()").scalar_one()
        sleeper = threading.Thread(target=lambda: connection.exec_driver_sql("SELECT SLEEP(1)"))
        sleeper.start()
        _await_state(url, number, "User sleep")
        yield
        sleeper.join()
    engine.dispose()


def _await_state(url, number, state):
    engine = sa.create_engine(url)
    query = sa.text("SELECT state FROM information_schema.processlist WHERE id = :id").bindparams(id=number)
    deadline = time.monotonic() + 1
    with engine.connect() as connection:
        while connection.scalar(query) != state:
            assert time.monotonic() < deadline
    engine.dispose()


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"], indirect=True)
def test_marker_of_sqlite_and_postgresql_is_stable(watching):
    assert dialects.of(watching).is_change_marker_stable(watching)


def test_every_database_has_markers(watching):
    assert dialects.of(watching).has_change_markers(watching)


@pytest.mark.parametrize("backend", ["mariadb"], indirect=True)
def test_no_marker_with_tables_that_are_not_of_innodb(watching):
    watching.exec_driver_sql("CREATE TABLE old_engine (id INTEGER) ENGINE=MyISAM")
    assert not dialects.of(watching).has_change_markers(watching)
    watching.exec_driver_sql("DROP TABLE old_engine")
    assert dialects.of(watching).has_change_markers(watching)


@pytest.mark.parametrize("backend", ["mariadb"], indirect=True)
def test_no_marker_before_mariadb_10_3(monkeypatch, watching):
    monkeypatch.setattr(watching.dialect, "server_version_info", (10, 2, 44))
    assert not dialects.of(watching).has_change_markers(watching)
