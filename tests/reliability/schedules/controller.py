# SPDX-License-Identifier: Apache-2.0
"""Operations in threads that stop before every statement, commit and rollback, and go on when they are told.

One thread is told to go on at a time. A statement that waits for a lock of another operation is found by
asking the database. Such a thread goes on by itself when the other operation ends its transaction, and stops
before its next statement.
"""

import re
import threading
import time
from dataclasses import dataclass, field

import sqlalchemy as sa

#: seconds for which a thread runs before the database is asked whether it waits for a lock, and in all
PROMPT, PATIENCE = 0.002, 30

_SESSIONS = {"mysql": "SELECT CONNECTION_ID()", "postgresql": "SELECT pg_backend_pid()"}
_WRITE_LOCK = "BEGIN IMMEDIATE"


class Ended(BaseException):
    """The schedule is over before this operation is."""


class Monitor:
    """A connection of its own that asks the database which sessions wait for a lock."""

    def __init__(self, url):
        options = {"connect_args": {"timeout": 0}} if url.startswith("sqlite") else {}
        self._engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", **options)
        self._connection = self._engine.connect()
        self._find = getattr(self, f"_find_on_{self._engine.dialect.name}")

    def find_waiting(self):
        """Return the ids of the sessions that wait for a lock."""
        return self._find()

    def _find_on_mysql(self):
        # information_schema.innodb_trx is as old as a tenth of a second
        status = self._connection.exec_driver_sql("SHOW ENGINE INNODB STATUS").one()[2]
        waiting = re.findall(r"\nLOCK WAIT .*?\n\w+ thread id (\d+)", status.partition("\nTRANSACTIONS\n")[2])
        return set(map(int, waiting))

    def _find_on_postgresql(self):
        return set(self._connection.exec_driver_sql("SELECT pid FROM pg_locks WHERE NOT granted").scalars())

    def _find_on_sqlite(self):
        return set()

    def admits(self, statement):
        """Return whether a statement can be executed now; SQLite would let it poll for the lock."""
        if statement != _WRITE_LOCK:
            return True
        try:
            self._connection.exec_driver_sql(_WRITE_LOCK)
        except sa.exc.OperationalError:
            return False
        self._connection.exec_driver_sql("ROLLBACK")
        return True

    def close(self):
        """Close the connection."""
        self._connection.close()
        self._engine.dispose()


@dataclass
class Actor:
    """One operation in its thread.

    :ivar at: the statement before which it stops, None while it runs or waits for a lock
    :ivar session: the id of the database session that it used last
    :ivar outcome: what the operation returned
    """

    number: int
    at: str | None = None
    is_over: bool = False
    outcome: object = None
    failure: BaseException | None = None
    session: int | None = None
    may_go: threading.Event = field(default_factory=threading.Event)


class Seat:
    """The place of an actor: the database that it uses, whose statements stop the actor of the schedule."""

    def __init__(self, database):
        self.database = database
        self.controller = self.actor = None
        for engine in {database._reader, database._writer}:
            sa.event.listen(engine, "before_cursor_execute", self._before)
            sa.event.listen(engine, "commit", lambda connection: self._stop(connection, "COMMIT"))
            sa.event.listen(engine, "rollback", lambda connection: self._stop(connection, "ROLLBACK"))

    def _before(self, connection, cursor, statement, parameters, context, executemany):
        self._stop(connection, statement)

    def _stop(self, connection, statement):
        if self.controller is None or threading.current_thread() is not self.actor.thread:
            return
        find = _SESSIONS.get(connection.dialect.name)
        if find and "schedules_session" not in connection.info:
            cursor = connection.connection.cursor()
            cursor.execute(find)
            connection.info["schedules_session"] = cursor.fetchone()[0]
            cursor.close()
        self.actor.session = connection.info.get("schedules_session")
        self.controller.stop(self.actor, statement)


class Controller:
    """The operations of one schedule.

    :param seats: a `Seat` for each operation
    :param operations: functions that take the database of their seat
    :ivar trace: the number of the actor and its statement, for each step
    :ivar spans: by actor, the numbers of its first step and of the step after which it was over
    """

    def __init__(self, monitor, seats, operations):
        self._monitor = monitor
        self._changed = threading.Condition()
        self._is_ended = False
        self.trace = []
        self.spans = {}
        self.actors = [Actor(number) for number in range(len(operations))]
        for actor, seat, operation in zip(self.actors, seats, operations, strict=True):
            actor.thread = threading.Thread(target=self._run, args=(actor, seat, operation), daemon=True)
            seat.controller, seat.actor = self, actor

    def _run(self, actor, seat, operation):
        try:
            self.stop(actor, "begin")
            actor.outcome = operation(seat.database)
        except Ended:
            pass
        except BaseException as error:
            actor.failure = error
        finally:
            with self._changed:
                actor.is_over, actor.at = True, None
                self._changed.notify_all()

    def stop(self, actor, statement):
        """Stop the thread of an actor before a statement until it may go on; its own thread calls this."""
        with self._changed:
            if self._is_ended:
                raise Ended
            actor.may_go.clear()
            actor.at = statement
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
        """Return the numbers of the actors that can go on; wait while a deadlock is being resolved."""
        end = time.monotonic() + PATIENCE
        while not self.is_over:
            stopped = [actor for actor in self.actors if actor.at is not None]
            if ready := [actor.number for actor in stopped if self._monitor.admits(actor.at)]:
                return ready
            if time.monotonic() > end:
                raise RuntimeError(f"nobody can go on after {self.trace}")
            with self._changed:
                self._changed.wait(PROMPT)
        return []

    def step(self, number):
        """Let an actor go on until every actor stops, waits for a lock or is over."""
        actor = self.actors[number]
        self.spans.setdefault(number, [len(self.trace), None])
        self.trace.append((number, actor.at))
        with self._changed:
            actor.at = None
            actor.may_go.set()
        self._settle()
        for each in self.actors:
            if each.is_over and each.number in self.spans and self.spans[each.number][1] is None:
                self.spans[each.number][1] = len(self.trace)

    def _settle(self):
        """Return when no thread runs."""
        end = time.monotonic() + PATIENCE
        with self._changed:
            while running := [each for each in self.actors if each.at is None and not each.is_over]:
                if self._changed.wait(PROMPT):
                    continue
                waiting = self._monitor.find_waiting()
                if all(each.session in waiting for each in running):
                    return
                if time.monotonic() > end:
                    raise RuntimeError(f"actor {running[0].number} neither stops nor waits: {self.trace}")

    def end(self):
        """End all threads, those in the middle of an operation too."""
        with self._changed:
            self._is_ended = True
        for actor in self.actors:
            actor.may_go.set()
        for actor in self.actors:
            actor.thread.join(PATIENCE)
