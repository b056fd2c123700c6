# SPDX-License-Identifier: Apache-2.0
"""What has to be so before requests can be answered: brought about where possible, and asked about."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from osc_placement.server import errors
from osc_placement.server.db import names, upgrade

if TYPE_CHECKING:
    from collections.abc import Callable

    from osc_placement.server.db.current import Current
    from osc_placement.server.db.engine import Database

LOG = logging.getLogger(__name__)

#: seconds that a start waits for the database, and a probe for the one before it, which does
PATIENCE: Final = 2


@dataclass(frozen=True, slots=True)
class Fault:
    """What is not as it has to be: ``database``, ``schema`` or ``snapshot``, and why."""

    check: str
    reason: str


class Health:
    """Whether the service can answer; one for each application."""

    def __init__(self, database: Database, current: Current) -> None:
        """Look at nothing yet."""
        self._database = database
        self._current = current
        self._starting = threading.Lock()
        self._ready = False
        self._probing = threading.Lock()
        self._probed_at = 0.0

    def start(self) -> None:
        """Get ready; if the database does not answer, go on with it beside what can be answered without."""
        done: Future[None] = Future()
        threading.Thread(target=_complete, args=(done, self._try_to_get_ready), daemon=True).start()
        if wait([done], PATIENCE).done:
            done.result()
        else:
            LOG.warning("the database has not answered for %s seconds; still waiting for it", PATIENCE)

    def _try_to_get_ready(self) -> None:
        try:
            self.get_ready()
        except errors.SchemaUnfit as error:
            LOG.error("answering 503 until that is done: %s", error)
        except errors.Unavailable:
            LOG.warning("the database cannot be reached; answering 503 until it can")

    def get_ready(self) -> None:
        """Bring what every request relies on into the database, once, as soon as it can be reached.

        :raises errors.DatabaseUnavailable: it cannot be reached
        :raises errors.SchemaUnfit: its tables are not those that are needed
        """
        if not self._ready:
            with self._starting:
                if not self._ready:
                    self._get_ready()
                    self._ready = True

    def _get_ready(self) -> None:
        if fault := upgrade.find_fault(self._database):
            raise errors.SchemaUnfit(fault)
        names.synchronize(self._database)
        _keep_revisions(self._database)

    def find_fault(self) -> Fault | None:
        """What stands in the way of answering, if anything does.

        One probe at a time asks the database, so one that hangs does not take every thread with it.
        """
        if not self._probing.acquire(timeout=PATIENCE):
            waiting = time.monotonic() - self._probed_at
            return Fault("database", f"The database has not answered for {waiting:.0f} seconds.")
        try:
            self._probed_at = time.monotonic()
            return self._probe()
        finally:
            self._probing.release()

    def _probe(self) -> Fault | None:
        check = "database"
        try:
            if fault := upgrade.find_fault(self._database):
                return Fault("schema", fault)
            check = "snapshot"
            self.get_ready()
            self._current.get()
        except errors.Unavailable as error:
            return Fault(check, str(error))
        except Exception:
            LOG.exception("cannot tell whether the service is ready")
            return Fault(check, "An unexpected error; the log has it.")
        return None


def _complete(done: Future[None], operation: Callable[[], None]) -> None:
    """Let whoever waits know how it went."""
    try:
        operation()
    except Exception as error:
        done.set_exception(error)
    else:
        done.set_result(None)


def _keep_revisions(database: Database) -> None:
    """Make the tables of our own where they are not there yet, if that is allowed.

    Speed depends on them and, on a cluster, that no moves of providers on two nodes make a loop.
    """
    try:
        upgrade.upgrade_own(database)
    except upgrade.SchemaError as error:
        LOG.warning(
            "cannot make the tables of its own, so what others change is read more slowly, and nodes of a "
            "cluster do not notice each other's moves of providers; "
            "'placement-server db sync' makes them, with an account that may: %s",
            error,
        )
