# SPDX-License-Identifier: Apache-2.0
"""The base of commands that carry out a plan: show, confirm, journal, execute, print rows, resume."""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TextIO

from cliff.columns import FormattableColumn

from osc_placement import microversion
from osc_placement.batch import atomic, execute, journal, select
from osc_placement.batch.difference import describe_difference
from osc_placement.batch.gate import Gate
from osc_placement.batch.journal.record import facet_to_json
from osc_placement.batch.plan import (
    EXIT_DONE,
    EXIT_PARTIAL,
    Change,
    Facet,
    Outcome,
    Plan,
    Reading,
    Report,
    Subject,
    count_providers,
)
from osc_placement.batch.recovery import check_server
from osc_placement.batch.reshape_record import KIND
from osc_placement.batch.reshape_run import Task, execute_reshape
from osc_placement.batch.writers import consumers
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
    #: the ID of the run that this run undoes
    _undoes: str | None = None
    #: the journal of the run that is resumed
    _journal: journal.Journal | None = None
    #: the reshape that is done in place of single changes
    _reshape: Task | None = None

    def make_plan(self, parsed_args: argparse.Namespace) -> Plan:
        """Make the plan; this writes nothing."""
        raise NotImplementedError

    def describe_selection(self, parsed_args: argparse.Namespace) -> str:
        """Return the selection of providers in words, for the journal."""
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
        try:
            with nothing_changed_on_interrupt(self.app.stderr):
                plan = self._agree_on_plan(parsed_args)
            if self.is_harmless(parsed_args):
                self._closing.append(plan.summary)
                self.exit_status = _exit_status(
                    parsed_args, plan, EXIT_PARTIAL if plan.hopeless else EXIT_DONE
                )
                rows = [show(plan, step) for step in plan.steps if _is_worth_showing(plan, step)]
                return PLAN_COLUMNS, rows
            report = self._execute(plan, parsed_args)
        finally:
            if self._journal is not None:
                self._journal.close()
        self.exit_status = _exit_status(parsed_args, plan, report.exit_status)
        return REPORT_COLUMNS, _report_rows(report, show)

    def _agree_on_plan(self, parsed_args: argparse.Namespace) -> Plan:
        plan = self.make_plan(parsed_args)
        if self.is_atomic(parsed_args) and self._reshape is None:
            atomic.check_atomic(plan, self.client)
        asks = not (self.is_harmless(parsed_args) or parsed_args.yes)
        if plan.changes and asks:
            text = format_plan(plan, _ROWS_TO_CONFIRM, width=screen_of(self.app.stderr).width)
            print(text, file=self.app.stderr)
            self.confirm(f"Change {count_providers(len(plan.changes))}?")
        else:
            _say((f"Warning: {warning}" for warning in plan.warnings), self.app.stderr)
        return plan

    # carrying out

    def _execute(self, plan: Plan, parsed_args: argparse.Namespace) -> Report:
        if not plan.changes and self._journal is None:
            self._closing.append(plan.summary)
            return execute.execute_plan(self.client, plan)
        is_resumed = self._journal is not None
        recorder = self._open_journal(plan, parsed_args)
        with (
            ProgressBar("Changing", len(plan.steps), self.app.stderr) as progress,
            stop_on_interrupt(self.app.stderr, progress.say) as stop,
        ):
            report = self._write(plan, parsed_args, recorder, stop, progress)
        report = recorder.end_sitting(report)
        self._closing.append(report.summary)
        self._closing.append(_name_next_commands(recorder, report, is_resumed=is_resumed))
        return report

    def _open_journal(self, plan: Plan, parsed_args: argparse.Namespace) -> journal.Journal:
        if self._journal is None:
            self._journal = journal.create(
                self.client.endpoint,
                plan,
                selection=self.describe_selection(parsed_args),
                undoes=self._undoes,
                settings={
                    "atomic": self.is_atomic(parsed_args),
                    "keeps_capacity": plan.keeps_capacity,
                    **({"kind": KIND} if self._reshape else {}),
                },
            )
        else:
            self._journal.begin(plan)
        if self.is_attended() and not self.is_atomic(parsed_args):
            print(f"Run {self._journal.id}; control file: {self._journal.control}", file=self.app.stderr)
        return self._journal

    def _write(
        self,
        plan: Plan,
        parsed_args: argparse.Namespace,
        recorder: journal.Journal,
        stop: Any,
        progress: ProgressBar,
    ) -> Report:
        if self._reshape is not None:
            return execute_reshape(self.client, self._reshape, recorder)[1]
        if self.is_atomic(parsed_args):
            return atomic.execute_atomically(
                self.client,
                plan,
                stop=stop,
                on_outcome=progress.advance,
                recorder=recorder,
                concurrency=parsed_args.concurrency,
            )
        gate = self._make_gate(parsed_args, recorder, progress)
        if consumers.takes(plan) and not parsed_args.canary:
            gate.stop_with(stop)
            return execute.execute_together(
                self.client,
                plan,
                concurrency=parsed_args.concurrency,
                on_outcome=progress.advance,
                gate=gate,
                recorder=recorder,
            )
        return execute.execute_plan(
            self.client,
            plan,
            concurrency=parsed_args.concurrency,
            on_outcome=progress.advance,
            stop=stop,
            gate=gate,
            recorder=recorder,
            canary=parsed_args.canary,
        )

    def _make_gate(
        self, parsed_args: argparse.Namespace, recorder: journal.Journal, progress: ProgressBar
    ) -> Gate:
        return Gate(
            rate=parsed_args.throttle,
            control=pathlib.Path(parsed_args.control) if parsed_args.control else recorder.control,
            max_failures=parsed_args.max_failures,
            on_event=progress.say,
        )

    # reading

    def read_again(self, subjects: Any, facets: Any, parsed_args: argparse.Namespace) -> list[Reading]:
        """Read known providers or consumers."""
        with ProgressBar("Reading", len(subjects), self.app.stderr) as progress:
            return select.read_again(
                self.client,
                subjects,
                facets,
                concurrency=parsed_args.concurrency,
                on_reading=progress.advance,
            )

    def judge(
        self,
        plan: Plan,
        parsed_args: argparse.Namespace,
        *,
        allow_overcommitted: bool,
        readings: Sequence[Reading] | None = None,
        aggregates: Sequence[str] = (),
    ) -> Plan:
        """Add refusals and warnings about capacity to the plan; read usages where capacity shrinks."""
        return select.judge_capacity(
            self.client,
            plan,
            readings,
            aggregates=aggregates,
            allow_overcommitted=allow_overcommitted,
            concurrency=parsed_args.concurrency,
        )

    def require_server(self, recorded: str) -> None:
        """Raise WrongServer unless the plan or run was made for this server."""
        check_server(recorded, self.client.endpoint)


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


def _name_next_commands(recorder: journal.Journal, report: Report, *, is_resumed: bool) -> str:
    told = [f"Run {recorder.id}"]
    if report.exit_status != EXIT_DONE:
        told.append(f"to resume it: {_RUN} resume {recorder.id}")
    if is_resumed or not report.is_untouched:
        told.append(f"to undo it: {_RUN} undo {recorder.id}")
    return "; ".join(told)


class StateColumn(FormattableColumn[Any]):
    """The state of one provider: whole in machine-readable formats; in tables, only what differs."""

    def __init__(self, value: Any, difference: Iterable[str]) -> None:
        super().__init__(value)
        self._difference = "\n".join(difference)

    def human_readable(self) -> str:
        """Return only what differs, one item a line."""
        return self._difference


def _is_worth_showing(plan: Plan, step: Change) -> bool:
    return bool(step.facets) or step.uuid in plan.hopeless


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


def _report_rows(report: Report, show: Any) -> list[tuple[Any, ...]]:
    return [
        (*show(report.plan, outcome.change, outcome.note), str(outcome.result), _tell_error(outcome))
        for outcome in report.outcomes
    ]


def _tell_error(outcome: Outcome) -> str:
    return str(outcome.error) if outcome.error else ""


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


def read_with(command: PlanCommand, parsed_args: argparse.Namespace) -> Callable[..., list[Reading]]:
    """Return the function by which `recovery` reads providers again."""

    def read(subjects: list[Subject], facets: list[Facet]) -> list[Reading]:
        return command.read_again(subjects, facets, parsed_args)

    return read
