# SPDX-License-Identifier: Apache-2.0
"""``--watch``: a screen that shows a changing text in place until Ctrl-C, as ``watch`` and ``top`` do."""

from __future__ import annotations

import argparse
import io
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from types import FrameType
from typing import Final, NoReturn, TextIO

from osc_placement.errors import UsageError
from osc_placement.terminal.escape import printable
from osc_placement.terminal.lines import cut
from osc_placement.terminal.screen import is_terminal
from osc_placement.terminal.values import read_interval

#: seconds between two looks at the size of the terminal
_STEP: Final = 0.2
#: the lines above the text: the header, the error or nothing, and an empty one
_HEAD: Final = 3
#: the alternate screen, without cursor and without wrapping, so that each line stays on one row
_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[?7l"
_LEAVE: Final = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_ERASE_LINE: Final = "\x1b[K"
_ERASE_BELOW: Final = "\x1b[J"
#: the formats that people read
_SHOWN: Final = ("table", "text")


def add_watch_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--watch``."""
    parser.add_argument(
        "--watch",
        metavar="<seconds>",
        type=read_interval,
        help="Show the output on the whole terminal, and read it again after so many seconds, until "
        "Ctrl-C, which ends the command with exit status 0. An error of the server is shown above what "
        "was read before.",
    )


def check_watch(form: str, stream: TextIO | None) -> None:
    """Raise UsageError unless output in this format can be shown with ``--watch`` on this stream."""
    if form not in _SHOWN:
        raise UsageError(f"--watch cannot be used with -f {form}; it shows what a terminal shows")
    if not is_terminal(stream):
        raise UsageError("--watch needs a terminal as standard output; leave it out to read once")
    if os.environ.get("TERM") == "dumb":
        raise UsageError(
            "--watch needs a terminal whose lines can be replaced, and TERM=dumb says that there are "
            "none; leave it out to read once"
        )


def watch_command(
    stream: TextIO,
    seconds: float,
    title: str,
    act: Callable[[TextIO, int], None],
    errors: tuple[type[Exception], ...],
) -> None:
    """Show what a command prints, as `watch` does.

    ``act`` runs the command once, and gets the stream to print on and the number of lines that fit.
    """

    def draw(height: int) -> Sequence[str]:
        shown = _TerminalText(stream.encoding)
        act(shown, height)
        return shown.getvalue().splitlines()

    watch(stream, seconds, title, draw, errors)


class _TerminalText(io.StringIO):
    """Text for a terminal, with its encoding."""

    def __init__(self, encoding: str) -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return True


def watch(
    stream: TextIO,
    seconds: float,
    title: str,
    draw: Callable[[int], Sequence[str]],
    errors: tuple[type[Exception], ...],
) -> None:
    """Show lines on a whole terminal, and again after so many seconds, until Ctrl-C.

    ``draw`` returns the lines, and gets the number of those that fit. One of ``errors`` is shown above the
    lines of the last success; raised by the first call it ends the function before the screen is opened.
    """
    view = _View(title, seconds, draw(_height()))
    with suppress(KeyboardInterrupt), _screen(stream) as show:
        while True:
            due = time.monotonic() + seconds
            size = None
            while (left := due - time.monotonic()) > 0:
                if size != shutil.get_terminal_size():
                    size = shutil.get_terminal_size()
                    show(view.lines())
                time.sleep(min(_STEP, left))
            try:
                view = _View(title, seconds, draw(_height()))
            except errors as error:
                view.error = f"{datetime.now():%H:%M:%S}: {error}"


def fit_height(lines: Sequence[str], height: int) -> list[str]:
    """Return the first lines; if they are more than ``height``, the last says how many are not shown."""
    if len(lines) <= height:
        return list(lines)
    shown = max(0, height - 1)
    return [*lines[:shown], f"... and {len(lines) - shown:,} more lines"]


def _height() -> int:
    """Return the number of lines below the head."""
    return max(1, shutil.get_terminal_size().lines - _HEAD)


class _View:
    """The contents of the screen: the lines read last, and the error since."""

    def __init__(self, title: str, seconds: float, body: Sequence[str]) -> None:
        self._title = f"Every {seconds:g} s: {title}"
        self._body = body
        self._time = f"{datetime.now():%Y-%m-%d %H:%M:%S}"
        self.error = ""

    def lines(self) -> list[str]:
        """Return as many lines as the terminal has, header included."""
        width, height = shutil.get_terminal_size()
        space = max(0, width - len(self._time) - 1)
        header = f"{cut(printable(self._title), space):<{space}} {self._time}"
        return [header, printable(self.error), "", *fit_height(self._body, _height())][:height]


@contextmanager
def _screen(stream: TextIO) -> Iterator[Callable[[Sequence[str]], None]]:
    """Open the alternate screen, and give a function that replaces all lines on it.

    The terminal is as it was before at the end, at SIGTERM, and while the process is stopped by Ctrl-Z.
    """
    descriptor = stream.fileno()
    encoding = getattr(stream, "encoding", None) or "utf-8"
    shown = ""

    def put(text: str) -> None:
        # not into the stream's buffer, where the handler of a signal must not write
        data = text.encode(encoding, "backslashreplace")
        while data:
            data = data[os.write(descriptor, data) :]

    def show(lines: Sequence[str]) -> None:
        nonlocal shown
        # erased first: behind a line of full width, the cursor is still on its last character
        above = "".join(f"{_ERASE_LINE}{line}\r\n" for line in lines[:-1])
        shown = f"{_HOME}{above}{_ERASE_BELOW}{lines[-1]}{_HOME}"
        put(shown)

    def stop(_number: int, _frame: FrameType | None) -> None:
        put(_LEAVE)
        os.kill(os.getpid(), signal.SIGSTOP)
        put(_ENTER + shown)

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    stream.flush()
    handlers = {signal.SIGTSTP: stop, signal.SIGTERM: end, signal.SIGHUP: end}
    previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        put(_ENTER)
        yield show
    finally:
        put(_LEAVE)
        for number, handler in previous.items():
            signal.signal(number, handler)
