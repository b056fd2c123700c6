# SPDX-License-Identifier: Apache-2.0
"""``openstack resource provider batch run list|show|resume|undo``: runs, as their journals record them."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import Any, Final

from osc_placement import microversion
from osc_placement.batch import journal, select, service
from osc_placement.batch.difference import describe_difference
from osc_placement.batch.plan import EXIT_PARTIAL
from osc_placement.batch.reshape import KIND
from osc_placement.batch.service import Job
from osc_placement.commands import base
from osc_placement.commands.batch_execution import PlanCommand
from osc_placement.commands.batch_options import add_execution, add_overcommit
from osc_placement.errors import UsageError
from osc_placement.terminal.escape import printable
from osc_placement.terminal.tables import LinesColumn

_LIST_COLUMNS: Final = ("id", "state", "what", "selection", "changes", "applied", "failed", "server")
_SHOW_COLUMNS: Final = ("uuid", "name", "before", "after", "result", "error")


class ListRun(base.Lister):
    """List the runs of batch commands that this user started on this machine, the oldest first."""

    exit_statuses = "Exit status: 0 done; 1 not done, the reason is on stderr; 3 a journal cannot be read."

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        rows = []
        for run in journal.read_all():
            if isinstance(run, journal.JournalError):
                print(printable(str(run)), file=self.app.stderr or sys.stderr)
                self.exit_status = EXIT_PARTIAL
            else:
                rows.append(_list_row(run))
        return _LIST_COLUMNS, rows


def _list_row(run: journal.Run) -> tuple[Any, ...]:
    header = run.header
    return (
        header.id,
        run.state,
        header.edit.title,
        header.selection,
        len(run.intents),
        run.applied,
        run.failed,
        header.server,
    )


class ShowRun(base.Lister):
    """Show the plan of a run, with what was there before, and the result for each resource provider.

    A resource provider without a result was in progress when the run ended abnormally; ``batch run resume``
    finds out whether it was changed.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_run_argument(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        run = journal.read(parsed_args.run)
        rows = []
        for uuid, change in run.intents.items():
            gone, come = describe_difference(change.before, change.after)
            ending = run.endings.get(uuid)
            result, error = (str(ending.result), ending.error or ending.note) if ending else ("", "")
            name = change.subject.name
            before, after = LinesColumn("\n".join(gone)), LinesColumn("\n".join(come))
            rows.append((uuid, name, before, after, result, error))
        return _SHOW_COLUMNS, rows


class ResumeRun(PlanCommand):
    """Resume a run that was interrupted or had failures: make the changes that are pending.

    A resource provider that is already as planned is not changed. One that somebody changed meanwhile is
    planned again, or refused if the run is an undo. A run that was started with --atomic makes all pending
    changes in one transaction.
    """

    minimum = microversion.MIN

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_run_argument(parser)
        add_execution(parser, with_atomic=False)
        add_overcommit(
            parser,
            "Change resource providers even if less capacity is left than is allocated now; a run "
            "that was started with this option needs it no more",
        )
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        parsed_args.header = journal.read_header(parsed_args.run)
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


class UndoRun(PlanCommand):
    """Undo a run: restore what every resource provider had before, as far as the run changed it.

    What the run skipped, or the server refused, is left as it is, even if others have made the same change
    since. If somebody has since changed what the run changed, the resource provider is refused and the
    difference is shown; --force restores the parts that are still as the run left them and keeps the changes
    of others. An undo is a run and can be undone itself. A reshape is undone in one transaction and cannot be
    forced.
    """

    minimum = microversion.MIN

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_run_argument(parser)
        add_execution(parser)
        parser.add_argument(
            "--force",
            action="store_true",
            help="Undo even where what the run set was changed since; what was set since stays",
        )
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        parsed_args.header = journal.read_header(parsed_args.run)
        super().read_arguments(parsed_args)
        if parsed_args.force and parsed_args.header.kind == KIND:
            raise UsageError("--force cannot be used with a reshape, which is undone in one transaction")

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


def _add_run_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run", metavar="<run>", help="ID of a run (see: openstack resource provider batch run list)"
    )
