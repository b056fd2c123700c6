# SPDX-License-Identifier: Apache-2.0
"""Plans, results and runs as rows, and the text that shows them on a terminal. Pure.

A few rows are shown as a table. Many are counted: each difference, each reason and each result once, with its
number, and the failures one line each as far as the screen takes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from osc_placement.batch.difference import count_differences, list_differences
from osc_placement.batch.journal import Run
from osc_placement.batch.plan import Change, Plan, Report, Result
from osc_placement.terminal.escape import printable
from osc_placement.terminal.lines import count_lines, cut_middle, fit

#: rows, and lines of rows, up to which these are shown each
FEW: Final = 20
#: lines of such a table, whose cells may be wrapped
_MOST_OF_TABLE: Final = 32
#: lines that a command prints on a terminal; nine more are about the run and the confirmation
_SCREEN: Final = 51
#: letters of a line in its column of changes
_LEAST_CHANGE: Final = 20
_MOST_GROUPS: Final = 5
_MOST_REASONS: Final = 4
_MOST_FAILURES: Final = 40
_MOST_WARNINGS: Final = 7
_MOST_SUMMARY: Final = 2
#: lines that are kept for what follows the failures of a plan: its end, and the result
_KEPT_BY_PLAN: Final = 27
REFUSED: Final = "refused"
_COLUMNS: Final = ("name", "change", "result")


@dataclass(frozen=True, slots=True)
class Row:
    """A change with its result and the reason for it.

    :ivar result: that of the outcome; REFUSED of a step of a plan that will not be tried; else ""
    """

    change: Change
    result: str = ""
    reason: str = ""

    @property
    def is_failed(self) -> bool:
        """Return whether the change was not made, for a reason of its own."""
        return self.result in (Result.FAILED, REFUSED)


def rows_of_plan(plan: Plan) -> list[Row]:
    """Return a row for each step that would be made, or cannot be."""
    hopeless = plan.hopeless
    return [
        Row(step, REFUSED, str(hopeless[step.uuid])) if step.uuid in hopeless else Row(step, "", step.reason)
        for step in plan.steps
        if step.facets or step.uuid in hopeless
    ]


def rows_of_report(report: Report) -> list[Row]:
    """Return a row for each outcome."""
    return [
        Row(
            outcome.change,
            str(outcome.result),
            str(outcome.error or "; ".join(filter(None, (outcome.change.reason, outcome.note)))),
        )
        for outcome in report.outcomes
    ]


def rows_of_run(run: Run) -> list[Row]:
    """Return a row for each change of a run; one without an outcome has no result."""
    endings = run.endings
    return [
        Row(change, str(ending.result), ending.error or ending.note)
        if (ending := endings.get(uuid))
        else Row(change)
        for uuid, change in run.intents.items()
    ]


def sort_rows(rows: Iterable[Row]) -> list[Row]:
    """Return rows in the order of names."""
    return sorted(rows, key=lambda row: row.change.subject.name)


@dataclass(slots=True)
class Page:
    """What a command prints on a terminal: at most so many lines, and nothing twice.

    :ivar width: of the terminal; None elsewhere, where everything is printed
    """

    width: int | None = None
    _left: int = _SCREEN
    _told: set[str] = field(default_factory=set)

    def describe(self, rows: Sequence[Row], *, is_plan: bool = False, more: str = "") -> list[str]:
        """Return the text of rows: a table of few, numbers of many; then the reasons, then the failures.

        :param is_plan: count the changes that have no result; otherwise those that were applied
        :param more: what shows all rows; the last line, if there is no table of them
        """
        rows = sort_rows(rows)
        kept = _KEPT_BY_PLAN if is_plan else _MOST_SUMMARY
        table = self._draw_few(rows, self._left - kept)
        if table is None:
            wanted = "" if is_plan else Result.APPLIED
            counts = count_differences(row.change for row in rows if row.result == wanted)
            lines = self._take_new(counts, _MOST_GROUPS, "more differences")
        else:
            lines = table
        lines += self._take_new(_count_reasons(rows, table is not None), _MOST_REASONS, "more reasons")
        failures = [row for row in rows if row.is_failed and row.reason not in self._told]
        self._told |= {row.reason for row in failures}
        lines += self._take(
            _describe_failures(failures), min(_MOST_FAILURES, self._left - kept), "more failures"
        )
        return lines + self.tell([more]) if more and rows and table is None else lines

    def tell(self, facts: Sequence[str]) -> list[str]:
        """Return facts, one in a line."""
        return self._take(facts, len(facts), "more")

    def warn(self, warnings: Iterable[str]) -> list[str]:
        """Return a line for each warning."""
        return self._take([f"Warning: {each}" for each in warnings], _MOST_WARNINGS, "more warnings")

    def summarize(self, text: str) -> list[str]:
        """Return the summary of a plan or result."""
        if self.width is not None:
            text = cut_middle(text, _MOST_SUMMARY * self.width)
        return self._take([text], _MOST_SUMMARY, "")

    def _draw_few(self, rows: Sequence[Row], most: int) -> list[str] | None:
        """Return a table of the rows, without those that are unchanged if it is too long with them.

        Return None if there are too many rows, and nothing if all were shown before and ended well.
        """
        if len(rows) > FEW:
            rows = [row for row in rows if row.result != Result.UNCHANGED]
        if not 0 < len(rows) <= FEW:
            return None
        _, changes = make_table(rows, _COLUMNS[:2])
        shown = set(map(" ".join, changes))
        if shown <= self._told and all(row.result in (Result.APPLIED, Result.UNCHANGED) for row in rows):
            return []
        # PERF: commands without a table need not load it
        from prettytable import PrettyTable

        columns, cells = make_table(rows, _COLUMNS)
        table = PrettyTable(columns, align="l", max_table_width=self.width)
        table.add_rows(cells)
        if self.width is not None and "change" in columns:
            # wrap what changes, and names only if that is not enough
            others = [texts for texts in zip(columns, *cells, strict=True) if texts[0] != "change"]
            taken = sum(max(map(len, texts)) + 3 for texts in others)
            table.max_width["change"] = max(_LEAST_CHANGE, self.width - 4 - taken)
        lines = table.get_string().split("\n")
        if self.width is not None and len(lines) > min(most, _MOST_OF_TABLE):
            return None
        self._told |= shown
        self._left -= len(lines)
        return lines

    def _take_new(self, counts: Sequence[tuple[int, str]], most: int, more: str) -> list[str]:
        """Return a line for each number, or nothing if all are on the page already."""
        texts = [f"{number:>9,}  {text}" for number, text in counts]
        if self._told.issuperset(texts):
            return []
        self._told.update(texts)
        return self._take(texts, most, more)

    def _take(self, texts: Sequence[str], most: int, more: str) -> list[str]:
        """Return texts, escaped, as far as they fit on the page."""
        lines = [printable(text) for text in texts]
        if self.width is not None:
            lines = fit(lines, max(2, most), self.width, more)
            self._left -= count_lines(lines, self.width)
        return lines


def make_table(rows: Sequence[Row], columns: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Return those of the columns that are not empty, and the cells of rows; lines of a cell are escaped."""
    cells = []
    for row in rows:
        differences = list_differences(row.change.before, row.change.after)
        texts = {
            "name": printable(row.change.subject.name),
            "change": "\n".join(printable(str(each)) for each in differences),
            "result": row.result,
            "reason": printable(row.reason),
        }
        cells.append([texts[column] for column in columns])
    used = [number for number in range(len(columns)) if any(row[number] for row in cells)]
    return [columns[number] for number in used], [[row[number] for number in used] for row in cells]


def _count_reasons(rows: Sequence[Row], is_table: bool) -> list[tuple[int, str]]:
    """Return how often there is each result and reason, but for failures and what was simply applied."""
    counts = Counter(
        (row.result, row.reason)
        for row in rows
        if not row.is_failed and (row.reason or not (is_table or row.result in ("", Result.APPLIED)))
    )
    return [(number, ": ".join(filter(None, told))) for told, number in counts.most_common()]


def _describe_failures(rows: Sequence[Row]) -> list[str]:
    """Return a line for each reason, with the name of the first that has it and the number of the others.

    Reasons are the same if they differ in the name or UUID of their subject only.
    """
    groups: dict[str, list[Row]] = {}
    for row in rows:
        subject = row.change.subject
        reason = row.reason.replace(subject.uuid, "").replace(subject.name, "")
        groups.setdefault(f"{row.result} {reason}", []).append(row)
    return [
        f"{first.result.capitalize()}: {first.change.subject.name}"
        f"{f' and {len(others):,} more' if others else ''}: {first.reason}"
        for first, *others in sorted(groups.values(), key=len, reverse=True)
    ]
