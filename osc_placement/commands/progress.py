# SPDX-License-Identifier: Apache-2.0
"""What a long command shows while it works, and how it is stopped.

On a terminal a bar; elsewhere a plain line on standard error every minute, which logs can keep.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Final, TextIO

from osc_placement.printing import printable

if TYPE_CHECKING:
    from rich.progress import Progress

_QUIET_SECONDS: Final = 0.5
_SECONDS_BETWEEN_LINES: Final = 60.0
_INTERRUPTED: Final = 130
_SHOW_CURSOR: Final = "\x1b[?25h"


class ProgressBar:
    """A bar on a terminal, drawn once the work has taken half a second; elsewhere a line now and then."""

    def __init__(self, title: str, total: int | None, stream: TextIO | None) -> None:
        self._title = title
        self._total = total
        # a standard error that was closed is None
        self._stream = stream
        self._wanted = stream is not None and stream.isatty()
        self._begin = self._told = time.monotonic()
        self._done = 0
        self._bar: Progress | None = None

    def __enter__(self) -> ProgressBar:
        return self

    def expect(self, total: int) -> None:
        """Say how many items there will be, if it was not known at first."""
        self._total = total

    def advance(self, _item: object = None) -> None:
        """Count one item as done."""
        self._done += 1
        if self._stream is not None and not self._wanted:
            self._print_line()
        if self._bar is None and self._wanted and time.monotonic() - self._begin > _QUIET_SECONDS:
            self._bar = self._draw()
        if self._bar is not None:
            rate = self._done / (time.monotonic() - self._begin)
            self._bar.update(self._bar.task_ids[0], completed=self._done, rate=f"{rate:.0f}/s")

    def say(self, text: str) -> None:
        """Print a line, above the bar if one is drawn; any thread may."""
        text = printable(text)
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        elif self._stream is not None:
            print(text, file=self._stream, flush=True)

    def _print_line(self) -> None:
        now = time.monotonic()
        if now - self._told < _SECONDS_BETWEEN_LINES or self._stream is None:
            return
        self._told = now
        rate = self._done / (now - self._begin)
        left = f", {(self._total - self._done) / rate:.0f} s left" if self._total else ""
        total = f" of {self._total}" if self._total else ""
        print(f"{self._title}: {self._done}{total}, {rate:.1f} a second{left}", file=self._stream, flush=True)

    def _draw(self) -> Progress:
        from rich import progress
        from rich.console import Console

        bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[rate]}"),
            progress.TimeRemainingColumn(),
            console=Console(file=self._stream),
            transient=True,
        )
        bar.add_task(self._title, total=self._total, rate="")
        bar.start()
        return bar

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def nothing_changed_on_interrupt(stream: TextIO | None) -> Iterator[None]:
    """Let Ctrl-C end the command, as it does, with words for the time before the first write."""
    try:
        yield
    except KeyboardInterrupt:
        if stream is not None:
            print("Interrupted; nothing was changed.", file=stream)
        raise


class WriteWatch:
    """Says at Ctrl-C whether something may have been changed, where it is one request that changes it.

    ``look`` is the command that shows whether it was.
    """

    def __init__(self, stream: TextIO | None, look: str) -> None:
        self._stream = stream
        self._look = look
        self._begun = False

    def begin(self) -> None:
        """From here on a request may arrive that writes."""
        self._begun = True

    def __enter__(self) -> WriteWatch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not KeyboardInterrupt or self._stream is None:
            return
        said = "Interrupted; nothing was changed."
        if self._begun:
            said = f"Interrupted while the change was under way; to see whether it was done: {self._look}"
        print(said, file=self._stream)


@contextmanager
def stop_on_interrupt(stream: TextIO | None, say: Callable[[str], None]) -> Iterator[threading.Event]:
    """Give an event that Ctrl-C sets instead of ending the process; a second Ctrl-C ends it at once.

    So does the signal by which a service manager or a job scheduler ends a process.
    ``say`` prints a line to the stream, beside whatever else is shown there.
    """
    stop = threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            if stream is not None and stream.isatty():
                # a progress bar hides the cursor
                print(_SHOW_CURSOR, file=stream, flush=True)
            # threads that wait for an answer cannot be ended otherwise
            os._exit(_INTERRUPTED)
        stop.set()
        say("Finishing what is under way; Ctrl-C again to leave at once.")

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
