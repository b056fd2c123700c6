# SPDX-License-Identifier: Apache-2.0
"""What a benchmark is: a Case of several Sides, and a Workspace in which they run.

How a case is run is in runner.py, what it starts in servers.py, the cases themselves in cases/.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

#: do the measured thing once; the seconds it took
Sample = Callable[[], float]
#: set up (servers, data), yield what takes one sample, tear down; raise Unavailable before anything is made
Prepare = Callable[["Workspace"], AbstractContextManager[Sample]]


class Unavailable(Exception):
    """Something that a side needs is not on this machine; the message says what."""


@dataclass(frozen=True)
class Workspace:
    """Where the sides of one case work, and the two environments that they run programs from."""

    directory: pathlib.Path
    #: the bin directory of the environment in which this project is installed
    ours: pathlib.Path
    #: the bin directory of the environment with openstack-placement and its plugin
    reference: pathlib.Path


@dataclass(frozen=True)
class Side:
    """One of the things compared in a case."""

    name: str
    prepare: Prepare


@dataclass(frozen=True)
class Case:
    """A figure of the project beside that of the reference, taken in the same run."""

    name: str
    title: str
    reference: Side
    ours: tuple[Side, ...]
    #: seconds that ours may take, None if only the ratio counts
    target: float | None = None
    #: samples of each side that count
    samples: int = 7
    #: samples of each side that are thrown away first: cold files, first plans
    warm_up: int = 1
