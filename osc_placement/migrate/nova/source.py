# SPDX-License-Identifier: Apache-2.0
"""What a source of nova's facts offers.

A source answers or raises Unreadable. What could not be read is *unknown*: whoever asked reports it and
leaves its hosts and consumers alone, for unknown is never the same as absent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from typing import Final, Protocol

from osc_placement.errors import PlacementError
from osc_placement.flavor import Flavor
from osc_placement.migrate.nova.facts import (
    Cell,
    ComputeNode,
    HostAggregate,
    Instance,
    IronicNode,
    MigrationRecord,
)
from osc_placement.migrate.problem import Problem, Reason

#: what to do about a cell whose database is not what it should be
CHECK_CELL: Final = "check its database_connection with nova-manage cell_v2 list_cells --verbose"


class Unreadable(PlacementError):
    """Something of nova could not be read; ``subject`` is what, ``reason`` is why."""

    def __init__(self, subject: str, reason: str) -> None:
        self.subject = subject
        self.reason = reason
        super().__init__(f"{subject}: {reason}")

    @property
    def problem(self) -> Problem:
        """Return what to report where whatever depends on it is left unchanged."""
        return Problem(Reason.UNKNOWN, self.subject, self.reason)


class Source(Protocol):
    """Where nova's facts come from; every method may raise Unreadable."""

    @property
    def is_exhaustive(self) -> bool:
        """Whether what is not listed is not there; nova's API may leave out a slow cell without a word."""

    def list_aggregates(self) -> list[HostAggregate]:
        """All host aggregates."""

    def list_cells(self) -> list[Cell]:
        """The cells that have hosts: all but cell0, disabled ones included."""

    def map_hosts(self) -> dict[str, str]:
        """Return the UUID of the cell of each host; where there is no such cell, what names it."""

    def count_instances(self) -> Mapping[str, int]:
        """Return how many instances are mapped to each cell, by its UUID or by what names one that is gone.

        Nothing, where that is not told.
        """

    def list_compute_nodes(self, cell: Cell) -> list[ComputeNode]:
        """The compute nodes of a cell that are not deleted."""

    def iterate_instances(self, cell: Cell) -> Iterator[Instance]:
        """The instances of a cell that are not deleted."""

    def list_migrations(self, cell: Cell) -> list[MigrationRecord]:
        """The migrations of a cell that are not over."""

    def list_requested_builds(self) -> frozenset[str]:
        """UUIDs of instances that are being scheduled and may be in no cell yet."""

    def find_instances(self, uuids: Collection[str]) -> frozenset[str]:
        """Of instances that no list has shown, those that are there if each is asked for by itself.

        An instance that is hidden in every cell while it moves between two of them is there.
        """

    def find_migrations(self, cell: Cell, uuids: Collection[str]) -> list[MigrationRecord]:
        """Return those of a cell's migrations that have one of these UUIDs, in whatever state."""

    def find_lost(self, uuids: Collection[str]) -> Mapping[str, str]:
        """Return the instances that are mapped to a cell which has never heard of them, with what is so.

        Nothing, where mappings are not told.
        """

    def list_flavors(self) -> list[Flavor]:
        """The flavors that instances may be booted with, disabled ones included."""


class BareMetalSource(Protocol):
    """Where the nodes of Ironic come from."""

    def list_nodes(self) -> list[IronicNode]:
        """All nodes; Unreadable if they cannot be listed to the end."""


class ClosableSource(Source, Protocol):
    """A source that who opened it closes."""

    def prepare(self) -> None:
        """Do what the first read would have to wait for; Unreadable as that would be."""

    def close(self) -> None:
        """Give back what it has open."""


class Opening:
    """Calling it gives the source, once it is open, or raises why it cannot be.

    PERF: to load SQLAlchemy and to connect takes a third of a second, in which placement finds its answer.
    """

    def __init__(self, open_source: Callable[[], ClosableSource]) -> None:
        self._opened: Future[ClosableSource] = Future()
        # a daemon, or the end of the process would wait for a database that does not answer
        threading.Thread(target=self._open, args=(open_source,), daemon=True).start()

    def _open(self, open_source: Callable[[], ClosableSource]) -> None:
        try:
            source = open_source()
            source.prepare()
            self._opened.set_result(source)
        except BaseException as error:  # it is raised where the source is wanted
            self._opened.set_exception(error)

    def __call__(self) -> ClosableSource:
        return self._opened.result()

    def close(self) -> None:
        """Give back what the source has open, as soon as it is; nobody waits for that."""
        self._opened.add_done_callback(_close)


def _close(opened: Future[ClosableSource]) -> None:
    if opened.exception() is None:
        opened.result().close()
