# SPDX-License-Identifier: Apache-2.0
"""Plans, results, problems and errors as text and as JSON: output that commands print. Pure.

A page is the document of ``-f json`` and the lines of text that say the same to people.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from keystoneauth1 import exceptions as keystone

from osc_placement.batch.difference import describe_difference
from osc_placement.batch.plan import Change, Outcome, Plan, Result
from osc_placement.errors import OutcomeUnknown, PlacementError, is_outcome_unknown, network_reason, one_line
from osc_placement.migrate.migrations.base import Assessment
from osc_placement.migrate.problem import Problem, Reason
from osc_placement.terminal.escape import printable
from osc_placement.terminal.tables import format_table

if TYPE_CHECKING:
    from osc_placement.migrate.runner import Run

Item = TypeVar("Item")
Row = Mapping[str, Any]
Page = tuple[Mapping[str, Any], Sequence[str]]
_PLAN_COLUMNS: Final = ("uuid", "name", "before", "after", "note")
REPORT_COLUMNS: Final = (*_PLAN_COLUMNS, "result", "error")
#: begins a line about a problem
LEFT_ALONE: Final = "Left alone: "
#: rows of a table, or lines of a list
MOST_ROWS: Final = 1000
#: lines about what could not be read for the same reason
_MOST_OF_ONE_TEXT: Final = 20
#: errors that a command explains in one line; any other is a bug and ends with a traceback
FAILURES: Final = (PlacementError, keystone.ClientException, OSError)


def describe_plan(assessment: Assessment, plan: Plan, left: int, *, is_json: bool) -> Page:
    """Return the page of a plan that is not carried out; ``left`` changes are for later runs."""
    shown, hidden = shorten(plan.changes, is_json=is_json, what=" rows")
    facts = [f"{len(plan.changes)} to change", *_count_rest(plan, assessment.problems, left)]
    sentence = f"{plan.edit.title}: {', '.join(facts)}"
    rows = [change_row(change) for change in shown]
    document = {"rows": rows, "findings": [problem_row(each) for each in assessment.problems]}
    table = format_table(_PLAN_COLUMNS, rows, assessment.names)
    return document, [table, *describe_problems(assessment.problems, LEFT_ALONE), *hidden, sentence]


def describe_run(run: Run, assessment: Assessment, undo: str, *, is_json: bool) -> Page:
    """Return the page of a run; ``undo`` says how to undo it."""
    plan, counts, problems = run.report.plan, run.report.counts, assessment.problems
    outcomes = [each for each in run.report.outcomes if each.result is not Result.UNCHANGED]
    shown, hidden = shorten(outcomes, is_json=is_json, what=" rows")
    facts = [f"{counts[each]} {each}" for each in Result if counts[each] and each is not Result.UNCHANGED]
    facts += _count_rest(plan, problems, run.left)
    sentence = f"{plan.edit.title}: {', '.join(facts) or 'nothing to do'}"
    rows = [outcome_row(outcome) for outcome in shown]
    findings = [problem_row(each) for each in problems]
    document = {"rows": rows, "findings": findings, "run": run.id, "left": run.left}
    table = format_table(REPORT_COLUMNS, rows, assessment.names)
    warnings = [f"Warning: {warning}" for warning in plan.warnings]
    lines = [table, *describe_problems(problems, LEFT_ALONE), *hidden, *warnings, sentence, run.report.halted]
    return document, [*lines, f"Run {run.id}; {undo}"] if run.id else lines


def shorten(
    items: Sequence[Item], *, is_json: bool = False, what: str = ""
) -> tuple[Sequence[Item], list[str]]:
    """Return the items to print, and a line that counts those that are too many for text.

    PERF: a table of 100,000 rows takes 100 MiB and seconds, and nobody reads it.
    """
    hidden = 0 if is_json else len(items) - MOST_ROWS
    if hidden <= 0:
        return items, []
    return items[:MOST_ROWS], [f"... and {hidden} more{what}, which -f json has"]


def _count_rest(plan: Plan, problems: Sequence[Problem], left: int) -> list[str]:
    """Return in words how many are right already, left unchanged, or left for later runs."""
    facts = (
        (len(plan.unchanged), "as wanted already"),
        (len(problems), "left alone"),
        (left, "for later runs"),
    )
    return [f"{number} {words}" for number, words in facts if number]


def change_row(change: Change) -> dict[str, Any]:
    """Return the row of a change, which has only what differs."""
    gone, come = describe_difference(change.before, change.after)
    return {
        "uuid": change.uuid,
        "name": change.subject.name,
        "before": gone,
        "after": come,
        "note": change.reason,
    }


def outcome_row(outcome: Outcome) -> dict[str, Any]:
    """Return the row of a change with its result."""
    error = "; ".join(filter(None, (str(outcome.error or ""), outcome.note)))
    return {**change_row(outcome.change), "result": str(outcome.result), "error": error}


def problem_row(problem: Problem) -> dict[str, Any]:
    """Return the JSON object of a problem."""
    return {"trouble": str(problem.reason), "subject": problem.subject, "text": problem.text}


def describe_problems(problems: Sequence[Problem], prefix: str = "") -> list[str]:
    """Return a line for each problem, but only the first and a count of unreadable things with one text.

    A cell that does not answer has hosts and instances by the thousand, which would hide the other problems.
    """
    lines, counts = [], Counter[str]()
    for problem in problems:
        if problem.reason is Reason.UNKNOWN:
            counts[problem.text] += 1
        if counts[problem.text] <= _MOST_OF_ONE_TEXT:
            lines.append(f"{prefix}{problem}")
    more = {text: count - _MOST_OF_ONE_TEXT for text, count in counts.items() if count > _MOST_OF_ONE_TEXT}
    return lines + [
        f"{prefix}... and {count} more, which -f json has: {text}" for text, count in more.items()
    ]


def explain(error: Exception) -> str:
    """Return an error in one line; for a lost connection, the address and the network's own reason."""
    text = printable(one_line(OutcomeUnknown(error) if is_outcome_unknown(error) else error))
    if isinstance(error, keystone.ConnectFailure):
        return f"{text.partition(': HTTP')[0]}: {network_reason(error)}"
    return text
