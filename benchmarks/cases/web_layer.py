# SPDX-License-Identifier: Apache-2.0
"""The processor time of a request outside the database: middleware, policy, log, metrics, headers, JSON."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
from collections.abc import Iterator, Sequence

from benchmarks import databases, web_layer
from benchmarks.case import Case, Prepare, Probe, Reading, Scale, Side, Workspace
from benchmarks.clouds import FLAT, root_uuid
from benchmarks.figure import Figure, Target
from benchmarks.servers import OURS, REFERENCE, Implementation, prepared

IN_MEMORY = Figure("GET inventories, in memory", "ms")
#: the figures by path: a request that needs no token and no policy, and one of those that computes send
FIGURES = {
    "/": Figure("GET /", "ms"),
    f"/resource_providers/{root_uuid(0)}/inventories": IN_MEMORY,
}
REQUESTS = 2000
HOSTS = 10


def make_cases(scale: Scale) -> Iterator[Case]:
    """One case, in the process of a server, as a container would call it."""
    count = scale.size(REQUESTS)
    targets = {IN_MEMORY.name: Target(times=4)}
    yield Case(
        name="web-layer",
        title="web layer, processor time",
        figures=tuple(FIGURES.values()),
        reference=Side("openstack-placement", _sending(REFERENCE, count)),
        ours=(Side("our server", _sending(OURS, count), targets),),
    )


def _sending(implementation: Implementation, count: int) -> Prepare:
    @contextlib.contextmanager
    def prepare(workspace: Workspace) -> Iterator[Sequence[Probe]]:
        with prepared(workspace, implementation, FLAT.with_trees(HOSTS), database=databases.sqlite) as server:
            # it makes the rest of what a server needs in its database
            server.start()
            server.stop()
            yield [lambda: _measure(workspace, implementation, count)]

    return prepare


def _measure(workspace: Workspace, implementation: Implementation, count: int) -> Reading:
    assert implementation.application is not None
    module = implementation.application.partition(":")[0]
    program = pathlib.Path(web_layer.__file__)
    done = subprocess.run(
        [implementation.binaries(workspace) / "python", program, module, str(count), *FIGURES],
        cwd=workspace.directory,
        env={**os.environ, "OS_PLACEMENT_CONFIG_DIR": str(workspace.directory)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    # the log comes before the result
    log, _, result = done.stdout.strip().rpartition("\n")
    if done.returncode:
        raise RuntimeError(f"{module} was not measured:\n{log[-3000:]}\n{result}")
    times = json.loads(result)
    return {figure.name: times[path] for path, figure in FIGURES.items()}
