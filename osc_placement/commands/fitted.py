# SPDX-License-Identifier: Apache-2.0
"""Tables that fit the terminal, and print totals last."""

from __future__ import annotations

import argparse
import io
import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, TextIO, cast

from osc_placement.commands import base
from osc_placement.terminal.lines import describe_hidden, wrap_each
from osc_placement.terminal.screen import is_terminal, screen_of
from osc_placement.terminal.tables import (
    break_cells,
    choose_columns,
    find_filled,
    list_records,
    measure_table,
    show_cell,
)

TABLE: Final = "table"
#: more than any table has
_NO_LIMIT: Final = 1_000_000


class FittedLister(base.Lister):
    """The base of commands whose table leaves out columns to fit the terminal.

    A table that is too wide all the same has cells of several lines, or, with --full or where a name would be
    broken, is printed as a line for each cell.
    """

    #: the columns that a table leaves out, the first one first
    droppable: Sequence[str] = ()
    #: the columns whose cells have several lines rather than that another column is left out
    breakable: Sequence[str] = ()
    #: what a table on a terminal says last
    last_line: str = ""
    #: rows about all others, which are printed after them in any order
    totals: Sequence[tuple[Any, ...]] = ()
    #: whether a table on a terminal has no more lines than that, unless --full is given
    fits_height: ClassVar[bool] = False
    #: the lines that may be printed; None for any number
    height: int | None = None

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--full",
            action="store_true",
            help="Show the whole table, of which a terminal otherwise gets as much as fits",
        )
        return parser

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        height, hint = self.height, ""
        is_cut = self.fits_height and parsed_args.formatter == TABLE and not parsed_args.full
        if is_cut and height is None and is_terminal(self.app.stdout):
            height, hint = shutil.get_terminal_size().lines - 1, " (--full shows them)"
        totals = [dict(zip(column_names, row, strict=True)) for row in self.totals]
        self.formatter = cast(
            Any,
            _FittedFormatter(
                self.formatter, totals, self.droppable, height, hint, self.last_line, self.breakable
            ),
        )
        return super().produce_output(parsed_args, column_names, data)


class _FittedFormatter:
    """A formatter of cliff that prints totals last, and tables that fit the terminal."""

    def __init__(
        self,
        formatter: Any,
        totals: Sequence[Mapping[str, Any]],
        droppable: Sequence[str],
        height: int | None,
        hint: str = "",
        last_line: str = "",
        breakable: Sequence[str] = (),
    ) -> None:
        self._formatter = formatter
        self._totals = totals
        self._droppable = droppable
        self._height = height
        self._hint = hint
        self._last_line = last_line
        self._breakable = breakable

    def emit_list(
        self,
        names: Sequence[str],
        rows: Iterable[Sequence[Any]],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        """Print rows."""
        totals = [tuple(show_cell(row[name]) for name in names) for row in self._totals]
        rows = list(rows)
        width = screen_of(stdout).width if parsed_args.formatter == TABLE else None
        if width and parsed_args.max_width > 0:
            width = parsed_args.max_width
        last = f"{self._last_line}\n" if width and self._last_line else ""

        def draw(shown: int) -> str:
            text = self._draw(names, [*rows[:shown], *totals], width, parsed_args)
            more = f"... and {len(rows) - shown:,} more rows{self._hint}\n" if shown < len(rows) else ""
            return f"{text}{more}{last}"

        shown = len(rows) if self._height is None else min(len(rows), self._height)
        text = draw(shown)
        while shown and self._height is not None and (lines := text.count("\n")) > self._height:
            shown = min(shown - 1, shown * self._height // lines)
            text = draw(shown)
        stdout.write(text)

    def _draw(
        self,
        names: Sequence[str],
        rows: Sequence[Sequence[Any]],
        width: int | None,
        parsed_args: argparse.Namespace,
    ) -> str:
        """Return the text of a table, fitted to a terminal, with a note on the columns that are left out."""
        note = ""
        if width and not (parsed_args.full or parsed_args.columns or parsed_args.fit_width):
            chosen = choose_columns(names, rows, width, self._droppable, self._breakable)
            filled = find_filled(names, rows)
            if left_out := [name for name in names if name in filled and name not in chosen]:
                note = _join(wrap_each(describe_hidden(left_out), width))
            numbers = [names.index(name) for name in chosen]
            names, rows = chosen, [tuple(row[number] for number in numbers) for row in rows]
        drawn: Sequence[Sequence[Any]] | None = rows
        if width and rows and not parsed_args.fit_width:
            if measure_table(names, rows) > width:
                drawn = None if parsed_args.full else break_cells(names, rows, width)
            if drawn is None:
                return _join(list_records(names, rows, width)) + note
            # cliff would break cells within names
            parsed_args = argparse.Namespace(**{**vars(parsed_args), "max_width": _NO_LIMIT})
        table = io.StringIO()
        self._formatter.emit_list(names, drawn, table, parsed_args)
        return table.getvalue() + note


def _join(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
