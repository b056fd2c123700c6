# SPDX-License-Identifier: Apache-2.0
"""``openstack resource provider reshape``."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from osc_placement import microversion
from osc_placement.api.names import require_classes
from osc_placement.batch import journal, service
from osc_placement.batch.page import SEE_CHANGES, rows_of_plan, rows_of_report
from osc_placement.batch.plan import Report
from osc_placement.batch.reshape import (
    KIND,
    Inventories,
    Move,
    ReshapePlan,
    World,
    describe_moves,
    plan_reshape,
)
from osc_placement.batch.reshape_run import Task, read_world
from osc_placement.batch.run_commands import NextCommands, name_next_commands, telling_list
from osc_placement.batch.service import Job
from osc_placement.batch.transaction import NotKnown
from osc_placement.batch.undo import RUN
from osc_placement.batch.writers.reshape import MayNotReshape
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
from osc_placement.errors import PlacementError, UsageError
from osc_placement.model import ProviderRecord
from osc_placement.report.tree import draw_trees
from osc_placement.terminal.confirmation import ConfirmedCommand
from osc_placement.terminal.lines import list_names
from osc_placement.terminal.progress import WriteWatch, nothing_changed_on_interrupt
from osc_placement.terminal.screen import screen_of, tell, write_lines

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
    resource provider batch run list, show, resume and undo take it; --undo of this command also shows the
    trees.

    For example: openstack resource provider reshape --from compute-1 --to compute-1-gpu0 --resource VGPU=4
    """

    minimum = microversion.RESHAPER
    #: what was done, and the commands that can follow
    _done: tuple[Report, NextCommands] | None = None

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_moves(parser)
        parser.add_argument(
            "--undo",
            metavar="<run>",
            help="Undo the reshape with this ID, if nobody has changed since what it did",
        )
        parser.add_argument("--dry-run", action="store_true", help="Write nothing; show what would move")
        parser.add_argument(
            "--yes",
            action="store_true",
            help="Do not ask for confirmation; by default the plan has to be confirmed on the terminal",
        )
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        instructions = vars(parsed_args).get("instructions", [])
        if sum(map(bool, (instructions, parsed_args.file, parsed_args.undo))) != 1:
            raise UsageError("Give one of: moves (--from, --to and --resource), a --file of them, or --undo")
        parsed_args.pins = read_pins(parsed_args.consumer)
        if parsed_args.undo:
            if parsed_args.pins:
                raise UsageError("--consumer cannot be used with --undo")
            with telling_list(RUN):
                kind = journal.read(parsed_args.undo).header.kind
            if kind != KIND:
                raise PlacementError(
                    f"Run {parsed_args.undo} is not a reshape; undo it with: {RUN} undo {parsed_args.undo}"
                )
        elif parsed_args.file:
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
            assert job.reshape is not None
            plan = job.reshape.plan
            asks = not (parsed_args.dry_run or parsed_args.yes)
            service.require_transaction(self.client, job)
            if asks or parsed_args.formatter == self.formatter_default:
                stream = self.app.stderr if asks else self.app.stdout
                screen = screen_of(stream, brief=True)
                before = draw_trees(_draw(plan.world, plan.world.inventories, plan.world), screen)
                after = draw_trees(_draw(plan.world, plan.inventories, plan), screen)
                write_lines(stream, ["before:", *before, "", "after:", *after, ""])
            self.page.name_providers(job.plan.steps)
            if asks:
                write_lines(self.app.stderr, self.page.propose(job.plan, SEE_CHANGES))
                number = len(plan.consumers)
                allocations = f" and the allocations of {number} consumer{'s' if number > 1 else ''}"
                self.confirm(f"Move the inventory{allocations if number else ''}?")
                # neither generation tells of a consumer that was emptied meanwhile and claimed elsewhere
                job = self._prepare(parsed_args)
                assert job.reshape is not None
                plan = job.reshape.plan
        rows = rows_of_plan(job.plan)
        if not parsed_args.dry_run:
            plan, report = self._execute(job, plan)
            rows = rows_of_report(report)
        return self.list_changes(
            parsed_args,
            rows,
            COLUMNS,
            lambda: list(plan_rows(plan)),
            is_plan=parsed_args.dry_run,
            more=SEE_CHANGES,
        )

    def _prepare(self, parsed_args: argparse.Namespace) -> Job:
        """Return the reshape, with what is needed to plan it again; raise PlacementError if there is none."""
        if parsed_args.undo:
            job = service.undo(self.client, parsed_args.undo, lambda _subjects, _facets: ())
            if job.reshape is None:
                raise PlacementError(
                    f"Nothing to undo: everything is as it was before run {parsed_args.undo}"
                )
            return replace(job, selection=_name_providers(job.reshape.plan.world))
        ends = [end for move in parsed_args.moves for end in (move.source, move.target)]
        uuids = base.resolve_providers(self.client, [*ends, *parsed_args.pins.values()])
        moves = [
            Move(uuids[move.source], uuids[move.target], move.resource_class, move.amount)
            for move in parsed_args.moves
        ]
        pins = {consumer: uuids[provider] for consumer, provider in parsed_args.pins.items()}
        providers = dict.fromkeys(uuid for move in moves for uuid in (move.source, move.target))
        concerned: dict[str, frozenset[str]] = {}
        for move in moves:
            concerned[move.source] = concerned.get(move.source, frozenset()) | {move.resource_class}
        read = functools.partial(read_world, self.client, tuple(providers), concerned)
        world = read()
        lacking = dict.fromkeys(
            move.resource_class for move in moves if move.resource_class not in world.inventories[move.source]
        )
        require_classes(self.client, lacking, in_query=True)
        plan = plan_reshape(world, moves, pins)
        task = Task(describe_moves(plan), plan, read, lambda world: plan_reshape(world, moves, pins))
        return Job(task.steps, _name_providers(plan.world), KIND, True, task)

    def _execute(self, job: Job, plan: ReshapePlan) -> tuple[ReshapePlan, Report]:
        root = next(iter(plan.world.providers))
        recorder = service.start(self.client, job)
        with WriteWatch(self.app.stderr, f"openstack resource provider tree {root}") as watch:
            result = service.carry_out(self.client, job, recorder, on_write=watch.begin)
        report = result.report
        error = next((outcome.error for outcome in report.outcomes if outcome.error), None)
        if isinstance(error, NotKnown):
            raise PlacementError(
                f"{error}; to find out: openstack resource provider batch run resume {recorder.id} --dry-run"
            ) from error
        if error is not None:
            told = f"Nothing was changed: {error}"
            raise (PlacementError(told) if isinstance(error, MayNotReshape) else error) from error
        if report.halted:
            tell(self.app.stderr, report.halted)
        self.exit_status = report.exit_status
        self._done = report, name_next_commands(recorder.id, report, RUN, RUN, undoes=job.undoes)
        return result.reshape or plan, report


def _name_providers(world: World) -> str:
    return list_names([provider.name for provider in world.providers.values()], _FEW)


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


def plan_rows(plan: ReshapePlan) -> Iterator[tuple[Any, ...]]:
    """Return a row for each inventory that moves, and one for each allocation."""

    name = plan.world.name

    for move in plan.moves:
        yield INVENTORY, move.resource_class, move.amount, name(move.source), name(move.target)
    for transfer in plan.transfers:
        yield (
            transfer.consumer,
            transfer.resource_class,
            transfer.amount,
            name(transfer.source),
            name(transfer.target),
        )


def _draw(world: World, inventories: Mapping[str, Inventories], usage: World | ReshapePlan) -> CloudView:
    """Return the providers concerned as a cloud to be drawn."""
    records = []
    for uuid, provider in world.providers.items():
        of_provider = inventories.get(uuid, world.inventories[uuid])
        usages = {name: usage.used(uuid, name) for name in of_provider}
        records.append(ProviderRecord(provider, dict(of_provider), usages))
    return CloudView(records)
