# SPDX-License-Identifier: Apache-2.0
"""What our plugin adds to the start of ``openstack``: to whole processes, and by imports.

The client imports the commands of every plugin at every start, so what they import counts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.case import Case, Prepare, Probe, Reading, Scale, Side, Workspace
from benchmarks.commands import Shell
from benchmarks.figure import Figure, Target

ELAPSED = Figure("whole process", "ms", is_compared=False)
PROCESSOR = Figure("whole process, processor time", "ms", is_compared=False)
IMPORTS = Figure("imports that the bare client lacks", "ms")
#: the command of the client itself that starts it wholly and asks nobody
WORDS = ("configuration", "show")
MOST = 60


def make_cases(scale: Scale) -> Iterator[Case]:
    """One case, whose reference is the client without any plugin for placement."""
    targets = {
        ELAPSED.name: Target(beyond=MOST),
        PROCESSOR.name: Target(beyond=MOST),
        IMPORTS.name: Target(at_most=MOST),
    }
    yield Case(
        name="plugin-start",
        title="start of openstack",
        figures=(ELAPSED, PROCESSOR, IMPORTS),
        reference=Side("bare client", _starting(lambda workspace: workspace.bare)),
        ours=(
            Side("our plugin", _starting(lambda workspace: workspace.ours), targets),
            Side("osc-placement 4.9.1", _starting(lambda workspace: workspace.reference)),
        ),
        samples=15,
    )


def _starting(binaries: Callable[[Workspace], Path]) -> Prepare:
    @contextlib.contextmanager
    def prepare(workspace: Workspace) -> Iterator[Sequence[Probe]]:
        bare = _time_imports(Shell(workspace.bare, workspace.directory))
        shell = Shell(binaries(workspace), workspace.directory)
        yield [lambda: _start(shell, bare)]

    return prepare


def _start(shell: Shell, bare: dict[str, float]) -> Reading:
    run = shell.openstack(*WORDS)
    more = [ms for module, ms in _time_imports(shell).items() if module not in bare]
    return {ELAPSED.name: 1000 * run.seconds, PROCESSOR.name: 1000 * run.processor, IMPORTS.name: sum(more)}


def _time_imports(shell: Shell) -> dict[str, float]:
    return parse_import_times(shell.openstack(*WORDS, interpreter=("-X", "importtime")).errors)


def parse_import_times(text: str) -> dict[str, float]:
    """The milliseconds that each module took by itself, from the output of ``-X importtime``."""
    lines = (line.split("|") for line in text.splitlines() if line.startswith("import time:"))
    return {
        name.strip(): int(own.partition(":")[2]) / 1000
        for own, _, name in lines
        if own.partition(":")[2].strip().isdecimal()
    }
