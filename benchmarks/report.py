# SPDX-License-Identifier: Apache-2.0
"""The results as a table for people and as a document for programs."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from prettytable import PrettyTable

from benchmarks.runner import Measurement, Result

COLUMNS = ("case", "side", "median s", "least s", "most s", "times faster", "target s")


def format_table(results: Iterable[Result]) -> str:
    """A row for each side of each case."""
    table = PrettyTable(COLUMNS)
    table.align = "r"
    table.align["case"] = table.align["side"] = "l"
    for result in results:
        for measurement in (result.reference, *result.ours):
            table.add_row(_row(result, measurement))
    return str(table)


def _row(result: Result, measurement: Measurement) -> list[str]:
    if not measurement.seconds:
        return [result.case.title, measurement.side, f"left out: {measurement.left_out}", "", "", "", ""]
    figures = (measurement.median, min(measurement.seconds), max(measurement.seconds))
    ours = measurement is not result.reference
    return [
        result.case.title,
        measurement.side,
        *(_format_number(figure) for figure in figures),
        _format_number(result.ratio(measurement) if ours else None),
        _format_number(result.case.target if ours else None),
    ]


def _format_number(number: float | None) -> str:
    return "" if number is None else f"{number:.2f}"


def to_json(results: Iterable[Result], versions: Mapping[str, str]) -> dict[str, Any]:
    """All samples, with what they were taken on. Seconds throughout."""
    return {
        "taken": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "versions": dict(versions),
        "cases": [_case_to_json(result) for result in results],
    }


def _case_to_json(result: Result) -> dict[str, Any]:
    return {
        "name": result.case.name,
        "title": result.case.title,
        "target": result.case.target,
        "reference": _measurement_to_json(result, result.reference),
        "ours": [_measurement_to_json(result, measurement) for measurement in result.ours],
    }


def _measurement_to_json(result: Result, measurement: Measurement) -> dict[str, Any]:
    return {
        "side": measurement.side,
        "median": measurement.median,
        "samples": list(measurement.seconds),
        "times_faster_than_reference": result.ratio(measurement),
        "left_out": measurement.left_out,
    }
