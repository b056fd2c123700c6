# SPDX-License-Identifier: Apache-2.0
"""The snapshot that a worker keeps, and why it is true.

Every answer has to reflect every transaction that was acknowledged before the request began, whichever
worker, host or program committed it. So the database is asked at each request, at one of three costs:

1. Has anything been committed at all? `Database.look` compares `mark`: a fraction of a millisecond at any
   size. On MariaDB that takes a moment at which nobody else is busy, so under load the next is asked.
2. If so, has it to do with what the snapshot shows? The `fingerprint`: 10 ms at 10,000 providers on MariaDB,
   and half a millisecond more for each thousand consumers.
3. If so, what is it? `snapshot.refresh`: a few milliseconds more for the claims of a busy moment.

The fingerprint and what is read under it are of one transaction, which begins after the mark is read.

Threads share a refresh: whoever arrives while one is under way waits for the next, since the one under way
may have looked before the change that its request must see; all who wait then share that next one.

What was decided against: triggers, which need privileges that placement's account rarely has and which
operators do not expect; a log of changes, whose ids are handed out before commit; one counter for all
changes, for which all writers would queue; and finding changes by their time, as clocks differ.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from osc_placement.server.db import snapshot
from osc_placement.server.observer import Observer

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from osc_placement.server.db.engine import Database
    from osc_placement.server.db.snapshot import Loaded

LOG = logging.getLogger(__name__)


class Current:
    """The snapshot of now, for any number of threads."""

    def __init__(self, database: Database) -> None:
        """Load nothing yet."""
        self._database = database
        self.observer = Observer()
        self._change = threading.Condition()
        self._running = False
        # how many looks at the database have begun, and the number of the last that succeeded
        self._begun = 0
        self._done = 0
        self._loaded: Loaded | None = None
        self._mark: object = None

    def get(self) -> Loaded:
        """What the database holds, at some moment since this was called.

        :raises errors.DatabaseUnavailable: it cannot be reached
        """
        with self._change:
            # a look that has begun may have missed what this caller must see
            wanted = self._begun + 1
            while self._running and self._done < wanted:
                self._change.wait()
            if self._done >= wanted and self._loaded is not None:
                return self._loaded
            self._running = True
            self._begun += 1
            number = self._begun
        return self._look(number)

    def _look(self, number: int) -> Loaded:
        try:
            known, old = self._mark, self._loaded
            mark, found = self._database.look(known, self._read, old)
            loaded = found or old
            assert loaded is not None, "the first look has no mark to know"
            with self._change:
                self._loaded, self._mark, self._done = loaded, mark, number
            self.observer.looked()
            return loaded
        finally:
            with self._change:
                self._running = False
                self._change.notify_all()

    def _read(self, conn: Connection, old: Loaded | None) -> Loaded:
        kept = self._database.revisions_kept
        begun = time.perf_counter()
        if old is None:
            loaded = snapshot.load(conn, revisions_kept=kept)
        else:
            loaded = snapshot.refresh(conn, old, revisions_kept=kept)
        self.observer.refreshed(time.perf_counter() - begun, whole=old is None)
        return loaded
