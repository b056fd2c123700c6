# SPDX-License-Identifier: Apache-2.0
"""Progress of a long command on standard error, and its end by Ctrl-C or SIGTERM."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Final, Self, TextIO

from osc_placement.terminal.escape import printable

if TYPE_CHECKING:
    from rich.progress import Progress

#: seconds of work before a bar is drawn
_QUIET_SECONDS: Final = 0.5
_SECONDS_BETWEEN_LINES: Final = 60.0
_SECONDS_BETWEEN_COUNTS: Final = 0.1
_INTERRUPTED: Final = 130
_SHOW_CURSOR: Final = "\x1b[?25h"
_CLEAR_LINE: Final = "\r\x1b[K"


class _Progress:
    """A count of items that are done, shown on a stream; a standard error that was closed is None."""

    def __init__(self, title: str, total: int | None, stream: TextIO | None) -> None:
        self._title = title
        self._total = total
        self._stream = stream
        self._is_terminal = stream is not None and stream.isatty()
        self._done = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        """Take the progress off the terminal."""
        raise NotImplementedError


class ProgressLine(_Progress):
    """A count on one line of a terminal, removed in the end; nothing elsewhere."""

    _shown = 0.0

    def advance(self, _item: object = None) -> None:
        """Count one item as done."""
        self._done += 1
        now = time.monotonic()
        if self._is_terminal and now - self._shown >= _SECONDS_BETWEEN_COUNTS:
            self._shown = now
            self._write(f"{_CLEAR_LINE}{self._title}: {self._done} of {self._total}")

    def _remove(self) -> None:
        if self._shown:
            self._write(_CLEAR_LINE)

    def _write(self, text: str) -> None:
        print(text, end="", file=self._stream, flush=True)


class ProgressBar(_Progress):
    """A bar on a terminal, drawn once the work has taken half a second; elsewhere a line every minute."""

    def __init__(self, title: str, total: int | None, stream: TextIO | None) -> None:
        super().__init__(title, total, stream)
        self._started = self._shown = time.monotonic()
        self._bar: Progress | None = None

    def expect(self, total: int) -> None:
        """Set the number of items, if it was not known at first."""
        self._total = total

    def advance(self, _item: object = None) -> None:
        """Count one item as done."""
        self._done += 1
        if not self._is_terminal:
            self._print_line()
        elif self._bar is None and time.monotonic() - self._started > _QUIET_SECONDS:
            self._bar = self._draw()
        if self._bar is not None:
            rate = self._done / (time.monotonic() - self._started)
            self._bar.update(self._bar.task_ids[0], completed=self._done, rate=f"{rate:.0f}/s")

    def say(self, text: str) -> None:
        """Print a line, above the bar if one is drawn; safe for any thread."""
        text = printable(text)
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        elif self._stream is not None:
            print(text, file=self._stream, flush=True)

    def _print_line(self) -> None:
        now = time.monotonic()
        if self._stream is None or now - self._shown < _SECONDS_BETWEEN_LINES:
            return
        self._shown = now
        rate = self._done / (now - self._started)
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

    def _remove(self) -> None:
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def nothing_changed_on_interrupt(stream: TextIO | None) -> Iterator[None]:
    """Say at Ctrl-C that nothing was changed; for the time before the first write."""
    try:
        yield
    except KeyboardInterrupt:
        if stream is not None:
            print("Interrupted; nothing was changed.", file=stream)
        raise


class WriteWatch:
    """A context that says at Ctrl-C whether its one request may have changed something.

    ``check`` is the command that shows whether it did.
    """

    def __init__(self, stream: TextIO | None, check: str) -> None:
        self._stream = stream
        self._check = check
        self._is_started = False

    def begin(self) -> None:
        """Note that the request that writes may arrive from now on."""
        self._is_started = True

    def __enter__(self) -> WriteWatch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not KeyboardInterrupt or self._stream is None:
            return
        said = "Interrupted; nothing was changed."
        if self._is_started:
            said = f"Interrupted while the change was under way; to see whether it was done: {self._check}"
        print(said, file=self._stream)


@contextmanager
def stop_on_interrupt(stream: TextIO | None, say: Callable[[str], None]) -> Iterator[threading.Event]:
    """Give an event that the first SIGINT or SIGTERM sets; the second ends the process at once.

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
