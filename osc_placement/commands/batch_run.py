# SPDX-License-Identifier: Apache-2.0
"""``openstack resource provider batch run list|show|resume|undo|delete``: runs, as their journals say."""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple, TextIO, cast

from osc_placement import batch, microversion
from osc_placement.batch import (
    EXIT_PARTIAL,
    PARTLY_DONE,
    Header,
    Job,
    JournalError,
    Summary,
    Undone,
    UnknownRun,
    describe_difference,
    find_undone,
    list_differences,
)
from osc_placement.commands.batch_execution import (
    REPORT_COLUMNS,
    ChangesLister,
    PlanCommand,
    RunsCommand,
    StateColumn,
    TextLister,
)
from osc_placement.commands.batch_options import add_execution, add_force
from osc_placement.commands.watching import WatchedCommand
from osc_placement.errors import PlacementError, UsageError
from osc_placement.report.changes import SEE_CHANGES, rows_of_run
from osc_placement.report.runs import (
    LIST_COLUMNS,
    advise_next,
    advise_to_resume,
    describe_no_runs,
    describe_resume,
    describe_run,
    hint_at_other_clouds,
    parse_time,
    read_list,
)
from osc_placement.terminal.confirmation import ConfirmedCommand, confirm
from osc_placement.terminal.lines import count_things, list_names
from osc_placement.terminal.screen import is_terminal, screen_of, tell, write_lines
from osc_placement.terminal.values import NONE, read_number, read_positive

_NO_FAILURES: Final = "No change failed, was refused, or was done in part."
#: some thousand years, as there is no date before the year 1
_MOST_DAYS: Final = 500_000
#: runs that a warning names
_MOST_UNLISTED: Final = 3
_HELP: Final = "ID of a run, or its beginning (run list shows them)"


class _AnyRunCommand(RunsCommand):
    """The base of commands on a run that is chosen."""

    def add_choice(self, parser: argparse.ArgumentParser) -> None:
        """Add the ID of a run, and ``--last`` in place of it."""
        choice = parser.add_mutually_exclusive_group(required=True)
        choice.add_argument("run", metavar="<run>", nargs="?", help=_HELP)
        choice.add_argument(
            "--last",
            action="store_true",
            help="In place of an ID: the run that was started last for this cloud, whatever it did, an undo "
            "too; its ID is printed",
        )

    def identify_cloud(self) -> str:
        """Return the address of placement in the cloud in use, as journals have it."""
        return batch.identify_server(self.client.endpoint)

    def read_chosen(self, parsed_args: argparse.Namespace, stream: TextIO | None) -> Header:
        """Return the header of the run that is named; of the last one, print the ID on ``stream``."""
        if not parsed_args.last:
            with self.telling_list():
                return batch.Journals().read_header(parsed_args.run)
        header = batch.Journals().find_last(self.identify_cloud())
        tell(stream, f"Last run: {header.id}, {header.edit.title}")
        return header

    @contextmanager
    def telling_list(self) -> Iterator[None]:
        """Add to the error about an unknown run how to list the runs."""
        try:
            yield
        except UnknownRun as error:
            raise JournalError(f"{error}; to list the runs: {self.read_runs} list") from error


class _JournalCommand(_AnyRunCommand):
    """The base of commands that read journals, and ask the cloud for no more than its address."""

    #: no token is needed to read files; `identify_cloud` gets one
    auth_required = False

    def identify_cloud(self) -> str:
        """Return the address of placement in the cloud in use, as journals have it."""
        self.auth_required = True
        cast(Any, self.app).prepare_to_run_command(self)
        return super().identify_cloud()

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
            "--full",
            action="store_true",
            help="Show all that is known of each run on a terminal too, a line for each fact",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        try:
            server = None if parsed_args.all_clouds else self.identify_cloud()
        except PlacementError:
            if hint := hint_at_other_clouds():
                tell(self.app.stderr, hint)
            raise
        found = read_list(server, parsed_args.last, self.complain)
        is_on_terminal = self.is_table_on_terminal(parsed_args)
        if not found.runs and (is_on_terminal or (server is not None and hint_at_other_clouds())):
            tell(self.app.stderr, " ".join(describe_no_runs(server)))
        if is_on_terminal and not (parsed_args.columns or parsed_args.sort_columns):
            width = screen_of(self.app.stdout).width or sys.maxsize
            if parsed_args.full:
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
        self.add_choice(parser)
        parser.add_argument(
            "--failed-only",
            action="store_true",
            help="Show only what failed, was refused, or was done in part",
        )
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        super().read_arguments(parsed_args)
        # a table begins with the run
        stream = None if parsed_args.formatter == self.formatter_default else self.app.stderr
        parsed_args.run = self.read_chosen(parsed_args, stream).id

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        run = batch.Journals().read(parsed_args.run)
        if parsed_args.watch is not None:
            self.begin_page()
        self.page.name_providers(run.intents.values())
        rows = [row for row in rows_of_run(run) if row.is_incomplete or not parsed_args.failed_only]
        if parsed_args.formatter == self.formatter_default:
            facts = describe_run(run) + advise_next(run, self.change_runs)
            is_narrow = is_terminal(self.app.stdout)
            space = [""] if rows else []
            write_lines(self.app.stdout, [*self.page.tell(facts), *space] if is_narrow else facts)
        if parsed_args.failed_only and not rows:
            if self.is_table_on_terminal(parsed_args):
                self.text = self.page.tell([_NO_FAILURES])
                return (), ()
            tell(self.app.stderr, _NO_FAILURES)

        def make_cells() -> list[tuple[Any, ...]]:
            cells = []
            for row in rows:
                change = row.change
                found = list_differences(change.before, change.after)
                gone, come = describe_difference(change.before, change.after)
                before = StateColumn("\n".join(gone), (each.before for each in found))
                after = StateColumn("\n".join(come), (each.after for each in found))
                reasons = (change.reason, row.result, row.reason)
                cells.append((change.uuid, change.subject.name, before, after, *reasons))
            return cells

        return self.list_changes(parsed_args, rows, REPORT_COLUMNS, make_cells, more=SEE_CHANGES)


class _RunCommand(PlanCommand, _AnyRunCommand):
    """The base of commands that carry out what is left of a run, or its undo."""

    minimum = microversion.MIN

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        self.add_choice(parser)
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        parsed_args.header = self.read_chosen(parsed_args, self.app.stderr)
        parsed_args.run = parsed_args.header.id
        super().read_arguments(parsed_args)


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
            command=self.change_runs,
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
        add_force(parser, "Undo even where what the run set was changed since; what was set since stays")
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        super().read_arguments(parsed_args)
        header = parsed_args.header
        if parsed_args.last and header.undoes:
            told = f"This run is itself an undo: undoing it makes the changes of run {header.undoes} again"
            if batch.Journals().read_summary(header.id).state == PARTLY_DONE:
                told += f"; to undo what is left of that run: {self.change_runs} undo {header.undoes}"
            tell(self.app.stderr, told)
        if parsed_args.force and header.is_reshape:
            raise UsageError("--force cannot be used with a reshape, which is undone in one transaction")

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
            command=self.change_runs,
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
        choice = parser.add_mutually_exclusive_group(required=True)
        choice.add_argument("run", metavar="<run>", nargs="*", default=[], help=_HELP)
        choice.add_argument(
            "--last",
            action="store_true",
            help="In place of IDs: the run that was started last for this cloud; its ID is printed",
        )
        choice.add_argument(
            "--older-than",
            metavar="<days>",
            type=read_number,
            help="Delete the runs for this cloud that were started more than this many days ago, 0 for all",
        )
        parser.add_argument(
            "--yes",
            action="store_true",
            help="Do not ask for confirmation; without a terminal it is needed",
        )
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        if not (parsed_args.yes or self.is_attended()):
            raise PlacementError("Nothing was deleted: without a terminal to confirm on, give --yes")

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        errors: list[JournalError] = []
        deleted: set[str] = set()
        known = _read_undoable()
        chosen = self._choose(parsed_args, errors)
        if chosen:
            self._agree(parsed_args, chosen, known)
        for run_id in chosen:
            try:
                batch.Journals().delete(run_id)
                deleted.add(run_id)
            except JournalError as error:
                errors.append(error)
        if len(errors) == 1 and not deleted:
            raise errors[0]
        for each in errors:
            self.complain(each)
        if errors and not deleted:
            self.exit_status = 1
        lost = known.count(deleted)
        warning = f"; {count_things(lost, 'change')} can no longer be undone" if lost else ""
        if parsed_args.older_than is not None:
            write_lines(self.app.stdout, [f"{count_things(len(deleted), 'run')} deleted{warning}"])
        elif deleted:
            what = f"run {deleted.pop()}" if len(deleted) == 1 else count_things(len(deleted), "run")
            tell(self.app.stderr, f"Deleted {what}{warning}")

    def _choose(self, parsed_args: argparse.Namespace, errors: list[JournalError]) -> list[str]:
        """Return the IDs of the runs to delete; the same run may be named twice."""
        if parsed_args.older_than is not None:
            return self._find_older(parsed_args.older_than)
        if parsed_args.last:
            return [self.read_chosen(parsed_args, self.app.stderr).id]
        chosen = []
        for named in parsed_args.run:
            try:
                with self.telling_list():
                    chosen.append(batch.Journals().complete_id(named))
            except JournalError as error:
                errors.append(error)
        return list(dict.fromkeys(chosen))

    def _find_older(self, days: int) -> list[str]:
        limit = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=min(days, _MOST_DAYS))
        found = []
        for header in batch.Journals().read_headers(self.identify_cloud()):
            if isinstance(header, JournalError):
                self.complain(header)
            elif (started := parse_time(header.started)) and started < limit:
                found.append(header.id)
        return found

    def _agree(self, parsed_args: argparse.Namespace, chosen: Sequence[str], known: _Undoable) -> None:
        """Say what is lost, and ask for confirmation."""
        pending = sum(map(self._can_be_resumed, known.unfinished.intersection(chosen)))
        if warning := known.describe_unlisted(set(chosen)):
            tell(self.app.stderr, warning)
        if not parsed_args.yes:
            is_known = known.ended.issuperset(chosen)
            question = _ask_to_delete(chosen, known.count(chosen), pending, is_known=is_known)
            confirm(question, self.app.stdin, self.app.stderr)

    def _can_be_resumed(self, run_id: str) -> bool:
        """Return whether a resume would make a change that is left of a run."""
        try:
            return bool(advise_to_resume(batch.Journals().read(run_id), self.change_runs))
        except JournalError:
            return False


def _ask_to_delete(chosen: Sequence[str], lost: int, pending: int, *, is_known: bool) -> str:
    """Return the question before runs are deleted.

    :param chosen: the IDs of the runs
    :param lost: number of their changes that can be undone, at least if not all ``is_known``
    :param pending: number of the runs that can be resumed
    """
    what = f"run {chosen[0]}" if len(chosen) == 1 else count_things(len(chosen), "run")
    if lost:
        left = f"{'' if is_known else 'at least '}{count_things(lost, 'change')} can still be undone"
    else:
        left = "nothing is left to undo" if is_known else "it is not known what was changed"
    resume = ""
    if pending:
        resume = f"{'which' if len(chosen) == 1 else f'{pending:,} of which'} can still be resumed, and "
    return f"Delete {what}, {resume}of which {left}?"


class _Undoable(NamedTuple):
    """What is known of all runs before some of their journals are deleted.

    What a run that is running, or whose process died, changed besides is not in its journal.

    :ivar runs: those that can be read
    :ivar undone: what is undone of runs, by the ID of the run
    :ivar counts: how many changes of each run are not undone, by its ID
    :ivar ended: the IDs of the runs that ended
    :ivar unfinished: the IDs of those with changes that are pending, failed or were refused
    """

    runs: Sequence[Summary]
    undone: Mapping[str, Undone]
    counts: Mapping[str, int]
    ended: frozenset[str]
    unfinished: frozenset[str]

    def count(self, chosen: Iterable[str]) -> int:
        """Return how many changes of these runs are not undone."""
        return sum(self.counts.get(run_id, 0) for run_id in chosen)

    def describe_unlisted(self, chosen: Set[str]) -> str:
        """Return a warning of the runs that are listed as undone only while the chosen ones are there."""
        kept = [run for run in self.runs if run.header.id not in chosen]
        unlisted = self.undone.keys() - find_undone(kept)
        left = sorted(unlisted.intersection(run.header.id for run in kept))
        if not left:
            return ""
        runs = f"run{'' if len(left) == 1 else 's'} {list_names(left, _MOST_UNLISTED)}"
        return f"Warning: {runs} will not be listed as undone any more"


def _read_undoable() -> _Undoable:
    runs = [run for run in batch.Journals().read_summaries() if isinstance(run, Summary)]
    undone = find_undone(runs)
    counts = {run.header.id: run.applied for run in runs}
    for run_id, found in undone.items():
        # what was undone, made and undone again counts twice, and something is left all the same
        counts[run_id] = 0 if found.is_whole else max(1, counts.get(run_id, 0) - found.number)
    whole = {run_id for run_id, found in undone.items() if found.is_whole}
    ended = {run.header.id for run in runs if run.state not in ("running", "unfinished")}
    unfinished = frozenset(run.header.id for run in runs if run.state == "unfinished" or run.failed)
    return _Undoable(runs, undone, counts, frozenset(whole | ended), unfinished)
