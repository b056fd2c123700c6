# SPDX-License-Identifier: Apache-2.0
"""The conditions for answering requests, which are established if possible, and checked."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from osc_placement.server import errors
from osc_placement.server.db import standard_names, upgrade
from osc_placement.server.process.limits import THREADS_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from osc_placement.server.db.engine import Database
    from osc_placement.server.snapshot.current import Current

LOG = logging.getLogger(__name__)

T = TypeVar("T")

#: seconds that a start waits for the database, and that a request for readiness waits for the probe
PATIENCE: Final = 2
#: seconds for which the result of a probe of the database is kept
KEPT: Final = 1
#: seconds between the attempts of a request that waits for the database
PAUSE: Final = 0.5
#: seconds after which a service without our own tables tries again to make them
MAKE_AGAIN: Final = 60

READ_ONLY: Final = "The database is read-only: changes are answered with 503, reads go on."
OWN_TABLES_UNFIT: Final = (
    "The service cannot make the tables of its own, so each check for changes reads the whole database, and "
    "nodes of a cluster do not notice each other's moves of providers; 'placement-server db sync' makes "
    "them, with an account that may"
)


@dataclass(frozen=True, slots=True)
class Fault:
    """A condition that does not hold, with the reason.

    :ivar check: ``database``, ``schema``, ``snapshot`` or ``own tables``
    :ivar status: what the service is nevertheless: ``not ready``, ``read-only`` or ``ready``
    """

    check: str
    reason: str
    status: str = "not ready"


class Health:
    """A checker of the conditions for an application to answer."""

    def __init__(self, database: Database, current: Current) -> None:
        """Create it without checking anything."""
        self._database = database
        self._current = current
        self._starting = threading.Lock()
        self._ready = False
        self._state: upgrade.State | None = None
        self._checked_at = self._made_at = 0.0
        self._failed_at = -math.inf
        self._own_tables_fault: str | None = None
        self._probing = threading.Lock()
        self._probe_begun = self._probe_ended = -math.inf
        self._probe_result: Future[Sequence[Fault]] | None = None

    def start(self) -> None:
        """Get ready, in the background if the database does not answer in time."""

        def try_to_get_ready() -> None:
            try:
                self.get_ready()
            except errors.SchemaUnfit as error:
                LOG.error("answering 503 until that is done: %s", error)
            except errors.Unavailable:
                LOG.warning("the database cannot be reached; answering 503 until it can")

        done: Future[None] = Future()
        threading.Thread(target=_complete, args=(done, try_to_get_ready), daemon=True).start()
        if wait([done], PATIENCE).done:
            done.result()
        else:
            LOG.warning("the database has not answered for %s seconds; still waiting for it", PATIENCE)

    def get_ready(self) -> None:
        """Write to the database what every request relies on, as soon as the database can be reached.

        This is done once, and again if the database was dropped and created again, or restored from a backup,
        which is checked once a second. A database that refuses changes is only checked. One thread does so;
        the others continue meanwhile. The first time they wait, and are told if it could not be reached.

        :raises errors.DatabaseUnavailable: it cannot be reached
        :raises errors.SchemaUnfit: its tables are not as required
        """
        if self._ready and time.monotonic() < self._checked_at + KEPT:
            return
        arrived = time.monotonic()
        if not self._starting.acquire(blocking=not self._ready):
            return
        try:
            if self._failed_at > arrived:
                raise errors.DatabaseUnavailable
            if self._ready and time.monotonic() < self._checked_at + KEPT:
                return
            is_same = False
            if self._ready and self._state is not None:
                with contextlib.suppress(errors.SchemaUnfit):
                    is_same = self._read_state().is_of_the_same_database(self._state)
            if not is_same:
                self._ready = False
                if fault := upgrade.find_fault(self._database):
                    raise errors.SchemaUnfit(fault)
                if not self._database.refuses_changes:
                    # first, so that the names are recorded
                    self._make_own_tables()
                    standard_names.synchronize(self._database)
                self._state = self._read_state()
                self._ready = True
            elif (
                not self._database.refuses_changes
                and not self._database.records_changes
                and time.monotonic() > self._made_at + MAKE_AGAIN
            ):
                self._make_own_tables()
                self._state = self._read_state()
            self._checked_at = time.monotonic()
        except errors.DatabaseUnavailable as error:
            self._failed_at = time.monotonic()
            # also if a commit was lost, as what is written here is no request's
            raise errors.DatabaseUnavailable from error
        finally:
            self._starting.release()

    def _make_own_tables(self) -> None:
        """Create our own tables if they do not exist and the account may create them.

        Without them, each check for changes reads the whole database and, on a cluster, moves of providers
        on two nodes can create loops. The reason is logged once.
        """
        self._made_at = time.monotonic()
        try:
            upgrade.upgrade_own(self._database)
        except upgrade.SchemaError as error:
            self._database.records_changes = False
            if self._own_tables_fault is None:
                LOG.warning("%s: %s", OWN_TABLES_UNFIT, error)
            self._own_tables_fault = str(error)
        else:
            self._own_tables_fault = None

    def _read_state(self) -> upgrade.State:
        return self._database.read(upgrade.read_state, own_tables=self._database.records_changes)

    def find_faults(self) -> Sequence[Fault]:
        """Return the conditions that do not hold, the worst first; the result is at most a second old.

        There is one probe at a time, in a separate thread, and all callers wait for it meanwhile, so that
        neither many callers nor a database that hangs use up threads and connections. The lock is held only
        to find or start the probe. No caller waits longer than `PATIENCE` after its start.
        """
        with self._probing:
            now = time.monotonic()
            result = self._probe_result
            if result is None or (result.done() and now - self._probe_ended >= KEPT):
                result = Future()
                threading.Thread(target=_complete, args=(result, self._probe), daemon=True).start()
                self._probe_result, self._probe_begun = result, now
            begun = self._probe_begun
        if not wait([result], max(0, begun + PATIENCE - now)).done:
            waiting = time.monotonic() - begun
            return [Fault("database", f"The database has not answered for {waiting:.0f} seconds.")]
        return result.result()

    def _probe(self) -> Sequence[Fault]:
        """Return the conditions that do not hold now."""
        check = "database"
        faults = []
        try:
            if fault := upgrade.find_fault(self._database):
                return [Fault("schema", fault)]
            check = "snapshot"
            self.get_ready()
            self._current.get()
            if self._database.is_read_only():
                faults.append(Fault("database", READ_ONLY, "read-only"))
            if self._own_tables_fault is not None:
                faults.append(Fault("own tables", f"{OWN_TABLES_UNFIT}: {self._own_tables_fault}", "ready"))
        except errors.Unavailable as error:
            return [Fault(check, str(error))]
        except Exception:
            LOG.exception("cannot tell whether the service is ready")
            return [Fault(check, "An unexpected error; the log has it.")]
        finally:
            self._probe_ended = time.monotonic()
        return faults


class Patience:
    """The wait of writes for a database that is coming back.

    Clients that free what an instance held, as nova does when a boot fails, do not come again after a 503.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._waiting = 0

    def repeat(self, operation: Callable[[], T], environ: Mapping[str, Any]) -> T:
        """Run the operation of a request, and again as a whole while the database cannot be reached.

        An operation may commit one transaction. It is not repeated once that may have been stored. The time
        begins with the first failure, as that may be the end of a long wait for a server that is gone. At
        most half of the threads of this process wait, so that others answer reads; a server that does not
        tell its number has two at least, if it has several.

        :raises errors.DatabaseUnavailable: the time is over, or too many wait
        """
        most = environ.get(THREADS_KEY, 2 if environ["wsgi.multithread"] else 1) // 2
        until: float | None = None
        waits = False
        try:
            while True:
                try:
                    return operation()
                except errors.OutcomeUnknown:
                    raise
                except errors.DatabaseUnavailable:
                    until = until or time.monotonic() + self._seconds
                    if time.monotonic() + PAUSE > until:
                        raise
                    with self._lock:
                        if not waits and self._waiting >= most:
                            raise
                        self._waiting += not waits
                    waits = True
                time.sleep(PAUSE)
        finally:
            with self._lock:
                self._waiting -= waits


def _complete(done: Future[T], operation: Callable[[], T]) -> None:
    """Run the operation and set its result or exception on the future."""
    try:
        result = operation()
    except Exception as error:
        done.set_exception(error)
    else:
        done.set_result(result)
