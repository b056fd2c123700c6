# SPDX-License-Identifier: Apache-2.0
"""The headroom of each rack of a cloud as it is in production; no other client has it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks.case import Case, Prepare, Probe, Reading, Scale, Side, Workspace
from benchmarks.cases.whole_cloud import MEMORY, TIME
from benchmarks.clouds import PRODUCTION, Cloud
from benchmarks.commands import Shell
from benchmarks.figure import Target
from benchmarks.servers import OURS, serving

WORDS = ("resource", "provider", "headroom", "--each-aggregate", "-f", "csv")
#: hosts in a rack
RACK = 50


def make_cases(scale: Scale) -> Iterator[Case]:
    """One case: every rack of ten thousand hosts with ten instances each, by itself."""
    hosts = scale.size(10_000)
    cloud = replace(PRODUCTION, zone=RACK).with_trees(hosts)
    yield Case(
        name="headroom",
        title=f"headroom of each rack of {RACK} hosts, {hosts:,} hosts",
        figures=(TIME, MEMORY),
        ours=(Side("our server", _judging(cloud), {TIME.name: Target(at_most=10)}),),
        samples=3,
    )


def _judging(cloud: Cloud) -> Prepare:
    @contextlib.contextmanager
    def prepare(workspace: Workspace) -> Iterator[Sequence[Probe]]:
        with serving(workspace, OURS, cloud) as server:
            shell = Shell(workspace.ours, workspace.directory, server.url)
            yield [lambda: _judge(shell, -(-cloud.trees // RACK))]

    return prepare


def _judge(shell: Shell, racks: int) -> Reading:
    """Judge all racks; a wrong number of rows is no measurement."""
    run = shell.openstack(*WORDS)
    rows = run.output.strip().splitlines()[1:]
    if len(rows) != racks:
        raise RuntimeError(f"there are {len(rows)} rows, not {racks}")
    return {TIME.name: run.seconds, MEMORY.name: run.memory}
