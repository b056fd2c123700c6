# SPDX-License-Identifier: Apache-2.0
"""A scrape of the server's metrics, with the capacity and usage of every class and aggregate."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence

from benchmarks.case import Case, Prepare, Probe, Reading, Scale, Side, Workspace
from benchmarks.clouds import FLAT, Cloud
from benchmarks.figure import Figure, Target
from benchmarks.requesting import Client
from benchmarks.servers import OURS_ITSELF, serving

SCRAPE = Figure("scrape", "s")
#: seconds after which the server looks at the cloud once more
AGAIN = 1.1


def make_cases(scale: Scale) -> Iterator[Case]:
    """One case; openstack-placement has no metrics."""
    hosts = scale.size(10_000)
    targets = {SCRAPE.name: Target(at_most=1)}
    yield Case(
        name="metrics",
        title=f"metrics of {hosts:,} hosts",
        figures=(SCRAPE,),
        ours=(Side("placement-server serve", _scraping(FLAT.with_trees(hosts)), targets),),
    )


def _scraping(cloud: Cloud) -> Prepare:
    @contextlib.contextmanager
    def prepare(workspace: Workspace) -> Iterator[Sequence[Probe]]:
        with serving(workspace, OURS_ITSELF, cloud) as server:
            yield [lambda: _scrape(server.url)]

    return prepare


def _scrape(url: str) -> Reading:
    time.sleep(AGAIN)
    answer = Client(url).get("/-/metrics")
    if b"placement_resource_capacity" not in answer.body:
        raise RuntimeError(f"there is no capacity in the metrics: {answer.body[:200]!r}")
    return {SCRAPE.name: answer.seconds}
