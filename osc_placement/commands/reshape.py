# SPDX-License-Identifier: Apache-2.0
"""``openstack resource provider reshape``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from osc_placement import batch, microversion
from osc_placement.api.consumer import Consumer
from osc_placement.api.names import require_classes
from osc_placement.batch import RUN, Job, Move, Moves, Report, ReshapeRefused
from osc_placement.candidates.cloud import CloudView
from osc_placement.commands import base
from osc_placement.commands.batch_execution import ChangesLister, say_commands, say_summary
from osc_placement.commands.input_file import name_source, read_file
from osc_placement.commands.reshape_moves import (
    MoveAction,
    read_instructions,
    read_moves,
    read_pins,
)
from osc_placement.errors import OutcomeUnknown, PlacementError, UsageError
from osc_placement.model import ProviderRecord
from osc_placement.report.changes import SEE_CHANGES, rows_of_plan, rows_of_report
from osc_placement.report.runs import NextCommands, name_next_commands
from osc_placement.report.tree import draw_trees
from osc_placement.terminal.confirmation import ConfirmedCommand
from osc_placement.terminal.lines import capitalize, list_names
from osc_placement.terminal.progress import WriteWatch, nothing_changed_on_interrupt
from osc_placement.terminal.screen import say, screen_of, tell, write_lines

COLUMNS: Final = ("what", "resource_class", "amount", "from", "to")
INVENTORY: Final = "inventory"
#: how many providers the list of runs names
_FEW: Final = 3


class Reshape(ConfirmedCommand, ChangesLister):
    """Move inventory between resource providers, together with the allocations that depend on it.

    A target without an inventory of the class gets the inventory settings of the source. Consumers move only
    from a resource provider that is left with less than is allocated from it: the largest first, each as a
    whole and to the target with the most free capacity, or to the target that --consumer names. Everything is
    done in one transaction.

    By default, placement allows this for the role ``service`` only; the right is asked for first, also with
    ``--dry-run``.

    It is a run like those of batch commands, with a journal, and its ID is printed at the end: openstack
    resource provider batch run list, show, resume and undo take it.
    """

    example = "resource provider reshape --from compute-1 --to compute-1-gpu0 --resource VGPU=4 --dry-run"
    minimum = microversion.RESHAPER
    #: what was done, and the commands that can follow
    _done: tuple[Report, NextCommands] | None = None

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_moves(parser)
        parser.add_argument("--dry-run", action="store_true", help="Write nothing; show what would move")
        parser.add_argument(
            "--yes",
            action="store_true",
            help="Do not ask for confirmation; by default the plan has to be confirmed on the terminal",
        )
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        instructions = vars(parsed_args).get("instructions", [])
        if bool(instructions) is bool(parsed_args.file):
            raise UsageError("Give either moves (--from, --to and --resource) or a --file of them")
        parsed_args.pins = read_pins(parsed_args.consumer)
        if parsed_args.file:
            source = name_source(parsed_args.file)
            parsed_args.moves = read_moves(read_file(parsed_args.file, source), source)
        else:
            parsed_args.moves = read_instructions(instructions)
        self.require_somebody(parsed_args)

    def run(self, parsed_args: argparse.Namespace) -> int:
        """In a table, print the trees before the rows, and after them the summary and what can follow."""
        status = super().run(parsed_args)
        if self._done and parsed_args.formatter == self.formatter_default:
            report, commands = self._done
            say_summary(report, self.page, self.app.stdout)
            say_commands(commands, self.page, self.app.stdout)
        return status

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        with nothing_changed_on_interrupt(self.app.stderr):
            job = self._prepare(parsed_args)
            asks = not (parsed_args.dry_run or parsed_args.yes)
            batch.require_transaction(self.client, job)
            if asks or parsed_args.formatter == self.formatter_default:
                stream = self.app.stderr if asks else self.app.stdout
                screen = screen_of(stream, brief=True)
                before = draw_trees(CloudView(_list_providers(job, is_after=False)), screen)
                after = draw_trees(CloudView(_list_providers(job, is_after=True)), screen)
                write_lines(stream, ["before:", *before, "", "after:", *after, ""])
            self.page.name_providers(job.plan.steps)
            if asks:
                say(self.app.stderr, self.page.propose(job.plan, SEE_CHANGES))
                number = sum(isinstance(change.subject, Consumer) for change in job.plan.steps)
                allocations = f" and the allocations of {number} consumer{'s' if number > 1 else ''}"
                self.confirm(f"Move the inventory{allocations if number else ''}?")
                # neither generation tells of a consumer that was emptied meanwhile and claimed elsewhere
                job = self._prepare(parsed_args)
        rows = rows_of_plan(job.plan)
        if not parsed_args.dry_run:
            rows = rows_of_report(self._execute(job))
        return self.list_changes(
            parsed_args,
            rows,
            COLUMNS,
            lambda: list(plan_rows(job)),
            is_plan=parsed_args.dry_run,
            more=SEE_CHANGES,
        )

    def _prepare(self, parsed_args: argparse.Namespace) -> Job:
        """Return the reshape, with what is needed to plan it again."""
        ends = [end for move in parsed_args.moves for end in (move.source, move.target)]
        uuids = base.resolve_providers(self.client, [*ends, *parsed_args.pins.values()])
        moves = [
            Move(uuids[move.source], uuids[move.target], move.resource_class, move.amount)
            for move in parsed_args.moves
        ]
        pins = {consumer: uuids[provider] for consumer, provider in parsed_args.pins.items()}
        try:
            return _select(Job.for_reshape(self.client, Moves(moves, pins)))
        except ReshapeRefused:
            require_classes(self.client, {move.resource_class: None for move in moves}, in_query=True)
            raise

    def _execute(self, job: Job) -> Report:
        root = job.plan.steps[0].uuid
        recorder = batch.Runs().start(self.client, job)
        with WriteWatch(self.app.stderr, f"openstack resource provider tree {root}") as watch:
            watch.begin()
            report = batch.carry_out(self.client, job, recorder)
        error = next((outcome.error for outcome in report.outcomes if outcome.error), None)
        if error is not None:
            told = capitalize(report.halted)
            if isinstance(error, OutcomeUnknown):
                run = f"openstack resource provider batch run resume {recorder.id} --dry-run"
                told = f"{report.halted}; to find out: {run}"
            raise PlacementError(told) from error
        if report.halted:
            tell(self.app.stderr, report.halted)
        self.exit_status = report.exit_status
        self._done = report, name_next_commands(recorder.id, report, RUN, RUN)
        return report


def _select(job: Job) -> Job:
    """Return the job of a reshape with the names of its providers as its selection."""
    names = [record.provider.name for record in _list_providers(job, is_after=False)]
    return replace(job, selection=list_names(names, _FEW))


def _add_moves(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("moves")
    group.add_argument(
        "--from",
        dest="source",
        metavar="<provider>",
        action=MoveAction,
        help="Name or UUID of the resource provider to move inventory from. May be repeated, each with "
        "the --to and --resource that follow it.",
    )
    group.add_argument(
        "--to",
        dest="target",
        metavar="<provider>",
        action=MoveAction,
        help="Name or UUID of the resource provider to move it to. May be repeated after one --from.",
    )
    group.add_argument(
        "--resource",
        dest="resources",
        metavar="<resource_class>=<amount>",
        action=MoveAction,
        help="Amount of the total of a class to move; memory and disk may have units, as in MEMORY_MB=16GB. "
        "May be repeated.",
    )
    group.add_argument(
        "--file",
        metavar="<file>",
        help="YAML or JSON file with moves, - for standard input: a list of {from_resource_provider: name, "
        "to_resource_provider: name, moved_resources: [{VGPU: 4}]}",
    )
    group.add_argument(
        "--consumer",
        metavar="<uuid>=<provider>",
        action="append",
        default=[],
        help="Resource provider to which the allocations of this consumer move, or on which they stay. "
        "May be repeated.",
    )


def plan_rows(job: Job) -> Iterator[tuple[Any, ...]]:
    """Return a row for each inventory that moves, and one for each allocation."""
    plan = job.reshape.plan if job.reshape else None
    assert plan is not None
    for move in plan.moves:
        yield INVENTORY, move.resource_class, move.amount, *map(plan.world.name, (move.source, move.target))
    for one in plan.transfers:
        yield one.consumer, one.resource_class, one.amount, *map(plan.world.name, (one.source, one.target))


def _list_providers(job: Job, *, is_after: bool) -> list[ProviderRecord]:
    """Return the providers concerned as they are, or as they are afterwards."""
    plan = job.reshape.plan if job.reshape else None
    assert plan is not None
    records = []
    for uuid, provider in plan.world.providers.items():
        held = plan.world.inventories[uuid]
        held, used = (plan.inventories.get(uuid, held), plan.used) if is_after else (held, plan.world.used)
        records.append(ProviderRecord(provider, dict(held), {name: used(uuid, name) for name in held}))
    return records
