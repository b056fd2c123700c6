# SPDX-License-Identifier: Apache-2.0
"""Reading of a cloud for a report, with a progress bar."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TextIO

from osc_placement.api import names as server_names
from osc_placement.api.client import PlacementClient
from osc_placement.api.concurrency import Reading
from osc_placement.candidates.cloud import CloudView
from osc_placement.errors import PlacementError
from osc_placement.terminal.progress import ProgressBar


@contextmanager
def show_reading(stream: TextIO, concurrency: int, title: str = "Reading") -> Iterator[Reading]:
    """Return a function that shows a bar on this stream for each round of reading."""
    with ExitStack() as stack:
        bars: list[ProgressBar] = []

        def begin(total: int) -> None:
            stack.close()
            bars[:] = [stack.enter_context(ProgressBar(title, total, stream))]

        def advance(item: object) -> None:
            for bar in bars:
                bar.advance(item)

        yield Reading(concurrency, begin, advance)


def require_classes(client: PlacementClient, cloud: CloudView, names: Iterable[str]) -> None:
    """Raise PlacementError at a class that no provider has; one that the server does not know is mistyped."""
    missing = [name for name in names if name not in cloud.classes]
    server_names.require_classes(client, missing, in_query=True)
    if missing:
        raise PlacementError(
            f"No resource provider has {missing[0]}; there is {', '.join(cloud.classes) or 'nothing'}"
        )
