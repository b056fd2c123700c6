# SPDX-License-Identifier: Apache-2.0
"""The snapshot that the threads of a worker share."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Final

from osc_placement.server import errors
from osc_placement.server.db import writers
from osc_placement.server.observer import Observer
from osc_placement.server.snapshot.load import Loaded, load, refresh

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from osc_placement.server.db.engine import Database

LOG = logging.getLogger(__name__)

#: the shortest and the longest pause between two comparisons in the background, in seconds
SHORTEST_PAUSE = 1.0
LONGEST_PAUSE = 6.0
#: the CPU share of one core that background comparisons of all processes may use
SHARE: Final = 0.03
#: seconds without a comparison after which the next check compares, and seconds without a check after which
#: there are no comparisons in the background any more
OVERDUE = 15.0
#: seconds for which each check compares after another program was found to have written
WARY = 600.0
#: seconds after which other workers are told again that another program writes
_TELL_AGAIN: Final = 60.0
#: seconds after which the snapshot is loaded once more if that failed
_LOAD_AGAIN: Final = 5.0


class Current:
    """The snapshot of a database as it is now, for any number of threads.

    Threads share a check: a thread that arrives during a check waits for the next one, because the check
    under way may have read the database before the change that the thread's request has to see. All threads
    that wait share that next check. What a check finds, and when it compares fingerprints to find the changes
    of other programs, is listed in the docstring of `server.snapshot`.
    """

    def __init__(self, database: Database, *, compare: bool = False) -> None:
        """Create it without a snapshot; the first `get` loads one.

        :param compare: whether each check finds the changes of other programs, from the beginning
        """
        self._database = database
        self._compare = compare
        self.observer = Observer()
        self._change = threading.Condition()
        self._running = False
        # the number of the last check that started, and of the last that succeeded
        self._started = 0
        self._done = 0
        self._loaded: Loaded | None = None
        # times of the monotonic clock
        self._used_at = self._compared_at = -OVERDUE
        self._wary_until = -WARY
        self._load_again_at = 0.0
        self._has_to_tell = False
        self._watcher: threading.Thread | None = None
        self._watcher_pid = 0

    def get(self) -> Loaded:
        """Return the content of the database.

        It contains all changes that our servers committed before the call; those of other programs may be
        missing, as `snapshot` says.

        :raises errors.DatabaseUnavailable: the database cannot be reached
        """
        self._used_at = time.monotonic()
        return self._get()

    def _get(self) -> Loaded:
        with self._change:
            wanted = self._started + 1
            while self._running and self._done < wanted:
                self._change.wait()
            if self._done >= wanted and self._loaded is not None:
                return self._loaded
            self._running = True
            self._started += 1
            number = self._started
        # SchemaUnfit: a table is missing. If recording was on when the read began, that may be one of ours,
        # and the read is repeated without them, also if another thread has turned recording off meanwhile.
        # If it was off, our tables were not read, and a repetition would fail in the same way
        was_recording = self._database.records_changes
        try:
            try:
                loaded = self._database.read_on_kept_connection(self._read)
            except errors.SchemaUnfit:
                if not was_recording:
                    raise
                self._database.stop_recording()
                loaded = self._database.read_on_kept_connection(self._read)
            with self._change:
                self._loaded, self._done = loaded, number
            if loaded.vector is not None and not self._compare:
                self._ensure_watcher()
            self.observer.looked()
            return loaded
        finally:
            with self._change:
                self._running = False
                self._change.notify_all()

    def get_if_cheap(self) -> Loaded | None:
        """Return what `get` does, or None if a request about one provider should rather read the database.

        That is while each check for changes compares everything, and until a snapshot is loaded. It is loaded
        in the background, so that a worker that has just started answers at once.

        :raises errors.DatabaseUnavailable: the database cannot be reached
        """
        if self._compare or time.monotonic() < self._wary_until:
            return None
        loaded = self._loaded
        if loaded is None:
            self._load_in_background()
            return None
        if loaded.vector is None:
            return None
        return self.get()

    def _load_in_background(self) -> None:
        """Start a thread that loads the snapshot, unless one did so in the last seconds.

        A database in memory has one connection, which would be busy meanwhile.
        """
        present = time.monotonic()
        if self._database.is_in_memory or present < self._load_again_at:
            return

        def load_now() -> None:
            try:
                self.get()
            except errors.PlacementError as error:
                LOG.debug("cannot load the snapshot: %s", error)

        # two threads that pass here at once share a check
        self._load_again_at = present + _LOAD_AGAIN
        threading.Thread(target=load_now, daemon=True).start()

    def _read(self, conn: Connection) -> Loaded:
        own_tables = self._database.records_changes
        started = time.monotonic()
        old, found = self._loaded, False
        compare = self._compare or started < self._wary_until or started > self._compared_at + OVERDUE
        if old is None:
            loaded = load(conn, own_tables=own_tables)
        else:
            loaded, found = refresh(conn, old, own_tables=own_tables, compare=compare)
        if compare or old is None:
            self._compared_at = started
        if compare and old is not None:
            self.observer.compared(differs=found)
        if loaded is not old:
            self.observer.refreshed(time.monotonic() - started, whole=old is None)
        self._update_wariness(old, loaded, found=found)
        return loaded

    def _update_wariness(self, old: Loaded | None, loaded: Loaded, *, found: bool) -> None:
        """Decide for how long each check compares, after a check or a comparison in the background."""
        if loaded.vector is None or self._compare:
            return
        told_at, present = loaded.vector.strangers_at, time.monotonic()
        age = (writers.now() - told_at) / 1_000_000
        if found:
            if present > self._wary_until:
                LOG.warning(
                    "another program writes to the database; each check for changes reads the whole database "
                    "until it has not done so for %d seconds. If it is meant to, set other_programs_write in "
                    "[placement_database]",
                    WARY,
                )
            self._wary_until = present + WARY
            self._has_to_tell = self._has_to_tell or not 0 <= age < _TELL_AGAIN
        elif old is not None and old.vector is not None and told_at != old.vector.strangers_at:
            # another worker found it, just now, whatever its clock says
            self._wary_until = present + WARY
        elif old is None and age < WARY:
            self._wary_until = present + min(WARY, WARY - age)

    def _ensure_watcher(self) -> None:
        """Start the thread that compares in the background, unless it runs."""
        if self._database.is_in_memory:
            # it has one connection, which no other program can have
            return
        if self._watcher is None or self._watcher_pid != os.getpid() or not self._watcher.is_alive():
            self._watcher_pid = os.getpid()
            self._watcher = threading.Thread(target=_watch, args=(weakref.ref(self),), daemon=True)
            self._watcher.start()

    def watch(self) -> float | None:
        """Compare once, if checks do not do so; return the seconds to wait, or None if nobody needs it.

        :raises errors.Unavailable: the database cannot be read
        """
        if self._database.is_disposed or time.monotonic() > self._used_at + OVERDUE:
            return None
        if self._has_to_tell:
            self._has_to_tell = False
            if not self._database.is_read_only():
                self._database.write(writers.strangers_found)
        if time.monotonic() < self._wary_until or self._loaded is None or self._loaded.vector is None:
            return SHORTEST_PAUSE
        started = time.monotonic()
        # without this, the changes since the last request would be read at each comparison again
        old = self._get()
        if old.vector is None:
            return SHORTEST_PAUSE
        loaded, found = self._database.read(refresh, old, own_tables=True, compare=True)
        self._compared_at = started
        self.observer.compared(differs=found)
        self._update_wariness(old, loaded, found=found)
        if found:
            # the next check reads it
            return 0
        with self._change:
            # with the same mark, it is the same snapshot with a complete fingerprint. Any other may be older
            # than what was answered already, if this connection is to another node of a cluster
            if self._loaded is old and loaded.vector is not None and loaded.vector.mark == old.vector.mark:
                self._loaded = loaded
        processes = old.vector.processes
        return min(max((time.monotonic() - started) * processes / SHARE, SHORTEST_PAUSE), LONGEST_PAUSE)


def _watch(reference: weakref.ref[Current]) -> None:
    """Compare in the background for as long as the snapshot is used."""
    pause: float | None = SHORTEST_PAUSE
    while pause is not None:
        time.sleep(pause)
        current = reference()
        if current is None:
            return
        try:
            pause = current.watch()
        except errors.PlacementError as error:
            # requests notice it themselves
            LOG.debug("cannot compare the snapshot with the database: %s", error)
            pause = LONGEST_PAUSE
        except Exception:
            LOG.exception("cannot compare the snapshot with the database")
            pause = LONGEST_PAUSE
        del current
