# SPDX-License-Identifier: Apache-2.0
"""The base of commands that carry out a plan: show, confirm, journal, execute, print rows, resume."""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Any, Final, TextIO

from cliff.columns import FormattableColumn

from osc_placement import microversion
from osc_placement.batch import select, service
from osc_placement.batch.difference import describe_difference
from osc_placement.batch.execute import check_atomic, execute_plan
from osc_placement.batch.journal.record import facet_to_json
from osc_placement.batch.plan import (
    EXIT_DONE,
    EXIT_PARTIAL,
    Change,
    Facet,
    Plan,
    Reading,
    Report,
    Subject,
)
from osc_placement.batch.reshape import KIND
from osc_placement.batch.service import Job
from osc_placement.batch.undo import ReadStates
from osc_placement.commands import base
from osc_placement.errors import UsageError
from osc_placement.terminal.confirmation import ConfirmedCommand
from osc_placement.terminal.escape import printable
from osc_placement.terminal.progress import ProgressBar, nothing_changed_on_interrupt, stop_on_interrupt
from osc_placement.terminal.screen import screen_of
from osc_placement.terminal.tables import show_cell

PLAN_COLUMNS: Final = ("uuid", "name", "before", "after", "reason")
REPORT_COLUMNS: Final = (*PLAN_COLUMNS, "result", "error")
#: formats whose cells are plain text; they show the difference in one line
FLAT_FORMATS: Final = ("value", "csv")
#: how many rows of a plan are shown before the operator is asked to confirm it
_ROWS_TO_CONFIRM: Final = 40
_EXIT_CHANGES: Final = 2
_RUN: Final = "openstack resource provider batch run"


class PlanCommand(ConfirmedCommand, base.Lister):
    """A command that makes a plan and carries it out."""

    minimum = microversion.LIST_BY_AGGREGATE
    exit_statuses = (
        "Exit status: 0 every provider is as asked, or the plan was shown; 1 nothing was changed, the reason "
        "is on stderr; 2 the command line is wrong, or with --detailed-exitcode something changed or would; "
        "3 some providers failed, the rows say which and why; 130 interrupted, the rows say what was done."
    )

    def prepare(self, parsed_args: argparse.Namespace) -> Job:
        """Return what is to be done; this writes nothing."""
        raise NotImplementedError

    def is_atomic(self, parsed_args: argparse.Namespace) -> bool:
        """Return whether all changes are made in one transaction."""
        return bool(getattr(parsed_args, "atomic", False))

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        self.require_somebody(parsed_args)
        if self.is_atomic(parsed_args):
            refuse_steering(parsed_args, "changes that are made in one transaction")

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Print the rows, then the summary: on stdout in a table, on stderr after a failure."""
        self._closing: list[str] = []
        try:
            status = super().run(parsed_args)
        except BrokenPipeError:
            raise
        except Exception:
            # print the summary even if the rows cannot be printed: the changes have been made
            _say(self._closing, self.app.stderr)
            raise
        stream = None
        if status not in (EXIT_DONE, _EXIT_CHANGES):
            stream = self.app.stderr
        elif parsed_args.formatter == self.formatter_default:
            stream = self.app.stdout
        _say(self._closing, stream)
        return status

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        show = _flat_cells if parsed_args.formatter in FLAT_FORMATS else _cells
        with ExitStack() as stack:
            with nothing_changed_on_interrupt(self.app.stderr):
                job = stack.enter_context(self.prepare(parsed_args))
                plan = job.plan
                self._agree(job, parsed_args)
            if self.is_harmless(parsed_args):
                self._closing.append(plan.summary)
                status = EXIT_PARTIAL if plan.hopeless else EXIT_DONE
                self.exit_status = _exit_status(parsed_args, plan, status)
                rows = [show(plan, step) for step in plan.steps if step.facets or step.uuid in plan.hopeless]
                return PLAN_COLUMNS, rows
            report = self._execute(job, parsed_args)
        self.exit_status = _exit_status(parsed_args, plan, report.exit_status)
        rows = [
            (
                *show(report.plan, outcome.change, outcome.note),
                str(outcome.result),
                str(outcome.error) if outcome.error else "",
            )
            for outcome in report.outcomes
        ]
        return REPORT_COLUMNS, rows

    def _agree(self, job: Job, parsed_args: argparse.Namespace) -> None:
        """Show the plan and ask for confirmation, or show its warnings alone."""
        plan = job.plan
        if job.is_atomic and job.kind != KIND:
            check_atomic(plan, self.client)
        if plan.changes and not (self.is_harmless(parsed_args) or parsed_args.yes):
            text = format_plan(plan, _ROWS_TO_CONFIRM, width=screen_of(self.app.stderr).width)
            print(text, file=self.app.stderr)
            self.confirm(f"{'Make' if plan.is_staged else 'Change'} {plan.count(len(plan.changes))}?")
        else:
            _say((f"Warning: {warning}" for warning in plan.warnings), self.app.stderr)

    def _execute(self, job: Job, parsed_args: argparse.Namespace) -> Report:
        if not job.is_needed:
            self._closing.append(job.plan.summary)
            return execute_plan(self.client, job.plan)
        recorder = service.start(self.client, job)
        if self.is_attended() and not job.is_atomic:
            print(f"Run {recorder.id}; control file: {recorder.control}", file=self.app.stderr)
        pace = service.Pace(
            concurrency=parsed_args.concurrency,
            rate=parsed_args.throttle,
            max_failures=parsed_args.max_failures,
            canary=parsed_args.canary,
            control=pathlib.Path(parsed_args.control) if parsed_args.control else None,
        )
        with (
            ProgressBar("Changing", len(job.plan.steps), self.app.stderr) as progress,
            stop_on_interrupt(self.app.stderr, progress.say) as stop,
        ):
            report = service.carry_out(
                self.client,
                job,
                recorder,
                pace,
                stop=stop,
                on_outcome=progress.advance,
                on_event=progress.say,
            ).report
        self._closing += [report.summary, name_next_commands(job, recorder.id, report)]
        return report

    # reading

    def read_again(self, parsed_args: argparse.Namespace) -> ReadStates:
        """Return a function that reads known providers or consumers and shows how far it is."""

        def read(subjects: Sequence[Subject], facets: Sequence[Facet]) -> Sequence[Reading]:
            with ProgressBar("Reading", len(subjects), self.app.stderr) as progress:
                return select.read_again(
                    self.client,
                    subjects,
                    facets,
                    concurrency=parsed_args.concurrency,
                    on_reading=progress.advance,
                )

        return read


def refuse_steering(parsed_args: argparse.Namespace, whom: str) -> None:
    """Raise UsageError if an option is given that controls the pace of single changes."""
    options = ("canary", "control", "max_failures", "throttle")
    given = [f"--{name.replace('_', '-')}" for name in options if getattr(parsed_args, name) not in (None, 0)]
    if given:
        raise UsageError(f"{' and '.join(given)} cannot be used with {whom}")


def _say(lines: Iterable[str], stream: TextIO | None) -> None:
    """Print lines, escaping names in them; do nothing without a stream."""
    for line in lines if stream else ():
        print(printable(line), file=stream)


def _exit_status(parsed_args: argparse.Namespace, plan: Plan, status: int) -> int:
    if status == EXIT_DONE and parsed_args.detailed_exitcode and plan.changes:
        return _EXIT_CHANGES
    return status


def name_next_commands(job: Job, run_id: str, report: Report) -> str:
    """Return the ID of a run, with the commands that resume and undo it where these make sense."""
    told = [f"Run {run_id}"]
    if report.exit_status != EXIT_DONE:
        told.append(f"to resume it: {_RUN} resume {run_id}")
    if job.resumed is not None or not report.is_untouched:
        told.append(f"to undo it: {_RUN} undo {run_id}")
    return "; ".join(told)


class StateColumn(FormattableColumn[Any]):
    """The state of one provider: whole in machine-readable formats; in tables, only what differs."""

    def __init__(self, value: Any, difference: Iterable[str]) -> None:
        super().__init__(value)
        self._difference = "\n".join(difference)

    def human_readable(self) -> str:
        """Return only what differs, one item a line."""
        return self._difference


def _cells(plan: Plan, step: Change, note: str = "") -> tuple[Any, ...]:
    gone, come = describe_difference(step.before, step.after)
    facets = plan.edit.facets
    before = StateColumn(_state_cell(step.before, facets), gone)
    after = StateColumn(_state_cell(step.after, facets), come)
    return step.uuid, step.subject.name, before, after, _reason(plan, step, note)


def _state_cell(state: Any, facets: tuple[Facet, ...]) -> Any:
    """Return the facet of an edit; if it has several, each of them by name."""
    if len(facets) == 1:
        return facet_to_json(state, facets[0])
    return {facet: facet_to_json(state, facet) for facet in facets}


def _flat_cells(plan: Plan, step: Change, note: str = "") -> tuple[Any, ...]:
    gone, come = describe_difference(step.before, step.after)
    return step.uuid, step.subject.name, ",".join(gone), ",".join(come), _reason(plan, step, note)


def _reason(plan: Plan, step: Change, note: str) -> str:
    refusal = plan.refused.get(step.uuid)
    return "; ".join(filter(None, (step.reason, f"refused: {refusal}" if refusal else "", note)))


def format_plan(plan: Plan, limit: int, *, width: int | None = None) -> str:
    """Format a plan for confirmation: at most ``limit`` providers, the warnings and the summary."""
    from prettytable import PrettyTable

    rows = [list(map(show_cell, _cells(plan, step)[1:])) for step in plan.changes[:limit]]
    # omit an empty column: a narrow terminal has no space for it
    number = len(PLAN_COLUMNS) - 1 if any(row[-1] for row in rows) else len(PLAN_COLUMNS) - 2
    table = PrettyTable(PLAN_COLUMNS[1 : number + 1], align="l", max_table_width=width)
    table.add_rows([row[:number] for row in rows])
    hidden = len(plan.changes) - limit
    more = [f"... and {hidden} more; --dry-run shows all"] if hidden > 0 else []
    refused = [f"Refused: {error}" for error in plan.refused.values()]
    warnings = [f"Warning: {warning}" for warning in plan.warnings]
    return "\n".join([table.get_string(), *map(printable, [*more, *refused, *warnings, plan.summary])])
