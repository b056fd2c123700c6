# SPDX-License-Identifier: Apache-2.0
"""The check for changes: when it reads, and when it keeps the marker."""

import pytest

from osc_placement.server.db import dialects
from osc_placement.server.snapshot.detector import ChangeDetector


class Counting:
    """A connection to a database that counts commits, some of which others do not see yet."""

    def __init__(self) -> None:
        self.counted = 100
        self.committing = 0
        self.questions = 0

    def rollback(self) -> None:
        """There is no transaction."""


class Markers:
    """The dialect of such a database."""

    def has_change_markers(self, connection):
        return True

    def read_change_marker(self, connection):
        connection.questions += 1
        return connection.counted

    def is_change_marker_stable(self, connection):
        return not connection.committing


class OneConnection:
    """A database with one connection, which may be replaced."""

    def __init__(self, connection):
        self.connection = connection

    def read_on_kept_connection(self, operation):
        return operation(self.connection)


@pytest.fixture
def connection(monkeypatch):
    markers = Markers()
    monkeypatch.setattr(dialects, "of", lambda connection: markers)
    return Counting()


@pytest.fixture
def database(connection):
    return OneConnection(connection)


@pytest.fixture
def detector(database):
    return ChangeDetector(database)


def check(detector, known):
    return detector.check(known, lambda connection: "read")


def test_nothing_is_read_if_nothing_was_committed(detector):
    known, found = check(detector, None)
    assert found == "read"
    assert check(detector, known) == (known, None)


def test_a_commit_during_the_reading_is_detected(detector, connection):
    def read(connection: Counting) -> str:
        connection.counted += 1
        return "read"

    known, _ = detector.check(None, read)
    assert check(detector, known)[1] == "read"


def test_a_commit_that_is_counted_before_it_is_visible_is_detected(detector, connection):
    connection.committing = 1
    known, _ = check(detector, None)
    connection.committing = 0
    assert known is None
    assert check(detector, known)[1] == "read"


def test_markers_are_read_ever_more_rarely_while_they_are_not_stable(detector, connection):
    connection.committing = 1
    known = None
    for _ in range(90):
        known, found = check(detector, known)
        assert found == "read"
    # after pauses of 1, 2, 4, 8, 16 and 32 checks
    assert connection.questions == 7


def test_markers_are_read_ever_more_rarely_while_they_always_differ(detector, connection):
    known = None
    for _ in range(90):
        connection.counted += 1
        known, found = check(detector, known)
        assert found == "read"
    # after each pause one that is kept, and the next, which differs
    assert connection.questions == 14


@pytest.mark.parametrize(("busy_checks", "until_found"), [(1, 2), (90, 33)])
def test_markers_are_read_again_after_others_were_busy(detector, connection, busy_checks, until_found):
    connection.committing = 1
    known = None
    for _ in range(busy_checks):
        known, _ = check(detector, known)
    connection.committing = 0
    answers = []
    for _ in range(40):
        known, found = check(detector, known)
        answers.append(found)
    assert answers.index(None) <= until_found
    assert set(answers[until_found:]) == {None}


def test_a_marker_of_another_connection_is_not_trusted(detector, database):
    known, _ = check(detector, None)
    database.connection = Counting()
    assert check(detector, known)[1] == "read"
    assert check(detector, known)[1] == "read"


def test_a_pause_ends_with_its_connection(detector, database, connection):
    connection.committing = 1
    check(detector, None)
    database.connection = Counting()
    check(detector, None)
    assert database.connection.questions == 1


def test_every_check_reads_if_the_database_has_no_markers(monkeypatch, detector):
    monkeypatch.setattr(dialects.of(None), "has_change_markers", lambda connection: False)
    known, _ = check(detector, None)
    assert check(detector, known) == (None, "read")
