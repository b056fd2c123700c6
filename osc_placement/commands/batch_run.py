# SPDX-License-Identifier: Apache-2.0
"""``openstack resource provider batch run list|show|resume|undo|delete``: runs, as their journals say."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import Any, Final, cast

from osc_placement import batch, microversion
from osc_placement.batch import (
    EXIT_PARTIAL,
    RUN,
    Job,
    describe_difference,
    list_differences,
)
from osc_placement.commands import base
from osc_placement.commands.batch_execution import (
    ChangesLister,
    PlanCommand,
    StateColumn,
    TextLister,
)
from osc_placement.commands.batch_options import add_execution, add_force
from osc_placement.commands.watching import WatchedCommand
from osc_placement.errors import PlacementError, UsageError
from osc_placement.report.changes import SEE_CHANGES, rows_of_run
from osc_placement.report.runs import (
    LIST_COLUMNS,
    NO_FAILURES,
    add_choice,
    add_delete_options,
    add_failed_only_option,
    add_force_option,
    add_list_options,
    advise_next,
    check_choice,
    check_deletion,
    delete_runs,
    describe_no_runs,
    describe_resume,
    describe_run,
    hint_at_other_clouds,
    read_chosen,
    read_list,
    tell_redo,
)
from osc_placement.terminal.confirmation import ConfirmedCommand, confirm
from osc_placement.terminal.screen import is_terminal, screen_of, tell, write_lines
from osc_placement.terminal.values import NONE

_SHOW_COLUMNS: Final = ("uuid", "name", "before", "after", "result", "error")
_SEE: Final = "(batch run list shows them)"


class _JournalCommand(base.PlacementCommand):
    """The base of commands that read journals, and ask the cloud for no more than its address."""

    #: no token is needed to read files; `identify_cloud` gets one
    auth_required = False

    def identify_cloud(self) -> str:
        """Return the address of placement in the cloud in use, as journals have it."""
        self.auth_required = True
        cast(Any, self.app).prepare_to_run_command(self)
        return batch.identify_server(self.client.endpoint)

    def complain(self, error: Exception) -> None:
        """Say on standard error what cannot be read or done."""
        tell(self.app.stderr, str(error))
        self.exit_status = EXIT_PARTIAL


class ListRun(_JournalCommand, TextLister):
    """List the runs for this cloud that this user started on this machine, the oldest first.

    A run that was undone, or partly undone, is shown as such; ``batch run show`` says by which run.
    """

    example = "resource provider batch run list --last 10"
    exit_statuses = "Exit status: 0 done; 1 not done, the reason is on stderr; 3 a journal cannot be read."

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_list_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        server = None if parsed_args.all_clouds else self.identify_cloud()
        found = read_list(server, parsed_args.last, self.complain)
        is_on_terminal = self.is_table_on_terminal(parsed_args)
        if not found.runs and (is_on_terminal or (server is not None and hint_at_other_clouds())):
            tell(self.app.stderr, " ".join(describe_no_runs(server)))
        if is_on_terminal and not (parsed_args.columns or parsed_args.sort_columns):
            width = screen_of(self.app.stdout).width or sys.maxsize
            if parsed_args.long:
                self.text = found.describe(width)
            else:
                self.text = found.draw(width, with_clouds=parsed_args.all_clouds)
        return LIST_COLUMNS, found.rows


class ShowRun(WatchedCommand, _JournalCommand, ChangesLister):
    """Show a run: what it is about, its state, and the result for each resource provider.

    A table begins with what the run is about. A resource provider without a result was in progress when the
    run ended abnormally; ``batch run resume`` finds out whether it was changed.
    """

    example = "resource provider batch run show --last --failed-only"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_choice(parser, f"ID of a run, or its beginning {_SEE}")
        add_failed_only_option(parser)
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        check_choice(parsed_args)
        super().read_arguments(parsed_args)
        # a table begins with the run
        stream = None if parsed_args.formatter == self.formatter_default else self.app.stderr
        parsed_args.run = read_chosen(parsed_args, self.identify_cloud, stream, RUN).id

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        run = batch.Journals().read(parsed_args.run)
        if parsed_args.watch is not None:
            self.begin_page()
        self.page.name_providers(run.intents.values())
        rows = [row for row in rows_of_run(run) if row.is_incomplete or not parsed_args.failed_only]
        if parsed_args.formatter == self.formatter_default:
            facts = describe_run(run) + advise_next(run, RUN)
            is_narrow = is_terminal(self.app.stdout)
            space = [""] if rows else []
            write_lines(self.app.stdout, [*self.page.tell(facts), *space] if is_narrow else facts)
        if parsed_args.failed_only and not rows:
            if self.is_table_on_terminal(parsed_args):
                self.text = self.page.tell([NO_FAILURES])
                return (), ()
            tell(self.app.stderr, NO_FAILURES)

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

        return self.list_changes(parsed_args, rows, _SHOW_COLUMNS, make_cells, more=SEE_CHANGES)


class _RunCommand(PlanCommand):
    """The base of commands that carry out what is left of a run, or its undo."""

    minimum = microversion.MIN

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_choice(parser, f"ID of a run, or its beginning {_SEE}")
        return parser

    def _read_run(self, parsed_args: argparse.Namespace) -> None:
        """Read the header of the run that is given."""
        check_choice(parsed_args)
        header = read_chosen(
            parsed_args, lambda: batch.identify_server(self.client.endpoint), self.app.stderr, RUN
        )
        parsed_args.header, parsed_args.run = header, header.id


class ResumeRun(_RunCommand):
    """Resume a run that was interrupted or had failures: make the changes that are pending.

    A resource provider that is already as planned is not changed. One that somebody changed meanwhile is
    planned again, or refused if the run is an undo. A run that was started with --atomic makes all pending
    changes in one transaction. --throttle, --concurrency and --max-failures are as when the run was started,
    unless others are given; the value none takes off a rate or a limit.
    """

    example = "resource provider batch run resume --last"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_execution(parser, is_resume=True)
        add_force(
            parser,
            "Change resource providers even if less capacity is left than is allocated now, and remove "
            "traits that nova-compute has reported since, if the run replaces traits; a run that was started "
            "with this option needs it no more",
        )
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        self._read_run(parsed_args)
        super().read_arguments(parsed_args)
        known = batch.Pace.from_settings(parsed_args.header.settings)
        given = known
        if parsed_args.concurrency is not None:
            given = replace(given, concurrency=parsed_args.concurrency)
        if parsed_args.throttle is not None:
            given = replace(given, rate=0.0 if parsed_args.throttle == NONE else parsed_args.throttle)
        if (most := parsed_args.max_failures) is not None:
            given = replace(given, max_failures=None if most == NONE else most)
        parsed_args.concurrency, parsed_args.throttle = given.concurrency, given.rate
        parsed_args.max_failures = given.max_failures
        parsed_args.pace_told = describe_resume(given, known)

    def is_atomic(self, parsed_args: argparse.Namespace) -> bool:
        return bool(parsed_args.header.settings.get("atomic"))

    def prepare(self, parsed_args: argparse.Namespace) -> Job:
        job = batch.Runs().resume(
            self.client,
            parsed_args.run,
            self.read_again(parsed_args),
            dry_run=self.is_harmless(parsed_args),
            force=parsed_args.force,
            concurrency=parsed_args.concurrency,
        )
        if job.plan.changes and parsed_args.pace_told:
            tell(self.app.stderr, parsed_args.pace_told)
        return job


class UndoRun(_RunCommand):
    """Undo a run: restore what every resource provider had before, as far as the run changed it.

    What the run skipped, or the server refused, is left as it is, even if others have made the same
    change since. If somebody has since changed what the run changed, the resource provider is refused
    and the difference is shown; --force restores the parts that are still as the run left them and keeps
    the changes of others, and the exit status is 3 if there are any. What others have since set to the
    very value that the run set counts as set by the run, and is undone. An undo is a run and can be
    undone itself. A reshape is undone in one transaction and cannot be forced.
    """

    example = "resource provider batch run undo --last --dry-run"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_execution(parser)
        add_force_option(parser)
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        self._read_run(parsed_args)
        if parsed_args.last:
            tell_redo(parsed_args.header, self.app.stderr, RUN)
        if parsed_args.force and parsed_args.header.is_reshape:
            raise UsageError("--force cannot be used with a reshape, which is undone in one transaction")
        super().read_arguments(parsed_args)

    def is_atomic(self, parsed_args: argparse.Namespace) -> bool:
        return bool(parsed_args.atomic or parsed_args.header.is_reshape)

    def prepare(self, parsed_args: argparse.Namespace) -> Job:
        return batch.Runs().undo(
            self.client,
            parsed_args.run,
            self.read_again(parsed_args),
            force=parsed_args.force,
            atomic=parsed_args.atomic,
            concurrency=parsed_args.concurrency,
        )


class DeleteRun(ConfirmedCommand, _JournalCommand):
    """Delete the journals of runs, which can then be neither resumed nor undone.

    A run that is under way is not deleted. On a terminal, the command asks for confirmation; elsewhere it
    needs ``--yes``.
    """

    example = "resource provider batch run delete --older-than 90"
    exit_statuses = (
        "Exit status: 0 deleted; 1 nothing was deleted, the reason is on stderr; 2 the command line is "
        "wrong; 3 some of the runs were not deleted."
    )

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_delete_options(parser, f"ID of a run, or its beginning {_SEE}")
        parser.add_argument(
            "--yes",
            action="store_true",
            help="Do not ask for confirmation; without a terminal it is needed",
        )
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        check_deletion(parsed_args)
        if not (parsed_args.yes or self.is_attended()):
            raise PlacementError("Nothing was deleted: without a terminal to confirm on, give --yes")

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        def agree(question: str) -> None:
            if not parsed_args.yes:
                confirm(question, self.app.stdin, self.app.stderr)

        status = delete_runs(
            parsed_args, self.identify_cloud, self.complain, agree, self.app.stdout, self.app.stderr, RUN
        )
        self.exit_status = status or self.exit_status
