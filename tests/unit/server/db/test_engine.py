# SPDX-License-Identifier: Apache-2.0
"""Transactions: whole or not at all, tried again as a whole, and for a bounded time."""

import os
import sqlite3
import threading
import time

import psycopg
import psycopg2
import pymysql
import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc

from osc_placement.server import errors
from osc_placement.server.db import dialects, driver_errors, engine
from osc_placement.server.db.dialects import postgresql, sqlite
from osc_placement.server.db.driver_errors import Kind
from osc_placement.server.db.engine import Database

metadata = sa.MetaData()
notes = sa.Table("notes", metadata, sa.Column("text", sa.String(20), primary_key=True))


@pytest.fixture
def url(tmp_path):
    """The URL of a SQLite file."""
    return f"sqlite:///{tmp_path}/notes.db"


@pytest.fixture
def open_database(url):
    """A function that opens the database once more, with its table, until the test is over."""
    opened = []

    def open_(**options):
        opened.append(Database(url, **options))
        metadata.create_all(opened[-1].engine)
        return opened[-1]

    yield open_
    for database in opened:
        database.dispose()


def add(connection, text):
    """Write a note."""
    connection.execute(sa.insert(notes).values(text=text))


def read_all(connection):
    """Every note."""
    return sorted(connection.scalars(sa.select(notes.c.text)))


class Losing:
    """An operation that writes, loses a race so many times, and then wins."""

    def __init__(self, times, error):
        self.times, self.error, self.attempts = times, error, 0

    def __call__(self, connection, text):
        self.attempts += 1
        add(connection, f"{text} {self.attempts}")
        if self.attempts <= self.times:
            raise self.error
        return self.attempts


@pytest.mark.parametrize("error", [errors.Retry(), db_exc.DBDeadlock()])
def test_a_lost_race_repeats_the_whole_transaction(open_database, error):
    """The writes of a lost attempt are rolled back before the next one starts."""
    database = open_database()
    assert database.write(Losing(3, error), "attempt") == 4
    assert database.read(read_all) == ["attempt 4"]


def test_an_id_that_could_not_be_taken_is_a_lost_race(open_database):
    """MariaDB answers so where claims that take ids of one table deadlock; the client got 503."""
    database = open_database()
    refused = []

    def refuse_once(_cursor, _statement, _parameters, _context):
        if not refused:
            refused.append(True)
            raise sqlite3.OperationalError(1467, "Failed to read auto-increment value")

    def claim(connection):
        add(connection, "before")
        event = (connection.engine, "do_execute", refuse_once)
        sa.event.listen(*event)
        try:
            add(connection, "after")
        finally:
            sa.event.remove(*event)

    database.write(claim)
    assert (refused, database.read(read_all)) == ([True], ["after", "before"])


@pytest.mark.parametrize("attempts", [1, 3])
def test_the_number_of_attempts_is_limited(open_database, monkeypatch, attempts):
    """After the last attempt the client is told to try later, and nothing is written."""
    monkeypatch.setattr(engine, "LEAST_SECONDS", 0)
    database = open_database(attempts=attempts)
    losing = Losing(100, errors.Retry())
    with pytest.raises(errors.TooMuchContention):
        database.write(losing, "attempt")
    assert losing.attempts == attempts
    assert database.read(read_all) == []


def test_a_write_is_tried_for_some_time_however_few_its_attempts(open_database, monkeypatch):
    """On a busy cluster ten attempts were over in a fifth of a second, and the client got 503."""
    monkeypatch.setattr(engine, "LEAST_SECONDS", 60)
    database = open_database(attempts=1)
    assert database.write(Losing(4, errors.Retry()), "attempt") == 5
    assert database.read(read_all) == ["attempt 5"]


@pytest.mark.parametrize("error", [errors.Conflict("no"), ValueError("no")])
def test_any_other_error_rolls_back_without_a_retry(open_database, error):
    """Other errors would occur again."""
    database = open_database()
    losing = Losing(1, error)
    with pytest.raises(type(error)):
        database.write(losing, "attempt")
    assert losing.attempts == 1
    assert database.read(read_all) == []


def test_a_duplicate_raises_the_same_class_for_all_drivers(open_database):
    """Statements can distinguish duplicates from other errors."""
    database = open_database()
    database.write(add, "once")
    with pytest.raises(db_exc.DBDuplicateEntry):
        database.write(add, "once")


def test_a_read_sees_one_state(open_database):
    """A commit during a read is not visible to the read."""
    database, other = open_database(), open_database()

    def read_twice(connection):
        before = read_all(connection)
        other.write(add, "meanwhile")
        return before, read_all(connection)

    assert database.read(read_twice) == ([], [])
    assert database.read(read_all) == ["meanwhile"]


def test_a_connection_that_broke_is_replaced_for_a_read(open_database):
    """A read changes nothing, so it may be sent again; but not for ever."""
    database = open_database()
    broken = Losing(1, db_exc.DBConnectionError())
    assert database.read(broken, "attempt") == 2
    with pytest.raises(errors.DatabaseUnavailable):
        database.read(Losing(2, db_exc.DBConnectionError()), "again")


def test_a_connection_that_broke_before_the_commit_is_replaced_for_a_write(open_database):
    """Nothing was committed, so it may be sent again, whole; but not for ever."""
    database = open_database()
    assert database.write(Losing(1, db_exc.DBConnectionError()), "attempt") == 2
    assert database.read(read_all) == ["attempt 2"]
    broken = Losing(2, db_exc.DBConnectionError())
    with pytest.raises(errors.DatabaseUnavailable):
        database.write(broken, "again")
    assert broken.attempts == 2


def test_a_connection_that_breaks_during_the_commit_ends_a_write(open_database):
    """Whether it was committed nobody knows, so it is not sent again."""
    database = open_database()
    written = Losing(0, None)

    @sa.event.listens_for(database.engine, "commit")
    def lose(connection):
        raise db_exc.DBConnectionError

    with pytest.raises(errors.OutcomeUnknown):
        database.write(written, "attempt")
    assert written.attempts == 1


def test_a_writer_waits_for_another(open_database):
    """Of two writers on one file the second waits until the first is done."""
    database, other = open_database(), open_database()
    entered, leave = threading.Event(), threading.Event()

    def write_slowly(connection):
        add(connection, "first")
        entered.set()
        leave.wait(10)

    slow = threading.Thread(target=other.write, args=(write_slowly,))
    slow.start()
    entered.wait(10)
    threading.Timer(0.1, leave.set).start()
    database.write(lambda connection: add(connection, f"after {read_all(connection)}"))
    slow.join()
    assert database.read(read_all) == ["after ['first']", "first"]


def test_a_writer_that_waited_too_long_is_told_to_try_later(open_database, monkeypatch):
    """A file that stays busy is contention, not a failure of the server."""
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.05)
    database, other = open_database(), open_database()

    def write_inside(connection):
        with pytest.raises(errors.TooMuchContention):
            database.write(add, "inside")

    other.write(write_inside)
    assert database.read(read_all) == []


def test_threads_share_a_database_in_memory():
    """Readers and writers use its only connection in turns."""
    database = Database("sqlite://")
    metadata.create_all(database.engine)

    def write(number):
        database.write(add, str(number))
        assert str(number) in database.read(read_all)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert database.read(read_all) == [str(number) for number in range(8)]
    database.dispose()


def test_databases_in_memory_are_separate():
    """Two databases in memory share no data."""
    database, other = Database("sqlite:///:memory:"), Database("sqlite:///:memory:")
    metadata.create_all(database.engine)
    with pytest.raises(errors.SchemaUnfit):
        other.read(read_all)
    database.dispose()
    other.dispose()


def make_error(class_, *arguments, **attributes):
    """An error of a driver with attributes that are set by the driver."""
    return type(class_.__name__, (class_,), {"__module__": class_.__module__, **attributes})(*arguments)


#: the errors of drivers by their meaning, with texts of clients that mean something else
ERRORS = [
    (Kind.OUTAGE, pymysql.err.OperationalError(2013, "Lost connection to server during query")),
    (Kind.OUTAGE, pymysql.err.OperationalError(1040, "Too many connections")),
    (Kind.OUTAGE, psycopg2.OperationalError("could not connect to server: 22P05")),
    (Kind.OUTAGE, make_error(psycopg2.OperationalError, pgcode="57P03")),
    (Kind.OUTAGE, psycopg.OperationalError("connection failed")),
    (Kind.OUTAGE, psycopg.errors.AdminShutdown("terminating connection")),
    (Kind.OUTAGE, make_error(sqlite3.OperationalError, sqlite_errorname="SQLITE_IOERR_READ")),
    (Kind.FULL, pymysql.err.OperationalError(1030, 'Got error 28 "No space left on device"')),
    (Kind.FULL, make_error(psycopg2.OperationalError, pgcode="53100")),
    (Kind.FULL, make_error(sqlite3.OperationalError, sqlite_errorname="SQLITE_FULL")),
    (Kind.READ_ONLY, pymysql.err.OperationalError(1290, "running with the --read-only option")),
    (Kind.READ_ONLY, make_error(sqlite3.OperationalError, sqlite_errorname="SQLITE_READONLY_DBMOVED")),
    (Kind.DENIED, psycopg.errors.InsufficientPrivilege("permission denied")),
    (Kind.NO_TABLE, pymysql.err.ProgrammingError(1146, "Table 'x' doesn't exist")),
    (Kind.NO_COLUMN, pymysql.err.OperationalError(1054, "Unknown column 'x'")),
    (Kind.NO_COLUMN, psycopg.errors.UndefinedColumn("column x does not exist")),
    (
        Kind.NO_COLUMN,
        make_error(sqlite3.OperationalError, "no such column: x", sqlite_errorname="SQLITE_ERROR"),
    ),
    (
        Kind.NO_COLUMN,
        make_error(sqlite3.OperationalError, "x has no column named y", sqlite_errorname="SQLITE_ERROR"),
    ),
    (
        Kind.NO_TABLE,
        make_error(sqlite3.OperationalError, "no such table: x", sqlite_errorname="SQLITE_ERROR"),
    ),
    (Kind.BUSY, make_error(sqlite3.OperationalError, sqlite_errorname="SQLITE_BUSY_SNAPSHOT")),
    (Kind.LOST_RACE, pymysql.err.OperationalError(1213, "Deadlock found")),
    (Kind.LOCKED, pymysql.err.OperationalError(1205, "Lock wait timeout exceeded")),
    (Kind.LOCKED, psycopg.errors.LockNotAvailable("canceling statement due to lock timeout")),
    (Kind.LOST_RACE, psycopg.errors.SerializationFailure("conflict with recovery")),
    (Kind.MIXED_TEXTS, pymysql.err.OperationalError(1271, "Illegal mix of collations")),
    (Kind.UNSTORABLE, pymysql.err.DataError(1366, "Incorrect string value")),
    (Kind.UNSTORABLE, psycopg.errors.UntranslatableCharacter("character has no equivalent")),
    (Kind.UNSTORABLE, UnicodeEncodeError("latin-1", "é", 0, 1, "not in range")),
    # neither an outage nor anything else that is known
    (None, pymysql.err.OperationalError(1064, "You have an error near 'No space left on device'")),
    (None, pymysql.err.IntegrityError(1062, "Duplicate entry 'no such table' for key 'x'")),
    (None, psycopg.errors.StatementTooComplex("stack depth limit exceeded")),
    (None, make_error(sqlite3.OperationalError, "too many terms", sqlite_errorname="SQLITE_ERROR")),
    (None, sqlite3.IntegrityError("(1146, 'x') 42P01 database is locked")),
]


@pytest.mark.parametrize(("kind", "error"), ERRORS, ids=repr)
def test_code_of_an_error_says_what_it_means(kind, error):
    """Whatever the class that a driver gives it, and the values that its message quotes."""
    assert driver_errors.classify(error) is kind


@pytest.mark.parametrize("during", ["statement", "commit"])
def test_unknown_error_of_the_database_is_no_outage_before_the_commit(open_database, during):
    """It is an error of ours then; at the commit, nobody knows what was changed."""
    database = open_database()
    error = sa.exc.OperationalError("", (), sqlite3.OperationalError("too many SQL variables"))

    def fail(*_arguments):
        raise error

    if during == "commit":
        sa.event.listen(database.engine, "commit", fail)
    operation = fail if during == "statement" else add
    with pytest.raises(errors.OutcomeUnknown if during == "commit" else sa.exc.OperationalError):
        database.write(operation, "x")


def get_raw(connection):
    """The driver's connection."""
    return connection.connection.driver_connection


def test_a_fork_forgets_the_connections_of_its_parent(open_database):
    """The child makes its own, and the parent's go on working."""
    database = open_database()
    # kept, as the child could otherwise make its own at the same addresses
    raw = database.read(get_raw), database.write(get_raw)
    mine = tuple(map(id, raw))
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        # no exception may come back from here: there would be two pytests
        try:
            theirs = (id(database.read(get_raw)), id(database.write(get_raw)))
            database.write(add, "child")
            os.write(sender, b"shared" if set(mine) & set(theirs) else b"own")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(receiver, 10) == b"own"
    database.write(add, "parent")
    assert database.read(read_all) == ["child", "parent"]
    assert (id(database.read(get_raw)), id(database.write(get_raw))) == mine


UNREACHABLE = [
    pytest.param("mysql+pymysql://root@127.0.0.1:1/placement", "pymysql", id="mariadb"),
    pytest.param("postgresql+psycopg2://root@127.0.0.1:1/placement", "psycopg2", id="postgresql"),
    pytest.param("sqlite:////no/such/directory/placement.db", "sqlite3", id="sqlite"),
]


@pytest.mark.parametrize(("url", "driver"), UNREACHABLE)
def test_an_unreachable_database_raises_database_unavailable(url, driver):
    """Neither reading nor writing raises an error of the driver."""
    pytest.importorskip(driver)
    database = Database(url)
    with pytest.raises(errors.DatabaseUnavailable):
        database.read(read_all)
    with pytest.raises(errors.DatabaseUnavailable):
        database.write(add, "x")


@pytest.mark.parametrize("installed", ["psycopg2", "psycopg"])
def test_postgresql_without_a_driver_gets_one_that_is_installed(monkeypatch, installed):
    """Which driver the bare name means depends on the release of SQLAlchemy; only one may be there."""
    monkeypatch.setattr(postgresql, "find_spec", lambda name: name if name == installed else None)
    url = sa.make_url("postgresql://user:secret@host/placement")
    assert dialects.for_url(url).with_driver(url) == url.set(drivername=f"postgresql+{installed}")
    named = url.set(drivername="postgresql+asyncpg")
    assert dialects.for_url(named).with_driver(named) == named


@pytest.mark.parametrize(("recycle", "is_replaced"), [(3600, True), (-1, False)])
def test_the_kept_connection_is_replaced_when_it_is_old(monkeypatch, open_database, recycle, is_replaced):
    """It is recycled as those of the pool are."""
    database = open_database(pool_recycle=recycle)
    first = database.read_on_kept_connection(lambda connection: connection)
    assert database.read_on_kept_connection(lambda connection: connection) is first
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 3601)
    assert (database.read_on_kept_connection(lambda connection: connection) is not first) == is_replaced


def test_the_kept_connection_is_replaced_after_an_error(open_database):
    """Its state is unknown then."""
    database = open_database()
    first = database.read_on_kept_connection(lambda connection: connection)
    with pytest.raises(ZeroDivisionError):
        database.read_on_kept_connection(lambda connection: 1 / 0)
    assert database.read_on_kept_connection(lambda connection: connection) is not first


def test_dispose_leaves_the_kept_connection_to_the_thread_that_uses_it(open_database):
    """That thread goes on reading, and closes it at the end."""
    database = open_database()
    database.write(add, "a")

    def read(connection):
        thread = threading.Thread(target=database.dispose)
        thread.start()
        thread.join()
        return connection.connection.dbapi_connection, read_all(connection)

    raw, found = database.read_on_kept_connection(read)
    assert found == ["a"]
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        raw.execute("SELECT 1")


def test_dispose_closes_the_kept_connection_that_no_thread_uses(open_database):
    """At once."""
    database = open_database()
    raw = database.read_on_kept_connection(lambda connection: connection.connection.dbapi_connection)
    database.dispose()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        raw.execute("SELECT 1")


@pytest.mark.parametrize("method", ["read", "read_on_kept_connection"])
def test_dispose_waits_for_the_thread_that_uses_a_database_in_memory(method):
    """Which has no other connection."""
    database = Database("sqlite:///:memory:")
    metadata.create_all(database.engine)
    thread = threading.Thread(target=database.dispose)

    def read(connection):
        thread.start()
        # it ends at once if it does not wait
        thread.join(0.2)
        return read_all(connection)

    assert getattr(database, method)(read) == []
    thread.join()
