# SPDX-License-Identifier: Apache-2.0
"""The base of commands that carry out a plan: show, confirm, journal, execute, print rows, resume."""

from __future__ import annotations

import argparse
import pathlib
import shlex
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any, Final, TextIO

from cliff.columns import FormattableColumn

from osc_placement import batch, microversion
from osc_placement.api.client import PlacementClient
from osc_placement.batch import (
    EXIT_DONE,
    EXIT_PARTIAL,
    RUN,
    Change,
    Facet,
    Job,
    Plan,
    Reading,
    ReadStates,
    Report,
    Subject,
    describe_difference,
    for_changes,
    list_differences,
)
from osc_placement.commands import base
from osc_placement.errors import UsageError
from osc_placement.package import discard
from osc_placement.report.changes import (
    FEW,
    SEE_CHANGES,
    SHORT_COLUMNS,
    Page,
    Row,
    make_table,
    rows_of_plan,
    rows_of_report,
    sort_rows,
)
from osc_placement.report.runs import NextCommands, describe_left, list_pace, name_next_commands
from osc_placement.report.summary import ask, sum_up
from osc_placement.terminal.confirmation import ConfirmedCommand
from osc_placement.terminal.lines import capitalize
from osc_placement.terminal.progress import ProgressBar, nothing_changed_on_interrupt
from osc_placement.terminal.screen import is_terminal, say, screen_of, tell
from osc_placement.terminal.tables import draw_cells, show_cell

PLAN_COLUMNS: Final = ("uuid", "name", "before", "after", "reason")
REPORT_COLUMNS: Final = (*PLAN_COLUMNS, "result", "error")
#: the words before the file of a saved plan
APPLY_PLAN: Final = "openstack resource provider batch apply"
#: formats whose cells are plain text; they show the difference in one line
FLAT_FORMATS: Final = ("value", "csv")
_EXIT_CHANGES: Final = 2
#: the options that decide what a plan changes, which a hint at a dry run repeats
_AGAIN: Final = ("replan", "force")


class TextLister(base.Lister):
    """The base of commands whose table may be too large for a terminal, which then gets a text instead."""

    #: the lines that are printed instead of rows
    text: Sequence[str] | None = None

    def is_table_on_terminal(self, parsed_args: argparse.Namespace) -> bool:
        """Return whether the rows are printed as a table on a terminal."""
        return parsed_args.formatter == self.formatter_default and is_terminal(self.app.stdout)

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        """Print the rows, or the text instead."""
        if self.text is None:
            return super().produce_output(parsed_args, column_names, data)
        say(self.app.stdout, self.text)
        return 0


class ChangesLister(TextLister):
    """The base of commands that list changes: all of them, or on a terminal as much as it can show."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--full",
            action="store_true",
            help="Show a row for each change in a table on a terminal too, where many changes are otherwise "
            "counted; other formats, and files and pipes, always get all rows",
        )
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Find out how wide the terminal is, and run the command."""
        self.begin_page()
        return super().run(parsed_args)

    def begin_page(self) -> None:
        """Forget what was printed, and find out how wide the terminal is."""
        stream = next(filter(is_terminal, (self.app.stdout, self.app.stderr)), None)
        self.page = Page(screen_of(stream).width if stream else None)
        self.text = None

    def list_changes(
        self,
        parsed_args: argparse.Namespace,
        rows: Sequence[Row],
        columns: tuple[str, ...],
        make_cells: Callable[[], list[tuple[Any, ...]]],
        *,
        is_plan: bool = False,
        more: str = "",
    ) -> tuple[Any, Any]:
        """Return what cliff prints: all columns, or on a terminal those that are not empty.

        If the rows are too many for a terminal, the text that describes them is printed instead.

        :param make_cells: makes the cells of all columns
        :param more: what shows all rows
        """
        if not self.is_table_on_terminal(parsed_args):
            return columns, make_cells()
        is_few = len(rows) <= FEW
        if not (parsed_args.full or (is_few and (parsed_args.columns or parsed_args.sort_columns))):
            self.text = self.page.describe(rows, is_plan=is_plan, more=more)
            return (), ()
        picked = [number for number, name in enumerate(columns) if name in parsed_args.columns]
        given = (parsed_args.sort_columns, parsed_args.fit_width, parsed_args.max_width)
        if any(given) or (parsed_args.columns and not picked):
            return columns, make_cells()
        # cliff would break cells within names
        if picked:
            names = [columns[number] for number in picked]
            cells = [[str(show_cell(row[number])) for number in picked] for row in make_cells()]
        else:
            names, cells = make_table(sort_rows(rows), SHORT_COLUMNS, self.page.names)
        self.text = draw_cells(names, cells, self.page.width)
        return (), ()


class RunsCommand(base.PlacementCommand):
    """The base of commands that make runs, or are about runs, and name commands that can follow."""

    @property
    def read_runs(self) -> str:
        """Return the words before the verb of a command on runs that reads a journal."""
        return RUN

    @property
    def change_runs(self) -> str:
        """Return the words before the verb of a command on runs that writes to placement."""
        return RUN


class PlanCommand(ConfirmedCommand, ChangesLister, RunsCommand):
    """A command that makes a plan and carries it out."""

    minimum = microversion.LIST_BY_AGGREGATE
    #: the file that the plan was saved in, if it was
    saved_plan: str = ""
    #: what the summary is about, once that is known
    _summarized: Plan | Report | None = None
    exit_statuses = (
        "Exit status: 0 every provider is as asked, or the plan was shown; 1 nothing was changed, the reason "
        "is on stderr; 2 the command line is wrong; 3 some providers failed or would be refused, the rows "
        "say which and why, or the rows cannot be written; 130 interrupted, the rows say what was done. With "
        "--detailed-exitcode, 2 also says that something changed or would, and a value that is wrong ends "
        "with 1."
    )

    def prepare(self, parsed_args: argparse.Namespace) -> Job:
        """Return what is to be done; this writes nothing."""
        raise NotImplementedError

    def is_atomic(self, parsed_args: argparse.Namespace) -> bool:
        """Return whether all changes are made in one transaction."""
        return bool(getattr(parsed_args, "atomic", False))

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        if self.is_atomic(parsed_args):
            refuse_steering(parsed_args, "changes that are made in one transaction")
        base.require_columns(parsed_args.columns, REPORT_COLUMNS)
        self.require_somebody(parsed_args)

    def begin_page(self) -> None:
        super().begin_page()
        self._summarized = None

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Print the rows, then the summary: on stdout in a table, on stderr after a failure."""
        self._commands: NextCommands | None = None
        self._left = ""
        self.saved_plan = ""
        try:
            status = super().run(parsed_args)
        except BrokenPipeError:
            # nobody reads the rows; what was done is told all the same
            self._close(self.app.stderr)
            raise
        except OSError as error:
            if self._summarized is None:
                raise
            # what was done stays done, and its summary is printed even if the rows cannot be
            self._close(self.app.stderr)
            say(self.app.stderr, [f"The rows cannot be written: {error.strerror}"])
            discard(self.app.stdout)
            return max(self.exit_status, EXIT_PARTIAL)
        except Exception:
            self._close(self.app.stderr)
            raise
        if status not in (EXIT_DONE, _EXIT_CHANGES):
            self._close(self.app.stderr)
        elif parsed_args.formatter == self.formatter_default:
            self._close(self.app.stdout)
        return status

    def _close(self, stream: TextIO | None) -> None:
        """Print the summary and the commands that can follow."""
        if self._summarized is not None:
            say_summary(self._summarized, self.page, stream)
        if self.saved_plan:
            command = f"{APPLY_PLAN} {shlex.quote(self.saved_plan)}"
            say(stream, [f"Saved; to carry it out: {command}"])
        if self._commands:
            say_commands(self._commands, self.page, stream)
        if self._left:
            tell(stream, capitalize(self._left))

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        show = _flat_cells if parsed_args.formatter in FLAT_FORMATS else _cells
        with ExitStack() as stack:
            with nothing_changed_on_interrupt(self.app.stderr):
                job = stack.enter_context(self.prepare(parsed_args))
                plan = job.plan
                self._agree(job, parsed_args)
            if self.is_harmless(parsed_args):
                self._summarized = plan
                status = EXIT_PARTIAL if plan.untried or plan.partial or plan.objection else EXIT_DONE
                self.exit_status = _exit_status(parsed_args, plan, status)
                steps = [step for step in plan.steps if step.facets or step.uuid in plan.untried]
                return self.list_changes(
                    parsed_args,
                    rows_of_plan(plan),
                    PLAN_COLUMNS,
                    lambda: [show(plan, step, _refusal(plan, step)) for step in steps],
                    is_plan=True,
                    more=SEE_CHANGES,
                )
            report = self.execute(job, parsed_args)
        self.exit_status = _exit_status(parsed_args, plan, report.exit_status)
        return self.list_changes(
            parsed_args,
            # where there is nothing to do, the summary says why
            rows_of_report(report) if plan.changes or plan.untried or job.resumed else (),
            REPORT_COLUMNS,
            lambda: [
                (
                    *show(report.plan, outcome.change, outcome.note),
                    outcome.word,
                    str(outcome.error) if outcome.error else "",
                )
                for outcome in report.outcomes
            ],
            # a run has a command that shows it
            more="" if self._commands else SEE_CHANGES,
        )

    def _agree(self, job: Job, parsed_args: argparse.Namespace) -> None:
        """Show the warnings of the plan, and unless it is agreed to, the plan, and ask for confirmation."""
        plan = job.plan
        is_confirmed = bool(plan.changes) and not (self.is_harmless(parsed_args) or parsed_args.yes)
        if plan.changes or not job.is_reshape:
            batch.require_transaction(self.client, job)
        if not self.is_harmless(parsed_args):
            plan.require_allowed()
        self.page.name_providers(plan.steps)
        page = self.page if is_terminal(self.app.stderr) else Page()
        say(self.app.stderr, page.warn(plan.warnings))
        if is_confirmed:
            given = [f"--{name.replace('_', '-')} " for name in _AGAIN if getattr(parsed_args, name, False)]
            more = f"({''.join(given)}--dry-run --full shows each change)"
            say(self.app.stderr, page.propose(plan, more))
            self.confirm(ask(plan))

    def execute(self, job: Job, parsed_args: argparse.Namespace) -> Report:
        """Carry out a job that is agreed to, as a run if there is something to write."""
        if not job.is_needed:
            report = job.plan.end()
            self._left = describe_left(report, job.undoes, self.change_runs)
            self._summarized = report if report.is_failed else job.plan
            return report
        pace = batch.Pace(
            concurrency=parsed_args.concurrency,
            rate=parsed_args.throttle,
            max_failures=parsed_args.max_failures,
            canary=parsed_args.canary,
        )
        report, self._commands = carry_out(
            self.client,
            job,
            self.app.stderr,
            pace,
            is_told=self.is_attended() and not job.is_atomic and bool(job.plan.changes),
            read_runs=self.read_runs,
            change_runs=self.change_runs,
            on_begin=self.begin_writing,
        )
        self._summarized = report
        return report

    def begin_writing(self) -> None:
        """Take note that something may be written from now on."""

    # reading

    def read_again(self, parsed_args: argparse.Namespace) -> ReadStates:
        """Return a function that reads known providers or consumers and shows how far it is."""

        def read(subjects: Sequence[Subject], facets: Sequence[Facet]) -> Sequence[Reading]:
            with ProgressBar("Reading", len(subjects), self.app.stderr) as progress:
                return batch.read_again(
                    self.client,
                    subjects,
                    facets,
                    concurrency=parsed_args.concurrency,
                    on_reading=progress.advance,
                )

        return read


def refuse_steering(parsed_args: argparse.Namespace, whom: str) -> None:
    """Raise UsageError if an option is given that controls the pace of single changes."""
    options = ("canary", "max_failures", "throttle")
    given = [f"--{name.replace('_', '-')}" for name in options if getattr(parsed_args, name) not in (None, 0)]
    if given:
        raise UsageError(f"{' and '.join(given)} cannot be used with {whom}")


def say_summary(result: Plan | Report, page: Page, stream: TextIO | None) -> None:
    """Print the summary of a plan or result: on a terminal what fits its page, elsewhere one line."""
    say(stream, page.sum_up(result) if is_terminal(stream) else [sum_up(result).line])


def say_commands(commands: NextCommands, page: Page, stream: TextIO | None) -> None:
    """Print the commands that can follow a run: on a terminal a line each, elsewhere all in one line."""
    say(stream, page.name_commands(commands) if is_terminal(stream) else [str(commands)])


def _exit_status(parsed_args: argparse.Namespace, plan: Plan, status: int) -> int:
    if status == EXIT_DONE and parsed_args.detailed_exitcode and plan.changes:
        return _EXIT_CHANGES
    return status


def carry_out(
    client: PlacementClient,
    job: Job,
    stream: TextIO | None,
    pace: batch.Pace | None = None,
    *,
    title: str = "Changing",
    is_told: bool = False,
    is_quiet: bool = False,
    keeps_pace: bool = True,
    read_runs: str = RUN,
    change_runs: str = RUN,
    on_begin: Callable[[], None] = lambda: None,
) -> tuple[Report, NextCommands]:
    """Carry a job out as a run, with its progress, until it ends or is interrupted.

    :param stream: standard error
    :param is_told: whether a terminal is told the control file of the run, when the progress bar is drawn
    :param is_quiet: whether there is no progress unless the stream is a terminal
    :param keeps_pace: whether a resume has the same pace, as it is the operator's choice
    :param read_runs: the words before the verb of a command on runs that reads a journal
    :param change_runs: the same of one that writes to placement
    :param on_begin: called before the first write, when signals are handled here
    """
    recorder = batch.Runs().start(client, job, pace=pace if keeps_pace else None)
    notice: Sequence[str] = ()
    if is_told and stream is not None:
        notice = _tell_control(recorder.id, recorder.control, screen_of(stream).width)
    with (
        ProgressBar(title, len(job.plan.changes), stream, is_quiet=is_quiet, notice=notice) as progress,
        progress.stop_on_interrupt(f"To see what was done: {read_runs} show {recorder.id}") as stop,
    ):
        on_begin()
        report = batch.carry_out(
            client,
            job,
            recorder,
            pace,
            stop=stop,
            on_outcome=for_changes(job.plan, progress.advance),
            on_event=progress.say,
            on_pause=progress.pause,
        )
    return report, name_next_commands(
        recorder.id,
        report,
        read_runs,
        change_runs,
        can_be_undone=job.can_be_undone,
        again=list_pace(pace, job.pace) if pace and job.pace else (),
        undoes=job.undoes,
    )


def _tell_control(run: str, path: pathlib.Path, width: int | None) -> Sequence[str]:
    """Return the lines that name a run, all that its control file may say, and a command that writes to it.

    Where both do not fit the width, the command has its own line, with ~ for the home directory.
    """
    label = f"Run {run}; to control it (pause, go, stop, rate 5, rate none):"
    command = f"echo pause > {shlex.quote(str(path))}"
    if width is None or len(label) + 1 + len(command) <= width:
        return (f"{label} {command}",)
    home = pathlib.Path.home()
    if path.is_relative_to(home):
        command = f"echo pause > ~/{shlex.quote(str(path.relative_to(home)))}"
    return label, command


class StateColumn(FormattableColumn[Any]):
    """The state of one provider: whole in machine-readable formats; in tables, only what differs."""

    def __init__(self, value: Any, difference: Iterable[str]) -> None:
        super().__init__(value)
        self._difference = "\n".join(filter(None, difference))

    def human_readable(self) -> str:
        """Return only what differs, one item a line."""
        return self._difference


def _cells(plan: Plan, step: Change, note: str = "") -> tuple[Any, ...]:
    shown = plan.show(step)
    found = list_differences(shown.before, shown.after)
    facets = plan.edit.facets
    before = StateColumn(_state_cell(shown.before, facets), (each.before for each in found))
    after = StateColumn(_state_cell(shown.after, facets), (each.after for each in found))
    return step.uuid, step.subject.name, before, after, _reason(step, note)


def _state_cell(state: Any, facets: tuple[Facet, ...]) -> Any:
    """Return the facet of an edit; if it has several, each of them by name."""
    document = state.to_json(facets)
    return document.get(facets[0]) if len(facets) == 1 else {facet: document.get(facet) for facet in facets}


def _flat_cells(plan: Plan, step: Change, note: str = "") -> tuple[Any, ...]:
    shown = plan.show(step)
    gone, come = describe_difference(shown.before, shown.after)
    return step.uuid, step.subject.name, ",".join(gone), ",".join(come), _reason(step, note)


def _reason(step: Change, note: str) -> str:
    return "; ".join(filter(None, (step.reason, note)))


def _refusal(plan: Plan, step: Change) -> str:
    """Return why a plan refuses a step; a report has that in its column of errors."""
    return f"refused: {plan.refused[step.uuid]}" if step.uuid in plan.refused else ""
