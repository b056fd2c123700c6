# SPDX-License-Identifier: Apache-2.0
"""``openstack resource provider batch run list|show|resume|undo|delete``: runs, as their journals say."""

from __future__ import annotations

import argparse
import datetime
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, cast

from osc_placement import microversion
from osc_placement.batch import journal, select, service
from osc_placement.batch.difference import describe_difference, list_differences
from osc_placement.batch.plan import EXIT_PARTIAL
from osc_placement.batch.reshape import KIND
from osc_placement.batch.service import Job
from osc_placement.commands import base
from osc_placement.commands.batch_execution import (
    SEE_ALL,
    ChangesLister,
    PlanCommand,
    StateColumn,
    TextLister,
)
from osc_placement.commands.batch_options import add_execution, add_overcommit
from osc_placement.commands.change_rows import rows_of_run
from osc_placement.commands.watching import WatchedCommand
from osc_placement.errors import UsageError
from osc_placement.terminal.escape import printable
from osc_placement.terminal.lines import align, cut
from osc_placement.terminal.screen import screen_of, write_lines
from osc_placement.terminal.values import read_positive

_LIST_COLUMNS: Final = (
    *("id", "state", "what", "selection", "changes", "applied", "failed", "server"),
    *("started", "undone_by"),
)
_SHOW_COLUMNS: Final = ("uuid", "name", "before", "after", "result", "error")
_SEE: Final = "(see: openstack resource provider batch run list)"
#: some thousand years, as there is no date before the year 1
_MOST_DAYS: Final = 500_000
#: the width from which on a list of all clouds has all columns
_WIDE: Final = 120


class _JournalCommand(base.PlacementCommand):
    """The base of commands that read journals, and ask the cloud for no more than its address."""

    #: no token is needed to read files; `identify_cloud` gets one
    auth_required = False

    def identify_cloud(self) -> str:
        """Return the address of placement in the cloud in use, as journals have it."""
        self.auth_required = True
        cast(Any, self.app).prepare_to_run_command(self)
        return journal.identify_server(self.client.endpoint)

    def complain(self, error: Exception) -> None:
        """Say on standard error what cannot be read or done."""
        print(printable(str(error)), file=self.app.stderr or sys.stderr)
        self.exit_status = EXIT_PARTIAL


class ListRun(_JournalCommand, TextLister):
    """List the runs for this cloud that this user started on this machine, the oldest first.

    A run that was undone is shown as such; ``batch run show`` says by which run.
    """

    exit_statuses = "Exit status: 0 done; 1 not done, the reason is on stderr; 3 a journal cannot be read."

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--all-clouds",
            action="store_true",
            help="List the runs for all clouds, with their addresses; no cloud is asked for anything",
        )
        parser.add_argument(
            "--last",
            metavar="<number>",
            type=read_positive,
            help="List this many runs only, those that were started last",
        )
        parser.add_argument(
            "--long",
            action="store_true",
            help="Show all columns on a terminal too, where some are otherwise left out or cut",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        runs = []
        for run in journal.read_all(server=None if parsed_args.all_clouds else self.identify_cloud()):
            if isinstance(run, journal.JournalError):
                self.complain(run)
            else:
                runs.append(run)
        undone = journal.find_undone(runs)
        runs = runs[-parsed_args.last :] if parsed_args.last else runs
        wanted = (parsed_args.long, parsed_args.columns, parsed_args.sort_columns)
        if self.is_table_on_terminal(parsed_args) and not any(wanted):
            width = screen_of(self.app.stdout).width or _WIDE
            self.text = _draw_list(runs, undone, width, with_clouds=parsed_args.all_clouds)
        return _LIST_COLUMNS, [_list_row(run, undone) for run in runs]


def _list_row(run: journal.Run, undone: Mapping[str, str]) -> tuple[Any, ...]:
    header = run.header
    return (
        header.id,
        _state_of(run, undone),
        header.edit.title,
        header.selection,
        len(run.intents),
        run.applied,
        run.failed,
        header.server,
        header.started,
        undone.get(header.id, ""),
    )


def _state_of(run: journal.Run, undone: Mapping[str, str]) -> str:
    return "undone" if run.header.id in undone else run.state


def _draw_list(
    runs: Iterable[journal.Run], undone: Mapping[str, str], width: int, *, with_clouds: bool
) -> list[str]:
    """Return lines with whole IDs; a narrow terminal has no space for the times and numbers of all clouds."""
    rows = [("id", "started (UTC)", "state", "applied", "cloud", "what")]
    for run in runs:
        header = run.header
        cloud = cut(printable(header.server), max(24, width // 4))
        started = _parse_time(header.started)
        rows.append(
            (
                header.id,
                f"{started:%b %d %H:%M}" if started else "",
                _state_of(run, undone),
                f"{run.applied:,}",
                cloud,
                printable(header.edit.title),
            )
        )
    if len(rows) == 1:
        return []
    left_out = {4} if not with_clouds else {1, 3} if width < _WIDE else set()
    return align([[cell for number, cell in enumerate(row) if number not in left_out] for row in rows], width)


def _parse_time(text: str) -> datetime.datetime | None:
    """Read the time of a journal; return None if it is none."""
    try:
        return datetime.datetime.fromisoformat(text).astimezone(datetime.UTC)
    except ValueError:
        return None


class ShowRun(WatchedCommand, _JournalCommand, ChangesLister):
    """Show a run: what it is about, its state, and the result for each resource provider.

    A table begins with what the run is about. A resource provider without a result was in progress when the
    run ended abnormally; ``batch run resume`` finds out whether it was changed.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("run", metavar="<run>", help=f"ID of a run {_SEE}")
        parser.add_argument(
            "--failed-only", action="store_true", help="Show resource providers only for which the run failed"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        run = journal.read(parsed_args.run)
        if parsed_args.watch is not None:
            self.begin_page()
        if parsed_args.formatter == self.formatter_default:
            self._show_header(run)
        rows = [row for row in rows_of_run(run) if row.is_failed or not parsed_args.failed_only]

        def make_cells() -> list[tuple[Any, ...]]:
            cells = []
            for row in rows:
                change = row.change
                found = list_differences(change.before, change.after)
                gone, come = describe_difference(change.before, change.after)
                before = StateColumn("\n".join(gone), (each.before for each in found))
                after = StateColumn("\n".join(come), (each.after for each in found))
                cells.append((change.uuid, change.subject.name, before, after, row.result, row.reason))
            return cells

        return self.list_changes(parsed_args, rows, _SHOW_COLUMNS, make_cells, more=SEE_ALL)

    def _show_header(self, run: journal.Run) -> None:
        header = run.header
        undos = journal.read_undos(header.id)
        states = [_state_of(run, journal.find_undone(undos))]
        states += [
            f"undo {undo.state}: run {undo.header.id}" for undo in undos if undo.header.undoes == header.id
        ]
        counts = Counter(str(ending.result) for ending in run.endings.values())
        counts["without a result"] = len(run.intents) - len(run.endings)
        numbers = [f"{number:,} {result}" for result, number in sorted(counts.items()) if number]
        facts = {
            "run": header.id,
            "command": header.edit.title,
            "selection": "all" if header.selects and header.selects.everything else header.selection,
            "cloud": header.server,
            "undoes": header.undoes or "",
            "started": header.started,
            "ended": "" if run.is_running else run.ended,
            "state": "; ".join(states),
            "changes": ": ".join(filter(None, (f"{len(run.intents):,}", ", ".join(numbers)))),
        }
        lines = [f"{name + ':':10} {value}" for name, value in facts.items() if value]
        write_lines(self.app.stdout, self.page.tell(lines))


class _RunCommand(PlanCommand):
    """The base of commands that carry out what is left of a run, or its undo."""

    minimum = microversion.MIN

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("run", metavar="<run>", nargs="?", help=f"ID of a run {_SEE}")
        parser.add_argument(
            "--last",
            action="store_true",
            help="In place of an ID: the run that was started last for this cloud, whatever it did, an undo "
            "too; its ID is printed on stderr",
        )
        return parser

    def _read_run(self, parsed_args: argparse.Namespace) -> None:
        """Read the header of the run that is given."""
        if bool(parsed_args.run) == parsed_args.last:
            raise UsageError("Give either the ID of a run or --last")
        if not parsed_args.last:
            parsed_args.header = journal.read_header(parsed_args.run)
            return
        header = journal.find_last(journal.identify_server(self.client.endpoint))
        parsed_args.header, parsed_args.run = header, header.id
        if self.app.stderr is not None:
            print(printable(f"Last run: {header.id}, {header.edit.title}"), file=self.app.stderr)


class ResumeRun(_RunCommand):
    """Resume a run that was interrupted or had failures: make the changes that are pending.

    A resource provider that is already as planned is not changed. One that somebody changed meanwhile is
    planned again, or refused if the run is an undo. A run that was started with --atomic makes all pending
    changes in one transaction.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_execution(parser, with_atomic=False)
        add_overcommit(
            parser,
            "Change resource providers even if less capacity is left than is allocated now; a run "
            "that was started with this option needs it no more",
        )
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        self._read_run(parsed_args)
        super().read_arguments(parsed_args)

    def is_atomic(self, parsed_args: argparse.Namespace) -> bool:
        return bool(parsed_args.header.settings.get("atomic"))

    def prepare(self, parsed_args: argparse.Namespace) -> Job:
        return service.resume(
            self.client,
            parsed_args.run,
            self.read_again(parsed_args),
            dry_run=self.is_harmless(parsed_args),
            allow_overcommitted=parsed_args.allow_overcommitted,
            concurrency=parsed_args.concurrency,
        )


class UndoRun(_RunCommand):
    """Undo a run: restore what every resource provider had before, as far as the run changed it.

    What the run skipped, or the server refused, is left as it is, even if others have made the same change
    since. If somebody has since changed what the run changed, the resource provider is refused and the
    difference is shown; --force restores the parts that are still as the run left them and keeps the changes
    of others. An undo is a run and can be undone itself. A reshape is undone in one transaction and cannot be
    forced.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_execution(parser)
        parser.add_argument(
            "--force",
            action="store_true",
            help="Undo even where what the run set was changed since; what was set since stays",
        )
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        self._read_run(parsed_args)
        if parsed_args.force and parsed_args.header.kind == KIND:
            raise UsageError("--force cannot be used with a reshape, which is undone in one transaction")
        super().read_arguments(parsed_args)

    def is_atomic(self, parsed_args: argparse.Namespace) -> bool:
        return bool(parsed_args.atomic or parsed_args.header.kind == KIND)

    def prepare(self, parsed_args: argparse.Namespace) -> Job:
        job = service.undo(
            self.client,
            parsed_args.run,
            self.read_again(parsed_args),
            force=parsed_args.force,
            atomic=parsed_args.atomic,
        )
        if job.kind == KIND:
            return job
        # the operator asked for the undo, so leaving less than is allocated is a warning and not a refusal
        plan = select.judge_capacity(
            self.client, job.plan, allow_overcommitted=True, concurrency=parsed_args.concurrency
        )
        return replace(job, plan=plan)


class DeleteRun(_JournalCommand):
    """Delete the journals of runs, which can then be neither resumed nor undone.

    A run that is under way is not deleted.
    """

    exit_statuses = (
        "Exit status: 0 deleted; 1 nothing was deleted, the reason is on stderr; 2 the command line is "
        "wrong; 3 some of the runs were not deleted."
    )

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("run", metavar="<run>", nargs="*", help=f"ID of a run {_SEE}")
        parser.add_argument(
            "--older-than",
            metavar="<days>",
            type=read_positive,
            help="Delete the runs for this cloud that were started more than this many days ago",
        )
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        if bool(parsed_args.run) == bool(parsed_args.older_than):
            raise UsageError("Give either IDs of runs or --older-than")

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        runs = parsed_args.run or self._find_older(parsed_args.older_than)
        errors = []
        for run_id in dict.fromkeys(runs):
            try:
                journal.delete(run_id)
            except journal.JournalError as error:
                errors.append(error)
        if errors and len(errors) == len(runs) == 1:
            raise errors[0]
        for each in errors:
            self.complain(each)
        if errors and len(errors) == len(set(runs)):
            self.exit_status = 1
        if parsed_args.older_than:
            number = len(runs) - len(errors)
            print(f"{number} run{'' if number == 1 else 's'} deleted", file=self.app.stdout)

    def _find_older(self, days: int) -> list[str]:
        limit = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=min(days, _MOST_DAYS))
        found = []
        for header in journal.read_headers(self.identify_cloud()):
            if isinstance(header, journal.JournalError):
                self.complain(header)
            elif (started := _parse_time(header.started)) and started < limit:
                found.append(header.id)
        return found
