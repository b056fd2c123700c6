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
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_db.sqlalchemy import exc_filters

from osc_placement.server import errors
from osc_placement.server.db import dialects

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


@contextmanager
def _translating() -> Iterator[None]:
    """Raise what the database complained of as the error that clients are to see."""
    try:
        yield
    except sa.exc.OperationalError as error:
        if dialects.is_busy(error):
            raise errors.TooMuchContention from error
        LOG.error("the database failed: %s", error)
        raise errors.DatabaseUnavailable from error
    except (db_exc.DBConnectionError, db_exc.DBNonExistentDatabase, sa.exc.TimeoutError) as error:
        LOG.error("the database cannot be reached: %s", error)
        raise errors.DatabaseUnavailable from error
    except db_exc.DBError as error:
        if isinstance(error, db_exc.DBDataError) or isinstance(error.inner_exception, sa.exc.DataError):
            raise errors.Unstorable from error
        raise


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
        self.url = sa.make_url(url)
        self._attempts = max(1, attempts)
        self._pid = os.getpid()
        options = options or dialects.EngineOptions()
        self._reader = self._make_engine("read", options, pool)
        in_memory = dialects.is_memory(self.url)
        # a database in memory is its one connection: everybody takes turns on it
        self._writer = self._reader if in_memory else self._make_engine("write", options, pool)
        # SQLite admits one writer at a time. Those of this process queue here, where waiting costs nothing;
        # in SQLite they would sleep and look again, ever more rarely, and be overtaken.
        turn = threading.RLock() if dialects.is_sqlite(self.url) else nullcontext()
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
        if dialects.is_memory(url):
            given = {}
        return cls(url, options=options, attempts=conf.placement.allocation_conflict_retry_count, **given)

    def _make_engine(
        self, purpose: dialects.Purpose, options: dialects.EngineOptions, pool: dict[str, object]
    ) -> Engine:
        engine = sa.create_engine(self.url, **dialects.engine_arguments(self.url, purpose), **pool)
        dialects.prepare(engine, purpose, options)
        # one name for the drivers' errors: duplicate, deadlock (Galera's lost certification), disconnection
        exc_filters.register_engine(engine)
        return engine

    @property
    def engine(self) -> Engine:
        """The engine for schema changes, which are no concern of `read` and `write`."""
        self._forget_parent()
        return self._writer

    def read(
        self, operation: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run ``operation(connection, ...)`` on one consistent state of the database.

        A connection that turns out to be dead is replaced once, since nothing was changed.

        :raises errors.DatabaseUnavailable: there is no connection to be had
        :raises errors.Unstorable: a value is not of a kind that the database knows
        """
        self._forget_parent()
        with _translating():
            try:
                return self._run(self._reader, operation, *args, **kwargs)
            except db_exc.DBConnectionError:
                LOG.info("lost a database connection while reading, trying once more")
            return self._run(self._reader, operation, *args, **kwargs)

    def write(
        self, operation: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run ``operation(connection, ...)`` in one transaction and commit it.

        The operation locks what it judges before it reads it, so races end as waits. What can still happen,
        a deadlock or a lost Galera certification, undoes the whole transaction and runs the whole of it
        again, after a short random pause; the operation must therefore change nothing but the database.
        A connection lost on the way is not retried: if it broke during the commit, nobody knows what came
        of it.

        :raises errors.DatabaseUnavailable: there is no connection to be had, or it broke
        :raises errors.TooMuchContention: the transaction lost against others ``attempts`` times
        :raises errors.Unstorable: a value is not of a kind that the database knows
        """
        self._forget_parent()
        with _translating():
            for pause in self._pauses():
                try:
                    return self._run(self._writer, operation, *args, **kwargs)
                except (db_exc.DBDeadlock, errors.Retry) as error:
                    LOG.debug("transaction lost a race, trying again in %.3f s: %s", pause, error)
                time.sleep(pause)
        raise errors.TooMuchContention

    def _run(
        self,
        engine: Engine,
        operation: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        with self._turns.get(engine, nullcontext()), engine.begin() as connection:
            return operation(connection, *args, **kwargs)

    def _pauses(self) -> Iterator[float]:
        longest = FIRST_PAUSE
        for _ in range(self._attempts):
            yield random.uniform(0, longest)
            longest = min(longest * 2, LONGEST_PAUSE)

    def _forget_parent(self) -> None:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            for engine in {self._reader, self._writer}:
                engine.dispose(close=False)

    def dispose(self) -> None:
        """Close the connections that are idle; later transactions make new ones."""
        for engine in {self._reader, self._writer}:
            engine.dispose()
