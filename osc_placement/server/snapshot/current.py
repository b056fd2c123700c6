# SPDX-License-Identifier: Apache-2.0
"""The snapshot that the threads of a worker share."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from osc_placement.server.observer import Observer
from osc_placement.server.snapshot.detector import ChangeDetector
from osc_placement.server.snapshot.load import Loaded, load, refresh

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from osc_placement.server.db.engine import Database

LOG = logging.getLogger(__name__)


class Current:
    """The snapshot of a database as it is now, for any number of threads.

    Threads share a check: a thread that arrives during a check waits for the next one, because the check
    under way may have read the database before the change that the thread's request has to see. All threads
    that wait share that next check.
    """

    def __init__(self, database: Database) -> None:
        """Create it without a snapshot; the first `get` loads one."""
        self._database = database
        self._detector = ChangeDetector(database)
        self.observer = Observer()
        self._change = threading.Condition()
        self._running = False
        # the number of the last check that started, and of the last that succeeded
        self._started = 0
        self._done = 0
        self._loaded: Loaded | None = None
        self._marker: object = None

    def get(self) -> Loaded:
        """Return the content of the database at some moment after the start of this call.

        :raises errors.DatabaseUnavailable: the database cannot be reached
        """
        with self._change:
            wanted = self._started + 1
            while self._running and self._done < wanted:
                self._change.wait()
            if self._done >= wanted and self._loaded is not None:
                return self._loaded
            self._running = True
            self._started += 1
            number = self._started
        return self._check(number)

    def _check(self, number: int) -> Loaded:
        try:
            old = self._loaded
            marker, read = self._detector.check(self._marker, self._read, old)
            loaded = read or old
            assert loaded is not None, "the first check has no marker to compare with"
            with self._change:
                self._loaded, self._marker, self._done = loaded, marker, number
            self.observer.looked()
            return loaded
        finally:
            with self._change:
                self._running = False
                self._change.notify_all()

    def _read(self, conn: Connection, old: Loaded | None) -> Loaded:
        kept = self._database.revisions_kept
        started = time.perf_counter()
        if old is None:
            loaded = load(conn, revisions_kept=kept)
        else:
            loaded = refresh(conn, old, revisions_kept=kept)
        self.observer.refreshed(time.perf_counter() - started, whole=old is None)
        return loaded
