# SPDX-License-Identifier: Apache-2.0
"""The abilities of a stream: its width, its colours, and the characters to draw with."""

from __future__ import annotations

import io
import logging
import os
import pathlib
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal, TextIO

from osc_placement.terminal.escape import printable
from osc_placement.terminal.lines import wrap_each

#: how a piece of text is meant; colours repeat what the text says and add nothing
Style = Literal["name", "aside", "low", "middle", "high", "added", "changed", "removed", "refused"]
_CODES: Final[dict[Style, str]] = {
    "name": "1",
    "aside": "2",
    "low": "32",
    "middle": "33",
    "high": "31",
    "added": "32",
    "changed": "33",
    "removed": "31",
    "refused": "1;31",
}
#: what may have a colour in a line of a plan or result: a line of a difference, a cell, what is counted, a
#: label, and totals
_SUBJECT: Final = re.compile(
    r"^ *[-+~] \S.*|"
    r"(?<=\| )[^|]*[^|\s]|(?<=^change: ).+|(?<=^result: ).+|(?<=\d  )\S.*|^\w+(?=: )"
    r"|\d[\d,]* [a-z][a-z ]*(?=[,;]|$)"
)
#: by style, what it begins with or is
_FORMS: Final[dict[Style, re.Pattern[str]]] = {
    "added": re.compile(r" *\+|(.* )?(applied|created)$"),
    "removed": re.compile(r" *- ?\S|(.* )?deleted$"),
    "refused": re.compile(r"(.* )?(failed|refused)$|(Failed|Refused)$"),
    "changed": re.compile(r" *~ |.* from .* to |other |Warning$|(.* )?in part$"),
}


@dataclass(frozen=True, slots=True)
class Marks:
    """The characters that bars and trees are drawn with."""

    full: str
    empty: str
    branch: str
    last: str
    line: str
    gap: str


BLOCKS: Final = Marks("█", "░", "├─ ", "└─ ", "│  ", "   ")
ASCII: Final = Marks("#", ".", "|- ", "`- ", "|  ", "   ")


def marks_for(encoding: str | None) -> Marks:
    """Return the best marks that text in this encoding can have."""
    try:
        "".join((BLOCKS.full, BLOCKS.empty, BLOCKS.branch, BLOCKS.last, BLOCKS.line)).encode(
            encoding or "ascii"
        )
    except (LookupError, UnicodeEncodeError):
        return ASCII
    return BLOCKS


def leave_plain(text: str, _style: Style) -> str:
    """Return text without colours."""
    return text


def paint(text: str, style: Style) -> str:
    """Return text with the terminal's codes for a style."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m"


@dataclass(frozen=True, slots=True)
class Screen:
    """The style in which reports are drawn as text.

    ``width`` is that of a line, None for any; ``paint`` colours a piece of text; ``brief`` leaves traits,
    aggregates and UUIDs out.
    """

    width: int | None = None
    marks: Marks = BLOCKS
    paint: Callable[[str, Style], str] = leave_plain
    brief: bool = False


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal; one that was closed is None."""
    return stream is not None and stream.isatty()


def screen_of(stream: TextIO, *, brief: bool = False) -> Screen:
    """Return the width and colours of a terminal, and neither for any other stream."""
    marks = marks_for(getattr(stream, "encoding", None))
    if not is_terminal(stream):
        return Screen(marks=marks, brief=brief)
    width = shutil.get_terminal_size().columns
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return Screen(width, marks, brief=brief)
    return Screen(width, marks, paint, brief)


def wrap_for(stream: TextIO, text: str, *, free: int = 0) -> list[str]:
    """Return the lines of a text on a stream, broken between words on a terminal; paths stay whole.

    :param free: letters that have space at the end of each line
    """
    width = screen_of(stream).width
    if width is None:
        return text.split("\n")
    return wrap_each(text, max(1, width - free), whole_words=True)


class _LineBreaks(logging.Formatter):
    """Formats as another formatter does; breaks warnings and errors between words, tracebacks never."""

    def __init__(self, formatter: logging.Formatter, stream: TextIO) -> None:
        super().__init__()
        self._formatter = formatter
        self._stream = stream

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        text = self._formatter.format(record)
        if record.exc_info or record.levelno < logging.WARNING:
            return text
        return "\n".join(wrap_for(self._stream, text))


def break_log_lines(logger: str | None = None) -> None:
    """Break what is logged to a terminal between words; a file gets one line of it."""
    for handler in logging.getLogger(logger).handlers:
        formatter = handler.formatter or logging.Formatter()
        stream = getattr(handler, "stream", None)
        if stream is not None and is_terminal(stream) and not isinstance(formatter, _LineBreaks):
            handler.setFormatter(_LineBreaks(formatter, stream))


def name_path(path: pathlib.Path) -> str:
    """Return a path as people are told it, with ~ for the home directory."""
    home = pathlib.Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def tell(stream: TextIO | None, text: str) -> None:
    """Print a message, escaped, and broken between words on a terminal; nothing on a closed stream."""
    if stream is not None:
        say(stream, wrap_for(stream, printable(text)))


def say(stream: TextIO | None, lines: Iterable[str]) -> None:
    """Print lines, escaped, and in colours on a terminal, in one write; nothing on a closed stream.

    Where standard output is a pipe, what its reader prints on the terminal then comes before or after them.
    """
    if stream is not None:
        show = highlight if screen_of(stream).paint is paint else str
        stream.write("".join(f"{show(printable(line))}\n" for line in lines))


def highlight(line: str) -> str:
    """Return a line of a plan or result with what is added, changed, removed and refused in colours."""

    def colour(found: re.Match[str]) -> str:
        style = next((style for style, form in _FORMS.items() if form.match(found[0])), None)
        return paint(found[0], style) if style else found[0]

    return _SUBJECT.sub(colour, line)


def write_lines(stream: TextIO, lines: Iterable[str]) -> None:
    """Print lines, with an escape for each character that the stream's encoding lacks."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    for line in lines:
        stream.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def open_output(stream: TextIO | None) -> TextIO:
    """Return the stream, which escapes characters that its encoding lacks; the null device if it is closed.

    The null device becomes standard output as well, which cliff asks whether it is a terminal.
    """
    if stream is None:
        sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
        return sys.stdout
    if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
        stream.reconfigure(errors="backslashreplace")
    return stream
