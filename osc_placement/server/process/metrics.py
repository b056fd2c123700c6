# SPDX-License-Identifier: Apache-2.0
"""The metrics of the server's work, in the text format of Prometheus.

The worker processes of one service count in files of one directory, so that each of them can report the
numbers of all: this is prometheus_client's multiprocess mode. It is on if the environment names the
directory, which ``placement-server serve`` does by itself; a process that serves alone keeps its numbers in
memory.

PERF: counting a request takes 4 µs, or 8 with shared numbers, because the children of metrics are found in a
dictionary of our own. To measure it again: ``tests/functional/server/test_metrics.py``, which allows 20.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from osc_placement.server.observer import Observer

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

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


class CannotCount(Exception):
    """An error: the directory for the numbers of all processes cannot be used; the text says why."""


class Metrics(Observer):
    """The metrics of one application; any thread may add to them."""

    def __init__(self) -> None:
        """Start all metrics at zero; :raises CannotCount: the directory in the environment cannot be used."""
        self.directory = find_directory()
        # it chooses the place of numbers at import, so `serve` has to name the directory before
        import prometheus_client

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
            "snapshot_comparisons", "Comparisons of the snapshot with the whole database.", "differs"
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

        registry = self._registry
        if self.directory is not None:
            _forget_the_dead(self.directory, multiprocess.mark_process_dead)
            registry = prometheus_client.CollectorRegistry()
            collect: Any = multiprocess.MultiProcessCollector
            collect(registry, str(self.directory))
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
    """Remove the numbers of ended processes that hold for living ones only, such as connections."""
    for path in directory.glob("gauge_live*_*.db"):
        pid = int(path.stem.rpartition("_")[2])
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, PermissionError):
            # it ended; another user's process may have its id, and another worker may remove the same file
            with contextlib.suppress(FileNotFoundError):
                forget(pid, str(directory))
