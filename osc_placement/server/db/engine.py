# SPDX-License-Identifier: Apache-2.0
"""The connections to one database, and its two kinds of transaction: `Database.read` and `Database.write`.

These are the only places that begin, commit, roll back or retry. What a transaction does is a function taking
a connection, passed in by the caller; such functions live beside this file, by noun.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar, cast

import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_db.sqlalchemy import exc_filters
from sqlalchemy import event

from osc_placement.server import errors
from osc_placement.server.db import dialects, driver_errors, pools, tables
from osc_placement.server.db.revision import KEPT
from osc_placement.server.observer import Observer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oslo_config.cfg import ConfigOpts
    from sqlalchemy.engine import URL, Connection, Engine

LOG = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

#: pauses between the attempts of one transaction, in seconds: doubling, capped, each drawn from [0, pause]
FIRST_PAUSE = 0.002
LONGEST_PAUSE = 0.2
#: seconds after which a write is not tried again: whoever waits for locks so long waits for something broken
PATIENCE = 60


@contextmanager
def _translating() -> Iterator[None]:
    """Raise what the database complained of as the error that clients are to see."""
    try:
        yield
    except errors.DatabaseReadOnly as error:
        LOG.error("the database failed: %s", error.__cause__)
        raise
    except sa.exc.OperationalError as error:
        if driver_errors.is_busy(error):
            raise errors.TooMuchContention from error
        # not with the statement, of which there is nothing to learn here
        LOG.error("the database failed: %s", error.orig)
        raise (errors.DatabaseFull if driver_errors.is_full(error) else errors.DatabaseUnavailable) from error
    except (db_exc.DBConnectionError, db_exc.DBNonExistentDatabase) as error:
        LOG.error("the database cannot be reached: %s", getattr(error.inner_exception, "orig", error))
        raise errors.DatabaseUnavailable from error
    except sa.exc.TimeoutError as error:
        LOG.error("every connection to the database is in use: %s", error)
        raise errors.DatabaseUnavailable from error
    except db_exc.DBDeadlock as error:
        # of a read; `Database.write` tries again by itself
        raise errors.TooMuchContention from error
    except (db_exc.DBError, sa.exc.ProgrammingError) as error:
        inner = getattr(error, "inner_exception", None) or error
        driver_error = getattr(inner, "orig", None) or inner
        if driver_errors.is_table_missing(driver_error):
            LOG.error("a table is not there: %s", driver_error)
            raise errors.SchemaUnfit("A table is missing: run 'placement-server db sync'") from error
        if isinstance(error, db_exc.DBDataError) or isinstance(inner, sa.exc.DataError):
            raise errors.Unstorable from error
        raise


class _LostBeforeCommit(db_exc.DBConnectionError):  # type: ignore[misc]  # it has no annotations
    """The connection of a transaction broke before its end, so that it changed nothing."""


def _refuse_if_read_only(context: sa.engine.ExceptionContext) -> None:
    # raised before oslo.db is asked, which knows no such error and logs a traceback of it
    if driver_errors.is_read_only(context.original_exception):
        raise errors.DatabaseReadOnly from context.original_exception


@contextmanager
def _leaving_if_read_only(connection: Connection) -> Iterator[None]:
    """Keep a connection that refuses changes out of the pool.

    Whether a session may write is decided when it begins, or by the server, of which another may have taken
    over: the next connection may be one that can.
    """
    try:
        yield
    except errors.DatabaseReadOnly:
        connection.invalidate()
        raise


def _refuses_changes(connection: Connection) -> bool:
    try:
        with _leaving_if_read_only(connection):
            dialects.of(connection).try_to_write(connection, tables.allocations)
    except errors.DatabaseReadOnly:
        return True
    return False


def _once_more(lost: type[db_exc.DBConnectionError], operation: Callable[[], T]) -> T:
    """Do what changed nothing again, on another connection, if the first turns out to be dead."""
    try:
        return operation()
    except lost:
        LOG.info("lost a database connection before anything was changed, trying once more")
    return operation()


@dataclass(frozen=True, slots=True)
class _Kept:
    """The connection of `Database.read_on_kept_connection`."""

    connection: Connection
    opened_at: float


class Database:
    """One database, through a pool of connections for reading and one for writing.

    Safe to share between threads; after a fork the child forgets the parent's connections by itself.
    """

    def __init__(
        self,
        url: str | URL,
        *,
        options: dialects.EngineOptions | None = None,
        attempts: int = 10,
        **pool: object,
    ) -> None:
        """Prepare the pools; no connection is made before the first transaction.

        :param attempts: how often at most one write is tried while it loses to others
        :param pool: arguments for SQLAlchemy's pool, such as ``pool_size``
        """
        given = sa.make_url(url)
        self.dialect = dialects.for_url(given)
        self.url = self.dialect.with_driver(given)
        self._attempts = max(1, attempts)
        self.observer = Observer()
        self._kept: _Kept | None = None
        self._recycle_seconds = cast(int, pool.get("pool_recycle", -1))
        self._inherited: list[object] = []
        self._pid = os.getpid()
        self._file = self.dialect.identify_file(self.url)
        self._replacing = threading.Lock()
        options = options or dialects.EngineOptions()
        self._reader = self._make_engine("read", options, pool)
        in_memory = self.dialect.is_memory(self.url)
        # a database in memory is its one connection: everybody takes turns on it
        self._writer = self._reader if in_memory else self._make_engine("write", options, pool)
        # SQLite has no server that could hang, and the writer's BEGIN is what keeps others out
        self._schema_changer = (
            self._writer
            if not self.dialect.is_server
            else self._make_engine("schema", options, {"poolclass": sa.NullPool})
        )
        # SQLite admits one writer at a time. Those of this process queue here, where waiting costs nothing;
        # in SQLite they would sleep and look again, ever more rarely, and be overtaken.
        turn = nullcontext() if self.dialect.admits_many_writers else threading.RLock()
        self._turns: dict[Engine, AbstractContextManager[object]] = {self._writer: turn}

    @classmethod
    def from_conf(cls, conf: ConfigOpts) -> Database:
        """The database of ``[placement_database]`` in an operator's configuration."""
        group = conf.placement_database
        url = sa.make_url(group.connection)
        if group.connection_parameters:
            url = url.update_query_string(group.connection_parameters, append=True)
        options = dialects.EngineOptions(group.sqlite_synchronous, group.mysql_sql_mode)
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
        event.listen(engine, "handle_error", _refuse_if_read_only)
        # one name for the drivers' errors: duplicate, deadlock (Galera's lost certification), disconnection
        exc_filters.register_engine(engine)
        return engine

    def tell(self, observer: Observer) -> None:
        """Tell an observer of lost races, and of the connections of each pool."""
        self.observer = observer
        pools.watch(self._reader, "read", observer)
        if self._writer is not self._reader:
            pools.watch(self._writer, "write", observer)

    def keep_revisions(self, kept: bool = True) -> None:
        """Let writes count their changes (see `revision`), now that the table is there, or no longer."""
        self._writer.update_execution_options(**{KEPT: kept})

    @property
    def revisions_kept(self) -> bool:
        """Whether writes count their changes."""
        return bool(self._writer.get_execution_options().get(KEPT))

    @property
    def engine(self) -> Engine:
        """The engine for schema changes, which are no concern of `read` and `write`; without a time limit."""
        self._forget_old_connections()
        return self._schema_changer

    def read(
        self, operation: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run ``operation(connection, ...)`` on one consistent state of the database.

        A connection that turns out to be dead is replaced once, since nothing was changed.

        :raises errors.DatabaseUnavailable: there is no connection to be had
        :raises errors.Unstorable: a value is not of a kind that the database knows
        """
        self._forget_old_connections()
        with _translating():
            return _once_more(db_exc.DBConnectionError, lambda: self._look(operation, *args, **kwargs))

    def _look(
        self, operation: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        # ends with a rollback: there is nothing to commit
        with self._turns.get(self._reader, nullcontext()), self._reader.connect() as connection:
            return operation(connection, *args, **kwargs)

    def is_read_only(self) -> bool:
        """Tell whether the database refuses changes while it can be read.

        :raises errors.DatabaseUnavailable: there is no connection to be had
        """
        return self.read(_refuses_changes)

    def read_on_kept_connection(self, operation: Callable[[Connection], T]) -> T:
        """Run ``operation(connection)`` as `read` does, on the same connection each time while it lives.

        The connection is replaced after an error, when it is as old as those of the pool may become, and when
        the file of a SQLite database was replaced. Not for several threads at once.

        :raises errors.DatabaseUnavailable: there is no connection to be had
        """
        self._forget_old_connections()
        with _translating(), self._turns.get(self._reader, nullcontext()):
            return _once_more(db_exc.DBConnectionError, lambda: self._run_on_kept(operation))

    def _run_on_kept(self, operation: Callable[[Connection], T]) -> T:
        # another thread may set the attribute to None at any time, when the file was replaced
        kept = self._kept
        if kept is not None and 0 <= self._recycle_seconds < time.monotonic() - kept.opened_at:
            # as the pool does, to get to the node and the settings that other connections have
            kept.connection.close()
            kept = None
        if kept is None:
            connection = self._reader.connect()
            if not self.dialect.is_memory(self.url):
                # it is not given back, so it must not count as one of the pool
                connection.detach()
            kept = _Kept(connection, time.monotonic())
        self._kept = kept
        try:
            try:
                return operation(kept.connection)
            finally:
                kept.connection.rollback()
        except BaseException:
            self._kept = None
            kept.connection.close()
            raise

    def write(
        self, operation: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run ``operation(connection, ...)`` in one transaction and commit it.

        The operation locks what it judges before it reads it, so races end as waits. What can still happen,
        a deadlock or a lost Galera certification, undoes the whole transaction and runs the whole of it
        again, after a short random pause; the operation must therefore change nothing but the database.
        A connection that breaks before the commit is replaced once, since nothing was changed: it may have
        been dead all along. One that breaks during the commit is not: nobody knows what came of it.

        :raises errors.DatabaseUnavailable: there is no connection to be had, or it broke
        :raises errors.DatabaseReadOnly: the database takes no changes, at present or for this account
        :raises errors.TooMuchContention: the transaction lost against others ``attempts`` times
        :raises errors.Unstorable: a value is not of a kind that the database knows
        """
        self._forget_old_connections()
        with _translating():
            for pause in self._pauses():
                try:
                    return _once_more(_LostBeforeCommit, lambda: self._run(operation, *args, **kwargs))
                except (db_exc.DBDeadlock, errors.Retry) as error:
                    LOG.debug("transaction lost a race, trying again in %.3f s: %s", pause, error)
                    self.observer.lost_race()
                time.sleep(pause)
        self.observer.gave_up()
        raise errors.TooMuchContention

    def _run(
        self, operation: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        with self._turns.get(self._writer, nullcontext()), self._writer.connect() as connection:
            connection.begin()
            try:
                with _leaving_if_read_only(connection):
                    found = operation(connection, *args, **kwargs)
            except db_exc.DBConnectionError as error:
                raise _LostBeforeCommit(error.inner_exception) from error
            self._commit(connection)
            return found

    def _commit(self, connection: Connection) -> None:
        try:
            connection.commit()
        except BaseException:
            # whether the transaction is over nobody knows, and pools of connections to servers do not ask
            if self.dialect.is_server:
                connection.invalidate()
            raise

    def _pauses(self) -> Iterator[float]:
        longest = FIRST_PAUSE
        end = time.monotonic() + PATIENCE
        for _ in range(self._attempts):
            yield random.uniform(0, longest)
            if time.monotonic() > end:
                return
            longest = min(longest * 2, LONGEST_PAUSE)

    def _forget_old_connections(self) -> None:
        """Leave connections that a parent process made, and those to a SQLite file that was replaced.

        The latter show the file of before, which has no name any more, and would write to it. A thread that
        is in the midst of something with one ends that first.
        """
        self._forget_parent()
        file = self.dialect.identify_file(self.url)
        if file == self._file:
            return
        with self._replacing:
            if file == self._file:
                return
            if self._file is not None:
                LOG.warning("the file of the database was replaced; connecting anew")
            # also if there was none: connections that were made then may be to a third one
            self._kept = None
            for engine in {self._reader, self._writer}:
                engine.dispose()
            self._file = file

    def _forget_parent(self) -> None:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            # closing it would end the parent's session, so it is kept and never touched
            self._inherited.append(self._kept)
            self._kept = None
            for engine in {self._reader, self._writer}:
                engine.dispose(close=False)

    def dispose(self) -> None:
        """Close the connections that are idle; later transactions make new ones."""
        if self._kept is not None:
            self._kept.connection.close()
            self._kept = None
        for engine in {self._reader, self._writer}:
            engine.dispose()
