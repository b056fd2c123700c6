# SPDX-License-Identifier: Apache-2.0
"""The metrics of inventories and usage for Prometheus: by class, by aggregate, and by provider.

The text is made from the snapshot and kept for a second, for all workers if they share a directory. So the
database is asked at most once a second, regardless of the number and frequency of scrapes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from osc_placement.server import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from osc_placement.candidates.node import Node, Stock

    #: labels and values of a metric
    _Samples = Iterable[tuple[Mapping[str, str], float]]

LOG = logging.getLogger(__name__)

#: seconds for which a text is returned again
FRESH: Final = 1.0
#: seconds for which the usage of projects is returned again, which takes a query of all allocations
PROJECTS_FRESH: Final = 30.0
#: seconds for which the numbers of flavors are returned again, which take 15 ms for 10,000 hosts and a flavor
FLAVORS_FRESH: Final = 60.0
#: seconds that a scrape waits for another one that waits for the database; Prometheus itself waits for ten
PATIENCE: Final = 5.0
#: seconds between two attempts to take the lock of another worker
PAUSE: Final = 0.02
TEXT_FILE: Final = "cloud.txt"
LOCK_FILE: Final = "cloud.lock"


class CloudMetrics:
    """The metrics text of one cloud, made at most once a second."""

    def __init__(
        self,
        read_nodes: Callable[[], Sequence[Node]],
        directory: Path | None,
        *,
        by_provider: bool,
        exporter_names: bool = False,
        read_projects: Callable[[], Sequence[tuple[str, str, int]]] | None = None,
        read_flavors: Callable[[], Sequence[tuple[str, int]]] | None = None,
    ) -> None:
        """Create it without a text; the first `get` makes one.

        :param read_nodes: returns the present providers, or raises `errors.Unavailable`
        :param directory: the directory that the workers share, if there are several
        :param exporter_names: whether providers are described in the names of openstack-exporter, too
        :param read_projects: returns project, class and usage; None to leave projects out
        :param read_flavors: returns flavor and how many of its instances fit; None to leave flavors out
        """
        self._read_nodes = read_nodes
        self._directory = directory
        self._by_provider = by_provider
        self._exporter_names = exporter_names
        self._more: list[_Kept] = []
        if read_projects is not None:
            self._more.append(
                _Kept(
                    "project_used",
                    "What the consumers of a project hold.",
                    lambda: (
                        ({"project": project, "resource_class": name}, amount)
                        for project, name, amount in read_projects()
                    ),
                    PROJECTS_FRESH,
                )
            )
        if read_flavors is not None:
            self._more.append(
                _Kept(
                    "flavor_free",
                    "How many more instances of a flavor fit.",
                    lambda: (({"flavor": name}, count) for name, count in read_flavors()),
                    FLAVORS_FRESH,
                )
            )
        self._turn = threading.Lock()
        self._made: tuple[float, bytes] | None = None

    def get(self) -> bytes:
        """Return the text, at most a second old, or one that says that the database is not available.

        Among all workers, one thread waits for the database without a limit; the others wait for `PATIENCE`.
        """
        deadline = time.monotonic() + PATIENCE
        if not self._turn.acquire(timeout=PATIENCE):
            return _describe_nothing()
        try:
            if self._made is None or not 0 <= time.time() - self._made[0] < FRESH:
                directory = self._directory
                self._made = self._make() if directory is None else self._share(directory, deadline)
            return self._made[1]
        except _TookTooLong:
            return _describe_nothing()
        finally:
            self._turn.release()

    def _share(self, directory: Path, deadline: float) -> tuple[float, bytes]:
        """Return the text that another worker made just now, or make it and store it, if there is space.

        :raises _TookTooLong: another worker is making it and takes too long
        """
        path = directory / TEXT_FILE
        made = None
        try:
            with _locked(directory / LOCK_FILE, deadline):
                with contextlib.suppress(FileNotFoundError):
                    moment = path.stat().st_mtime
                    if 0 <= time.time() - moment < FRESH:
                        return moment, path.read_bytes()
                made = self._make()
                _write(path, *made)
        except OSError as error:
            LOG.warning("each worker makes its own metrics of the cloud: %s: %s", directory, error.strerror)
        return made or self._make()

    def _make(self) -> tuple[float, bytes]:
        try:
            nodes = self._read_nodes()
            more = "".join(kept.get() for kept in self._more)
        except errors.Unavailable as error:
            LOG.warning("the metrics of the cloud are left out: %s", error)
            return time.time(), _describe_nothing()
        text = "".join(_describe(nodes, by_provider=self._by_provider))
        if self._exporter_names:
            text += "".join(_describe_as_exporter(nodes))
        return time.time(), (text + more).encode()


class _Kept:
    """The text of a gauge whose samples are expensive to read; it is returned again for some seconds."""

    def __init__(self, name: str, text: str, read_samples: Callable[[], _Samples], fresh: float) -> None:
        self._name = name
        self._text = text
        self._read_samples = read_samples
        self._fresh = fresh
        self._made: tuple[float, str] | None = None

    def get(self) -> str:
        """Return the text."""
        if self._made is None or time.monotonic() - self._made[0] > self._fresh:
            text = "".join(_family(self._name, self._text, self._read_samples()))
            self._made = time.monotonic(), text
        return self._made[1]


class _TookTooLong(Exception):
    """The holder of a lock does not release it in time."""


def _write(path: Path, moment: float, text: bytes) -> None:
    """Store a text for the other workers.

    Raise OSError if there is no space for it, or it would take more than half of the free space. The counters
    need the rest: a process that writes to a mapped file of counters for which the memory has no page left is
    killed by the system.
    """
    draft = path.with_suffix(".new")
    # only the holder of the lock reads it, so the old text is deleted first to save space
    for old in (path, draft):
        old.unlink(missing_ok=True)
    free = os.statvfs(path.parent)
    if 2 * len(text) > free.f_bavail * free.f_frsize:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    try:
        draft.write_bytes(text)
        os.utime(draft, (moment, moment))
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _locked(path: Path, deadline: float) -> Iterator[None]:
    """Hold the lock of a file; raise _TookTooLong if another process holds it until the deadline."""
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise _TookTooLong from None
            time.sleep(PAUSE)
        yield


class _Sums(NamedTuple):
    """The sums of one resource class."""

    inventory: int = 0
    reserved: int = 0
    capacity: int = 0
    used: int = 0

    def plus(self, stock: Stock) -> _Sums:
        inventory = stock.inventory
        return _Sums(
            self.inventory + inventory.total,
            self.reserved + inventory.reserved,
            self.capacity + inventory.capacity,
            self.used + stock.used,
        )


#: the characters that are escaped in a label
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_DATABASE_UP: Final = "Whether the database answers."
_TEXTS: Final[Mapping[str, str]] = {
    # this is the total; names that end with _total are reserved for counters
    "inventory": "What there is of a resource class",
    "reserved": "What is kept from allocations",
    "capacity": "What may be allocated, by what is not reserved and the allocation ratio,",
    "used": "What is allocated",
}


def _describe_nothing() -> bytes:
    return "".join(_family("database_up", _DATABASE_UP, [({}, 0)])).encode()


def _describe(nodes: Sequence[Node], *, by_provider: bool) -> Iterator[str]:
    yield from _family("database_up", _DATABASE_UP, [({}, 1)])
    yield from _family("providers", "Resource providers.", [({}, len(nodes))])
    by_class: dict[str, _Sums] = {}
    by_aggregate: dict[tuple[str, str], _Sums] = {}
    members: dict[str, int] = {}
    for node in nodes:
        for aggregate in node.aggregates:
            members[aggregate] = members.get(aggregate, 0) + 1
        for name, stock in node.stocks.items():
            by_class[name] = by_class.get(name, _Sums()).plus(stock)
            for aggregate in node.aggregates:
                key = aggregate, name
                by_aggregate[key] = by_aggregate.get(key, _Sums()).plus(stock)
    counts = [({"aggregate": name}, count) for name, count in sorted(members.items())]
    yield from _family("aggregate_providers", "Resource providers in an aggregate.", counts)
    yield from _sums(
        "resource", "", [({"resource_class": name}, by_class[name]) for name in sorted(by_class)]
    )
    labelled = [
        ({"aggregate": aggregate, "resource_class": name}, by_aggregate[aggregate, name])
        for aggregate, name in sorted(by_aggregate)
    ]
    yield from _sums("aggregate", " in an aggregate", labelled)
    if by_provider:
        of_each = [
            ({"provider": node.name, "uuid": node.uuid, "resource_class": name}, _Sums().plus(stock))
            for node in nodes
            for name, stock in node.stocks.items()
        ]
        yield from _sums("provider", " at a provider", of_each)


def _describe_as_exporter(nodes: Sequence[Node]) -> Iterator[str]:
    """Yield what openstack-exporter tells about inventories, with the labels that its dashboards select by.

    Source: the collector of placement in github.com/openstack-exporter/openstack-exporter.
    """
    prefix = "openstack_placement_"
    stocks = [
        ({"hostname": node.name, "resourcetype": name}, stock)
        for node in nodes
        for name, stock in node.stocks.items()
    ]
    yield from _family("up", "Whether placement answers.", [({}, 1)], prefix)
    for name, text, read in _EXPORTER:
        samples = ((labels, read(stock)) for labels, stock in stocks)
        yield from _family(f"resource_{name}", text, samples, prefix)


_EXPORTER: Final[tuple[tuple[str, str, Callable[[Stock], float]], ...]] = (
    ("total", "What a provider has of a resource class.", lambda stock: stock.inventory.total),
    ("reserved", "What is kept from allocations.", lambda stock: stock.inventory.reserved),
    ("allocation_ratio", "The allocation ratio.", lambda stock: stock.inventory.allocation_ratio),
    ("usage", "What is allocated.", lambda stock: stock.used),
)


def _sums(prefix: str, where: str, sums: Sequence[tuple[Mapping[str, str], _Sums]]) -> Iterator[str]:
    for index, (field, text) in enumerate(_TEXTS.items()):
        yield from _family(
            f"{prefix}_{field}", f"{text}{where}.", ((labels, sums_[index]) for labels, sums_ in sums)
        )


def _family(name: str, text: str, samples: _Samples, prefix: str = "placement_") -> Iterator[str]:
    """Yield the lines of a gauge; without samples, its help text still shows that it exists."""
    name = f"{prefix}{name}"
    yield f"# HELP {name} {text}\n# TYPE {name} gauge\n"
    for labels, value in samples:
        inner = ",".join([f'{key}="{label.translate(_ESCAPES)}"' for key, label in labels.items()])
        # a large ratio makes a capacity exceed the range of Prometheus
        number = str(value) if abs(value) <= sys.float_info.max else "+Inf" if value > 0 else "-Inf"
        yield f"{name}{{{inner}}} {number}\n" if inner else f"{name} {number}\n"
