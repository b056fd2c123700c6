# SPDX-License-Identifier: Apache-2.0
"""The one door of tables: what would move the cursor of a terminal is spelled out in their cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from cliff.columns import FormattableColumn

from osc_placement.printing import printable, printable_lines


class VisibleFormatter:
    """Gives a formatter cells in which nothing moves a terminal's cursor or turns its letters round.

    All tables pass here, wherever they go, and bare values that go to a terminal. Text of one line has its
    line ends spelled out too; columns that are made of lines keep theirs.
    """

    def __init__(self, formatter: Any, formatter_name: str, stream: TextIO) -> None:
        self._formatter = formatter
        self._is_table = formatter_name == "table"
        self._is_needed = self._is_table or (formatter_name == "value" and stream.isatty())

    def emit_list(self, names: Sequence[str], rows: Iterable[Sequence[Any]], *rest: Any) -> None:
        """Print rows."""
        if self._is_needed:
            rows = [tuple(map(self._show, row)) for row in rows]
        self._formatter.emit_list(names, rows, *rest)

    def emit_one(self, names: Sequence[str], values: Iterable[Any], *rest: Any) -> None:
        """Print the fields of one object."""
        if self._is_needed:
            values = tuple(map(self._show, values))
        self._formatter.emit_one(names, values, *rest)

    def _show(self, cell: Any) -> Any:
        return show_cell(cell, is_value=not self._is_table)


def show_cell(cell: Any, *, is_value: bool = False) -> Any:
    """Return a cell as a table has it, or a bare value, with what would move a cursor spelled out."""
    if isinstance(cell, FormattableColumn):
        return printable_lines(str(cell.machine_readable() if is_value else cell.human_readable()))
    return printable(cell) if isinstance(cell, str) else cell


class LinesColumn(FormattableColumn[str]):
    """Text of several lines."""

    def human_readable(self) -> str:
        """The same lines."""
        return self._value
