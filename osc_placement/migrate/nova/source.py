# SPDX-License-Identifier: Apache-2.0
"""The interface of sources of nova's facts.

A source returns or raises Unreadable. A migration reports what is unreadable and leaves its hosts and
consumers unchanged, as unknown is never the same as absent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from typing import Final, Protocol

from osc_placement.errors import PlacementError
from osc_placement.flavor import Flavor
from osc_placement.migrate.nova.facts import (
    BootRequest,
    Cell,
    ComputeNode,
    ComputeService,
    HostAggregate,
    Image,
    Instance,
    IronicNode,
    Lost,
    MigrationRecord,
)
from osc_placement.migrate.nova.ports import Allocation, Port
from osc_placement.migrate.problem import Problem, Reason

#: what to do about a cell whose database is not what it should be
CHECK_CELL: Final = "check its database_connection with nova-manage cell_v2 list_cells --verbose"


class Unreadable(PlacementError):
    """An error: something of nova (``subject``) could not be read, for a ``reason``."""

    def __init__(self, subject: str, reason: str) -> None:
        self.subject = subject
        self.reason = reason
        super().__init__(f"{subject}: {reason}")

    @property
    def problem(self) -> Problem:
        """Return what to report where whatever depends on it is left unchanged."""
        return Problem(Reason.UNKNOWN, self.subject, self.reason)


class Source(Protocol):
    """A source of nova's facts; every method may raise Unreadable."""

    @property
    def is_exhaustive(self) -> bool:
        """Return whether lists are complete; nova's API may leave out a slow cell without an error."""

    def list_aggregates(self) -> list[HostAggregate]:
        """Return all host aggregates."""

    def list_cells(self) -> list[Cell]:
        """Return the cells that have hosts: all but cell0, disabled ones included."""

    def map_hosts(self) -> dict[str, str]:
        """Return the UUID of the cell of each host, or a name for a cell that is missing."""

    def count_instances(self) -> Mapping[str, int]:
        """Return how many instances are mapped to each cell, by its UUID or a name for a missing one.

        Empty if the source shows no mappings.
        """

    def list_compute_nodes(self, cell: Cell) -> list[ComputeNode]:
        """Return the compute nodes of a cell that are not deleted."""

    def list_former_nodes(self, cell: Cell) -> list[ComputeNode]:
        """Return the compute nodes of a cell that are deleted, as far as the source shows any."""

    def list_services(self, cell: Cell) -> Mapping[str, ComputeService]:
        """Return by host the nova-compute services of a cell."""

    def iterate_instances(self, cell: Cell) -> Iterator[Instance]:
        """Yield the instances of a cell that are not deleted."""

    def read_requests(self, cell: Cell, uuids: Collection[str]) -> Mapping[str, BootRequest]:
        """Return what these instances of a cell were requested with."""

    def list_unclaimed(self) -> Collection[str]:
        """Return the instances, deleted ones too, whose request has the scheduler hint of a rebuild."""

    def list_migrations(self, cell: Cell) -> list[MigrationRecord]:
        """Return the migrations of a cell that are not over."""

    def list_requested_builds(self) -> Mapping[str, datetime | None]:
        """Return when instances were requested that are being scheduled and may be in no cell yet."""

    def find_instances(self, uuids: Collection[str]) -> frozenset[str]:
        """Return the instances, of those in no list, that exist when nova is asked for each by itself.

        An instance that is hidden in every cell while it moves between two of them exists.
        """

    def find_migrations(self, cell: Cell, uuids: Collection[str]) -> list[MigrationRecord]:
        """Return those of a cell's migrations that have one of these UUIDs, in whatever state."""

    def find_lost(self, uuids: Collection[str]) -> Mapping[str, Lost]:
        """Return the instances that are mapped to no cell, or to one that has no row of them.

        Empty if the source shows no mappings.
        """

    def list_flavors(self) -> list[Flavor]:
        """Return the flavors that instances may be booted with, disabled ones included."""

    def list_images(self, cell: Cell) -> list[Image]:
        """Return the images of the instances of a cell, with those properties that ask for a trait."""

    def list_image_uuids(self, cell: Cell) -> list[str]:
        """Return the UUIDs of the images that the instances of a cell were made of."""


class BareMetalSource(Protocol):
    """A source of Ironic's nodes."""

    def list_nodes(self) -> list[IronicNode]:
        """Return all nodes; raise Unreadable if they cannot be listed to the end."""


class ImageSource(Protocol):
    """A source of glance's images."""

    def list_images(self) -> list[Image]:
        """Return all images; raise Unreadable if they cannot be listed to the end."""

    def sees_all(self) -> bool:
        """Return whether the images of everybody are listed; raise Unreadable if that cannot be told."""


class NetworkSource(Protocol):
    """A source of neutron's ports, which may write their binding profiles."""

    @property
    def way(self) -> str:
        """Return how binding profiles are written, in the words that follow "written"."""

    @property
    def batch(self) -> int:
        """Return the number of binding profiles that are written together at most."""

    def list_ports(self) -> list[Port]:
        """Return the ports of instances; raise Unreadable if it cannot."""

    def refuse(self, port: Port) -> str:
        """Return why the binding profile of a port is not written; empty if it may be."""

    def grant_all(self, grants: Sequence[tuple[Port, Allocation]]) -> Sequence[str]:
        """Write the providers of ports into their binding profiles.

        Return for each why it was not written, or nothing. Raise Unreadable if neutron cannot be reached.
        """


class ClosableSource(Source, Protocol):
    """A source with connections, which its opener closes."""

    def prepare(self) -> None:
        """Connect, so that the first read need not wait; raise Unreadable as it would."""

    def close(self) -> None:
        """Close the connections."""


class Opening:
    """A source that a thread opens; a call returns it once it is open, or raises why it cannot be opened.

    PERF: to load SQLAlchemy and to connect takes a third of a second, in which placement is read.
    """

    def __init__(self, open_source: Callable[[], ClosableSource]) -> None:
        self._opened: Future[ClosableSource] = Future()

        def open_it() -> None:
            try:
                source = open_source()
                source.prepare()
                self._opened.set_result(source)
            except BaseException as error:  # it is raised where the source is wanted
                self._opened.set_exception(error)

        # a daemon, or the end of the process would wait for a database that does not answer
        threading.Thread(target=open_it, daemon=True).start()

    def __call__(self) -> ClosableSource:
        return self._opened.result()

    def close(self) -> None:
        """Close the source as soon as it is open, without waiting for that."""

        def close_it(opened: Future[ClosableSource]) -> None:
            if opened.exception() is None:
                opened.result().close()

        self._opened.add_done_callback(close_it)
