# SPDX-License-Identifier: Apache-2.0
"""The connections to one database, and its two kinds of transaction: `Database.read` and `Database.write`.

No other code begins, commits, rolls back or retries a transaction. The caller passes in a function that takes
a connection and executes the statements; such functions are in the other modules of this package, by noun.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import random
import threading
import time
from collections import deque
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeVar, cast

import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_db.sqlalchemy import exc_filters
from sqlalchemy import event
from sqlalchemy.pool import QueuePool

from osc_placement.server import errors
from osc_placement.server.db import dialects, driver_errors, tables
from osc_placement.server.db.driver_errors import Kind
from osc_placement.server.db.own_tables import PREFIX
from osc_placement.server.db.writers import RECORDING, Recording, Slot, Slots
from osc_placement.server.observer import Observer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from oslo_config.cfg import ConfigOpts
    from sqlalchemy.engine import URL, Connection, Engine
    from sqlalchemy.engine.interfaces import DBAPIConnection

LOG = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

#: pauses between the attempts of one transaction, in seconds: doubling, capped, each drawn from [0, pause]
FIRST_PAUSE = 0.002
LONGEST_PAUSE = 0.2
#: seconds for which a write is retried at least: where others are faster, ten attempts can be over in a fifth
LEAST_SECONDS = 3.0
#: seconds after which a write is not retried: a transaction that holds locks for so long is probably broken
PATIENCE = 60
#: seconds within which a connection breaks that was dead before it was used; the operation is then repeated,
#: while whoever has waited for longer has waited for a database that is silent
DEAD_SECONDS = 5.0

#: the errors that clients receive, by the meaning of the driver's; oslo.db has classes for other meanings
_ANSWERS: Final[Mapping[Kind | None, Callable[[], errors.Unavailable]]] = {
    Kind.OUTAGE: errors.DatabaseUnavailable,
    Kind.DENIED: partial(
        errors.SchemaUnfit, "The account of the service has no right to a table: the log names it"
    ),
    Kind.FULL: errors.DatabaseFull,
    Kind.BUSY: errors.TooMuchContention,
    Kind.NO_TABLE: partial(errors.SchemaUnfit, "A table is missing: run 'placement-server db sync'"),
    Kind.MIXED_TEXTS: partial(
        errors.SchemaUnfit, "Its tables have different collations: convert them to one"
    ),
}


@contextmanager
def _translating() -> Iterator[None]:
    """Raise errors of the database as the errors that clients receive."""
    try:
        yield
    except (errors.DatabaseReadOnly, errors.OutcomeUnknown) as error:
        LOG.error("the database failed: %s", error.__cause__)
        raise
    except sa.exc.TimeoutError as error:
        LOG.error("every connection to the database is in use: %s", error)
        raise errors.DatabaseUnavailable from error
    except db_exc.DBDeadlock as error:
        # only reads get here, as `Database.write` retries by itself
        raise errors.TooMuchContention from error
    except (db_exc.DBConnectionError, db_exc.DBNonExistentDatabase) as error:
        LOG.error("the database cannot be reached: %s", getattr(error.inner_exception, "orig", error))
        raise errors.DatabaseUnavailable from error
    except (db_exc.DBError, sa.exc.DBAPIError) as error:
        cause = driver_errors.find(error)
        kind = Kind.NO_TABLE if _is_about_own_tables(cause) else driver_errors.classify(cause)
        answer = _ANSWERS.get(kind)
        if answer is None:
            raise
        # the statement is left out, as it does not help to find the cause
        LOG.error("the database failed: %s", cause)
        raise answer() from error


def _is_about_own_tables(cause: BaseException) -> bool:
    """Return whether an error of a driver says that a table of our own cannot be used."""
    kind = driver_errors.classify(cause)
    return kind in (Kind.NO_TABLE, Kind.NO_COLUMN, Kind.DENIED) and PREFIX in str(cause)


class _LostBeforeCommit(db_exc.DBConnectionError):  # type: ignore[misc]  # it has no annotations
    """The connection of a transaction broke before the commit, so nothing was changed."""


def _classify(context: sa.engine.ExceptionContext) -> None:
    """Raise errors that oslo.db, whose handler comes after this, does not know or logs with a traceback."""
    cause = context.original_exception
    match driver_errors.classify(cause):
        case Kind.LOST_RACE | Kind.LOCKED:
            raise db_exc.DBDeadlock(cause)
        case Kind.READ_ONLY:
            raise errors.DatabaseReadOnly from cause
        case Kind.UNSTORABLE:
            raise errors.Unstorable from cause
        case Kind.MIXED_TEXTS:
            values = json.dumps(context.parameters, default=str, ensure_ascii=False)
            if not values.isascii():
                # otherwise columns differ, whatever the values are
                raise errors.Unstorable from cause


@contextmanager
def _leaving_if_read_only(connection: Connection) -> Iterator[None]:
    """Close a connection that refuses changes in place of returning it to the pool.

    The database decides at the start of a session whether it may write, and after a failover a new connection
    may reach another server, so the next connection may accept changes.
    """
    try:
        yield
    except errors.DatabaseReadOnly:
        connection.invalidate()
        raise


def _once_more(lost: type[db_exc.DBConnectionError], operation: Callable[[], T]) -> T:
    """Run the operation once more, on another connection, if the first was dead and nothing was changed."""
    start = time.monotonic()
    try:
        return operation()
    except lost:
        if time.monotonic() > start + DEAD_SECONDS:
            raise
        LOG.info("lost a database connection before anything was changed, trying once more")
    return operation()


def _watch_pool(engine: Engine, pool: str, observer: Observer) -> None:
    """Tell an observer of every connection that an engine opens, closes, takes or gives back.

    A detached connection does not count as one of the pool any more.
    """

    def listen(name: str, *, opened: int = 0, taken: int = 0) -> None:
        def tell(*_given: object) -> None:
            observer.pool_changed(pool, opened=opened, taken=taken)

        event.listen(engine, name, tell)

    if isinstance(engine.pool, QueuePool):
        # connections opened before, such as for a change to the schema; other pools keep one until the end
        observer.pool_changed(pool, opened=engine.pool.checkedin())
    listen("connect", opened=1)
    listen("close", opened=-1)
    listen("checkout", taken=1)
    listen("checkin", taken=-1)
    listen("detach", opened=-1, taken=-1)


@dataclass(frozen=True, slots=True)
class _Kept:
    """The connection of `Database.read_on_kept_connection`."""

    connection: Connection
    opened_at: float


class Database:
    """A database with one pool of connections for reading and one for writing.

    Threads may share it; after a fork, the child drops the connections of its parent.

    :ivar records_changes: whether writes record their changes in the tables of our own (see `writers`), and
        reads may rely on those of other processes
    :ivar is_disposed: whether the connections were closed by `dispose`, so that nothing should be read in the
        background
    :ivar is_in_memory: whether it is a database of SQLite that only this object has
    :ivar refuses_changes: whether nothing is written through this object: `write` raises, and the database is
        told to refuse changes from each of its connections
    """

    def __init__(
        self,
        url: str | URL,
        *,
        options: dialects.EngineOptions | None = None,
        attempts: int = 10,
        **pool: object,
    ) -> None:
        """Prepare the pools; the first transaction opens the first connection.

        :param attempts: the number of attempts of a write that loses races, or more within `LEAST_SECONDS`
        :param pool: arguments for SQLAlchemy's pool, such as ``pool_size``
        """
        given = sa.make_url(url)
        self.dialect = dialects.for_url(given)
        self.url = self.dialect.with_driver(given)
        self._attempts = max(1, attempts)
        self.observer = Observer()
        self.records_changes = self.is_disposed = False
        options = options or dialects.EngineOptions()
        self.refuses_changes = options.read_only
        self._slots = Slots()
        # the kept connection while no thread uses it; a thread that takes it out alone uses or closes it
        self._kept: deque[_Kept] = deque()
        # how often connections were closed because of `dispose` or another file
        self._disposals = 0
        self._recycle_seconds = cast(int, pool.get("pool_recycle", -1))
        self._inherited: list[object] = []
        self._pid = os.getpid()
        self._file = self.dialect.identify_file(self.url)
        self._replacing = threading.Lock()
        self._reader = self._make_engine("read", options, pool)
        self.is_in_memory = self.dialect.is_memory(self.url)
        # a database in memory exists in one connection, which readers and writers use in turns
        self._writer = self._reader if self.is_in_memory else self._make_engine("write", options, pool)
        # SQLite has no server that could hang, and the BEGIN of the writer keeps other writers out
        self._schema_changer = (
            self._writer
            if not self.dialect.is_server
            else self._make_engine("schema", options, {"poolclass": sa.NullPool})
        )
        # SQLite admits one writer at a time. The writers of this process queue for this lock, because SQLite
        # lets them poll at growing intervals, so that newer writers overtake them.
        turn = nullcontext() if self.dialect.admits_many_writers else threading.RLock()
        self._turns: dict[Engine, AbstractContextManager[object]] = {self._writer: turn}

    @classmethod
    def from_conf(cls, conf: ConfigOpts, *, read_only: bool = False) -> Database:
        """Return the database of ``[placement_database]`` in an operator's configuration."""
        group = conf.placement_database
        url = sa.make_url(group.connection)
        if group.connection_parameters:
            url = url.update_query_string(group.connection_parameters, append=True)
        options = dialects.EngineOptions(group.sqlite_synchronous, group.mysql_sql_mode, read_only)
        pool = {
            "pool_recycle": group.connection_recycle_time,
            "pool_size": group.max_pool_size,
            "max_overflow": group.max_overflow,
            "pool_timeout": group.pool_timeout,
        }
        given = {name: value for name, value in pool.items() if value is not None}
        if dialects.for_url(url).is_memory(url):
            given = {}
        return cls(url, options=options, attempts=conf.placement.allocation_conflict_retry_count, **given)

    def _make_engine(
        self, purpose: dialects.Purpose, options: dialects.EngineOptions, pool: dict[str, object]
    ) -> Engine:
        engine = sa.create_engine(self.url, **self.dialect.engine_arguments(self.url, purpose), **pool)
        self.dialect.prepare(engine, purpose, options)
        if options.read_only:
            statement = self.dialect.make_read_only

            @event.listens_for(engine, "connect")
            def refuse_changes(connection: DBAPIConnection, record: object) -> None:
                cursor = connection.cursor()
                cursor.execute(statement)
                cursor.close()
                # otherwise PostgreSQL would forget it at the end of the transaction
                connection.commit()

        event.listen(engine, "handle_error", _classify)
        # the filters map the drivers' errors to common classes: duplicate, deadlock (also a lost
        # certification of Galera), disconnection
        exc_filters.register_engine(engine)
        event.listen(engine, "close", self._slots.release)
        return engine

    def tell(self, observer: Observer) -> None:
        """Tell an observer of lost races, and of the connections of each pool."""
        self.observer = observer
        _watch_pool(self._reader, "read", observer)
        if self._writer is not self._reader:
            _watch_pool(self._writer, "write", observer)

    def stop_recording(self) -> None:
        """Do without the tables of our own, because one of them is missing or cannot be written to."""
        if self.records_changes:
            self.records_changes = False
            LOG.warning("a table of ours (%s...) cannot be used any more; changes are not recorded", PREFIX)

    @property
    def engine(self) -> Engine:
        """Return the engine for schema changes; it has no time limit; `read` and `write` do not use it."""
        self._forget_old_connections()
        return self._schema_changer

    def read(
        self, operation: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run ``operation(connection, ...)`` on one consistent state of the database.

        A dead connection is replaced once, since nothing was changed.

        :raises errors.DatabaseUnavailable: no connection can be opened
        :raises errors.Unstorable: the database cannot represent a value
        """

        def attempt() -> T:
            # the transaction ends with a rollback, as there is nothing to commit
            with self._turns.get(self._reader, nullcontext()), self._reader.connect() as connection:
                return operation(connection, *args, **kwargs)

        self._forget_old_connections()
        with _translating():
            return _once_more(db_exc.DBConnectionError, attempt)

    def is_read_only(self) -> bool:
        """Return whether the database refuses changes while it can be read.

        :raises errors.DatabaseUnavailable: no connection can be opened
        """

        def refuses_changes(connection: Connection) -> bool:
            try:
                with _leaving_if_read_only(connection):
                    self.dialect.try_to_write(connection, tables.allocations)
            except errors.DatabaseReadOnly:
                return True
            return False

        return self.read(refuses_changes)

    def read_on_kept_connection(self, operation: Callable[[Connection], T]) -> T:
        """Run ``operation(connection)`` as `read` does, on the same connection each time while it lives.

        The connection is replaced after an error, at the maximum age of connections in the pool, and when the
        file of a SQLite database was replaced. Only one thread may call this at a time.

        The connection belongs to that thread until the operation ends. If `dispose` was called meanwhile, or
        the file replaced, the thread then closes it instead of keeping it.

        :raises errors.DatabaseUnavailable: no connection can be opened
        """

        def attempt() -> T:
            disposals = self._disposals
            kept = self._take_kept()
            if kept is not None and 0 <= self._recycle_seconds < time.monotonic() - kept.opened_at:
                # recycled as in the pool, so that it follows changes of the cluster node and of settings
                kept.connection.close()
                kept = None
            if kept is None:
                connection = self._reader.connect()
                if not self.is_in_memory:
                    # the connection is never returned to the pool, so it must not count as one of the pool's
                    connection.detach()
                kept = _Kept(connection, time.monotonic())
            try:
                try:
                    found = operation(kept.connection)
                finally:
                    kept.connection.rollback()
            except BaseException:
                kept.connection.close()
                raise
            self._kept.append(kept)
            # compared after the connection is back, so that either this thread or the other one closes it
            if self._disposals != disposals:
                self._close_kept()
            return found

        self._forget_old_connections()
        with _translating(), self._turns.get(self._reader, nullcontext()):
            return _once_more(db_exc.DBConnectionError, attempt)

    def write(
        self, operation: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run ``operation(connection, ...)`` in one transaction and commit it.

        The operation locks the rows that it checks before it reads them, so races become waits. A deadlock or
        a lost Galera certification is still possible; it rolls back the whole transaction, which is then
        repeated after a short random pause. The operation must therefore change nothing but the database.
        A connection that breaks before the commit is replaced once, since nothing was changed: it may have
        been dead from the start. One that breaks during the commit is not: the outcome is unknown.

        Most lost races are a success of somebody else, so it pays to go on: up to ``attempts`` times, and for
        `LEAST_SECONDS`, whichever is more.

        :raises errors.DatabaseUnavailable: no connection can be opened, or it broke before the commit
        :raises errors.OutcomeUnknown: it broke during the commit
        :raises errors.DatabaseReadOnly: the database accepts no changes, at present or from this account
        :raises errors.TooMuchContention: the transaction lost too many races
        :raises errors.Unstorable: the database cannot represent a value
        """
        if self.refuses_changes:
            raise errors.DatabaseReadOnly
        self._forget_old_connections()
        longest = FIRST_PAUSE
        start = time.monotonic()
        with _translating():
            for attempt in itertools.count(1):
                try:
                    return self._write_with_own_tables(lambda conn: operation(conn, *args, **kwargs))
                except (db_exc.DBDeadlock, errors.Retry) as error:
                    LOG.debug("transaction lost a race: %s", error)
                    self.observer.lost_race()
                seconds = time.monotonic() - start
                if seconds > PATIENCE or (attempt >= self._attempts and seconds >= LEAST_SECONDS):
                    break
                time.sleep(random.uniform(0, longest))
                longest = min(longest * 2, LONGEST_PAUSE)
        self.observer.gave_up()
        raise errors.TooMuchContention

    def _write_with_own_tables(self, operation: Callable[[Connection], T]) -> T:
        """Write once, and once more without recording changes if a table of our own cannot be used."""
        attempt = partial(_once_more, _LostBeforeCommit, partial(self._write_once, operation))
        # another thread may notice it first, while this transaction is under way
        was_recording = self.records_changes
        try:
            return attempt()
        except (db_exc.DBError, sa.exc.OperationalError, sa.exc.ProgrammingError) as error:
            if not (was_recording and _is_about_own_tables(driver_errors.find(error))):
                raise
            self.stop_recording()
        return attempt()

    def _write_once(self, operation: Callable[[Connection], T]) -> T:
        """Run the operation in one transaction, record its changes with the last statement, and commit.

        A slot (see `writers`) is given up if nobody knows what the database has in it; otherwise the next
        transaction of the same connection uses it.
        """
        with self._turns.get(self._writer, nullcontext()), self._writer.connect() as connection:
            recording = Recording(self.dialect) if self.records_changes else None
            connection = connection.execution_options(**{RECORDING: recording})
            connection.begin()
            slot: Slot | None = None
            stored: Slot | None = None
            try:
                with _leaving_if_read_only(connection):
                    found = operation(connection)
                    if recording and recording.changes:
                        slot = self._slots.take(connection.info)
                        stored = slot.store(connection, recording.changes)
            except db_exc.DBConnectionError as error:
                raise _LostBeforeCommit(error.inner_exception) from error
            except db_exc.DBDeadlock:
                self._keep(connection, slot)
                raise
            except db_exc.DBError as error:
                if isinstance(error.cause, db_exc.DBDeadlock):
                    # MariaDB drops the savepoints of a transaction that it chose as the victim of a
                    # deadlock, so that rolling back to one fails
                    raise error.cause from error
                raise
            try:
                connection.commit()
            except db_exc.DBDeadlock:
                # the transaction lost its certification and was rolled back; SQLAlchemy sends the ROLLBACK
                # that leaves no doubt for a transaction that has not failed only
                self._keep(connection, slot)
                with suppress(db_exc.DBError):
                    connection.rollback()
                    connection.begin()
                    connection.rollback()
                raise
            except BaseException as error:
                # the state of the transaction is unknown, and the pool does not reset connections to
                # servers
                if self.dialect.is_server:
                    connection.invalidate()
                kind = driver_errors.classify(driver_errors.find(error))
                if (
                    isinstance(error, db_exc.DBConnectionError)
                    or kind is Kind.OUTAGE
                    or (kind is None and isinstance(error, sa.exc.OperationalError))
                ):
                    if recording and not recording.changes:
                        # of what is not recorded, a repetition changes nothing more
                        raise _LostBeforeCommit(error) from error
                    raise errors.OutcomeUnknown from error
                raise
            self._keep(connection, stored)
            return found

    def _keep(self, connection: Connection, slot: Slot | None) -> None:
        """Let the next write on this connection use a slot, if there is one."""
        if slot is not None:
            self._slots.keep(connection.info, slot)

    def _forget_old_connections(self) -> None:
        """Drop connections that a parent process opened, and those to a SQLite file that was replaced.

        The latter would read and write the old, deleted file. A thread that uses such a connection finishes
        its transaction first.
        """
        if self._pid != os.getpid():
            self._pid = os.getpid()
            # closing it would end the parent's session, so a reference is kept and never used
            self._inherited.append(self._take_kept())
            for engine in {self._reader, self._writer}:
                engine.dispose(close=False)
        file = self.dialect.identify_file(self.url)
        if file == self._file:
            return
        with self._replacing:
            if file == self._file:
                return
            if self._file is not None:
                LOG.warning("the file of the database was replaced; connecting anew")
            # also if there was no file before, because connections opened meanwhile may be to a third file
            self._close_idle()
            self._file = file

    def dispose(self) -> None:
        """Close the idle connections, and let other processes use their slots (see `writers`).

        Later transactions open new connections. One that another thread uses is left to that thread until its
        transaction ends, and is not used again. A database in memory has only one connection, so this waits
        for the thread that uses it.
        """
        self._forget_old_connections()
        self.is_disposed = True
        with self._turns.get(self._reader, nullcontext()):
            self._close_idle()
        if self._slots.can_be_given_back and not self.is_in_memory:
            # without this, they are taken over somewhat later
            with (
                suppress(sa.exc.SQLAlchemyError, db_exc.DBError, errors.PlacementError),
                self._turns.get(self._writer, nullcontext()),
                self._writer.connect() as connection,
            ):
                self.dialect.limit_last_wait(connection)
                with connection.begin():
                    self._slots.give_back(connection)
            self._writer.dispose()

    def _close_idle(self) -> None:
        """Close the connections that no thread uses, and have none of the others used again."""
        self._disposals += 1
        self._close_kept()
        for engine in {self._reader, self._writer}:
            engine.dispose()

    def _close_kept(self) -> None:
        """Close the kept connection, unless a thread uses it."""
        if kept := self._take_kept():
            kept.connection.close()

    def _take_kept(self) -> _Kept | None:
        """Return the kept connection, for the caller alone; None if there is none or a thread uses it."""
        try:
            return self._kept.pop()
        except IndexError:
            return None
