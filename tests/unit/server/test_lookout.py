# SPDX-License-Identifier: Apache-2.0
"""What a look at the database may keep what it read under, where reading counts as well."""

import time

import pytest

from osc_placement.server.db import dialects
from osc_placement.server.db.lookout import Lookout


class Counting:
    """A connection to a database that counts, by all and by this connection."""

    def __init__(self) -> None:
        self.all = 100
        self.own = 10

    def read(self) -> None:
        self.all += 1
        self.own += 1

    def rollback(self) -> None:
        """There is no transaction."""


@pytest.fixture
def connection(monkeypatch):
    monkeypatch.setattr(dialects, "read_mark", lambda connection: connection.all)
    monkeypatch.setattr(dialects, "count_own_reads", lambda connection: connection.own)
    return Counting()


@pytest.fixture
def lookout(connection):
    return Lookout(connection)


def look_twice(lookout, connection, meanwhile=lambda: None):
    """Read twice, as it cannot be known of the first how much this connection had counted before."""
    known, _ = lookout.look(None, Counting.read)

    def read(connection: Counting) -> str:
        connection.read()
        meanwhile()
        return "found"

    return lookout.look(known, read)


def test_own_reading_leaves_nothing_to_look_for(lookout, connection):
    mark, found = look_twice(lookout, connection)
    assert found == "found"
    assert lookout.look(mark, Counting.read) == (mark, None)


def test_what_another_committed_during_the_reading_is_looked_for(lookout, connection):
    def commit() -> None:
        connection.all += 1

    mark, _ = look_twice(lookout, connection, commit)
    _, found = lookout.look(mark, lambda connection: "read again")
    assert found == "read again"


def test_what_another_committed_after_the_reading_is_looked_for(lookout, connection):
    mark, _ = look_twice(lookout, connection)
    connection.all += 1
    _, found = lookout.look(mark, lambda connection: "read again")
    assert found == "read again"


def test_counts_that_begin_anew_are_looked_into(lookout, connection):
    """As after FLUSH STATUS, when this connection has counted less than before."""

    def flush() -> None:
        connection.own = 0

    mark, _ = look_twice(lookout, connection, flush)
    _, found = lookout.look(mark, lambda connection: "read again")
    assert found == "read again"


def test_the_mark_of_another_connection_is_not_known(lookout, connection):
    mark, _ = look_twice(lookout, connection)
    _, found = Lookout(connection).look(mark, lambda connection: "read again")
    assert found == "read again"


def test_where_reading_does_not_count_a_mark_stays(monkeypatch, lookout, connection):
    monkeypatch.setattr(dialects, "count_own_reads", lambda connection: 0)
    mark, _ = lookout.look(None, lambda connection: "read")
    assert lookout.look(mark, lambda connection: "read again") == (mark, None)


def test_where_asking_counts_nothing_is_told_apart(monkeypatch, lookout, connection):
    """What another committed could be taken for that."""

    def ask(connection: Counting) -> int:
        connection.read()
        return connection.own

    monkeypatch.setattr(dialects, "count_own_reads", ask)
    for _ in range(3):
        mark, _ = look_twice(lookout, connection)
        connection.all += 1
        _, found = lookout.look(mark, lambda connection: "read again")
        assert found == "read again"


def test_a_connection_gets_old(monkeypatch, lookout):
    assert not lookout.is_older_than(3600)
    assert not lookout.is_older_than(-1)
    later = time.monotonic() + 3601
    monkeypatch.setattr("time.monotonic", lambda: later)
    assert lookout.is_older_than(3600)
    assert not lookout.is_older_than(-1)
