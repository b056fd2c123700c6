# SPDX-License-Identifier: Apache-2.0
"""The transactions that claims of one process share when they arrive together.

A claim that arrives while no other is being carried out gets a transaction of its own at once. Claims that
arrive meanwhile wait, in order of arrival, and the thread that ends a transaction hands the next group of
them to the thread of the first, which carries out all of the group in one transaction
(`allocation.replace_each`): one commit to disk and one set of round trips for all of them.

*What is locked:* nothing beyond what `allocation.replace_each` locks in the database: the consumers, then the
providers of the whole group, each by ascending id, so that groups of several processes and other transactions
wait for each other in one order. The first claim of a consumer, if it is alone, locks only its provider
(`allocation.replace_first`).

*What is compared:* each request of a group is judged by itself, in order of arrival, as if those before it
were committed already. A group never has two requests for one consumer: the second begins the next group.

*What is retried as a whole:* a group that loses a race (`engine.Database.write`). If its transaction fails
because of one of its requests, such as a value that the database cannot store, or a lock that somebody holds
for more than a second, nothing was committed, and each request is carried out again in a transaction of its
own, by its own thread. If the database cannot be reached or does not accept changes, all requests of the
group receive that error, as the outcome of a commit may be unknown; so do they if the thread that carries out
the group is ended, such as by SystemExit.

*Bounds:* a group has `MOST_CLAIMS` claims at most, unless one request has more. The thread of a request that
has waited for `LONGEST_WAIT` without being taken into a group carries out the first group of the queue beside
the other transactions, so that claims do not wait for one that waits for a lock.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent import futures
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from oslo_db.exception import DBDeadlock

from osc_placement.server import errors
from osc_placement.server.db import allocation, driver_errors

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from osc_placement.server.db.engine import Database

#: the largest number of claims in one group; a larger request is a group by itself
MOST_CLAIMS: Final = 32
#: seconds that a request waits for the transactions under way
LONGEST_WAIT: Final = 0.01


class _Locked(Exception):
    """Another transaction has locked what a group needs, and nothing was changed."""


@dataclass(eq=False, slots=True)
class _Request:
    """A request that waits or is being carried out.

    :ivar turn: resolves to the group that the thread of this request has to carry out, or to None when
        another thread has carried it out
    :ivar is_done: whether it was carried out
    :ivar error: the reason for which it was refused, if it was
    """

    claims: Sequence[allocation.Claim]
    turn: futures.Future[list[_Request] | None] = field(default_factory=futures.Future)
    is_done: bool = False
    error: Exception | None = None

    def finish(self, error: Exception | None) -> None:
        """Record the outcome and wake the thread of this request if it waits; the caller holds the lock."""
        self.error, self.is_done = error, True
        if not self.turn.done():
            self.turn.set_result(None)


class ClaimQueue:
    """The claims that the threads of one process carry out on one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._waiting: deque[_Request] = deque()
        # the number of transactions under way
        self._running = 0

    def replace(self, claims: Sequence[allocation.Claim]) -> None:
        """Carry out a request as `allocation.replace` does, with others in one transaction if there are any.

        :raises errors.PlacementError: as `allocation.replace` and `Database.write` do
        """
        request = _Request(claims)
        with self._lock:
            self._waiting.append(request)
            group = None if self._running else self._take()
        while not request.is_done:
            group = group or self._await_turn(request)
            if group is not None:
                self._carry_out_and_end(group)
                group = None
        if request.error is not None:
            raise request.error

    def _await_turn(self, request: _Request) -> list[_Request] | None:
        """Return the group that the thread of this request has to carry out; None if another thread did."""
        try:
            try:
                return request.turn.result(timeout=LONGEST_WAIT)
            except futures.TimeoutError:
                with self._lock:
                    if request in self._waiting:
                        return self._take()
            return request.turn.result()
        except BaseException:
            # this thread is ended while it waits; no other must wait for it
            group = None
            with self._lock:
                if request in self._waiting:
                    self._waiting.remove(request)
                else:
                    if not request.turn.done():
                        # another thread carries it out, if need be alone
                        request.turn.set_result(None)
                    group = request.turn.result()
            if group is not None:
                self._carry_out_and_end(group)
            raise

    def _carry_out_and_end(self, group: Sequence[_Request]) -> None:
        try:
            self._carry_out(group)
        finally:
            with self._lock:
                self._running -= 1
                if not self._running and self._waiting:
                    # the thread of the first request that waits carries out the next group
                    following = self._take()
                    following[0].turn.set_result(following)

    def _take(self) -> list[_Request]:
        """Remove the next group from the queue; the caller holds the lock, and the group is carried out."""
        self._running += 1
        group = [self._waiting.popleft()]
        consumers = {claim.consumer_uuid for claim in group[0].claims}
        while self._waiting:
            more = {claim.consumer_uuid for claim in self._waiting[0].claims}
            if len(consumers) + len(more) > MOST_CLAIMS or not consumers.isdisjoint(more):
                break
            consumers |= more
            group.append(self._waiting.popleft())
        return group

    def _carry_out(self, group: Sequence[_Request]) -> None:
        """Carry out the requests of a group and record the outcome of each."""
        outcomes: Sequence[Exception | None]
        try:
            if len(group) == 1:
                claims = group[0].claims
                is_first = len(claims) == 1 and allocation.is_first(claims[0])
                if not (is_first and self._database.write(allocation.replace_first, claims[0])):
                    self._database.write(allocation.replace, claims)
                outcomes = [None]
            else:
                outcomes = self._database.write(self._replace_each, [each.claims for each in group])
        except Exception as error:
            # unless something may have been committed, the requests may be tried one by one
            is_undone = not isinstance(error, errors.Unavailable)
            if len(group) > 1 and (is_undone or isinstance(error, errors.TooMuchContention)):
                self._separate(group)
                return
            outcomes = [error] * len(group)
        except BaseException:
            # it ends this thread and no other; the outcome of the commit may be unknown
            self._finish(group, [errors.OutcomeUnknown()] * len(group))
            raise
        self._finish(group, outcomes)

    def _replace_each(
        self, conn: Connection, requests: Sequence[Sequence[allocation.Claim]]
    ) -> Sequence[Exception | None]:
        """Do as `allocation.replace_each`; :raises _Locked: a lock is not granted within a second."""
        try:
            with self._database.dialect.waiting_briefly(conn):
                return allocation.replace_each(conn, requests)
        except DBDeadlock as error:
            if driver_errors.classify(driver_errors.find(error)) is driver_errors.Kind.LOCKED:
                raise _Locked from error
            raise

    def _finish(self, group: Sequence[_Request], outcomes: Sequence[Exception | None]) -> None:
        with self._lock:
            for each, outcome in zip(group, outcomes, strict=True):
                each.finish(outcome)

    def _separate(self, group: Sequence[_Request]) -> None:
        """Let each request be carried out alone, by its own thread."""
        with self._lock:
            own = [each for each in group if each.turn.done()]
            others = [each for each in group if not each.turn.done()]
            self._running += len(others)
            for each in others:
                each.turn.set_result([each])
        for each in own:
            self._carry_out([each])
