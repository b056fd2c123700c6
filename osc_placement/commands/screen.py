# SPDX-License-Identifier: Apache-2.0
"""What a report knows of where it is printed: width, colours, the marks there are."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from typing import Final, TextIO

from osc_placement.report.bar import Style, marks_for
from osc_placement.report.tree import Look

_CODES: Final[dict[Style, str]] = {"name": "1", "aside": "2", "low": "32", "middle": "33", "high": "31"}


def paint(text: str, style: Style) -> str:
    """Text in a style of the terminal."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m"


def look_for(stream: TextIO, *, brief: bool = False) -> Look:
    """How to draw on a stream: to the width of a terminal and in its colours; elsewhere neither."""
    marks = marks_for(getattr(stream, "encoding", None))
    if not stream.isatty():
        return Look(marks=marks, brief=brief)
    width = shutil.get_terminal_size().columns
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return Look(width, marks, brief=brief)
    return Look(width, marks, paint, brief)


def write_lines(stream: TextIO, lines: Iterable[str]) -> None:
    """Print lines; a letter that the stream's encoding lacks is spelled out."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    for line in lines:
        stream.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")
