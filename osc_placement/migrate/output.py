# SPDX-License-Identifier: Apache-2.0
"""Output of ``placement-migrate``: plans, results, problems and errors, as tables and lines or as JSON."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from keystoneauth1 import exceptions as keystone

from osc_placement.batch.difference import describe_difference
from osc_placement.batch.plan import Change, Outcome, Plan, Result
from osc_placement.errors import OutcomeUnknown, PlacementError, is_outcome_unknown
from osc_placement.migrate import runner
from osc_placement.migrate.command import Command
from osc_placement.migrate.migrations.base import Assessment, Context
from osc_placement.migrate.problem import Problem, Reason
from osc_placement.migrate.runner import Execution, Run
from osc_placement.terminal.escape import printable
from osc_placement.terminal.progress import ProgressLine
from osc_placement.terminal.tables import format_table

Item = TypeVar("Item")
Row = Mapping[str, Any]
PLAN_COLUMNS: Final = ("uuid", "name", "before", "after", "note")
REPORT_COLUMNS: Final = (*PLAN_COLUMNS, "result", "error")
#: rows of a table, or lines of a list
MOST_ROWS: Final = 1000
#: lines about what could not be read for the same reason
_MOST_OF_ONE_TEXT: Final = 20
#: errors that a command explains in one line; any other is a bug and ends with a traceback
FAILURES: Final = (PlacementError, keystone.ClientException, OSError)


def run_or_show(command: Command, context: Context, assessment: Assessment) -> Run | None:
    """Carry the plan out and print the result; with ``--dry-run`` print the plan and return None."""
    if command.options.dry_run:
        plan, left = runner.limit(assessment.plan, command.execution.max_count)
        rows, hidden = _make_rows(command, plan.changes, change_row)
        facts = [f"{len(plan.changes)} to change", *_count_rest(plan, assessment.problems, left)]
        summary = [*hidden, f"{plan.edit.title}: {', '.join(facts)}"]
        _show(command, PLAN_COLUMNS, rows, assessment, summary)
        return None
    run = carry_out(context, assessment, command.execution)
    show_result(command, run, assessment)
    return run


def carry_out(context: Context, assessment: Assessment, execution: Execution) -> Run:
    """Carry the plan out, with a line of progress on a terminal."""
    plan, _ = runner.limit(assessment.plan, execution.max_count)
    with ProgressLine(plan.edit.title, len(plan.changes), sys.stderr) as progress:
        return runner.carry_out(context.client, assessment, execution, progress.advance)


def show_result(command: Command, run: Run, assessment: Assessment | None = None) -> None:
    """Print the result of a run."""
    assessment = assessment or Assessment(run.report.plan)
    outcomes = [each for each in run.report.outcomes if each.result is not Result.UNCHANGED]
    rows, hidden = _make_rows(command, outcomes, outcome_row)
    counts = run.report.counts
    facts = [f"{counts[each]} {each}" for each in Result if counts[each] and each is not Result.UNCHANGED]
    facts += _count_rest(run.report.plan, assessment.problems, run.left)
    sentence = f"{run.report.plan.edit.title}: {', '.join(facts) or 'nothing to do'}"
    summary = [*hidden, sentence, run.report.halted]
    if run.id:
        summary.append(f"Run {run.id}; {command.describe_undo(run.id)}")
    _show(command, REPORT_COLUMNS, rows, assessment, summary, run=run.id, left=run.left)


def _make_rows(
    command: Command, items: Sequence[Item], make: Callable[[Item], Row]
) -> tuple[list[Row], list[str]]:
    """Return the rows to print, and a line that counts those that are too many for a table.

    PERF: a table of 100,000 rows takes 100 MiB and seconds, and nobody reads it.
    """
    shown = items if command.options.format == "json" else items[:MOST_ROWS]
    hidden = len(items) - len(shown)
    more = [f"... and {hidden} more rows, which -f json has"] if hidden else []
    return [make(item) for item in shown], more


def _count_rest(plan: Plan, problems: Sequence[Problem], left: int) -> list[str]:
    """Return in words how many are right already, left unchanged, or left for later runs."""
    facts = (
        (len(plan.unchanged), "as wanted already"),
        (len(problems), "left alone"),
        (left, "for later runs"),
    )
    return [f"{number} {words}" for number, words in facts if number]


def _show(
    command: Command,
    columns: Sequence[str],
    rows: Sequence[Row],
    assessment: Assessment,
    summary: Sequence[str],
    **more: object,
) -> None:
    problems = assessment.problems
    document = {"rows": rows, "findings": [problem_row(each) for each in problems], **more}
    lines = [f"Left alone: {line}" for line in describe_problems(problems)]
    command.show(document, [format_table(columns, rows, assessment.names), *lines, *summary])


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


def describe_problems(problems: Sequence[Problem]) -> list[str]:
    """Return a line for each problem, but only the first and a count of unreadable things with one text.

    A cell that does not answer has hosts and instances by the thousand, which would hide the other problems.
    """
    lines, counts = [], Counter[str]()
    for problem in problems:
        if problem.reason is Reason.UNKNOWN:
            counts[problem.text] += 1
        if counts[problem.text] <= _MOST_OF_ONE_TEXT:
            lines.append(str(problem))
    more = {text: count - _MOST_OF_ONE_TEXT for text, count in counts.items() if count > _MOST_OF_ONE_TEXT}
    return lines + [f"... and {count} more, which -f json has: {text}" for text, count in more.items()]


def explain(error: Exception) -> str:
    """Return an error in one line; for a lost connection, the address and the network's own reason."""
    shown = OutcomeUnknown(error) if is_outcome_unknown(error) else error
    text = printable(" ".join(str(shown).split()))
    if not isinstance(error, keystone.ConnectFailure):
        return text
    cause: BaseException = error
    while cause.__cause__ or cause.__context__:
        cause = cause.__cause__ or cause.__context__ or cause
    return f"{text.partition(': HTTP')[0]}: {getattr(cause, 'strerror', None) or cause}"
