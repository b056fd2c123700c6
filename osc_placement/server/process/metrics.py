# SPDX-License-Identifier: Apache-2.0
"""The metrics of the server's work, in the text format of Prometheus.

The worker processes of one service count in files of one directory, so that each of them can report the
numbers of all: this is prometheus_client's multiprocess mode. It is on if the environment names the
directory, which ``placement-server serve`` and `wsgi` do by themselves if the operator does not.

PERF: counting a request takes 4 µs, or 8 with shared numbers, because the children of metrics are found in a
dictionary of our own. To measure it again: ``tests/functional/server/test_metrics.py``, which allows 20.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import struct
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from osc_placement.server.observer import Observer

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

#: the variable in which prometheus_client finds the directory when it is first imported
DIRECTORY_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

#: the upper bounds of the buckets of requests, in seconds: from an answer of a snapshot to a client's timeout
LATENCIES: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
#: the upper bounds of the buckets of searches, in candidates
CANDIDATES: Final = (0, 1, 10, 100, 1000, 10_000, 50_000)
#: the methods counted by name; a client may invent others, each of which would be a series
METHODS: Final = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
OTHER: Final = "other"
#: the name of a file of counters ends with the id of its process; this one has the sums of ended processes
ENDED: Final = 0
#: ended processes from which their files are added to one, since a file takes space in memory
MOST_ENDED: Final = 8
#: attempts to read the files of all processes, and seconds between them
READINGS: Final = 20
READING_PAUSE: Final = 0.005


class CannotCount(Exception):
    """An error: the directory for the numbers of all processes cannot be used; the text says why."""


class Metrics(Observer):
    """The metrics of one application; any thread may add to them."""

    def __init__(self) -> None:
        """Start all metrics at zero; :raises CannotCount: the directory in the environment cannot be used."""
        self.directory = find_directory()
        # it chooses the place of numbers at import, so `serve` has to name the directory before
        import prometheus_client

        if self.directory is not None:
            _merge_the_dead(self.directory)
        self._registry = prometheus_client.CollectorRegistry(auto_describe=False)
        self._children: dict[Hashable, Any] = {}

        def counter(name: str, text: str, *labels: str) -> Any:
            return prometheus_client.Counter(f"placement_{name}", text, labels, registry=self._registry)

        def histogram(name: str, text: str, labels: tuple[str, ...], buckets: tuple[float, ...]) -> Any:
            return prometheus_client.Histogram(
                f"placement_{name}", text, labels, registry=self._registry, buckets=buckets
            )

        def gauge(name: str, text: str, mode: Any, *labels: str) -> Any:
            return prometheus_client.Gauge(
                f"placement_{name}", text, labels, registry=self._registry, multiprocess_mode=mode
            )

        self._requests = counter("requests", "Answers given.", "method", "route", "status", "microversion")
        self._latencies = histogram(
            "request_seconds", "Seconds to the beginning of an answer.", ("method", "route"), LATENCIES
        )
        self._conflicts = counter("conflicts", "Writes refused with 409, by error code.", "code")
        self._candidates = histogram("candidates", "Candidates that a search gave.", (), CANDIDATES)
        self._bounded = counter("searches_bounded", "Searches of candidates that ended at a bound.")
        self._races = counter("races_lost", "Transactions undone by others, and tried again up to a bound.")
        self._given_up = counter("transactions_given_up", "Transactions that lost as many races as they may.")
        self._looks = counter("snapshot_looks", "Looks whether the snapshot is true.")
        self._refreshes = histogram(
            "snapshot_refresh_seconds", "Seconds of reading the snapshot anew.", ("extent",), LATENCIES
        )
        self._comparisons = counter(
            "snapshot_comparisons", "Comparisons of a part of the snapshot with the database.", "differs"
        )
        true_at = "When the oldest snapshot of a worker was last true."
        self._define_true_at = functools.partial(gauge, "snapshot_timestamp_seconds", true_at, "livemin")
        self._true_at: Any = None
        connections = "Connections to the database, open and in use, by pool."
        self._pools = gauge("pool_connections", connections, "livesum", "pool", "state")

    def _child(self, metric: Any, *labels: str) -> Any:
        key = (metric, labels)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = metric.labels(*labels)
        return child

    def answered(self, method: str, route: str, status: str, version: str, seconds: float) -> None:
        if method not in METHODS:
            method = OTHER
        self._child(self._requests, method, route, status, version).inc()
        self._child(self._latencies, method, route).observe(seconds)

    def conflicted(self, code: str) -> None:
        self._child(self._conflicts, code).inc()

    def searched(self, found: int, *, whole: bool) -> None:
        self._candidates.observe(found)
        if not whole:
            self._bounded.inc()

    def lost_race(self) -> None:
        self._races.inc()

    def gave_up(self) -> None:
        self._given_up.inc()

    def looked(self) -> None:
        self._looks.inc()
        if self._true_at is None:
            # not defined before the first check, because an idle worker would report a snapshot of 1970
            self._true_at = self._define_true_at()
        self._true_at.set(time.time())

    def refreshed(self, seconds: float, *, whole: bool) -> None:
        self._child(self._refreshes, "whole" if whole else "changes").observe(seconds)

    def compared(self, *, differs: bool) -> None:
        self._child(self._comparisons, "true" if differs else "false").inc()

    def pool_changed(self, pool: str, *, opened: int = 0, taken: int = 0) -> None:
        if opened:
            self._child(self._pools, pool, "open").inc(opened)
        if taken:
            self._child(self._pools, pool, "in_use").inc(taken)

    def render(self) -> bytes:
        """Return the metrics of all processes that share a directory, as text."""
        import prometheus_client
        from prometheus_client import multiprocess

        if self.directory is None:
            return prometheus_client.generate_latest(self._registry)
        with _reading(self.directory):
            _forget_the_dead(self.directory, multiprocess.mark_process_dead)
            registry = prometheus_client.CollectorRegistry()
            collect: Any = multiprocess.MultiProcessCollector
            collect(registry, str(self.directory))
            for _ in range(READINGS - 1):
                # another process may be creating its file, which is empty for a moment
                with contextlib.suppress(struct.error):
                    return prometheus_client.generate_latest(registry)
                time.sleep(READING_PAUSE)
            return prometheus_client.generate_latest(registry)


def find_directory() -> Path | None:
    """Return the directory that processes share, created if it does not exist; None for a single process.

    :raises CannotCount: it cannot be created or written to
    """
    name = os.environ.get(DIRECTORY_VARIABLE)
    if not name:
        return None
    directory = Path(name)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise CannotCount(
            f"{DIRECTORY_VARIABLE} is {name}, which cannot be made: {error.strerror}"
        ) from error
    if not os.access(directory, os.W_OK | os.X_OK):
        raise CannotCount(
            f"{DIRECTORY_VARIABLE} is {name}, which cannot be written to; name a directory of this user's"
        )
    return directory


def _forget_the_dead(directory: Path, forget: Callable[[int, str], object]) -> None:
    """Remove the numbers of ended processes that hold for living ones only, such as connections.

    Remove files, too, that a process left empty because it was killed while it created them.
    """
    for path in directory.glob("*_*.db"):
        pid = _find_process(path)
        # another worker may remove the same file
        with contextlib.suppress(FileNotFoundError):
            is_empty = path.stat().st_size == 0
            if not (is_empty or path.name.startswith("gauge_live")) or _is_alive(pid):
                continue
            if is_empty:
                path.unlink()
            else:
                forget(pid, str(directory))


def _find_process(path: Path) -> int:
    return int(path.stem.rpartition("_")[2])


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        # another user's process may have the id of one that ended
        return False
    return True


@contextlib.contextmanager
def _reading(directory: Path, *, alone: bool = False) -> Iterator[None]:
    """Hold the lock under which files of ended processes are added up; without locks, go on without."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            file = stack.enter_context((directory / "merge.lock").open("w"))
            fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


def _merge_the_dead(directory: Path) -> None:
    """Add the counters of ended processes to one file for each kind, if there are many.

    The sums are written beside the old file and replace it whole. No scrape reads meanwhile: `_reading`. If
    this process is killed between the replacement and the removals, the counters show more than there was.
    """
    from prometheus_client.mmap_dict import MmapedDict

    dead: dict[str, list[Path]] = defaultdict(list)
    with _reading(directory, alone=True):
        for path in directory.glob("*_*.db"):
            kind, _, _ = path.stem.rpartition("_")
            pid = _find_process(path)
            if (
                kind in ("counter", "histogram")
                and pid != ENDED
                and not _is_alive(pid)
                and path.stat().st_size
            ):
                dead[kind].append(path)
        for kind, paths in dead.items():
            if len(paths) <= MOST_ENDED:
                continue
            sums: dict[str, float] = defaultdict(float)
            whole, draft = directory / f"{kind}_{ENDED}.db", directory / f"{kind}.new"
            for path in [*paths, *([whole] if whole.exists() else [])]:
                read: Any = MmapedDict.read_all_values_from_file
                for key, value, *_ in read(str(path)):
                    sums[key] += value
            draft.unlink(missing_ok=True)
            file: Any = MmapedDict(str(draft))  # type: ignore[no-untyped-call]
            for key, value in sums.items():
                file.write_value(key, value, 0.0)
            file.close()
            draft.replace(whole)
            for path in paths:
                path.unlink()
