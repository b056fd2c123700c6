# SPDX-License-Identifier: Apache-2.0
"""Plans, results and runs as rows, and the text that shows them on a terminal. Pure.

A few rows are shown as a table. Many are counted: each difference, each reason and each result once, with its
number, and the failures one line each as far as the screen takes them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from osc_placement.api.consumer import Consumer
from osc_placement.batch import (
    IN_PART,
    REFUSED,
    Change,
    ChangedSince,
    Plan,
    Report,
    Result,
    list_differences,
)
from osc_placement.model import Provider
from osc_placement.report.summary import count_differences, sum_up
from osc_placement.terminal.escape import printable
from osc_placement.terminal.lines import (
    capitalize,
    count_lines,
    fit,
    fit_commands,
    fit_heading,
    wrap,
    wrap_fact,
)
from osc_placement.terminal.tables import draw_cells

if TYPE_CHECKING:
    from osc_placement.batch import Run
    from osc_placement.report.runs import NextCommands

#: rows, and lines of rows, up to which these are shown each
FEW: Final = 20
#: lines of such a table, whose cells may be wrapped
_MOST_OF_TABLE: Final = 32
#: lines that a command prints on a terminal; twelve more are about the run and the confirmation
SCREEN: Final = 48
#: groups of changes: those that have a line whatever else there is to say, and those that have one at all
_LEAST_GROUPS: Final = 5
_MOST_GROUPS: Final = 20
_MOST_REASONS: Final = 4
_MOST_FAILURES: Final = 40
_MOST_WARNINGS: Final = 12
_MOST_SUMMARY: Final = 3
#: lines that are kept for what follows the failures of a plan: its end, and the result
_KEPT_BY_PLAN: Final = 24
_COLUMNS: Final = ("name", "change", "result")
#: those of a table of all rows on a terminal
SHORT_COLUMNS: Final = (*_COLUMNS, "reason")
#: the option that shows all rows or problems
SEE_ALL: Final = "(--full shows each of them)"
SEE_CHANGES: Final = "(--full shows each change)"
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NUMBER: Final = re.compile(r"[\d,.]+")
#: a word with letters and digits, as names of hosts are; no amount such as VCPU=2
_NAME: Final = re.compile(r"(?<!\S)(?=[^\s=]*[A-Za-z])(?=[^\s=]*\d)[^\s=]+(?!\S)")


@dataclass(frozen=True, slots=True)
class Row:
    """A change with its result and the reason for it.

    :ivar result: the word for that of the outcome, also for a step that a plan cannot try; else ""
    :ivar is_left: whether an undo leaves the subject as it is; a table has the reason in place of the change
    """

    change: Change
    result: str = ""
    reason: str = ""
    is_left: bool = False

    @property
    def is_incomplete(self) -> bool:
        """Return whether the change was not made, or in part only, for a reason of its own."""
        return self.result in (Result.FAILED, REFUSED, IN_PART)


def rows_of_plan(plan: Plan) -> list[Row]:
    """Return a row for each step that would be made, or cannot be."""
    return [
        Row(
            plan.show(step),
            REFUSED if step.uuid in plan.refused else Result.FAILED,
            str(plan.untried[step.uuid]),
            isinstance(plan.untried[step.uuid], ChangedSince),
        )
        if step.uuid in plan.untried
        else Row(step, "", step.reason)
        for step in plan.steps
        if step.facets or step.uuid in plan.untried
    ]


def rows_of_report(report: Report) -> list[Row]:
    """Return a row for each outcome."""
    return [
        Row(
            report.plan.show(outcome.change),
            outcome.word,
            str(outcome.error or "; ".join(filter(None, (outcome.change.reason, outcome.note)))),
            isinstance(outcome.error, ChangedSince),
        )
        for outcome in report.outcomes
    ]


def rows_of_run(run: Run) -> list[Row]:
    """Return a row for each change of a run; one without an outcome has no result."""
    rows = []
    for change in run.intents.values():
        ending, word = run.endings.get(change.uuid), run.word_of(change)
        told = [change.reason if word == IN_PART else "", ending.note] if ending else []
        reason = (ending and ending.error) or "; ".join(filter(None, told))
        is_left = bool(run.header.undoes and ending and ending.code == ChangedSince.error_code)
        rows.append(Row(change, word, reason, is_left))
    return rows


def sort_rows(rows: Iterable[Row]) -> list[Row]:
    """Return rows in the order of names, those of consumers after those of providers.

    Providers that are deleted are last, as their allocations have to be gone.
    """

    def find_place(row: Row) -> tuple[int, str]:
        subject, is_last = row.change.subject, row.change.verb == "deleted"
        return 1 if isinstance(subject, Consumer) else 2 * is_last, subject.name

    return sorted(rows, key=find_place)


@dataclass(slots=True)
class Page:
    """The output of a command on a terminal: at most so many lines, each thing once.

    :ivar width: of the terminal; None elsewhere, where everything is printed
    :ivar names: of aggregates and providers, by UUID
    """

    width: int | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    _left: int = SCREEN
    _told: set[str] = field(default_factory=set)

    def name_providers(self, changes: Iterable[Change]) -> None:
        """Have the names of the providers of changes in the text of allocations."""
        named = {each.uuid: each.subject.name for each in changes if isinstance(each.subject, Provider)}
        self.names = {**named, **self.names}

    def describe(self, rows: Sequence[Row], *, is_plan: bool = False, more: str = "") -> list[str]:
        """Return the text of rows: a table of few, numbers of many; then the reasons, then the failures.

        :param is_plan: count the changes that have no result; otherwise those that were applied
        :param more: what shows all rows; the last line, if there is no table of them
        """
        rows = sort_rows(rows)
        kept = _KEPT_BY_PLAN if is_plan else _MOST_SUMMARY
        table = self._draw_few(rows, self._left - kept)
        # a row of a table has its reason below, with its name; a number would be taken for that of other rows
        is_listed = table is not None and len(rows) <= FEW
        reasons = [] if is_listed else _count_reasons(rows, table is not None)
        named = [row for row in rows if row.is_incomplete or (is_listed and row.reason)]
        named = [row for row in named if row.reason not in self._told]
        self._told |= {row.reason for row in named}
        causes = _describe_reasons(
            (
                _label_of(row.result),
                row.change.subject.name,
                row.reason,
                (row.change.uuid, row.change.subject.name),
            )
            for row in named
            if table is None or not row.is_left
        )
        if table is None:
            wanted = ("",) if is_plan else (Result.APPLIED, IN_PART)
            counts = count_differences((row.change for row in rows if row.result in wanted), self.names)
            others = len(reasons[:_MOST_REASONS]) + count_lines(causes[:_MOST_FAILURES], self.width or 1)
            free = self._left - kept - others
            most = min(_MOST_GROUPS, max(_LEAST_GROUPS, free))
            lines = self._take_new(counts, most, "more differences")
        else:
            lines = table
        told = self._take_new(reasons, _MOST_REASONS, "more reasons")
        told += self._take(
            causes, min(_MOST_FAILURES, self._left - kept), f"more {'reasons' if is_listed else 'failures'}"
        )
        # what follows rows with a line for each cell is not about the last of them
        lines += [""] if table and told and not table[-1].startswith("+") else []
        lines += told
        return lines + self._tell_once(more) if rows and table is None else lines

    def tell(self, facts: Sequence[str]) -> list[str]:
        """Return facts, each whole and in lines of its own."""
        lines = [printable(fact) for fact in facts]
        if self.width is not None:
            lines = [line for fact in lines for line in wrap_fact(fact, self.width)]
            self._left -= len(lines)
        return lines

    def complain(
        self,
        problems: Sequence[tuple[str, str]],
        prefix: str = "",
        *,
        more: str = "",
        most: int = _MOST_FAILURES,
    ) -> list[str]:
        """Return a line for each problem, or for each reason if there are too many for a terminal.

        :param problems: a subject, as in ``host h1``, and the reason why it is left alone, or why it failed
        :param more: what shows all problems; the last line, once on a page, if they are more than the lines
        :param most: the number of lines
        """
        texts = [printable(f"{prefix}{subject}: {reason}") for subject, reason in problems]
        if self.width is None:
            return texts
        most = min(most, self._left - _MOST_SUMMARY)
        if len(texts) > FEW or count_lines(texts, self.width) > most:
            details = []
            for subject, reason in problems:
                # a subject has names, such as host h1, node n1
                names = [part.partition(" ")[2] or part for part in subject.split(", ")]
                details.append((prefix, subject, reason, [*names, *_NAME.findall(reason)]))
            texts = _describe_reasons(details)
        lines = self._take(texts, most, "more reasons")
        is_whole = len(problems) == len(texts) <= most
        return lines if is_whole else lines + self._tell_once(more)

    def warn(self, warnings: Iterable[str]) -> list[str]:
        """Return a line for each warning that is not on the page already.

        If they take too many, those that differ in names and numbers only have one line, with how many they
        are, so that the others need not be cut.
        """
        new = [each for each in warnings if each not in self._told]
        self._told.update(new)
        lines = [f"Warning: {each}" for each in new]
        if self.width is not None and count_lines(lines, self.width) > _MOST_WARNINGS:
            alike: dict[str, list[str]] = {}
            for each in new:
                alike.setdefault(_NUMBER.sub("", _NAME.sub("", each)), []).append(each)
            lines = [
                f"Warning{f' (1 of {len(group):,} alike)' if len(group) > 1 else ''}: {group[0]}"
                for group in alike.values()
            ]
        return self._take(lines, _MOST_WARNINGS, "more warnings")

    def propose(self, plan: Plan, more: str = "") -> list[str]:
        """Return the text of a plan that is to be confirmed, without its warnings.

        :param more: what shows all rows
        """
        return self.describe(rows_of_plan(plan), is_plan=True, more=more) + self.sum_up(plan)

    def sum_up(self, result: Plan | Report) -> list[str]:
        """Return the summary of a plan or report; if it is longer than a line, reasons are above it."""
        summary = sum_up(result)
        if self.width is None or len(printable(summary.line)) <= self.width:
            return self.summarize(summary.line)
        unchanged = result.unchanged if isinstance(result, Plan) else ()
        rows = [Row(step, Result.UNCHANGED, step.reason) for step in unchanged]
        reasons = self._take_new(_count_reasons(rows, is_table=False), _MOST_REASONS, "more reasons")
        return reasons + self.summarize(summary.heading, summary.totals)

    def summarize(self, heading: str, totals: str = "") -> list[str]:
        """Return the summary of a plan or result; on a terminal a long heading is cut, never the totals."""
        if self.width is None:
            return self._take([heading + totals], _MOST_SUMMARY, "")
        text = fit_heading(printable(heading), _MOST_SUMMARY, self.width, printable(totals))
        return self._take([text], count_lines([text], self.width), "")

    def name_commands(self, commands: NextCommands) -> list[str]:
        """Return the lines of the commands that can follow a run, and of what is left; no command is cut."""
        title, *others = commands.lines
        left = capitalize(commands.left)
        if self.width is None:
            return list(filter(None, [title, *others, left]))
        return [title, *fit_commands(others, self.width), *(wrap(left, self.width) if left else [])]

    def _draw_few(self, rows: Sequence[Row], most: int) -> list[str] | None:
        """Return a table of the rows, without those that are unchanged if it is too long with them.

        Return None if there are too many rows, and nothing if all were shown before and ended well.
        """
        if len(rows) > FEW:
            rows = [row for row in rows if row.result != Result.UNCHANGED]
        if not 0 < len(rows) <= FEW:
            return None
        _, changes = make_table(rows, _COLUMNS[:2], self.names)
        shown = set(map(" ".join, changes))
        if shown <= self._told and all(row.result in (Result.APPLIED, Result.UNCHANGED) for row in rows):
            return []
        lines = draw_table(rows, _COLUMNS, self.width, self.names)
        if self.width is not None and len(lines) > min(most, _MOST_OF_TABLE):
            return None
        self._told |= shown
        self._left -= len(lines)
        return lines

    def _tell_once(self, text: str) -> list[str]:
        """Return a text, unless it is empty or was on the page before."""
        if not text or text in self._told:
            return []
        self._told.add(text)
        return self.tell([text])

    def _take_new(self, counts: Sequence[tuple[int, str]], most: int, more: str) -> list[str]:
        """Return a line for each number, or nothing if all are on the page already."""
        texts = [f"{number:>9,}  {text}" for number, text in counts]
        if self._told.issuperset(texts):
            return []
        self._told.update(texts)
        return self._take(texts, most, more)

    def _take(self, texts: Sequence[str], most: int, more: str) -> list[str]:
        """Return texts, escaped; on a terminal the lines that they take, as far as they fit on the page."""
        lines = [printable(text) for text in texts]
        if self.width is not None:
            lines = fit(lines, max(2, most), self.width, more)
            self._left -= len(lines)
        return lines


def draw_table(
    rows: Sequence[Row], columns: Sequence[str], width: int | None, names: Mapping[str, str]
) -> list[str]:
    """Return the lines of a table that fits a width, or a line for each cell where it would break a name."""
    return draw_cells(*make_table(rows, columns, names), width)


def make_table(
    rows: Sequence[Row], columns: Sequence[str], names: Mapping[str, str] | None = None
) -> tuple[list[str], list[list[str]]]:
    """Return those of the columns that are not empty, and the cells of rows; lines of a cell are escaped."""
    cells = []
    for row in rows:
        name, reason = row.change.subject.name, row.reason
        found = list_differences(row.change.before, row.change.after, names)
        verb = row.change.verb
        lines = [verb if verb != "updated" and each.names_subject else str(each) for each in found]
        if row.is_left:
            lines, reason = [_remove_name(reason, name)], ""
        texts = {
            "name": printable(name),
            "change": "\n".join(map(printable, lines)),
            "result": row.result,
            "reason": printable(reason),
        }
        cells.append([texts[column] for column in columns])
    used = [number for number in range(len(columns)) if any(row[number] for row in cells)]
    return [columns[number] for number in used], [[row[number] for number in used] for row in cells]


def _label_of(result: str) -> str:
    """Return what is before a name and a reason; nothing for what is simply done, or is to be."""
    return "" if result in ("", Result.APPLIED) else f"{result.capitalize()}: "


def _count_reasons(rows: Sequence[Row], is_table: bool) -> list[tuple[int, str]]:
    """Return how often there is each result and reason, but for failures and what was simply applied.

    Reasons that differ in names only count as one, and the first of them is the example.
    """
    groups: dict[tuple[str, str], Counter[str]] = {}
    for row in rows:
        if not row.is_incomplete and (row.reason or not (is_table or row.result in ("", Result.APPLIED))):
            key = (row.result, _NAME.sub("", row.reason))
            groups.setdefault(key, Counter())[row.reason] += 1
    counts = []
    for (result, _), reasons in groups.items():
        example = f"{next(iter(reasons))}{' and similar' if len(reasons) > 1 else ''}"
        counts.append((reasons.total(), ": ".join(filter(None, (result, example)))))
    return sorted(counts, key=lambda each: -each[0])


def _describe_reasons(reasons: Iterable[tuple[str, str, str, Iterable[str]]]) -> list[str]:
    """Return a line for each reason, with the first subject that has it and the number of the others.

    Reasons are the same if they differ in UUIDs and names only. If they name different objects, these have
    no UUID in the line, as that of the first would stand for all.

    :param reasons: label, subject, text, and the names in both
    """
    groups: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    objects: dict[tuple[str, ...], set[str]] = {}
    for label, subject, text, names in reasons:
        kind, same = subject, text
        for name in filter(None, names):
            kind, same = kind.replace(name, ""), same.replace(name, "")
        key = (label, kind, _UUID.sub("", same))
        groups.setdefault(key, []).append((subject, text))
        objects.setdefault(key, set()).add(same)
    for group, texts in groups.items():
        if len(objects[group]) > 1:
            texts[0] = texts[0][0], _UUID.sub("<UUID>", texts[0][1])
    return [
        f"{label}{first}{f' and {len(others):,} more' if others else ''}: {_remove_name(text, first)}"
        for (label, *_), ((first, text), *others) in sorted(
            groups.items(), key=lambda item: len(item[1]), reverse=True
        )
    ]


def _remove_name(text: str, name: str) -> str:
    """Return a reason without the name with which it begins."""
    return text.removeprefix(f"resource provider {name} ").removeprefix(f"{name} ")
