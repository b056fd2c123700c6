# SPDX-License-Identifier: Apache-2.0
"""What a benchmark is: a Case of several Sides, and a Workspace in which they run.

How a case is run is in runner.py, its arithmetic in figure.py, what it starts in servers.py, the cases
themselves in cases/.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from benchmarks.figure import Figure, Target

#: by name of figure, what was measured: one value or many
Reading = Mapping[str, float | Sequence[float]]
#: do the measured thing once
Probe = Callable[[], Reading]
#: set up (servers, data), yield the probes, tear down; raise Unavailable if it cannot be
Prepare = Callable[["Workspace"], AbstractContextManager[Sequence[Probe]]]


class Unavailable(Exception):
    """Something that a side needs is not on this machine; the message says what."""


@dataclass(frozen=True)
class Workspace:
    """Where a side works, and the environments that it runs programs from: their bin directories."""

    directory: pathlib.Path
    #: where this project is installed
    ours: pathlib.Path
    #: openstack-placement and its plugin
    reference: pathlib.Path
    #: OpenStackClient without any plugin for placement
    bare: pathlib.Path


@dataclass(frozen=True)
class Scale:
    """How much smaller than the full size the clouds are, and how much shorter the storms."""

    divisor: int = 1

    def size(self, full: int) -> int:
        """How many there are of what there are so many of at the full size."""
        return full if self.divisor == 1 else max(full // self.divisor, 10)

    def seconds(self, full: float) -> float:
        """How long something lasts that lasts so long at the full size."""
        return full if self.divisor == 1 else max(full / self.divisor, 1.0)


@dataclass(frozen=True)
class Side:
    """One of the things compared in a case, with what its figures have to reach, by name of figure."""

    name: str
    prepare: Prepare
    targets: Mapping[str, Target] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """Figures of the project beside those of the reference, taken in the same run."""

    name: str
    title: str
    figures: tuple[Figure, ...]
    ours: tuple[Side, ...]
    #: None where the reference has nothing of the kind
    reference: Side | None = None
    #: rounds that count
    samples: int = 7
    #: rounds that are thrown away first, unless they are all there are: cold files, first plans
    warm_up: int = 1
    #: seconds that a probe of one side may take in all its rounds; one that took longer is not used again
    budget: float = 60.0

    @property
    def sides(self) -> tuple[Side, ...]:
        """All of them, the reference first."""
        return ((self.reference,) if self.reference else ()) + self.ours
