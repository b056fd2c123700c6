# SPDX-License-Identifier: Apache-2.0
"""Connections that the database ended while they lay in the pool: nobody notices."""

import sqlite3
import threading

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc

from osc_placement.server.db import provider
from osc_placement.server.db.engine import Database
from osc_placement.server.snapshot.current import Current

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
        engine = sa.create_engine(database.url, poolclass=sa.pool.NullPool)
        listing, ending = ENDING[backend]
        with engine.begin() as connection:
            for id_ in connection.exec_driver_sql(listing).scalars().all():
                connection.exec_driver_sql(ending.format(id_))

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
