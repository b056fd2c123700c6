# SPDX-License-Identifier: Apache-2.0
"""The results as a document for programs, and the table for people, which is made from that document."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from prettytable import PrettyTable

from benchmarks.figure import Cut, Figure, Target, percentile
from benchmarks.runner import Measurement, Result

#: samples that are kept one by one
MANY = 50
COLUMNS = ("case", "figure", "side", "reference", "ours", "times better", "target", "holds")


def to_json(results: Iterable[Result], versions: Mapping[str, str]) -> dict[str, Any]:
    """All samples, with what they were taken on."""
    return {
        "machine": {
            "cores": os.cpu_count(),
            "kind": platform.machine(),
            "system": platform.system(),
            "python": platform.python_version(),
        },
        "versions": dict(versions),
        "cases": [_case_to_json(result) for result in results],
    }


def merge(
    old: Mapping[str, Any], new: Mapping[str, Any], order: Iterable[str], *, is_partial: bool = False
) -> dict[str, Any]:
    """The new document, with the cases of the old one that were not run again; cases in the order given.

    :param is_partial: also with those figures of its cases that were not measured again
    """
    cases = {case["name"]: case for case in old["cases"]}
    for case in new["cases"]:
        before = cases.get(case["name"])
        cases[case["name"]] = _merge_case(before, case) if before and is_partial else case
    return {**new, "cases": [cases[name] for name in order if name in cases]}


def _merge_case(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    figures = {figure["name"]: figure for case in (old, new) for figure in case["figures"]}
    return {**new, "figures": list(figures.values())}


def _case_to_json(result: Result) -> dict[str, Any]:
    return {
        "name": result.case.name,
        "title": result.case.title,
        "taken": datetime.now(UTC).isoformat(timespec="seconds"),
        "figures": [_figure_to_json(result, figure) for figure in result.case.figures],
    }


def _figure_to_json(result: Result, figure: Figure) -> dict[str, Any]:
    reference = None if result.reference is None else _summarize(result.reference, figure)
    return {
        "name": figure.name,
        "unit": figure.unit,
        "reference": result.reference and _measurement_to_json(result.reference, figure),
        "ours": [
            _measurement_to_json(side, figure) | _verdict_to_json(side, figure, reference)
            for side in result.ours
        ],
    }


def _measurement_to_json(measurement: Measurement, figure: Figure) -> dict[str, Any]:
    parts = {part: _values_to_json(measurement, figure, figure.part(part)) for part in figure.parts}
    return {
        "side": measurement.side.name,
        **_values_to_json(measurement, figure, figure.name),
        **({"parts": parts} if parts else {}),
        "left_out": measurement.left_out,
    }


def _values_to_json(measurement: Measurement, figure: Figure, name: str) -> dict[str, Any]:
    samples = measurement.samples.get(name, ())
    return {"value": _number_to_json(figure.summarize(samples)), "samples": _samples_to_json(samples)}


def _verdict_to_json(side: Measurement, figure: Figure, reference: float | None) -> dict[str, Any]:
    ours = _summarize(side, figure)
    target = side.side.targets.get(figure.name, Target())
    return {
        "times_better": _number_to_json(figure.times_better(ours, reference)),
        "target": target.format(figure.unit),
        "holds": target.holds(figure, ours, reference),
    }


def _samples_to_json(values: Sequence[float]) -> object:
    """All of them, or what they are like if they are many: the answers of a storm are thousands."""
    if len(values) <= MANY:
        return [_number_to_json(value) for value in values]
    of_interest = {"least": 0, "median": 50, "p90": 90, "p99": 99, "most": 100}
    like = {name: _number_to_json(percentile(values, per_cent)) for name, per_cent in of_interest.items()}
    return {"count": len(values), **like}


def _summarize(measurement: Measurement, figure: Figure) -> float | None:
    return figure.summarize(measurement.samples.get(figure.name, ()))


def _number_to_json(number: float | None) -> float | dict[str, float] | None:
    """Four digits, which is more than a busy machine means; what was cut says so."""
    if number is None:
        return None
    rounded = float(f"{number:.4g}")
    return {"more_than": rounded} if isinstance(number, Cut) else rounded


def format_table(document: Mapping[str, Any]) -> str:
    """A row for each side of ours in each figure of each case, and below them why sides are left out."""
    table = PrettyTable(COLUMNS)
    table.align = "r"
    for column in ("case", "figure", "side", "target"):
        table.align[column] = "l"
    for case in document["cases"]:
        for figure in case["figures"]:
            # a run of the reference alone has a row, too
            for side in figure["ours"] or [None]:
                table.add_row(_row(case, figure, side))
    return "\n".join((str(table), *_reasons(document)))


def _reasons(document: Mapping[str, Any]) -> list[str]:
    lines = (
        f"left out: {case['title']}, {side['side']}: {side['left_out']}"
        for case in document["cases"]
        for figure in case["figures"]
        for side in (figure["reference"], *figure["ours"])
        if side is not None and side["left_out"]
    )
    return list(dict.fromkeys(lines))


def _row(case: Mapping[str, Any], figure: Mapping[str, Any], side: Mapping[str, Any] | None) -> list[str]:
    unit = figure["unit"]
    row = [case["title"], figure["name"]]
    if side is None:
        return [*row, "", _format_side(figure["reference"], unit), "", "", "", ""]
    return [
        *row,
        side["side"],
        _format_side(figure["reference"], unit),
        _format_side(side, unit),
        _format_number(side["times_better"]),
        side["target"],
        {None: "", True: "yes", False: "NO"}[side["holds"]],
    ]


def _format_side(side: Mapping[str, Any] | None, unit: str) -> str:
    if side is None:
        return ""
    if side["left_out"]:
        return "left out"
    number = _format_number(side["value"])
    if not number:
        return ""
    parts = " + ".join(_format_number(part["value"]) for part in side.get("parts", {}).values())
    return f"{number} {unit} ({parts})" if parts else f"{number} {unit}"


def _format_number(number: float | Mapping[str, float] | None) -> str:
    """Three digits, or all of those before the point."""
    if number is None:
        return ""
    if isinstance(number, Mapping):
        return f"> {_format_number(number['more_than'])}"
    digits = 0 if number == 0 else max(0, 2 - math.floor(math.log10(abs(number))))
    return f"{number:,.{digits}f}"
