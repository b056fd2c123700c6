# SPDX-License-Identifier: Apache-2.0
"""What a long command shows while it works, and how it is stopped.

Nothing is shown unless standard error is a terminal: what scripts read stays free of it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress

_QUIET_SECONDS: Final = 0.5
_INTERRUPTED: Final = 130


class ProgressBar:
    """A bar on a terminal, drawn once the work has taken half a second; elsewhere nothing."""

    def __init__(self, title: str, total: int, stream: TextIO) -> None:
        self._title = title
        self._total = total
        self._stream = stream
        self._wanted = stream.isatty()
        self._begin = time.monotonic()
        self._done = 0
        self._bar: Progress | None = None

    def __enter__(self) -> ProgressBar:
        return self

    def advance(self, _item: object = None) -> None:
        """Count one item as done."""
        self._done += 1
        if self._bar is None and self._wanted and time.monotonic() - self._begin > _QUIET_SECONDS:
            self._bar = self._draw()
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self._done)

    def _draw(self) -> Progress:
        from rich import progress
        from rich.console import Console

        bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeRemainingColumn(),
            console=Console(file=self._stream),
            transient=True,
        )
        bar.add_task(self._title, total=self._total)
        bar.start()
        return bar

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def nothing_changed_on_interrupt(stream: TextIO) -> Iterator[None]:
    """Let Ctrl-C end the command, as it does, with words for the time before the first write."""
    try:
        yield
    except KeyboardInterrupt:
        print("Interrupted; nothing was changed.", file=stream)
        raise


@contextmanager
def stop_on_interrupt(stream: TextIO) -> Iterator[threading.Event]:
    """Give an event that Ctrl-C sets instead of ending the process; a second Ctrl-C ends it at once."""
    stop = threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            # threads that wait for an answer cannot be ended otherwise
            os._exit(_INTERRUPTED)
        stop.set()
        print("Finishing what is under way; Ctrl-C again to leave at once.", file=stream, flush=True)

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, previous)
