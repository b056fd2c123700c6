# SPDX-License-Identifier: Apache-2.0
"""The snapshot that the threads of a worker share."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from functools import partial
from typing import TYPE_CHECKING, Final

from osc_placement.server import errors
from osc_placement.server.db.writers import Changes
from osc_placement.server.observer import Observer
from osc_placement.server.snapshot.load import CHUNK, Loaded, find_outdated, load, refresh

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from osc_placement.server.db.engine import Database

LOG = logging.getLogger(__name__)

#: the seconds in which all providers are compared in the background, or more if they are more than a pass of
#: this time admits at so many a second, which takes 4 to 8 percent of a core, of worker and database together
PASS = 5.0
RATE: Final = 1000
#: seconds without a check for changes after which nothing is compared any more
IDLE = 90.0
#: seconds until a comparison that failed is repeated
_REPEAT: Final = 5.0
#: seconds after which the snapshot is loaded once more if that failed
_LOAD_AGAIN: Final = 5.0
#: seconds for which changes by other programs are not reported again
_REPORT_AGAIN: Final = 600.0


class Current:
    """The snapshot of a database as it is now, for any number of threads.

    Threads share a check: a thread that arrives during a check waits for the next one, because the check
    under way may have read the database before the change that the thread's request has to see. All threads
    that wait share that next check. If the database cannot be reached, all that wait when this is found out
    are told, as each check of their own would take as long to fail. What a check finds, and how the changes
    of other programs are found, is listed in the docstring of `server.snapshot`.
    """

    def __init__(self, database: Database, *, compare: bool = False) -> None:
        """Create it without a snapshot; the first `get` loads one.

        :param compare: whether each check reads everything, to find the changes of other programs at once
        """
        self._database = database
        self._compare = compare
        self.observer = Observer()
        self._change = threading.Condition()
        self._running = False
        # the number of the last check that started, and of the last that succeeded
        self._started = 0
        self._done = 0
        # the number of checks that could not reach the database
        self._failed = 0
        self._loaded: Loaded | None = None
        # changes that are not recorded, to be read by the next check; replaced, and never changed
        self._outdated = Changes()
        # times of the monotonic clock
        self._used_at = 0.0
        self._load_again_at = 0.0
        self._report_again_at = 0.0
        self._watcher: threading.Thread | None = None
        self._watcher_pid = 0
        # the id of the provider with which the next comparison in the background begins
        self._cursor = 0

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
            wanted, failed = self._started + 1, self._failed
            while self._running and self._done < wanted:
                self._change.wait()
                if self._failed != failed:
                    raise errors.DatabaseUnavailable
            if self._done >= wanted and self._loaded is not None:
                return self._loaded
            self._running = True
            self._started += 1
            number, outdated = self._started, self._outdated
        read = partial(self._read, outdated=outdated)
        # SchemaUnfit: a table is missing, or may not be used. If recording was on when the read began, that
        # may be one of ours, and the read is repeated without them, also if another thread has turned
        # recording off meanwhile. If it was off, our tables were not read, and a repetition would fail too
        was_recording = self._database.records_changes
        try:
            try:
                loaded = self._database.read_on_kept_connection(read)
            except errors.SchemaUnfit:
                if not was_recording:
                    raise
                self._database.stop_recording()
                loaded = self._database.read_on_kept_connection(read)
            with self._change:
                self._loaded, self._done = loaded, number
                if self._outdated is outdated:
                    self._outdated = Changes()
            self._ensure_watcher(loaded)
            self.observer.looked()
            return loaded
        except errors.DatabaseUnavailable:
            with self._change:
                self._failed += 1
            raise
        finally:
            with self._change:
                self._running = False
                self._change.notify_all()

    def get_if_cheap(self) -> Loaded | None:
        """Return what `get` does, or None if a request about one provider should rather read the database.

        That is if the check would read everything, and until a snapshot is loaded. It is then loaded in the
        background, so that a worker that has just started, or had nothing to do for long, answers at once.

        :raises errors.DatabaseUnavailable: the database cannot be reached
        """
        loaded = self._loaded
        if self._compare or (loaded is not None and loaded.vector is None):
            return None
        if loaded is None or not self._is_watched:
            self._load_in_background()
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
            except Exception:
                LOG.exception("cannot load the snapshot")

        # two threads that pass here at once share a check
        self._load_again_at = present + _LOAD_AGAIN
        threading.Thread(target=load_now, daemon=True).start()

    def _read(self, conn: Connection, outdated: Changes) -> Loaded:
        """Return the snapshot after a check, with ``outdated`` read again; only its thread calls this."""
        own_tables = self._database.records_changes
        started = time.monotonic()
        old = self._loaded
        if old is None:
            loaded = load(conn, own_tables=own_tables)
        else:
            is_whole = self._compare or not self._is_watched
            more = Changes(everything=True) if is_whole else outdated
            loaded = refresh(conn, old, own_tables=own_tables, more=more)
        if loaded is not old:
            self.observer.refreshed(time.monotonic() - started, whole=old is None)
        return loaded

    @property
    def _is_watched(self) -> bool:
        """Return whether changes of other programs are found in the background.

        No other program has the connection of a database in memory.
        """
        watcher = self._watcher
        is_running = watcher is not None and watcher.is_alive() and self._watcher_pid == os.getpid()
        return is_running or self._database.is_in_memory

    def _ensure_watcher(self, loaded: Loaded) -> None:
        """Start the thread that compares in the background, unless it runs or each check reads everything."""
        if loaded.vector is None or self._compare or self._is_watched:
            return
        # this check has read everything
        self._watcher_pid, self._cursor = os.getpid(), 0
        self._watcher = threading.Thread(target=_watch, args=(weakref.ref(self),), daemon=True)
        self._watcher.start()

    def watch(self) -> float | None:
        """Compare some providers with the database; return the seconds to wait, or None if nobody needs it.

        :raises errors.Unavailable: the database cannot be read
        """
        if self._database.is_disposed or time.monotonic() > self._used_at + IDLE:
            return None
        started = time.monotonic()
        # so that what was recorded since the last request is read once
        old = self._get()
        if old.vector is None:
            return _REPEAT
        found, self._cursor = self._database.read(find_outdated, old, self._cursor)
        self.observer.compared(differs=bool(found))
        if found:
            self._report(found)
            with self._change:
                found.add(self._outdated)
                self._outdated = found
        chunks = max(1, len(old.snapshot.nodes) / CHUNK)
        taken = time.monotonic() - started
        # not most of the time, however slow the database is
        return max(taken, max(PASS / chunks, CHUNK / RATE) - taken)

    def _report(self, found: Changes) -> None:
        """Log that another program writes, unless that was logged a short time ago."""
        present = time.monotonic()
        if present < self._report_again_at:
            return
        self._report_again_at = present + _REPORT_AGAIN
        LOG.warning(
            "another program writes to the database (%s); its changes are seen within seconds. If they are "
            "needed at once, set other_programs_write in [placement_database]",
            f"{len(found.used)} resource providers" if found.used else "traits or resource classes",
        )


def _watch(reference: weakref.ref[Current]) -> None:
    """Compare in the background for as long as the snapshot is used."""
    pause: float | None = min(1.0, PASS)
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
            pause = _REPEAT
        except Exception:
            LOG.exception("cannot compare the snapshot with the database")
            pause = _REPEAT
        del current
