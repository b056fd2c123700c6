# SPDX-License-Identifier: Apache-2.0
"""Twenty-four clients that claim one core at a time of one and the same provider, until it has none left."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence

from benchmarks import storm
from benchmarks.case import Case, Prepare, Probe, Reading, Scale, Side, Workspace
from benchmarks.clouds import Cloud, Node, root_uuid
from benchmarks.figure import Figure, Target
from benchmarks.servers import OURS, OURS_ITSELF, REFERENCE, Implementation, Server, serving

CLIENTS = 24
CAPACITY = 500
#: seconds after which what is left is not waited for
LONGEST = 60.0
SAMPLES = 3
RATE = Figure("claims accepted", "per s", more_is_better=True)
HANDED_OUT = Figure("handed out", "%", is_compared=False)
CONFLICTS = Figure("refused for a conflict", "", is_compared=False)
TARGETS = {RATE.name: Target(at_least=100), HANDED_OUT.name: Target(at_least=100, at_most=100)}


def make_cases(scale: Scale) -> Iterator[Case]:
    """One case; each sample has a full provider of its own."""
    cores = scale.size(CAPACITY)
    yield Case(
        name="hot-provider",
        title=f"{CLIENTS} clients claim from one provider of {cores}",
        figures=(RATE, HANDED_OUT, CONFLICTS),
        reference=Side("openstack-placement", _claiming(REFERENCE, cores)),
        ours=(
            Side("our server", _claiming(OURS, cores), TARGETS),
            Side("placement-server serve", _claiming(OURS_ITSELF, cores), TARGETS),
        ),
        samples=SAMPLES,
        budget=4 * LONGEST,
    )


def _claiming(implementation: Implementation, cores: int) -> Prepare:
    @contextlib.contextmanager
    def prepare(workspace: Workspace) -> Iterator[Sequence[Probe]]:
        cloud = Cloud(trees=50, tree=Node("host", {"VCPU": cores}))
        numbers = itertools.count()
        with serving(workspace, implementation, cloud) as server:
            yield [lambda: _storm(server, root_uuid(next(numbers)), cores)]

    return prepare


def _storm(server: Server, provider: str, cores: int) -> Reading:
    outcome = storm.finish(storm.start(server.url, clients=CLIENTS, seconds=LONGEST, provider=provider))
    return {
        RATE.name: outcome.rate,
        HANDED_OUT.name: 100 * outcome.accepted / cores,
        CONFLICTS.name: outcome.conflicts,
    }
