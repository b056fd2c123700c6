# SPDX-License-Identifier: Apache-2.0
"""From the start of a server to its first answer: on a database in use, and on nothing at all.

With the first candidates after it, which may have more to load than those that follow.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import databases
from benchmarks.case import Case, Prepare, Probe, Reading, Scale, Side, Workspace
from benchmarks.cases.flat import QUERY
from benchmarks.clouds import FLAT, Cloud
from benchmarks.figure import Figure, Target
from benchmarks.questions import ask, candidates
from benchmarks.servers import OURS, OURS_ITSELF, REFERENCE, Implementation, Server, prepared, started

START = Figure("start to first answer", "s")
FRESH = Figure("tables made, to first answer", "s")
QUESTION = candidates("first candidates, limit=10", f"{QUERY}&limit=10", 10)


def make_cases(scale: Scale) -> Iterator[Case]:
    """Two cases, of which every sample starts the server anew."""
    hosts = scale.size(10_000)
    cloud = FLAT.with_trees(hosts)
    yield Case(
        name="start",
        title=f"start, {hosts:,} hosts",
        figures=(START, QUESTION.figure),
        reference=Side("openstack-placement", _starting(REFERENCE, cloud)),
        ours=(
            Side("our server", _starting(OURS, cloud), {START.name: Target(times=2)}),
            Side("placement-server serve", _starting(OURS_ITSELF, cloud)),
        ),
    )

    yield Case(
        name="start-fresh",
        title="start with an empty SQLite database",
        figures=(FRESH,),
        reference=Side("openstack-placement", _starting_fresh(REFERENCE)),
        ours=(
            Side("our server", _starting_fresh(OURS)),
            Side("placement-server serve", _starting_fresh(OURS_ITSELF)),
        ),
    )


def _starting(implementation: Implementation, cloud: Cloud) -> Prepare:
    @contextlib.contextmanager
    def prepare(workspace: Workspace) -> Iterator[Sequence[Probe]]:
        with prepared(workspace, implementation, cloud) as server:
            yield [lambda: _start(server)]

    return prepare


def _starting_fresh(implementation: Implementation) -> Prepare:
    @contextlib.contextmanager
    def prepare(workspace: Workspace) -> Iterator[Sequence[Probe]]:
        with prepared(workspace, implementation, None, database=databases.sqlite) as server:
            yield [lambda: _start_fresh(server, workspace.directory)]

    return prepare


def _start_fresh(server: Server, directory: Path) -> Reading:
    for file in directory.glob("placement.db*"):
        file.unlink()
    began = time.monotonic()
    server.make_tables()
    with started(server):
        return {FRESH.name: time.monotonic() - began}


def _start(server: Server) -> Reading:
    with started(server) as seconds:
        return {START.name: seconds, **ask(server, QUESTION)}
