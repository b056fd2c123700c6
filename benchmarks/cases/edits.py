# SPDX-License-Identifier: Apache-2.0
"""How late all answers show what an operator changes by SQL under servers of two workers, and at what cost.

The rows that change are not recorded, and no generation moves. With ``other_programs_write``, each query
reads the whole database.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import sqlalchemy as sa

from benchmarks import clouds, databases
from benchmarks.case import Case, Prepare, Probe, Reading, Scale, Side, Workspace
from benchmarks.cases.flat import QUERY
from benchmarks.clouds import PRODUCTION, Cloud
from benchmarks.figure import Figure, Target
from benchmarks.processes import ProcessorMeter
from benchmarks.questions import ask, candidates
from benchmarks.requesting import Client
from benchmarks.servers import OURS_ITSELF, REFERENCE, Implementation, Server, serving

HOSTS = (10_000, 50_000)
#: openstack-placement takes 20 s and more for each query of a larger cloud
LARGEST_OF_REFERENCE = 10_000
LATE = Figure("until all answers show an edit, longest", "s", summary=max)
COST = Figure("processor time of a server meanwhile, of a second", "ms", is_compared=False)
QUESTION = candidates("candidates, limit=10", f"{QUERY}&limit=10", 10)
#: answers in a row that have to be right, each on a new connection, which any worker may accept
ANSWERS = 12
PATIENCE = 300.0
POLL = 0.1
AT_ONCE = {"OS_PLACEMENT_DATABASE__OTHER_PROGRAMS_WRITE": "true"}


def make_cases(scale: Scale) -> Iterator[Case]:
    """A case for each size of the cloud."""
    for full in HOSTS:
        hosts = scale.size(full)
        # as many traits as nova reports of a host
        tree = replace(PRODUCTION.tree, traits=tuple(f"CUSTOM_{number}" for number in range(60)))
        cloud = replace(PRODUCTION, tree=replace(tree, traits=(*PRODUCTION.tree.traits, *tree.traits)))
        yield Case(
            name=f"edits-{full}",
            title=f"edits by SQL, {hosts:,} hosts with 60 traits and ten instances each",
            figures=(LATE, QUESTION.figure, COST),
            reference=Side("openstack-placement", _editing(REFERENCE, cloud.with_trees(hosts)))
            if full <= LARGEST_OF_REFERENCE
            else None,
            ours=tuple(
                Side(
                    f"ours on {kind.__name__}{', other_programs_write' if variables else ''}",
                    _editing(OURS_ITSELF, cloud.with_trees(hosts), kind, **variables),
                    {LATE.name: Target(at_most=15 if full == min(HOSTS) else 60)},
                )
                for kind, variables in itertools.product(
                    (databases.mariadb, databases.postgresql, databases.sqlite), ({}, AT_ONCE)
                )
            ),
            samples=5,
            budget=600.0,
        )


def _editing(
    implementation: Implementation,
    cloud: Cloud,
    database: databases.Kind = databases.mariadb,
    **variables: str,
) -> Prepare:
    @contextlib.contextmanager
    def prepare(workspace: Workspace) -> Iterator[Sequence[Probe]]:
        with (
            serving(workspace, implementation, cloud, database=database, **variables) as server,
            contextlib.closing(_Operator(server.database)) as operator,
        ):
            yield [lambda: _edit(server, operator, cloud)]

    return prepare


class _Operator:
    """Somebody who runs SQL."""

    def __init__(self, url: str) -> None:
        self._engine = sa.create_engine(url)

    def reserve(self, uuid: str) -> None:
        """Reserve all that a host has."""
        with self._engine.begin() as connection:
            connection.execute(
                sa.text(
                    "UPDATE inventories SET reserved = total WHERE resource_provider_id ="
                    " (SELECT id FROM resource_providers WHERE uuid = :uuid)"
                ),
                {"uuid": uuid},
            )

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()


def _edit(server: Server, operator: _Operator, cloud: Cloud) -> Reading:
    reading = dict(ask(server, QUESTION))
    # not in the time of an edit before
    time.sleep(random.uniform(0, 3))
    host = clouds.root_uuid(random.randrange(cloud.trees))
    path = f"/allocation_candidates?resources=VCPU:1&in_tree={host}"
    operator.reserve(host)
    began = last = time.monotonic()
    right = 0
    with ProcessorMeter({"server": server.pid}) as meter:
        while right < ANSWERS:
            with Client(server.url, timeout=PATIENCE) as client:
                is_right = b'"allocation_requests": []' in client.get(path).body.replace(b":[", b": [")
            right = right + 1 if is_right else 0
            if not is_right:
                last = time.monotonic()
                time.sleep(POLL)
    seconds = time.monotonic() - began
    return {**reading, LATE.name: last - began, COST.name: 1000 * meter.spent["server"] / seconds}
