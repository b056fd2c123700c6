# SPDX-License-Identifier: Apache-2.0
"""A table of capacities, or of how often a request fits, as an HTML page. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from osc_placement.report import page
from osc_placement.report.cloud import Cloud

#: columns that hold text, which is aligned to the left
_LEFT: Final = ("provider", "root", "aggregate", "project", "resource_class", "host", "limited_by")


@dataclass(frozen=True, slots=True)
class Rows:
    """A table and its title."""

    title: str
    columns: tuple[str, ...]
    values: Sequence[tuple[Any, ...]]


def capacity_page(cloud: Cloud, rows: Rows) -> str:
    """Return the page of a table: the plots of all classes, then the rows."""
    return page.make_page(rows.title, page.describe_cloud(cloud), [page.class_panels(cloud), _table(rows)])


def _table(rows: Rows) -> str:
    head = "".join(_head_cell(column) for column in rows.columns)
    body = "\n".join(_row(rows.columns, row) for row in rows.values)
    return (
        '<section aria-labelledby="rows"><h2 id="rows">In numbers</h2>\n'
        f"{page.tools('rows', folds=False)}\n"
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'
        "</section>"
    )


def _head_cell(column: str) -> str:
    kind = "" if column in _LEFT or column == "percent" else ' class="number"'
    return f'<th scope="col"{kind}>{column.replace("_", " ")}</th>'


def _row(columns: Sequence[str], row: tuple[Any, ...]) -> str:
    values = dict(zip(columns, row, strict=True))
    cells = "".join(_cell(column, values) for column in columns[1:])
    find = " ".join(str(values[column]) for column in columns if column in _LEFT)
    return (
        f'<tr data-find="{page.text(find)}"><th scope="row" class="name">{page.name(str(row[0]))}</th>'
        f"{cells}</tr>"
    )


def _cell(column: str, values: dict[str, Any]) -> str:
    if column == "percent":
        return f'<td class="bar">{page.meter(values["used"], values["capacity"])}</td>'
    if column in _LEFT:
        kind = "class" if column == "resource_class" else "aside"
        return f'<td class="{kind}">{page.text(values[column])}</td>'
    return f'<td class="number">{values[column]:,}</td>'
