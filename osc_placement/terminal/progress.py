# SPDX-License-Identifier: Apache-2.0
"""Progress of a long command on standard error, and its end by Ctrl-C or SIGTERM."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Final, Self, TextIO

from osc_placement.terminal.escape import printable
from osc_placement.terminal.screen import is_terminal, tell, wrap_for

if TYPE_CHECKING:
    from rich.progress import Progress

#: seconds of work before a bar is drawn
_QUIET_SECONDS: Final = 0.5
_SECONDS_BETWEEN_LINES: Final = 60.0
#: seconds whose items count for the rate and the time that is left on a terminal
_RECENT: Final = 5.0
_INTERRUPTED: Final = 130
#: seconds that the handler of a signal waits for what it prints
_PATIENCE: Final = 0.5
_PAUSED: Final = "paused"


class ProgressBar:
    """A bar on a terminal, drawn once the work has taken half a second; elsewhere a line every minute.

    A standard error that was closed is None, and gets nothing. With ``is_quiet`` there are no such lines.

    :param notice: lines that are printed above the bar, when that is drawn
    """

    def __init__(
        self,
        title: str,
        total: int | None,
        stream: TextIO | None,
        *,
        is_quiet: bool = False,
        notice: Sequence[str] = (),
    ) -> None:
        self._title = title
        self._total = total
        self._stream = stream
        self._is_terminal = is_terminal(stream)
        self._is_quiet = is_quiet
        self._notice = notice
        self._done = 0
        self._started = self._shown = time.monotonic()
        #: when how many items were done, of the last seconds
        self._recent = deque([(self._started, 0)])
        self._paused: float | None = None
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._erase()

    def expect(self, total: int) -> None:
        """Set the number of items, if it was not known at first."""
        self._total = total

    def advance(self, _item: object = None) -> None:
        """Count one item as done."""
        self._done += 1
        now = time.monotonic()
        if self._is_terminal:
            # `pause` may put another in its place meanwhile
            recent = self._recent
            recent.append((now, self._done))
            while len(recent) > 1 and now - recent[1][0] > _RECENT:
                recent.popleft()
            if self._bar is None and now - self._started > _QUIET_SECONDS:
                for line in self._notice:
                    self._print(printable(line))
                self._draw()
            if self._bar is not None:
                told, left = self._measure(now)
                self._bar.update(self._bar.task_ids[0], completed=self._done, rate=told, left=left)
        elif self._stream is None or self._is_quiet:
            return
        elif now - self._shown >= _SECONDS_BETWEEN_LINES:
            self._shown = now
            rate = self._done / max(now - self._started, 1e-9)
            left = f", {(self._total - self._done) / rate:.0f} s left" if self._total else ""
            total = f" of {self._total}" if self._total else ""
            print(
                f"{self._title}: {self._done}{total}, {rate:.1f} a second{left}",
                file=self._stream,
                flush=True,
            )

    def _measure(self, now: float) -> tuple[str, str]:
        """Return the rate and the time that is left, as the bar has them; empty so soon after a pause."""
        if self._paused is not None:
            return _PAUSED, ""
        since, before = self._recent[0]
        if now - since < _QUIET_SECONDS:
            return "", ""
        rate = (self._done - before) / max(now - since, 1e-9)
        left = timedelta(seconds=math.ceil((self._total - self._done) / rate)) if self._total else ""
        return f"{rate:.2g}/s" if rate < 10 else f"{rate:.0f}/s", str(left)

    def pause(self, is_paused: bool) -> None:
        """Show that the work is paused, or goes on; a pause does not count for the rate."""
        now = time.monotonic()
        if is_paused:
            self._paused = now
        elif self._paused is not None:
            self._started += now - self._paused
            self._recent = deque([(now, self._done)])
            self._paused = None
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], rate=_PAUSED if is_paused else "", left="")

    def say(self, text: str) -> None:
        """Print a text, broken between words on a terminal, above the bar if one is drawn; thread-safe."""
        if self._stream is not None:
            for line in wrap_for(self._stream, printable(text)):
                self._print(line)

    @contextmanager
    def stop_on_interrupt(self, farewell: str = "") -> Iterator[threading.Event]:
        """Give an event that the first SIGINT or SIGTERM sets; the second ends the process at once.

        :param farewell: the last line, on a terminal, where the process is ended at once
        """
        stop = threading.Event()

        def handle(_number: int, _frame: FrameType | None) -> None:
            if not stop.is_set():
                stop.set()
                _call_beside(self.say, "Finishing what is under way; Ctrl-C again to leave at once.")
                return
            try:
                # its thread would draw it below the farewell
                _call_beside(self._erase)
                if self._is_terminal:
                    print(farewell, file=self._stream, flush=True)
            finally:
                # threads that wait for an answer cannot be ended otherwise
                os._exit(_INTERRUPTED)

        previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield stop
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _print(self, text: str) -> None:
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        elif self._stream is not None:
            print(text, file=self._stream, flush=True)

    def _erase(self) -> None:
        if self._bar is not None and self._bar.live.is_started:
            self._bar.stop()

    def _draw(self) -> None:
        """Begin to draw the bar."""
        # PERF: commands that are quick need not load it
        from rich import progress
        from rich.console import Console

        self._bar = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[rate]}"),
            progress.TextColumn("{task.fields[left]}"),
            console=Console(file=self._stream, emoji=False),
            transient=True,
        )
        self._bar.add_task(printable(self._title), total=self._total, rate="", left="")
        # what is not erased leaves an empty line
        if not self._bar.console.is_dumb_terminal:
            self._bar.start()


def _call_beside(act: Callable[..., None], *args: str) -> None:
    """Call a function in a thread, as the handler of a signal has to where the function takes locks.

    The handler may have interrupted who holds them: then it goes on, and the thread waits for them.
    """
    thread = threading.Thread(target=act, args=args, daemon=True)
    thread.start()
    thread.join(_PATIENCE)


@contextmanager
def nothing_changed_on_interrupt(stream: TextIO | None) -> Iterator[None]:
    """Say at Ctrl-C that nothing was changed; for the time before the first write."""
    try:
        yield
    except KeyboardInterrupt:
        tell(stream, "Interrupted; nothing was changed.")
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
        tell(self._stream, said)
