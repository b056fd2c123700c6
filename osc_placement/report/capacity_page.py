# SPDX-License-Identifier: Apache-2.0
"""A table of capacities, or of how often a request fits, as an HTML page. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from osc_placement.candidates.cloud import CloudView
from osc_placement.report.bar import MEMORY, format_amount, format_percent
from osc_placement.report.page import PLAIN_ROWS, Contents, Origin, make_page
from osc_placement.terminal.escape import printable
from osc_placement.terminal.screen import Style

#: ``name`` is the first column; a ``percent`` is drawn as a bar from the columns ``used`` and ``capacity``
Kind = Literal["name", "text", "verdict", "number", "percent"]
_MEMORY: Final = re.compile(rf"\b{MEMORY}=(\d+)")
_TEXTS: Final = ("name", "text", "verdict")


@dataclass(frozen=True, slots=True)
class Rows:
    """A table and its title.

    Values are texts and numbers; "" is no value. The last ``totals`` rows are about all the others, and stay
    last when the page is sorted. ``verdict`` is the answer in a sentence, and ``level`` how good it is.
    """

    title: str
    columns: tuple[str, ...]
    values: Sequence[tuple[Any, ...]]
    totals: int = 0
    verdict: str = ""
    level: Style = "low"

    def compact(self) -> Rows:
        """Return the rows without columns that are empty or repeat the first."""
        kept = [
            number
            for number in range(len(self.columns))
            if not (number and self.values) or any(row[number] not in ("", row[0]) for row in self.values)
        ]
        values = [tuple(row[number] for number in kept) for row in self.values]
        return replace(self, columns=tuple(self.columns[number] for number in kept), values=values)


def capacity_page(cloud: CloudView, rows: Rows, origin: Origin | None = None) -> str:
    """Return the page of a table: the plots of all classes, then the rows."""
    rows = rows.compact()
    labels = [column.replace("_", " ") for column in rows.columns]
    kinds = [_kind_of(rows, index) for index in range(len(labels))]
    words = " or ".join(label for label, kind in zip(labels, kinds, strict=True) if kind in _TEXTS)
    # a name is in a row for each class, so texts are there once and have numbers
    texts: dict[str, int] = {}

    def encode(kind: Kind, value: Any) -> Any:
        if kind in _TEXTS:
            return texts.setdefault(_name_memory(printable(str(value))), len(texts))
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
        verdict=rows.verdict,
        level=rows.level,
    )
    return make_page(rows.title, cloud, contents, origin)


def _name_memory(text: str) -> str:
    """Return a list of amounts with that of memory in GiB."""
    return _MEMORY.sub(lambda found: f"{MEMORY}={format_amount(MEMORY, int(found[1]))}", text)


def _kind_of(rows: Rows, index: int) -> Kind:
    """Return the kind of a column, which is that of its values."""
    if index == 0:
        return "name"
    if rows.columns[index] == "percent" and {"used", "capacity"} <= set(rows.columns):
        return "percent"
    if rows.columns[index] == "verdict":
        return "verdict"
    types = {type(row[index]) for row in rows.values if row[index] != ""}
    return "number" if types and types <= {int, float} else "text"


def _format_cell(columns: Sequence[str], row: tuple[Any, ...], index: int, kind: Kind) -> str:
    if kind == "percent":
        return format_percent(row[columns.index("used")], row[columns.index("capacity")])
    if kind == "number" and row[index] != "":
        return format_amount(str(dict(zip(columns, row, strict=True)).get("resource_class")), row[index])
    return _name_memory(str(row[index]))
