# SPDX-License-Identifier: Apache-2.0
"""Marks of each database: that every commit moves them, and when they are to be trusted."""

import threading
import time
import uuid
from contextlib import contextmanager

import pytest
import sqlalchemy as sa

from osc_placement.server.db import mark
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
def test_every_commit_moves_it(database, watching, name, write):
    before = mark.read(watching)
    watching.rollback()
    assert before is not None
    database.write(lambda conn: conn.execute(WRITES[write](name)))
    assert mark.read(watching) != before


@pytest.mark.parametrize("write", WRITES)
def test_it_is_the_commit_that_moves_it(database, watching, name, write):
    """It is not enough that the writing does: that may have been before the mark was read."""
    engine = sa.create_engine(database.url)
    with engine.connect() as writing:
        writing.execute(WRITES[write](name))
        before = mark.read(watching)
        watching.rollback()
        writing.commit()
        assert mark.read(watching) != before
    engine.dispose()


@pytest.mark.parametrize("backend", ["mariadb"], indirect=True)
def test_who_is_in_the_midst_of_a_statement_may_be_about_to_commit(database, watching):
    with _asleep(database.url):
        assert not mark.is_settled(watching)
    deadline = time.monotonic() + 30
    while not mark.is_settled(watching):
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
def test_elsewhere_a_mark_can_be_trusted_at_once(watching):
    assert mark.is_settled(watching)


def test_every_kind_of_database_has_marks(watching):
    assert mark.can_be_read(watching)


@pytest.mark.parametrize("backend", ["mariadb"], indirect=True)
def test_tables_of_another_engine_move_no_mark(watching):
    watching.exec_driver_sql("CREATE TABLE old_engine (id INTEGER) ENGINE=MyISAM")
    assert not mark.can_be_read(watching)
    watching.exec_driver_sql("DROP TABLE old_engine")
    assert mark.can_be_read(watching)


@pytest.mark.parametrize("backend", ["mariadb"], indirect=True)
def test_before_mariadb_10_3_not_every_commit_moves_a_mark(monkeypatch, watching):
    monkeypatch.setattr(watching.dialect, "server_version_info", (10, 2, 44))
    assert not mark.can_be_read(watching)
