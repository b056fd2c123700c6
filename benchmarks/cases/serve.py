# SPDX-License-Identifier: Apache-2.0
"""From the command that starts a server to its first answered request, the schema made on the way."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator

from benchmarks import servers
from benchmarks.case import Case, Prepare, Sample, Side, Workspace


def _starting(start: Callable[..., servers.Server], binaries: str) -> Prepare:
    """Prepare a side that starts a server in a fresh directory for every sample."""

    @contextlib.contextmanager
    def prepare(workspace: Workspace) -> Iterator[Sample]:
        numbers = itertools.count()

        def sample() -> float:
            directory = workspace.directory / str(next(numbers))
            directory.mkdir()
            database = f"sqlite:///{directory}/placement.db"
            server = start(getattr(workspace, binaries), directory, database=database, workers=1)
            started = time.monotonic()
            with servers.running(server):
                return time.monotonic() - started

        yield sample

    return prepare


CASE = Case(
    name="serve",
    title="start to first answer",
    reference=Side("reference, gunicorn", _starting(servers.reference, "reference")),
    ours=(Side("placement-server serve", _starting(servers.ours, "ours")),),
    target=1.0,
)
