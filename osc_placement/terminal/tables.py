# SPDX-License-Identifier: Apache-2.0
"""Tables whose cells cannot move the cursor of a terminal: those of cliff, and those drawn here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TextIO

from cliff.columns import FormattableColumn

from osc_placement.terminal.escape import printable, printable_lines
from osc_placement.terminal.lines import wrap_lists

#: characters of a line of a cell beside the name of its column, at least
_LEAST_CELL: Final = 12
#: characters of a line of a cell that is broken so that another column has space, at least
_LEAST_BROKEN: Final = 20


class VisibleFormatter:
    """A formatter of cliff that gets its cells escaped: those of every table, and bare values on a terminal.

    In text of one line the line ends are escaped too; columns that are made of lines keep theirs.
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
    """Return the text of a cell as a table has it, or as a bare value, escaped; numbers stay numbers."""
    if isinstance(cell, FormattableColumn):
        return printable_lines(str(cell.machine_readable() if is_value else cell.human_readable()))
    return printable(cell) if isinstance(cell, str) else cell


def sort_rows(
    names: Sequence[str],
    rows: Iterable[Sequence[Any]],
    columns: Iterable[str],
    *,
    is_descending: bool = False,
) -> Iterable[Sequence[Any]]:
    """Return rows sorted by columns, the first of which counts most; unknown columns are ignored.

    In a column whose cells cannot be compared, numbers come before text, and empty cells are last in either
    direction.
    """
    known = [_normalize(name) for name in names]
    for number in [known.index(name) for name in map(_normalize, columns) if name in known][::-1]:
        rows = list(rows)
        try:
            rows = sorted(rows, key=lambda row: (row[number] is None, row[number]), reverse=is_descending)
        except TypeError:
            filled = [row for row in rows if row[number] not in (None, "")]
            empty = [row for row in rows if row[number] in (None, "")]
            rows = [*sorted(filled, key=lambda row: _rank(row[number]), reverse=is_descending), *empty]
    return rows


def _normalize(name: str) -> str:
    return name.lower().strip().replace(" ", "_")


def _rank(cell: Any) -> tuple[bool, float, str]:
    is_number = isinstance(cell, int | float)
    return (not is_number, cell if is_number else 0, "" if is_number else str(cell))


def choose_columns(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    width: int,
    droppable: Sequence[str],
    breakable: Sequence[str] = (),
) -> list[str]:
    """Return the columns of a table of this width: as many as fit, without the first of ``droppable``.

    Of these, columns that are empty in every row are left out before the others. Afterwards a column that
    fits beside the others is put back, the last of ``droppable`` first. Columns that are ``breakable`` have
    cells of several lines before another one is left out.
    """
    widths = dict(zip(columns, _measure(columns, rows, _split_lines), strict=True))
    for name in widths.keys() & breakable:
        number = columns.index(name)
        (piece,) = _measure([name], [[row[number]] for row in rows], _split_words)
        widths[name] = min(widths[name], max(piece, _LEAST_BROKEN))
    filled = find_filled(columns, rows)
    # the sort keeps the order of columns that are alike
    dropped = sorted((column for column in droppable if column in widths), key=filled.__contains__)
    chosen = set(columns)
    left_out = []
    while dropped and _table_width([widths[name] for name in chosen]) > width:
        left_out.append(dropped.pop(0))
        chosen.remove(left_out[-1])
    for name in reversed(left_out):
        if name in filled and _table_width([widths[each] for each in (*chosen, name)]) <= width:
            chosen.add(name)
    return [name for name in columns if name in chosen]


def find_filled(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> set[str]:
    """Return the columns that are not empty in every row."""
    return {name for number, name in enumerate(columns) if any(str(row[number]) for row in rows)}


def measure_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> int:
    """Return the width of a table."""
    return _table_width(_measure(columns, rows, _split_lines))


def break_cells(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], width: int
) -> list[tuple[Any, ...]] | None:
    """Return rows whose cells have lines, for a table of this width; None if a name would be broken."""
    widths = _measure(columns, rows, _split_lines)
    least = _measure(columns, rows, _split_words)
    while _table_width(widths) > width:
        can_shrink = [number for number, size in enumerate(widths) if size > least[number]]
        if not can_shrink:
            return None
        widths[max(can_shrink, key=widths.__getitem__)] -= 1
    return [
        tuple(
            # numbers are never broken, and a table has them on the right
            "\n".join(wrap_lists(str(cell), size)) if len(str(cell)) > size else cell
            for cell, size in zip(row, widths, strict=True)
        )
        for row in rows
    ]


def _split_lines(cell: str) -> list[str]:
    return cell.split("\n")


def _split_words(cell: str) -> list[str]:
    return wrap_lists(cell, 0)


def _measure(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], split: Callable[[str], list[str]]
) -> list[int]:
    """Return the length of the longest piece in each column, heads included."""
    return [
        max(map(len, (column, *(piece for row in rows for piece in split(str(row[number]))))))
        for number, column in enumerate(columns)
    ]


def _table_width(widths: Sequence[int]) -> int:
    # a cell has a blank on either side and a line on its left, and the table one more line on the right
    return sum(widths) + 3 * len(widths) + 1


def list_records(columns: Sequence[str], rows: Iterable[Sequence[Any]], width: int) -> list[str]:
    """Return a line for each cell, with the name of its column, and an empty line between rows."""
    size = max(map(len, columns)) + 2
    lines: list[str] = []
    for row in rows:
        lines += [""] if lines else []
        for column, cell in zip(columns, row, strict=True):
            first, *others = wrap_lists(str(cell), max(_LEAST_CELL, width - size))
            lines += [f"{column + ':':{size}}{first}".rstrip(), *(" " * size + line for line in others)]
    return lines


def draw_cells(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """Return the lines of a table that fits a width, or a line for each cell where it would break a name."""
    # PERF: commands without a table need not load it
    from prettytable import PrettyTable

    drawn: Sequence[Sequence[str]] | None = rows
    if width is not None and measure_table(columns, rows) > width:
        drawn = break_cells(columns, rows, width)
    if drawn is None:
        return list_records(columns, rows, width or 0)
    table = PrettyTable(columns, align="l")
    table.add_rows([list(row) for row in drawn])
    return table.get_string().split("\n")


class LinesColumn(FormattableColumn[str]):
    """Text of several lines."""

    def human_readable(self) -> str:
        """Return the same lines."""
        return self._value


def format_table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    """Draw rows without the columns that are empty or repeat the first; return "" if there are no rows."""
    if not rows:
        return ""
    # PERF: commands without a table need not load it
    from prettytable import PrettyTable

    def format_cell(value: object) -> str:
        return "\n".join(map(printable, value)) if isinstance(value, list) else printable(str(value))

    cells = {column: [format_cell(row[column]) for row in rows] for column in columns}
    first, *others = columns
    shown = [first, *(each for each in others if any(cells[each]) and cells[each] != cells[first])]
    table = PrettyTable([column.replace("_", " ") for column in shown], align="l")
    table.add_rows([list(row) for row in zip(*(cells[column] for column in shown), strict=True)])
    return table.get_string()
