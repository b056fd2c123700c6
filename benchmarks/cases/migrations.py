# SPDX-License-Identifier: Apache-2.0
"""Migrations from nova beside those of nova-manage: each once with all to do, and once with nothing left.

Both sides speak to our server, on databases with the same content.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import clouds, environments, nova
from benchmarks.case import Case, Prepare, Probe, Reading, Scale, Side, Workspace
from benchmarks.clouds import FLAT
from benchmarks.commands import run
from benchmarks.figure import Figure, Target
from benchmarks.requesting import Client
from benchmarks.servers import OURS, Server, serving

#: the name of a figure, the words of each side, and how many times faster ours has to be
STEPS = (
    ("mirror", ("mirror-aggregates",), ("sync_aggregates",), 15),
    ("mirror again", ("mirror-aggregates",), ("sync_aggregates",), 30),
    ("heal", ("heal-allocations",), ("heal_allocations", "--skip-port-allocations"), 20),
    ("heal again", ("heal-allocations",), ("heal_allocations", "--skip-port-allocations"), 30),
    ("audit", ("audit",), ("audit",), 15),
)
#: nova-manage ends with 4 where it found nothing to heal
STATUSES = (0, 4)

#: the whole command but the words of a step, from the workspace and nova.conf
Program = Callable[[Workspace, Path], Sequence[str]]


def make_cases(scale: Scale) -> Iterator[Case]:
    """One case, whose figures are taken one after the other on the same databases."""
    size = nova.Size(hosts=scale.size(1000), instances=scale.size(10_000), aggregates=scale.size(50))
    targets = {name: Target(times=times) for name, _, _, times in STEPS}
    yield Case(
        name="migrations",
        title=f"migrations, {size.hosts:,} hosts, {size.instances:,} instances",
        figures=tuple(Figure(name, "s") for name, *_ in STEPS),
        reference=Side("nova-manage", _migrating(size, _theirs, 2)),
        ours=(Side("placement-migrate", _migrating(size, _ours, 1), targets),),
        samples=1,
        warm_up=0,
        budget=1800,
    )


def _ours(workspace: Workspace, conf: Path) -> Sequence[str]:
    return (str(workspace.ours / "placement-migrate"), "--config-file", str(conf))


def _theirs(_workspace: Workspace, conf: Path) -> Sequence[str]:
    binaries = environments.compile_all(environments.make_nova())
    return (str(binaries / "nova-manage"), "--config-file", str(conf), "placement")


def _migrating(size: nova.Size, program: Program, words: int) -> Prepare:
    @contextlib.contextmanager
    def prepare(workspace: Workspace) -> Iterator[Sequence[Probe]]:
        cloud = replace(FLAT, trees=size.hosts, held={})
        with (
            serving(workspace, OURS, cloud) as server,
            nova.filled(workspace.directory, server.url, size) as conf,
        ):
            command = program(workspace, conf)
            steps = {step[0]: (*command, *step[words]) for step in STEPS}  # type: ignore[misc]
            yield [lambda: _migrate(steps, workspace, server, size)]

    return prepare


def _migrate(
    steps: dict[str, tuple[str, ...]], workspace: Workspace, server: Server, size: nova.Size
) -> Reading:
    seconds = {name: run(words, workspace.directory, STATUSES).seconds for name, words in steps.items()}
    _check(server, size)
    return seconds


def _check(server: Server, size: nova.Size) -> None:
    """Both sides have to leave the same behind."""
    client = Client(server.url)
    for number in (0, size.hosts - 1):
        rack = clouds.make_uuid(f"rack{number % size.aggregates}")
        if rack not in client.get(f"/resource_providers/{clouds.root_uuid(number)}/aggregates").body.decode():
            raise RuntimeError(f"host {number} is not in its aggregate")
    for number in (0, size.instances - 1):
        answer = json.loads(client.get(f"/allocations/{nova.instance_uuid(number)}").body)
        if list(answer["allocations"]) != [clouds.root_uuid(number % size.hosts)]:
            raise RuntimeError(f"instance {number} does not hold what it should: {answer}")
