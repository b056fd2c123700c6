# SPDX-License-Identifier: Apache-2.0
"""Eight clients that ask for candidates and claim one, on MariaDB with durable commits."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from benchmarks import storm
from benchmarks.case import Case, Prepare, Probe, Reading, Scale, Side, Workspace
from benchmarks.clouds import FLAT, Cloud
from benchmarks.figure import Figure, Target, p99
from benchmarks.servers import OURS, OURS_ITSELF, REFERENCE, Implementation, Server, serving

CLIENTS = 8
SECONDS = 10.0
RATE = Figure("claims accepted", "per s", more_is_better=True)
WRITE = Figure("PUT /allocations, median", "ms")
QUERY = Figure("candidates meanwhile, p99", "ms", summary=p99)
FAILURES = Figure("answers neither 2xx nor 409", "", is_compared=False)


def make_cases(scale: Scale) -> Iterator[Case]:
    """The rate on 1,000 hosts, and how long the slowest queries take meanwhile on 10,000."""
    seconds = scale.seconds(SECONDS)
    hosts = scale.size(1_000)
    title = f"{CLIENTS} clients claim, {hosts:,} hosts"
    yield _make_case("claims", title, FLAT.with_trees(hosts), seconds, {RATE.name: Target(times=20)})
    hosts = scale.size(10_000)
    title = f"{CLIENTS} clients claim, {hosts:,} hosts"
    yield _make_case("claims-10000", title, FLAT.with_trees(hosts), seconds, {QUERY.name: Target(times=20)})


def _make_case(name: str, title: str, cloud: Cloud, seconds: float, targets: dict[str, Target]) -> Case:
    targets = {**targets, FAILURES.name: Target(at_most=0)}
    return Case(
        name=name,
        title=title,
        figures=(RATE, WRITE, QUERY, FAILURES),
        reference=Side("openstack-placement", _claiming(REFERENCE, cloud, seconds)),
        ours=(
            Side("our server", _claiming(OURS, cloud, seconds), targets),
            Side("placement-server serve", _claiming(OURS_ITSELF, cloud, seconds), targets),
        ),
        samples=3,
    )


def _claiming(implementation: Implementation, cloud: Cloud, seconds: float) -> Prepare:
    @contextlib.contextmanager
    def prepare(workspace: Workspace) -> Iterator[Sequence[Probe]]:
        with serving(workspace, implementation, cloud) as server:
            yield [lambda: _storm(server, seconds)]

    return prepare


def _storm(server: Server, seconds: float) -> Reading:
    outcome = storm.finish(storm.start(server.url, clients=CLIENTS, seconds=seconds))
    return {
        RATE.name: outcome.rate,
        WRITE.name: outcome.writes,
        QUERY.name: outcome.queries,
        FAILURES.name: outcome.failures,
    }
