# SPDX-License-Identifier: Apache-2.0
"""One more trait for the providers of an aggregate, by one command, beside a loop of commands in a shell."""

from __future__ import annotations

import contextlib
import itertools
import statistics
from collections.abc import Iterator, Sequence

from benchmarks import clouds
from benchmarks.case import Case, Prepare, Probe, Reading, Scale, Side, Workspace
from benchmarks.clouds import EVERYWHERE, FLAT
from benchmarks.commands import Shell
from benchmarks.figure import Figure, Target
from benchmarks.servers import OURS, REFERENCE, serving

WHOLE = Figure("whole processes", "s")
BEYOND = Figure("beyond a one-request command", "s")
MEMORY = Figure("memory of the client", "MiB")
#: calls of the loop that are made; the figure is what all of them would take
CALLS = 5
#: standard traits, a new one for each sample
TRAITS = ("HW_CPU_X86_AVX", "HW_CPU_X86_MMX", "HW_CPU_X86_SSE", "HW_CPU_X86_SSE2", "HW_CPU_X86_SSE3")
TARGETS = {BEYOND.name: Target(at_most=3), MEMORY.name: Target(at_most=200)}


def make_cases(scale: Scale) -> Iterator[Case]:
    """One case."""
    hosts = scale.size(1_000)
    yield Case(
        name="batch-trait",
        title=f"a trait more on {hosts:,} providers",
        figures=(WHOLE, BEYOND, MEMORY),
        reference=Side(f"shell loop, from {CALLS} of its calls", _looping(hosts)),
        ours=(Side("our plugin and server", _batching(hosts), TARGETS),),
        samples=3,
    )


def _looping(hosts: int) -> Prepare:
    @contextlib.contextmanager
    def prepare(workspace: Workspace) -> Iterator[Sequence[Probe]]:
        with serving(workspace, REFERENCE, FLAT.with_trees(hosts)) as server:
            shell = Shell(workspace.reference, workspace.directory, server.url)
            numbers = itertools.cycle(range(hosts))
            yield [lambda: _loop(shell, hosts, [next(numbers) for _ in range(CALLS)])]

    return prepare


def _loop(shell: Shell, hosts: int, numbers: Sequence[int]) -> Reading:
    kept = [word for trait in FLAT.tree.traits for word in ("--trait", trait)]
    command = ("--os-placement-api-version", "1.6", "resource", "provider", "trait", "set", *kept)
    runs = [shell.openstack(*command, "--trait", TRAITS[0], clouds.root_uuid(number)) for number in numbers]
    seconds = hosts * statistics.median(run.seconds for run in runs)
    return {WHOLE.name: seconds, MEMORY.name: max(run.memory for run in runs)}


def _batching(hosts: int) -> Prepare:
    @contextlib.contextmanager
    def prepare(workspace: Workspace) -> Iterator[Sequence[Probe]]:
        with serving(workspace, OURS, FLAT.with_trees(hosts)) as server:
            shell = Shell(workspace.ours, workspace.directory, server.url)
            one_request = shell.cost_of_one_request()
            traits = itertools.cycle(TRAITS)
            yield [lambda: _batch(shell, next(traits), one_request)]

    return prepare


def _batch(shell: Shell, trait: str, one_request: float) -> Reading:
    command = ("resource", "provider", "batch", "trait", "add", trait, "--aggregate", EVERYWHERE, "--yes")
    run = shell.openstack(*command)
    return {WHOLE.name: run.seconds, BEYOND.name: run.seconds - one_request, MEMORY.name: run.memory}
