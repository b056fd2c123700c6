# SPDX-License-Identifier: Apache-2.0
"""A plan shown or carried out, and what came of it printed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from osc_placement.batch.plan import Plan, Result
from osc_placement.migrate import runner, tables
from osc_placement.migrate.command import Command
from osc_placement.migrate.migrations.base import Assessment, Context
from osc_placement.migrate.problem import Problem
from osc_placement.migrate.runner import Execution, Run
from osc_placement.terminal.progress import ProgressLine
from osc_placement.terminal.tables import format_table

Item = TypeVar("Item")
#: of a table or a list
MOST_ROWS: Final = 1000


def run_or_show(command: Command, context: Context, assessment: Assessment) -> Run | None:
    """Carry the plan out, or show it; None if it was only shown."""
    if command.options.dry_run:
        plan, left = runner.limit(assessment.plan, command.execution.max_count)
        rows, hidden = _make_rows(command, plan.changes, tables.change_row)
        facts = [f"{len(plan.changes)} to change", *_count_rest(plan, assessment.problems, left)]
        summary = [*hidden, f"{plan.edit.title}: {', '.join(facts)}"]
        _show(command, tables.PLAN_COLUMNS, rows, assessment, summary)
        return None
    run = carry_out(context, assessment, command.execution)
    show_run(command, run, assessment)
    return run


def carry_out(context: Context, assessment: Assessment, execution: Execution) -> Run:
    """Carry the plan out, with a line that says how far it is."""
    plan, _ = runner.limit(assessment.plan, execution.max_count)
    with ProgressLine(plan.edit.title, len(plan.changes), sys.stderr) as progress:
        return runner.carry_out(context.client, assessment, execution, progress.advance)


def show_run(command: Command, run: Run, assessment: Assessment | None = None) -> None:
    """Print what came of a plan."""
    assessment = assessment or Assessment(run.report.plan)
    outcomes = [each for each in run.report.outcomes if each.result is not Result.UNCHANGED]
    rows, hidden = _make_rows(command, outcomes, tables.outcome_row)
    counts = run.report.counts
    facts = [f"{counts[each]} {each}" for each in Result if counts[each] and each is not Result.UNCHANGED]
    facts += _count_rest(run.report.plan, assessment.problems, run.left)
    told = f"{run.report.plan.edit.title}: {', '.join(facts) or 'nothing to do'}"
    summary = [*hidden, told, run.report.halted]
    if run.id:
        summary.append(f"Run {run.id}; {command.describe_undo(run.id)}")
    _show(command, tables.REPORT_COLUMNS, rows, assessment, summary, run=run.id, left=run.left)


def _make_rows(
    command: Command, items: Sequence[Item], make: Callable[[Item], tables.Row]
) -> tuple[list[tables.Row], list[str]]:
    """The rows to print, and a line on those that are too many for a table.

    PERF: a table of 100,000 rows takes 100 MiB and seconds, and nobody reads it.
    """
    shown = items if command.options.format == "json" else items[:MOST_ROWS]
    hidden = len(items) - len(shown)
    more = [f"... and {hidden} more rows, which -f json has"] if hidden else []
    return [make(item) for item in shown], more


def _count_rest(plan: Plan, problems: Sequence[Problem], left: int) -> list[str]:
    """What is neither changed nor to be changed, in words."""
    facts = (
        (len(plan.unchanged), "as wanted already"),
        (len(problems), "left alone"),
        (left, "for later runs"),
    )
    return [f"{number} {words}" for number, words in facts if number]


def _show(
    command: Command,
    columns: Sequence[str],
    rows: Sequence[tables.Row],
    assessment: Assessment,
    summary: Sequence[str],
    **more: object,
) -> None:
    problems = assessment.problems
    document = {"rows": rows, "findings": [tables.problem_row(each) for each in problems], **more}
    lines = [f"Left alone: {line}" for line in tables.describe_problems(problems)]
    command.show(document, [format_table(columns, rows, assessment.names), *lines, *summary])
