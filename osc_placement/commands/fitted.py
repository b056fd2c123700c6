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
from osc_placement.terminal.tables import choose_columns, list_records, show_cell

TABLE: Final = "table"


class FittedLister(base.Lister):
    """The base of commands whose table leaves out columns to fit the terminal.

    A table that is to have all columns and is too wide is printed as a line for each cell.
    """

    #: the columns that a table leaves out, the first one first
    droppable: Sequence[str] = ()
    #: rows about all others, which are printed after them in any order
    totals: Sequence[tuple[Any, ...]] = ()
    #: whether a table on a terminal has no more lines than that, unless --long is given
    fits_height: ClassVar[bool] = False
    #: the lines that may be printed; None for any number
    height: int | None = None

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--long",
            action="store_true",
            help="Show the whole table, of which a terminal otherwise gets as much as fits",
        )
        return parser

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        height, hint = self.height, ""
        is_cut = self.fits_height and parsed_args.formatter == TABLE and not parsed_args.long
        if is_cut and height is None and is_terminal(self.app.stdout):
            height, hint = shutil.get_terminal_size().lines - 1, " (--long shows them)"
        totals = [dict(zip(column_names, row, strict=True)) for row in self.totals]
        self.formatter = cast(Any, _FittedFormatter(self.formatter, totals, self.droppable, height, hint))
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
    ) -> None:
        self._formatter = formatter
        self._totals = totals
        self._droppable = droppable
        self._height = height
        self._hint = hint

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
        left_out: list[str] = []
        is_whole = parsed_args.long or parsed_args.columns or parsed_args.fit_width
        if width and not is_whole:
            chosen = choose_columns(names, [*rows, *totals], width, self._droppable)
            left_out = [name for name in names if name not in chosen]
            numbers = [names.index(name) for name in chosen]
            rows, totals = (
                [tuple(row[number] for number in numbers) for row in each] for each in (rows, totals)
            )
            names = chosen
        note = ""
        if left_out and width:
            note = "".join(f"{line}\n" for line in wrap_each(describe_hidden(left_out), width))

        def draw(shown: int) -> str:
            table, drawn = io.StringIO(), [*rows[:shown], *totals]
            self._formatter.emit_list(names, drawn, table, parsed_args)
            text = table.getvalue()
            # cliff makes no column narrower than its name
            if width and is_whole and drawn and max(map(len, text.split("\n"))) > width:
                text = "".join(f"{line}\n" for line in list_records(names, drawn, width))
            more = f"... and {len(rows) - shown:,} more rows{self._hint}\n" if shown < len(rows) else ""
            return f"{text}{note}{more}"

        shown = len(rows) if self._height is None else min(len(rows), self._height)
        text = draw(shown)
        while shown and self._height is not None and (lines := text.count("\n")) > self._height:
            shown = min(shown - 1, shown * self._height // lines)
            text = draw(shown)
        stdout.write(text)
