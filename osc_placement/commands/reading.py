# SPDX-License-Identifier: Apache-2.0
"""Reading the cloud for a report, with a bar for who waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TextIO

from osc_placement.batch.workers import Reading
from osc_placement.commands.progress import ProgressBar


@contextmanager
def show_reading(stream: TextIO, concurrency: int, title: str = "Reading") -> Iterator[Reading]:
    """How to read, with a bar on this stream for each round of reading."""
    with ExitStack() as stack:
        bars: list[ProgressBar] = []

        def begin(total: int) -> None:
            stack.close()
            bars[:] = [stack.enter_context(ProgressBar(title, total, stream))]

        def advance(item: object) -> None:
            for bar in bars:
                bar.advance(item)

        yield Reading(concurrency, begin, advance)
