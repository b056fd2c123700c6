# SPDX-License-Identifier: Apache-2.0
"""Consumers on a driver whose cursors forget what they did once they are closed, as psycopg 3's do."""

import sqlite3

import pytest
import sqlalchemy as sa

from osc_placement.server.db import consumer, tables

UUID = "11111111-1111-4111-8111-111111111111"


class ForgetfulCursor(sqlite3.Cursor):
    """A cursor that no longer knows how many rows it changed when it is closed."""

    is_closed = False

    def close(self):
        self.is_closed = True
        super().close()

    @property
    def rowcount(self):
        return -1 if self.is_closed else super().rowcount


class ForgetfulConnection(sqlite3.Connection):
    """A connection with such cursors."""

    def cursor(self, factory=ForgetfulCursor):
        return super().cursor(factory)


@pytest.fixture
def connection():
    """A connection to an empty database."""
    engine = sa.create_engine("sqlite://", connect_args={"factory": ForgetfulConnection})
    tables.metadata.create_all(engine)
    with engine.begin() as connection:
        yield connection
    engine.dispose()


@pytest.mark.parametrize("consumer_type", [None, "INSTANCE"])
def test_a_consumer_is_stored_whether_its_owner_is_known_or_not(connection, consumer_type):
    owner = consumer.Owner("project", "user", consumer_type)
    for uuid in (UUID, UUID.replace("1", "2")):
        consumer.save_one(connection, uuid, owner, None)
        assert connection.scalar(sa.select(tables.consumers.c.generation).filter_by(uuid=uuid)) == 1
    assert connection.scalar(sa.select(sa.func.count()).select_from(tables.consumers)) == 2
