# SPDX-License-Identifier: Apache-2.0
"""Operations in threads that stop before every statement, commit and rollback, and go on when they are told.

One thread is told to go on at a time. A statement that waits for a lock of another operation is found by
asking the database. Such a thread goes on by itself when the other operation ends its transaction, and stops
before its next statement.

A thread may be told to go on with a fault. The database then ends sessions: with KILL on MariaDB, with
pg_terminate_backend on PostgreSQL. The thread of a worker that is killed is not told anything any more.
"""

import functools
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import sqlalchemy as sa

#: seconds for which a thread runs before the database is asked whether it waits for a lock, and in all
PROMPT, PATIENCE = 0.002, 30

#: what may happen when an actor goes on, by the letter that follows its number in a schedule
FAULTS = {
    "d": "its connection dies before the statement or the commit reaches the database",
    "l": "its commit takes effect, and the connection dies before the answer arrives",
    "a": "its connection dies after the answer to its commit",
    "k": "its worker is killed, and the database ends the sessions of the worker",
    "r": "the database restarts, so that the connections of all workers die",
    "D": "its connection dies while its statement waits for a lock",
    "K": "its worker is killed while its statement waits for a lock",
    "e": "the next step is taken while its commit is under way",
}
LETTERS = "".join(FAULTS)
#: the outcome of an operation whose worker was killed
KILLED = "killed"

BEGIN, COMMIT, ROLLBACK = "begin", "COMMIT", "ROLLBACK"
_WRITE_LOCK = "BEGIN IMMEDIATE"


class Step(NamedTuple):
    """One step of a schedule: the number of the actor that goes on, and the fault that meets it, if any."""

    number: int
    fault: str = ""

    def __str__(self):
        return f"{self.number}{self.fault}"


class Ended(BaseException):
    """The schedule is over before this operation is."""


class Stuck(Exception):
    """No operation goes on."""


def _exclusive(method):
    """Let one thread at a time use the connection of a monitor."""

    @functools.wraps(method)
    def call(self, *arguments):
        with self._lock:
            return method(self, *arguments)

    return call


class Monitor:
    """A connection of its own that asks the database which sessions wait for a lock, and ends sessions.

    The databases differ in a subclass each.

    :cvar faults: the letters of `FAULTS` that can meet a statement, those that can meet a commit, and
        those that can meet a statement that waits for a lock
    """

    faults = ("dkr", "dlakr", "DK")
    _options: Mapping = {}

    def __init__(self, url, restart=None):
        """Connect.

        :param restart: restarts the database server; by default a restart ends all sessions of the database
        """
        self._engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", **self._options)
        self._connection = self._engine.connect()
        self._restart = restart
        self._lock = threading.RLock()

    @staticmethod
    def identify(connection):
        """Return the id of the session of a driver's connection."""
        return id(connection)

    def _ask(self, statement):
        return self._connection.exec_driver_sql(statement)

    @_exclusive
    def find_waiting(self):
        """Return the ids of the sessions that wait for a lock."""
        return self._find_waiting()

    @_exclusive
    def find_open(self):
        """Return the ids of the sessions that are in a transaction."""
        return self._find_open()

    def admits(self, statement):
        """Return whether a statement can be executed now."""
        return True

    @_exclusive
    def end_sessions(self, sessions):
        """End sessions, and return when their transactions are rolled back.

        :param sessions: the connections of the driver, by id of the session
        """
        # the thread of a worker whose statement waited opens another connection as soon as its own has died
        sessions = dict(sessions)
        self._end(sessions)
        end = time.monotonic() + PATIENCE
        while not self._find_sessions().isdisjoint(sessions):
            if time.monotonic() > end:
                raise Stuck(f"the database does not end one of the sessions {sorted(sessions)}")
            time.sleep(PROMPT)

    @_exclusive
    def restart(self):
        """End all sessions but that of the monitor, or restart the server of the database."""
        if self._restart is None:
            self.end_sessions(dict.fromkeys(self._find_sessions()))
            return
        self._connection.invalidate()
        self._restart()
        self._connection.close()
        self._engine.dispose()
        self._connection = self._engine.connect()

    def await_other_nodes(self):
        """Wait until all nodes of the database have applied what is committed on any of them."""

    def close(self):
        """Close the connection."""
        self._connection.close()
        self._engine.dispose()


class _OnMySQL(Monitor):
    @staticmethod
    def identify(connection):
        """Return the id of the session of a driver's connection."""
        return connection.thread_id()

    def _find_in_status(self, begin):
        # information_schema.innodb_trx is as old as a tenth of a second
        status = self._ask("SHOW ENGINE INNODB STATUS").one()[2].partition("\nTRANSACTIONS\n")[2]
        blocks = (text for text in status.split("\n---TRANSACTION ") if re.search(begin, text))
        found = (re.search(r"\n\w+ thread id (\d+)", text) for text in blocks)
        return {int(match[1]) for match in found if match}

    def _find_waiting(self):
        return self._find_in_status(r"\nLOCK WAIT ")

    def _find_open(self):
        return self._find_in_status(r"^\w+, ACTIVE ") & self._find_sessions()

    def _find_sessions(self):
        query = (
            "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
        )
        return set(self._ask(query).scalars())

    def _end(self, sessions):
        for session in self._find_sessions() & set(sessions):
            try:
                self._ask(f"KILL {session}")
            except sa.exc.OperationalError as error:
                # it has ended meanwhile
                if error.orig.args[0] != 1094:
                    raise

    @_exclusive
    def find_last_committed(self):
        """Return the number of the last transaction of the cluster that this node has committed."""
        return int(self._ask("SHOW STATUS LIKE 'wsrep_last_committed'").one()[1])


class _OnGalera:
    """The monitors of some nodes of a cluster; a session is known by its node, too."""

    faults = ("dkr", "dlakre", "DK")

    def __init__(self, urls):
        self._nodes = {sa.make_url(url).query["unix_socket"]: _OnMySQL(url) for url in urls}

    @staticmethod
    def identify(connection):
        """Return the node and the id of the session of a driver's connection."""
        return connection.unix_socket, connection.thread_id()

    def find_waiting(self):
        """Return the ids of the sessions that wait for a lock of their node."""
        return {(name, each) for name, node in self._nodes.items() for each in node.find_waiting()}

    def find_open(self):
        """Return the ids of the sessions that are in a transaction."""
        return {(name, each) for name, node in self._nodes.items() for each in node.find_open()}

    def admits(self, statement):
        """Return whether a statement can be executed now."""
        return True

    def end_sessions(self, sessions):
        """End sessions as `Monitor.end_sessions` does, each on its node."""
        for name, node in self._nodes.items():
            node.end_sessions({each: None for at, each in sessions if at == name})

    def restart(self):
        """End all sessions on all nodes."""
        for node in self._nodes.values():
            node.restart()

    def await_other_nodes(self):
        """Wait until all nodes have applied what is committed on any of them.

        :raises Stuck: they do not
        """
        end = time.monotonic() + PATIENCE
        while len({node.find_last_committed() for node in self._nodes.values()}) > 1:
            if time.monotonic() > end:
                raise Stuck("a node does not apply what is committed on another one")

    def close(self):
        """Close the connections."""
        for node in self._nodes.values():
            node.close()


class _OnPostgreSQL(Monitor):
    @staticmethod
    def identify(connection):
        """Return the id of the session of a driver's connection."""
        return connection.info.backend_pid

    def _find_waiting(self):
        return set(self._ask("SELECT pid FROM pg_locks WHERE NOT granted").scalars())

    def _find(self, condition):
        query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND"
        return set(self._ask(f"{query} {condition}").scalars())

    def _find_open(self):
        return self._find("state LIKE 'idle in transaction%%'")

    def _find_sessions(self):
        return self._find("pid <> pg_backend_pid()")

    def _end(self, sessions):
        for session in self._find_sessions() & set(sessions):
            self._ask(f"SELECT pg_terminate_backend({session})")


class _OnSQLite(Monitor):
    """SQLite has no sessions that could die, but workers that can."""

    faults = ("k", "k", "")
    _options: Mapping = {"connect_args": {"timeout": 0}}

    def _find_waiting(self):
        return set()

    def _find_open(self):
        return set() if self.admits(_WRITE_LOCK) else {"the writer"}

    def _find_sessions(self):
        return set()

    def _end(self, sessions):
        for connection in sessions.values():
            connection.close()

    def admits(self, statement):
        """Return whether a statement can be executed now; SQLite would let it poll for the lock."""
        if statement != _WRITE_LOCK:
            return True
        try:
            self._ask(_WRITE_LOCK)
        except sa.exc.OperationalError:
            return False
        self._ask("ROLLBACK")
        return True


def make_monitor(urls, restart=None):
    """Return the `Monitor` of the database with these URLs, one for each node if there are several."""
    if len(set(urls)) > 1:
        return _OnGalera(urls)
    kinds = {"mysql": _OnMySQL, "postgresql": _OnPostgreSQL, "sqlite": _OnSQLite}
    return kinds[sa.make_url(urls[0]).get_backend_name()](urls[0], restart)


@dataclass
class Actor:
    """One operation in its thread.

    :ivar at: the statement before which it stops, None while it runs or waits for a lock
    :ivar last: the statement with which it went on last
    :ivar session: the id of the database session that it used last
    :ivar fault: the fault that meets its commit, and has not happened yet
    :ivar waits: whether it was found to wait for a lock, and has not stopped since
    :ivar outcome: what the operation returned
    """

    number: int
    seat: "Seat"
    at: str | None = None
    last: str = ""
    is_over: bool = False
    outcome: object = None
    failure: BaseException | None = None
    session: int | None = None
    fault: str = ""
    waits: bool = False
    may_go: threading.Event = field(default_factory=threading.Event)


class Seat:
    """The place of an actor: the database that it uses, whose statements stop the actor of the schedule.

    :ivar connections: those of the database that are open, by id of the session
    """

    def __init__(self, database, monitor):
        self.database = database
        self.controller = self.actor = None
        self.connections = {}
        self._monitor = monitor
        for engine in {database._reader, database._writer}:
            sa.event.listen(engine, "connect", self._opened)
            sa.event.listen(engine, "close", self._closed)
            sa.event.listen(engine, "close_detached", self._closed)
            sa.event.listen(engine, "before_cursor_execute", self._before)
            sa.event.listen(engine, "commit", lambda connection: self._stop(connection, COMMIT))
            sa.event.listen(engine, "rollback", lambda connection: self._stop(connection, ROLLBACK))
            engine.dialect.do_commit = functools.partial(self._commit, engine.dialect.do_commit)

    def _opened(self, connection, record):
        self.connections[self._monitor.identify(connection)] = connection

    def _closed(self, connection, record=None):
        # PostgreSQL's driver does not know the session of a dead connection
        for session, each in list(self.connections.items()):
            if each is connection:
                del self.connections[session]

    def _before(self, connection, cursor, statement, parameters, context, executemany):
        self._stop(connection, statement)

    def _is_acting(self):
        return self.controller is not None and threading.current_thread() is self.actor.thread

    def _stop(self, connection, statement):
        # nothing is sent on a connection that is known to be dead
        if self._is_acting() and not connection.invalidated:
            self.actor.session = self._monitor.identify(connection.connection.dbapi_connection)
            self.controller.stop(self.actor, statement)

    def _commit(self, commit, connection):
        """Commit; a fault in or after it ends the session, and what the driver says of that is raised."""
        commit(connection)
        if not self._is_acting() or not self.actor.fault:
            return
        fault, self.actor.fault = self.actor.fault, ""
        self._monitor.end_sessions({self.actor.session: connection})
        if fault == "l":
            connection.cursor().execute("SELECT 1")


class Controller:
    """The operations of one schedule.

    :param seats: a `Seat` for each operation
    :param operations: functions that take the database of their seat
    :ivar trace: the `Step` and the statement of its actor, for each step
    :ivar spans: by actor, the numbers of its first step and of the step after which it was over
    :ivar doubtful: the actors that need not know whether their commit took effect
    """

    def __init__(self, monitor, seats, operations):
        self._monitor = monitor
        self._changed = threading.Condition()
        self._is_ended = False
        self.trace = []
        self.spans = {}
        self.doubtful = set()
        self.actors = [Actor(number, seat) for number, seat in enumerate(seats)]
        for actor, operation in zip(self.actors, operations, strict=True):
            actor.thread = threading.Thread(target=self._run, args=(actor, operation), daemon=True)
            actor.seat.controller, actor.seat.actor = self, actor

    def _run(self, actor, operation):
        outcome = failure = None
        try:
            self.stop(actor, BEGIN)
            outcome = operation(actor.seat.database)
        except Ended:
            pass
        except BaseException as error:
            failure = error
        self._finish(actor, outcome, failure)

    def _finish(self, actor, outcome, failure=None):
        with self._changed:
            # what the thread of a killed worker does at the end of the schedule does not count
            if not actor.is_over:
                actor.outcome, actor.failure = outcome, failure
                actor.is_over, actor.at = True, None
            self._changed.notify_all()

    def stop(self, actor, statement):
        """Stop the thread of an actor before a statement until it may go on; its own thread calls this."""
        with self._changed:
            if self._is_ended:
                raise Ended
            actor.may_go.clear()
            # the thread of a worker that was killed while a statement waited comes here with its next one
            if not actor.is_over:
                actor.at, actor.waits = statement, False
            self._changed.notify_all()
        actor.may_go.wait()
        if self._is_ended:
            raise Ended

    def start(self):
        """Start the threads; each stops before it does anything."""
        for actor in self.actors:
            actor.thread.start()
        self._settle()

    @property
    def is_over(self):
        """Whether all operations are over."""
        return all(actor.is_over for actor in self.actors)

    def find_ready(self):
        """Return the faults that can meet each actor; wait while a deadlock is being resolved.

        Actors that cannot go on are left out, but those that wait for a lock can be met by a fault.

        :raises Stuck: no actor can go on
        """
        end = time.monotonic() + PATIENCE
        while not self.is_over:
            stopped = [actor for actor in self.actors if actor.at is not None]
            if ready := [actor for actor in stopped if self._monitor.admits(actor.at)]:
                waiting = [actor for actor in self.actors if actor.waits and not actor.is_over]
                return {
                    **{actor.number: self._find_faults(actor.at) for actor in ready},
                    **{actor.number: faults for actor in waiting if (faults := self._monitor.faults[2])},
                }
            if time.monotonic() > end:
                raise Stuck(f"nobody can go on: {[actor.at for actor in self.actors]}")
            with self._changed:
                self._changed.wait(PROMPT)
        self._note_ends()
        return {}

    def _find_faults(self, statement):
        return "" if statement == BEGIN else self._monitor.faults[statement == COMMIT]

    def step(self, step):
        """Let an actor go on until every actor stops, waits for a lock or is over, unless the fault is ``e``.

        :raises Stuck: an actor does none of this
        """
        actor = self.actors[step.number]
        self.spans.setdefault(step.number, [len(self.trace), None])
        self.trace.append((step, actor.at or f"(waits) {actor.last}"))
        commits, waited = actor.at == COMMIT, actor.waits
        self._cause(step.fault, actor)
        if not (actor.is_over or waited):
            with self._changed:
                actor.at, actor.last = None, actor.at
                actor.may_go.set()
        if step.fault == "e":
            return
        self._settle()
        if commits:
            self._monitor.await_other_nodes()
        self._note_ends()

    def _note_ends(self):
        for each in self.actors:
            if each.is_over and each.number in self.spans and self.spans[each.number][1] is None:
                self.spans[each.number][1] = len(self.trace)

    def _cause(self, fault, actor):
        """Let a fault happen, or prepare it if it is one of the commit of this actor."""
        hit = self.actors if fault == "r" else [actor] if fault in ("d", "l") else []
        fault = fault.lower()
        # a transaction that is refused ends with a ROLLBACK
        self.doubtful |= {each.number for each in hit if each.at in (COMMIT, ROLLBACK)}
        if fault == "d":
            self._monitor.end_sessions({actor.session: None})
        elif fault == "r":
            self._monitor.restart()
            # one that waited for a lock may get it before its own session ends, and stop at its end
            self._settle()
            self.doubtful |= {each.number for each in hit if each.at in (COMMIT, ROLLBACK)}
        elif fault == "k":
            self.doubtful.add(actor.number)
            self._monitor.end_sessions(actor.seat.connections)
            self._finish(actor, KILLED)
        elif fault != "e":
            actor.fault = fault

    def _settle(self):
        """Return when no thread runs."""
        end = time.monotonic() + PATIENCE
        with self._changed:
            while running := [each for each in self.actors if each.at is None and not each.is_over]:
                # no time for those that waited before, as a database grants a lock before it acknowledges
                # the end of the transaction that held it
                if not all(each.waits for each in running) and self._changed.wait(PROMPT):
                    continue
                waiting = self._monitor.find_waiting()
                for each in running:
                    each.waits = each.session in waiting
                if all(each.waits for each in running):
                    return
                if time.monotonic() > end:
                    raise Stuck(f"operation {running[0].number} neither stops nor waits for a lock")

    def end(self):
        """End all threads, those in the middle of an operation too."""
        with self._changed:
            self._is_ended = True
        for actor in self.actors:
            actor.may_go.set()
        for actor in self.actors:
            actor.thread.join(PATIENCE)
