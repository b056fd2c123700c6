# SPDX-License-Identifier: Apache-2.0
"""Our commands that read all providers: of our server in bulk, of the reference by a request for each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from benchmarks.case import Case, Prepare, Probe, Reading, Scale, Side, Unavailable, Workspace
from benchmarks.clouds import FLAT, Cloud
from benchmarks.commands import Shell
from benchmarks.figure import Figure, Target
from benchmarks.servers import OURS, REFERENCE, Implementation, serving

COMMANDS = {
    "capacity": ("resource", "provider", "capacity", "-f", "csv"),
    "export": ("resource", "provider", "export"),
}
#: the columns that need no request for each provider
FEW_COLUMNS = ("-c", "provider", "-c", "resource_class", "-c", "capacity", "-c", "used")
TIME = Figure("time", "s")
MEMORY = Figure("memory of the client", "MiB")
MOST_MEMORY = Target(at_most=300)


def make_cases(scale: Scale) -> Iterator[Case]:
    """A case for each command; the plugin of the reference has none of the kind."""
    hosts = scale.size(10_000)
    cloud = FLAT.with_trees(hosts)
    for name, words in COMMANDS.items():
        sides = [
            Side("our server", _reading(OURS, cloud, words), _targets(5)),
            Side("openstack-placement", _reading(REFERENCE, cloud, words), _targets(60)),
        ]
        if name == "capacity":
            few = _reading(REFERENCE, cloud, (*words, *FEW_COLUMNS))
            sides.append(Side("openstack-placement, without what is reserved", few, _targets(60)))
        yield Case(
            name=name,
            title=f"{name}, {hosts:,} providers",
            figures=(TIME, MEMORY),
            ours=tuple(sides),
            samples=3,
        )


def _targets(seconds: float) -> dict[str, Target]:
    return {TIME.name: Target(at_most=seconds), MEMORY.name: MOST_MEMORY}


def _reading(implementation: Implementation, cloud: Cloud, words: Sequence[str]) -> Prepare:
    @contextlib.contextmanager
    def prepare(workspace: Workspace) -> Iterator[Sequence[Probe]]:
        with serving(workspace, implementation, cloud) as server:
            shell = Shell(workspace.ours, workspace.directory, server.url)
            if not shell.has_option("--concurrency", *words[:3]):
                raise Unavailable(f"there is no {' '.join(words[:3])} yet")
            yield [lambda: _read(shell, words)]

    return prepare


def _read(shell: Shell, words: Sequence[str]) -> Reading:
    run = shell.openstack(*words)
    return {TIME.name: run.seconds, MEMORY.name: run.memory}
