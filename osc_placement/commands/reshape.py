# SPDX-License-Identifier: Apache-2.0
"""``openstack resource provider reshape``."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterator, Mapping
from typing import Any, Final, TextIO

from osc_placement import microversion
from osc_placement.batch import journal
from osc_placement.batch.recovery import check_server
from osc_placement.batch.reshape import Inventories, Move, ReshapePlan, World, plan_reshape
from osc_placement.batch.reshape_record import KIND, describe_moves
from osc_placement.batch.reshape_run import NotKnown, Task, execute_reshape, plan_task, read_world
from osc_placement.batch.undo import undo_of
from osc_placement.batch.writers.reshape import MayNotReshape
from osc_placement.commands import base
from osc_placement.commands.reshape_moves import (
    MoveAction,
    NamedMove,
    read_instructions,
    read_moves,
    read_pins,
)
from osc_placement.commands.state import STANDARD_STREAM, read_file
from osc_placement.errors import PlacementError, UsageError
from osc_placement.model import Provider
from osc_placement.report.cloud import Cloud, Node, Stock
from osc_placement.report.tree import draw_trees
from osc_placement.terminal.confirmation import ConfirmedCommand
from osc_placement.terminal.escape import printable
from osc_placement.terminal.progress import WriteWatch, nothing_changed_on_interrupt
from osc_placement.terminal.screen import screen_of, write_lines

COLUMNS: Final = ("what", "resource_class", "amount", "from", "to")
INVENTORY: Final = "inventory"
#: how many providers the list of runs names
_FEW: Final = 3


class Reshape(ConfirmedCommand, base.Lister):
    """Move inventory between resource providers, together with the allocations that depend on it.

    A target without an inventory of the class gets the inventory settings of the source. Consumers move only
    from a resource provider that is left with less than is allocated from it: the largest first, each as a
    whole and to the target with the most free capacity, or to the target that --consumer names. Everything is
    done in one transaction.

    By default, placement allows this for the role ``service`` only.

    It is a run like those of batch commands, with a journal, and its ID is printed at the end: openstack
    resource provider batch run list, show, resume and undo take it; --undo of this command also shows the
    trees.

    For example: openstack resource provider reshape --from compute-1 --to compute-1-gpu0 --resource VGPU=4
    """

    minimum = microversion.RESHAPER

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
            parsed_args.undo = _read_run(parsed_args.undo)
        elif parsed_args.file:
            source = "standard input" if parsed_args.file == STANDARD_STREAM else parsed_args.file
            parsed_args.moves = read_moves(read_file(parsed_args.file, source), source)
        else:
            parsed_args.moves = read_instructions(instructions)
        self.require_somebody(parsed_args)

    def run(self, parsed_args: argparse.Namespace) -> int:
        """In a table, print the trees before the rows and the command for an undo after them."""
        self._last_line = ""
        status = super().run(parsed_args)
        if self._last_line and parsed_args.formatter == self.formatter_default:
            print(self._last_line, file=self.app.stdout)
        return status

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        with nothing_changed_on_interrupt(self.app.stderr):
            task = self._prepare(parsed_args)
            asks = not (parsed_args.dry_run or parsed_args.yes)
            if asks or parsed_args.formatter == self.formatter_default:
                _show_trees(task.plan, self.app.stderr if asks else self.app.stdout)
            if asks:
                self.confirm(f"Move {_describe_burden(task.plan)}?")
        plan = task.plan if parsed_args.dry_run else self._execute(task, parsed_args.undo)
        return COLUMNS, list(plan_rows(plan))

    def _prepare(self, parsed_args: argparse.Namespace) -> Task:
        """Return the reshape as a task, with what is needed to plan it again."""
        if parsed_args.undo:
            return self._prepare_undo(parsed_args.undo)
        resolve = functools.cache(functools.partial(base.resolve_provider, self.client))
        moves = [_resolve_move(move, resolve) for move in parsed_args.moves]
        pins = {consumer: resolve(provider) for consumer, provider in parsed_args.pins.items()}
        providers = dict.fromkeys(uuid for move in moves for uuid in (move.source, move.target))
        concerned: dict[str, frozenset[str]] = {}
        for move in moves:
            concerned[move.source] = concerned.get(move.source, frozenset()) | {move.resource_class}
        read = functools.partial(read_world, self.client, tuple(providers), concerned)
        plan = plan_reshape(read(), moves, pins)
        return Task(describe_moves(plan), plan, read, lambda world: plan_reshape(world, moves, pins))

    def _prepare_undo(self, run: journal.Run) -> Task:
        check_server(run.header.server, self.client.endpoint)
        title = f"undo of {run.header.id} ({run.header.edit.title})"
        intents = run.intents.values() if run.is_planned else ()
        task = plan_task(self.client, undo_of(intents), title)
        if task is None:
            raise PlacementError(f"Nothing to undo: everything is as it was before run {run.header.id}")
        return task

    def _execute(self, task: Task, undone: journal.Run | None) -> ReshapePlan:
        root = next(iter(task.plan.world.providers))
        recorder = journal.create(
            self.client.endpoint,
            task.steps,
            selection=_name_providers(task.plan.world),
            undoes=undone.header.id if undone else None,
            settings={"kind": KIND, "atomic": True},
        )
        try:
            with WriteWatch(self.app.stderr, f"openstack resource provider tree {root}") as watch:
                plan, report = execute_reshape(self.client, task, recorder, watch.begin)
            report = recorder.end_sitting(report)
        finally:
            recorder.close()
        error = next((outcome.error for outcome in report.outcomes if outcome.error), None)
        if error is not None:
            raise _explain(error, recorder.id) from error
        if report.halted and self.app.stderr is not None:
            print(printable(report.halted), file=self.app.stderr)
        self.exit_status = report.exit_status
        done = "Undone" if undone else "Done"
        self._last_line = f"{done}. To undo it: openstack resource provider reshape --undo {recorder.id}"
        return plan


def _read_run(run_id: str) -> journal.Run:
    run = journal.read(run_id)
    if run.header.kind != KIND:
        raise UsageError(
            f"Run {run_id} is not a reshape; undo it with: "
            f"openstack resource provider batch run undo {run_id}"
        )
    if run.is_running:
        raise journal.JournalError(f"Run {run_id} is under way in another process")
    return run


def _describe_burden(plan: ReshapePlan) -> str:
    number = len(plan.consumers)
    what = f" and the allocations of {number} consumer{'s' if number > 1 else ''}" if number else ""
    return f"the inventory{what}"


def _name_providers(world: World) -> str:
    names = [provider.name for provider in world.providers.values()]
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return ", ".join(names[:_FEW]) + more


def _explain(error: Exception, run_id: str) -> Exception:
    """Return the error with what is known of its effects."""
    if isinstance(error, NotKnown):
        return PlacementError(
            f"{error}; to find out: openstack resource provider batch run resume {run_id} --dry-run"
        )
    return PlacementError(f"Nothing was changed: {error}") if isinstance(error, MayNotReshape) else error


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
        help="Amount of the total of a class to move. May be repeated.",
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


def _resolve_move(move: NamedMove, resolve: Any) -> Move:
    return Move(resolve(move.source), resolve(move.target), move.resource_class, move.amount)


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


def _show_trees(plan: ReshapePlan, stream: TextIO) -> None:
    screen = screen_of(stream, brief=True)
    before = _draw(plan.world, plan.world.inventories, plan.world)
    after = _draw(plan.world, plan.inventories, plan)
    shown = [*draw_trees(before, screen), "", "after:", *draw_trees(after, screen)]
    write_lines(stream, ["before:", *shown, ""])


def _draw(world: World, inventories: Mapping[str, Inventories], usage: World | ReshapePlan) -> Cloud:
    """Return the providers concerned as a cloud to be drawn."""
    return Cloud(
        _node(provider, inventories.get(uuid, world.inventories[uuid]), usage)
        for uuid, provider in world.providers.items()
    )


def _node(provider: Provider, inventories: Inventories, usage: World | ReshapePlan) -> Node:
    stocks = {
        name: Stock(inventory, usage.used(provider.uuid, name))
        for name, inventory in sorted(inventories.items())
    }
    return Node(provider, stocks)
