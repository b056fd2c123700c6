# SPDX-License-Identifier: Apache-2.0
"""A table of capacities, or of how often a request fits, as an HTML page. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from osc_placement.candidates.cloud import CloudView
from osc_placement.report.bar import format_percent
from osc_placement.report.page import PLAIN_ROWS, Contents, Origin, make_page
from osc_placement.terminal.escape import printable

#: ``name`` is the first column; a ``percent`` is drawn as a bar from the columns ``used`` and ``capacity``
Kind = Literal["name", "text", "number", "percent"]


@dataclass(frozen=True, slots=True)
class Rows:
    """A table and its title.

    Values are texts and numbers; "" is no value. The last ``totals`` rows are about all the others, and stay
    last when the page is sorted.
    """

    title: str
    columns: tuple[str, ...]
    values: Sequence[tuple[Any, ...]]
    totals: int = 0


def capacity_page(cloud: CloudView, rows: Rows, origin: Origin | None = None) -> str:
    """Return the page of a table: the plots of all classes, then the rows."""
    labels = [column.replace("_", " ") for column in rows.columns]
    kinds = [_kind_of(rows, index) for index in range(len(labels))]
    words = " or ".join(label for label, kind in zip(labels, kinds, strict=True) if kind in ("name", "text"))
    # a name is in a row for each class, so texts are there once and have numbers
    texts: dict[str, int] = {}

    def encode(kind: Kind, value: Any) -> Any:
        if kind in ("name", "text"):
            return texts.setdefault(printable(str(value)), len(texts))
        # page.js makes the percentage, and has no other use for this column
        return None if kind == "percent" or value == "" else value

    encoded = [[encode(kind, value) for kind, value in zip(kinds, row, strict=True)] for row in rows.values]
    contents = Contents(
        heading="In numbers",
        data={
            "filter": f"rows by {words}",
            "columns": [{"label": label, "kind": kind} for label, kind in zip(labels, kinds, strict=True)],
            "texts": list(texts),
            "rows": encoded,
            "totals": rows.totals,
        },
        plain_columns=labels,
        plain_rows=[
            [_format_cell(rows.columns, row, index, kind) for index, kind in enumerate(kinds)]
            for row in rows.values[:PLAIN_ROWS]
        ],
        total=len(rows.values),
        things="rows",
    )
    return make_page(rows.title, cloud, contents, origin)


def _kind_of(rows: Rows, index: int) -> Kind:
    """Return the kind of a column, which is that of its values."""
    if index == 0:
        return "name"
    if rows.columns[index] == "percent" and {"used", "capacity"} <= set(rows.columns):
        return "percent"
    types = {type(row[index]) for row in rows.values if row[index] != ""}
    return "number" if types and types <= {int, float} else "text"


def _format_cell(columns: Sequence[str], row: tuple[Any, ...], index: int, kind: Kind) -> str:
    if kind == "percent":
        return format_percent(row[columns.index("used")], row[columns.index("capacity")])
    return f"{row[index]:,}" if kind == "number" and row[index] != "" else str(row[index])
