# SPDX-License-Identifier: Apache-2.0
"""Connections that the database ended while they lay in the pool: nobody notices."""

import os
import sqlite3
import threading
import time
import uuid
from dataclasses import replace

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc

from osc_placement.server import errors
from osc_placement.server.db import allocation, provider, tables, upgrade, writers
from osc_placement.server.db.allocation import Claim
from osc_placement.server.db.claim_queue import ClaimQueue
from osc_placement.server.db.consumer import Owner
from osc_placement.server.db.engine import Database
from osc_placement.server.snapshot.current import Current
from tests.waiting import wait_until

#: what lists the connections to a database but for one's own, and what ends one of them
ENDING = {
    "mariadb": (
        "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()",
        "KILL {}",
    ),
    "postgresql": (
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
        "SELECT pg_terminate_backend({})",
    ),
}


@pytest.fixture
def end_connections(backend, database):
    """A function that ends all connections to the database; a file has none."""

    def end():
        # PostgreSQL reads the list once in a transaction
        engine = sa.create_engine(database.url, poolclass=sa.pool.NullPool, isolation_level="AUTOCOMMIT")
        listing, ending = ENDING[backend]
        with engine.connect() as connection:
            ended = connection.exec_driver_sql(listing).scalars().all()
            for id_ in ended:
                connection.exec_driver_sql(ending.format(id_))
            # both databases only ask a connection to end
            wait_until(lambda: not {*ended}.intersection(connection.exec_driver_sql(listing).scalars()))

    return end


# a file has no connections that somebody else could end
@pytest.mark.parametrize("backend", list(ENDING), indirect=True)
def test_reads_and_writes_use_different_connections(database, make_provider, end_connections):
    item = make_provider(VCPU=8)
    current = Current(database)
    assert current.get().snapshot.node(item.id).name == item.name
    for number in range(3):
        end_connections()
        new = f"{item.name}-{number}"
        database.write(provider.update, item.uuid, {"name": new}, reparenting_allowed=False)
        end_connections()
        assert database.read(provider.load, item.uuid).name == new
        end_connections()
        assert current.get().snapshot.node(item.id).name == new


@pytest.fixture
def lose(end_connections):
    """A function that has a call of another end all connections when it is over, for so many calls."""

    def wrap(call, times=1):
        left = [None] * times

        def calling(*arguments, **named):
            found = call(*arguments, **named)
            if left:
                left.pop()
                end_connections()
            return found

        return calling

    return wrap


@pytest.mark.parametrize("backend", list(ENDING), indirect=True)
def test_check_that_is_repeated_reads_what_the_comparison_found(database, make_provider, lose, monkeypatch):
    """Also if the connection is lost when the check has read it."""
    item = make_provider(VCPU=8)
    current = Current(database)
    current.get()
    column = tables.resource_providers.c
    edit = sa.update(tables.resource_providers).where(column.id == item.id).values(name=f"{item.name}-edited")
    database.write(lambda conn: conn.execute(edit))
    while not current._outdated:
        current.watch()
    monkeypatch.setattr(current, "_read", lose(current._read))
    assert current.get().snapshot.node(item.id).name == f"{item.name}-edited"


@pytest.mark.parametrize("backend", list(ENDING), indirect=True)
def test_group_of_claims_is_repeated_on_a_new_connection(database, make_provider, lose, monkeypatch):
    """As any transaction, if its connection is lost before the commit."""
    item = make_provider(VCPU=8)
    monkeypatch.setattr(allocation, "_lock_consumers", lose(allocation._lock_consumers))
    claims = [Claim(str(uuid.uuid4()), Owner("project", "user"), {item.uuid: {"VCPU": 1}}) for _ in range(2)]
    queue = ClaimQueue(database)
    assert database.write(queue._replace_each, [[claim] for claim in claims]) == [None, None]
    monkeypatch.setattr(allocation, "_lock_consumers", lose(allocation._lock_consumers, 2))
    with pytest.raises(errors.DatabaseUnavailable):
        database.write(queue._replace_each, [[replace(claim, resources={})] for claim in claims])


@pytest.mark.parametrize("backend", list(ENDING), indirect=True)
def test_change_of_the_schema_that_loses_its_connection_is_an_outage(database, lose, monkeypatch):
    """It is no error of its own."""
    monkeypatch.setattr(upgrade, "_complete", lose(lambda conn: None, 9))
    monkeypatch.setattr(upgrade, "_can_use_own", lambda conn: False)
    with pytest.raises(errors.DatabaseUnavailable):
        upgrade.upgrade_own(database)


@pytest.mark.parametrize("backend", list(ENDING), indirect=True)
def test_lost_commit_of_a_transaction_that_changed_nothing_is_repeated(database, lose):
    """Its outcome is known."""
    other, calls = Database(database.url), []
    upgrade.upgrade(other)
    other.write(lose(lambda conn: calls.append(conn.exec_driver_sql("SELECT 1").scalar())))
    assert calls == [1, 1]
    other.dispose()


def test_process_that_ends_does_not_wait_for_another_writer(tmp_path):
    """It gives its slots back if it can."""
    path = tmp_path / "placement.db"
    database = Database(f"sqlite:///{path}")
    upgrade.upgrade(database)
    database.write(writers.record, names=True)
    writing = sqlite3.connect(path, isolation_level=None)
    writing.execute("BEGIN IMMEDIATE")
    start = time.monotonic()
    database.dispose()
    assert time.monotonic() - start < 5
    writing.close()


@pytest.mark.parametrize("backend", list(ENDING), indirect=True)
def test_child_that_ends_leaves_the_connections_of_its_parent(database):
    """Of a database that it has not used."""
    query = {"mysql": "SELECT CONNECTION_ID()", "postgresql": "SELECT pg_backend_pid()"}
    asking = sa.text(query[database.url.get_backend_name()])
    own = Database(database.url, pool_size=1)
    before = [call(lambda conn: conn.scalar(asking)) for call in (own.read, own.write)]
    child = os.fork()
    if child == 0:
        # no exception may come back from here: there would be two pytests
        try:
            own.dispose()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert [call(lambda conn: conn.scalar(asking)) for call in (own.read, own.write)] == before
    own.dispose()


@pytest.mark.parametrize("backend", list(ENDING), indirect=True)
def test_connection_is_discarded_after_a_refused_commit(database, make_provider, monkeypatch):
    """Whoever refuses it, the connection with what was to be committed is not used again."""
    item = make_provider(VCPU=8)
    other = Database(database.url, pool_size=1, max_overflow=0)

    def refuse(connection):
        raise sqlite3.OperationalError("refused")

    with monkeypatch.context() as patch:
        patch.setattr(other._writer.dialect, "do_commit", refuse)
        with pytest.raises(db_exc.DBError):
            other.write(provider.update, item.uuid, {"name": f"{item.name}-lost"}, reparenting_allowed=False)
    assert other.read(provider.load, item.uuid).name == item.name
    another = make_provider(VCPU=8)
    other.write(provider.update, another.uuid, {"name": f"{another.name}-new"}, reparenting_allowed=False)
    assert database.read(provider.load, item.uuid).name == item.name
    other.dispose()


def test_opening_a_new_sqlite_file_waits_for_another_writer(tmp_path):
    """SQLite waits for no lock while it makes a file one that is read and written at once."""
    path = tmp_path / "placement.db"
    writing = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    writing.execute("CREATE TABLE made_by_another (id INTEGER)")
    writing.execute("BEGIN IMMEDIATE")
    threading.Timer(0.2, writing.close).start()
    database = Database(f"sqlite:///{path}")
    assert database.read(lambda conn: conn.exec_driver_sql("PRAGMA journal_mode").scalar()) == "wal"
    database.dispose()
