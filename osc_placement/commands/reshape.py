# SPDX-License-Identifier: Apache-2.0
"""``openstack resource provider reshape``."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterator, Mapping
from typing import Any, Final, TextIO

from osc_placement import microversion
from osc_placement.batch.reshape import Inventories, Move, ReshapePlan, World, plan_reshape, plan_undo
from osc_placement.batch.reshape_run import Planner, read_world, run_reshape
from osc_placement.batch.reshape_undo import Undo, find_path, new_path, read_undo, undo_of, write_undo
from osc_placement.commands import base
from osc_placement.commands.progress import WriteWatch, nothing_changed_on_interrupt
from osc_placement.commands.reshape_moves import (
    MoveAction,
    NamedMove,
    read_instructions,
    read_moves,
    read_pins,
)
from osc_placement.commands.screen import look_for, write_lines
from osc_placement.commands.state import STANDARD_STREAM, read_file
from osc_placement.errors import Forbidden, HttpError, PlacementError, UsageError
from osc_placement.model import Provider, canonical_uuid
from osc_placement.report.cloud import Cloud, Node, Stock
from osc_placement.report.tree import draw_trees

COLUMNS: Final = ("what", "resource_class", "amount", "from", "to")
INVENTORY: Final = "inventory"
_POLICY: Final = "placement:reshaper:reshape"


class Reshape(base.Lister):
    """Move inventory between resource providers, together with the allocations that have to go with it.

    A target without the class gets the terms of the source. Consumers move only from a provider that is left
    with less than is allocated from it: the largest first, each whole and to the target with the most room,
    or where --consumer says. All of it is done in one transaction, or nothing is.

    Placement lets only the role ``service`` do this, unless its policy file says otherwise.

    The way back is kept in a file: --undo takes the file or its ID, which is printed at the end.

    For example: openstack resource provider reshape --from compute-1 --to compute-1-gpu0 --resource VGPU=4
    """

    minimum = microversion.RESHAPER

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_moves(parser)
        parser.add_argument(
            "--undo",
            metavar="<file_or_id>",
            help="Undo an earlier reshape, as far as nobody has changed since what it did",
        )
        parser.add_argument("--dry-run", action="store_true", help="Write nothing; show what would move")
        parser.add_argument(
            "--yes",
            action="store_true",
            help="Do not ask; without it the plan is shown and has to be confirmed on the terminal",
        )
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        instructions = vars(parsed_args).get("instructions", [])
        if sum(map(bool, (instructions, parsed_args.file, parsed_args.undo))) != 1:
            raise UsageError("Give one of: moves (--from, --to and --resource), a --file of them, or --undo")
        parsed_args.pins = read_pins(parsed_args.consumer)
        if parsed_args.undo:
            if parsed_args.pins:
                raise UsageError("--consumer does not go with --undo")
            parsed_args.undo = read_undo(find_path(parsed_args.undo))
        elif parsed_args.file:
            source = "standard input" if parsed_args.file == STANDARD_STREAM else parsed_args.file
            parsed_args.moves = read_moves(read_file(parsed_args.file, source), source)
        else:
            parsed_args.moves = read_instructions(instructions)
        if not (parsed_args.dry_run or parsed_args.yes or self._is_attended()):
            raise UsageError(
                "Nothing was changed: without a terminal to confirm on, give --yes to change "
                "or --dry-run to see the plan"
            )

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Print the trees before the rows, and how to undo it after them, where a person reads them."""
        self._last_line = ""
        status = super().run(parsed_args)
        if self._last_line and parsed_args.formatter == self.formatter_default:
            print(self._last_line, file=self.app.stdout)
        return status

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        with nothing_changed_on_interrupt(self.app.stderr):
            read, make_plan = self._prepare(parsed_args)
            plan = make_plan(read())
            asks = not (parsed_args.dry_run or parsed_args.yes)
            if asks or parsed_args.formatter == self.formatter_default:
                _show_trees(plan, self.app.stderr if asks else self.app.stdout)
            if asks:
                self._confirm(plan)
        if not parsed_args.dry_run:
            plan = self._execute(plan, read, make_plan)
        return COLUMNS, list(plan_rows(plan))

    def _prepare(self, parsed_args: argparse.Namespace) -> tuple[Any, Planner]:
        """How to read what there is, and how to make a plan of it."""
        if parsed_args.undo:
            undo: Undo = parsed_args.undo
            classes = {uuid: frozenset(held) for uuid, held in undo.after.items()}
            return (
                functools.partial(read_world, self.client, undo.providers, classes),
                lambda world: plan_undo(world, undo.before, undo.after, undo.transfers),
            )
        resolve = functools.cache(lambda text: canonical_uuid(base.resolve_provider(self.client, text)))
        moves = [_resolve_move(move, resolve) for move in parsed_args.moves]
        pins = {canonical_uuid(one): resolve(provider) for one, provider in parsed_args.pins.items()}
        providers = dict.fromkeys(uuid for move in moves for uuid in (move.source, move.target))
        concerned: dict[str, frozenset[str]] = {}
        for move in moves:
            concerned[move.source] = concerned.get(move.source, frozenset()) | {move.resource_class}
        return (
            functools.partial(read_world, self.client, tuple(providers), concerned),
            lambda world: plan_reshape(world, moves, pins),
        )

    def _execute(self, plan: ReshapePlan, read: Any, make_plan: Planner) -> ReshapePlan:
        root = next(iter(plan.world.providers))
        with WriteWatch(self.app.stderr, f"openstack resource provider tree {root}") as watch:
            write = self._write if plan.moves else self._undo
            return write(plan, read, make_plan, watch)

    def _write(self, plan: ReshapePlan, read: Any, make_plan: Planner, watch: WriteWatch) -> ReshapePlan:
        path = new_path()

        def before_write(plan: ReshapePlan) -> None:
            write_undo(path, undo_of(plan))
            watch.begin()

        try:
            done = run_reshape(self.client, plan, read, make_plan, before_write)
        except HttpError as error:
            if int(error.code) < 500:
                path.unlink(missing_ok=True)
            raise _explain(error) from error
        self._last_line = f"Done. To undo it: openstack resource provider reshape --undo {path.stem}"
        return done

    def _undo(self, plan: ReshapePlan, read: Any, make_plan: Planner, watch: WriteWatch) -> ReshapePlan:
        try:
            done = run_reshape(self.client, plan, read, make_plan, lambda _plan: watch.begin())
        except HttpError as error:
            raise _explain(error) from error
        self._last_line = "Undone."
        return done

    def _is_attended(self) -> bool:
        """Whether somebody can be asked; a stream that was closed is None."""
        return all(stream is not None and stream.isatty() for stream in (self.app.stdin, self.app.stderr))

    def _confirm(self, plan: ReshapePlan) -> None:
        number = len(plan.consumers)
        what = f" and the allocations of {number} consumer{'s' if number > 1 else ''}" if number else ""
        print(f"Move the inventory{what}? [y/N] ", end="", file=self.app.stderr, flush=True)
        if self.app.stdin.readline().strip().lower() not in ("y", "yes"):
            raise PlacementError("Nothing was changed: not confirmed")


def _explain(error: HttpError) -> PlacementError:
    """The error with what to do about it; placement keeps this one route from administrators."""
    if not isinstance(error, Forbidden):
        return error
    return PlacementError(
        f"Nothing was changed: {error}; by default only the role 'service' may reshape: use the credentials "
        f"of a service such as nova, or set {_POLICY} to rule:admin_or_service_api in placement's policy.yaml"
    )


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
        help="How much of the total of a class to move. May be repeated.",
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
        help="Where to move the allocations of this consumer, or to leave them. May be repeated.",
    )


def _resolve_move(move: NamedMove, resolve: Any) -> Move:
    return Move(resolve(move.source), resolve(move.target), move.resource_class, move.amount)


def plan_rows(plan: ReshapePlan) -> Iterator[tuple[Any, ...]]:
    """A row for each inventory that moves, and one for each allocation."""
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
    look = look_for(stream, brief=True)
    before = _draw(plan.world, plan.world.inventories, plan.world)
    after = _draw(plan.world, plan.inventories, plan)
    write_lines(stream, ["before:", *draw_trees(before, look), "", "after:", *draw_trees(after, look), ""])


def _draw(world: World, inventories: Mapping[str, Inventories], usage: World | ReshapePlan) -> Cloud:
    """The providers concerned, with all they have."""
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
