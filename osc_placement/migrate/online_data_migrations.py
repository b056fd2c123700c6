# SPDX-License-Identifier: Apache-2.0
"""``placement-migrate online_data_migrations``: all in order, with nova-manage's table and statuses.

No progress is stored: doc/source/admin/leaving-caching-scheduler.rst says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from osc_placement.batch.plan import EXIT_DONE, EXIT_INTERRUPTED, Outcome, Result
from osc_placement.migrate.command import Command
from osc_placement.migrate.migrations import registry
from osc_placement.migrate.migrations.base import Assessment
from osc_placement.migrate.output import FAILURES, Row, carry_out, describe_problems, explain, problem_row
from osc_placement.migrate.problem import Problem
from osc_placement.migrate.runner import Run
from osc_placement.terminal.tables import format_table

#: as those of nova-manage
_MORE: Final = 1
_SOME_FAILED: Final = 2
_COLUMNS: Final = ("Migration", "Total Needed", "Completed")
#: lines about changes that failed
_MOST_ERRORS: Final = 20


@dataclass
class Tally:
    """The results of the migrations so far."""

    rows: list[Row] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    errors: list[Row] = field(default_factory=list)
    runs: list[Row] = field(default_factory=list)
    halted: str = ""
    is_more: bool = False
    is_failed: bool = False
    is_interrupted: bool = False
    is_broken: bool = False

    def add(self, name: str, assessment: Assessment, run: Run) -> int:
        """Add the result of a migration; return the number of changes that were made."""
        done = run.report.counts[Result.APPLIED]
        needed = len(assessment.plan.changes) + len(assessment.problems)
        self.rows.append(dict(zip(_COLUMNS, (name, needed, done), strict=True)))
        self.problems += assessment.problems
        self._add_run(name, run)
        self.is_more = self.is_more or bool(run.left)
        self.is_failed = self.is_failed or run.report.is_failed or bool(assessment.problems)
        return done

    def _add_run(self, name: str, run: Run) -> None:
        self.errors += [_error_row(name, each) for each in run.report.outcomes if each.error]
        self.halted = self.halted or run.report.halted
        if run.id:
            self.runs.append({"migration": name, "run": run.id})

    def break_off(self, error: Exception) -> None:
        """Note the error that ends the command after something was written."""
        self.halted = f"stopped: {explain(error)}"
        self.is_broken = True

    @property
    def status(self) -> int:
        """Return the exit status of the command."""
        if self.is_interrupted:
            return EXIT_INTERRUPTED
        if self.is_broken:
            return _SOME_FAILED
        return _MORE if self.is_more else _SOME_FAILED if self.is_failed else EXIT_DONE


def run_all(command: Command) -> int:
    """Run the migrations one after the other, until all are done or the command is stopped."""
    tally = Tally()
    try:
        _run(command, tally)
    except KeyboardInterrupt:
        tally.is_interrupted = True
    except FAILURES as error:
        if not tally.runs:
            raise
        tally.break_off(error)
    _show(command, tally)
    return tally.status


def _run(command: Command, tally: Tally) -> None:
    left_to_do = command.options.max_count
    for migration in registry.make_all(command.options.shard):
        context, assessment = command.assess(migration)
        run = carry_out(context, assessment, replace(command.execution, max_count=left_to_do))
        done = tally.add(migration.name, assessment, run)
        left_to_do = None if left_to_do is None else left_to_do - done
        if command.execution.stop.is_set() or run.report.interrupted:
            raise KeyboardInterrupt
        if run.report.halted:
            return


def _error_row(name: str, outcome: Outcome) -> Row:
    subject, error = outcome.change.subject, " ".join(str(outcome.error).split())
    return {"migration": name, "uuid": subject.uuid, "name": subject.name, "error": error}


def _show(command: Command, tally: Tally) -> None:
    document = {
        "migrations": tally.rows,
        "findings": [problem_row(each) for each in tally.problems],
        "errors": tally.errors,
        "runs": tally.runs,
        "halted": tally.halted,
    }
    lines = [f"Left alone: {line}" for line in describe_problems(tally.problems)]
    lines += _describe_errors(tally.errors)
    runs = [
        f"Run {run['run']}, {run['migration']}; {command.describe_undo(run['run'])}" for run in tally.runs
    ]
    command.show(document, [*lines, format_table(_COLUMNS, tally.rows), tally.halted, *runs])


def _describe_errors(errors: Sequence[Row]) -> list[str]:
    """Return a line for each of the first errors and a count of the rest, as one cause may fail thousands."""
    lines = [f"Failed: {row['migration']} of {row['name']}: {row['error']}" for row in errors[:_MOST_ERRORS]]
    hidden = len(errors) - len(lines)
    return [*lines, f"... and {hidden} more failed, which -f json has"] if hidden else lines
