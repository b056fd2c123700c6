# SPDX-License-Identifier: Apache-2.0
"""What a look at the database may keep what it read under."""

import time

import pytest

from osc_placement.server.db import mark
from osc_placement.server.db.lookout import Lookout


class Counting:
    """A connection to a database that counts commits, some of which others do not see yet."""

    def __init__(self) -> None:
        self.counted = 100
        self.committing = 0
        self.questions = 0

    def rollback(self) -> None:
        """There is no transaction."""


def read_mark(connection: Counting) -> int:
    connection.questions += 1
    return connection.counted


@pytest.fixture
def connection(monkeypatch):
    monkeypatch.setattr(mark, "can_be_read", lambda connection: True)
    monkeypatch.setattr(mark, "read", read_mark)
    monkeypatch.setattr(mark, "is_settled", lambda connection: not connection.committing)
    return Counting()


@pytest.fixture
def lookout(connection):
    return Lookout(connection)


def look(lookout, known):
    return lookout.look(known, lambda connection: "read")


def test_where_nothing_was_committed_nothing_is_read(lookout):
    known, found = look(lookout, None)
    assert found == "read"
    assert look(lookout, known) == (known, None)


def test_what_is_committed_during_the_reading_is_looked_for(lookout, connection):
    def read(connection: Counting) -> str:
        connection.counted += 1
        return "read"

    known, _ = lookout.look(None, read)
    assert look(lookout, known)[1] == "read"


def test_what_was_counted_before_it_was_seen_is_looked_for(lookout, connection):
    connection.committing = 1
    known, _ = look(lookout, None)
    connection.committing = 0
    assert known is None
    assert look(lookout, known)[1] == "read"


def test_where_others_are_busy_marks_are_asked_for_ever_more_rarely(lookout, connection):
    connection.committing = 1
    known = None
    for _ in range(90):
        known, found = look(lookout, known)
        assert found == "read"
    # after pauses of 1, 2, 4, 8, 16 and 32 looks
    assert connection.questions == 7


def test_where_others_write_between_all_looks_marks_are_in_vain_too(lookout, connection):
    known = None
    for _ in range(90):
        connection.counted += 1
        known, found = look(lookout, known)
        assert found == "read"
    # after each pause one that is kept, and the next, which is another
    assert connection.questions == 14


@pytest.mark.parametrize(("busy_looks", "until_found"), [(1, 2), (90, 33)])
def test_marks_are_found_again_after_others_were_busy(lookout, connection, busy_looks, until_found):
    connection.committing = 1
    known = None
    for _ in range(busy_looks):
        known, _ = look(lookout, known)
    connection.committing = 0
    answers = []
    for _ in range(40):
        known, found = look(lookout, known)
        answers.append(found)
    assert answers.index(None) <= until_found
    assert set(answers[until_found:]) == {None}


def test_the_mark_of_another_connection_is_not_known(lookout, connection):
    known, _ = look(lookout, None)
    assert look(Lookout(connection), known)[1] == "read"


def test_without_marks_every_look_reads(monkeypatch, lookout):
    monkeypatch.setattr(mark, "can_be_read", lambda connection: False)
    known, _ = look(lookout, None)
    assert look(lookout, known) == (None, "read")


def test_a_connection_gets_old(monkeypatch, lookout):
    assert not lookout.is_older_than(3600)
    assert not lookout.is_older_than(-1)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 3601)
    assert lookout.is_older_than(3600)
    assert not lookout.is_older_than(-1)
