# SPDX-License-Identifier: Apache-2.0
"""``openstack resource provider batch apply``: carry out a plan that was saved."""

from __future__ import annotations

import argparse
import pathlib
import shlex
from collections.abc import Sequence
from typing import Final

from osc_placement import batch
from osc_placement.batch import Job
from osc_placement.commands.batch_execution import APPLY_PLAN, PlanCommand
from osc_placement.commands.batch_options import add_execution, add_force, read_policy
from osc_placement.errors import PlacementError
from osc_placement.terminal.lines import capitalize, count_providers
from osc_placement.terminal.screen import tell

#: how many of the providers that changed since are shown
_MOST_MOVES: Final = 10


class PlanOutdated(PlacementError):
    """Some providers of a plan were changed since they were planned."""

    def __init__(self, moves: list[batch.Moved]) -> None:
        self.moves = moves
        changed, full, _, _ = _sort(moves)
        steps = {
            "plans what has changed again": changed,
            "leaves what has more allocated alone": full,
            "carries the rest out as planned": moves,
        }
        *first, last = [step for step, those in steps.items() if those]
        told = f"{', '.join(first)} and {last}" if first else last
        told += "; with --force, what has more allocated is changed too" if full else ""
        super().__init__(f"Nothing was changed: {describe_moves(moves)}; --replan {told}")


def _sort(moves: Sequence[batch.Moved]) -> tuple[list[batch.Moved], ...]:
    """Return those that changed, that only have more allocated, that are gone, and that cannot be read."""
    return (
        [move for move in moves if move.facets and not move.is_overcommitted],
        [move for move in moves if move.is_overcommitted],
        [move for move in moves if move.is_gone],
        [move for move in moves if not move.facets and not move.is_gone],
    )


def describe_moves(moves: Sequence[batch.Moved]) -> str:
    """Return how many providers a saved plan does not hold for, and what of them is not as it was."""
    changed, full, gone, unreadable = _sort(moves)
    facets = sorted({facet for move in changed for facet in move.facets})
    told = {
        f"other {' or '.join(facets)} than when the plan was made": (len(changed), "has", "have"),
        "more allocated than the plan leaves": (len(full), "has", "have"),
        "not exist any more": (len(gone), "does", "do"),
        "be read": (len(unreadable), "cannot", "cannot"),
    }
    parts = [
        f"{f'{number:,}' if number < len(moves) else count_providers(number)} "
        f"{singular if number == 1 else plural} {what}"
        for what, (number, singular, plural) in told.items()
        if number
    ]
    whole = f"of {count_providers(len(moves))}, " if len(parts) > 1 else ""
    return f"{whole}{' and '.join(parts)}"


def ask_to_replan(moves: Sequence[batch.Moved]) -> str:
    """Return the question that is asked before the plan is made again; the new plan is confirmed as well."""
    changed, full, gone, unreadable = map(len, _sort(moves))
    groups = (
        ("plan again", changed, "has changed", "have changed"),
        ("leave alone", full, "has more allocated", "have more allocated"),
        ("leave out", gone, "is gone", "are gone"),
        ("leave out", unreadable, "cannot be read", "cannot be read"),
    )
    steps = []
    for verb, number, one, several in groups:
        if number == len(moves):
            steps.append(verb.replace(" ", " it " if number == 1 else " them "))
        elif number:
            them = f"the one that {one}" if number == 1 else f"the {number:,} that {several}"
            steps.append(f"{verb} {them}")
    text = ", ".join([*steps, "and show the new plan?"])
    return capitalize(text)


class ApplyPlanFile(PlanCommand):
    """Carry out a plan that --plan-out saved, exactly as it was shown.

    If something that the plan changes was changed since the plan was made, or less capacity would be left
    than is allocated now, the command shows where and changes nothing; with --replan it plans these resource
    providers again. Other changes, and allocations that fit, do not matter. A resource provider that is
    already as planned is not changed.
    """

    example = "resource provider batch apply rack1.plan"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("plan", metavar="<file>", help="The file that --plan-out wrote")
        parser.add_argument(
            "--replan",
            action="store_true",
            help="Plan resource providers again that changed since the plan was made, and change the others "
            "as planned",
        )
        add_force(
            parser,
            "Change resource providers even if less capacity is left than is allocated by now, and remove "
            "traits that nova-compute reports",
        )
        add_execution(parser)
        return parser

    def is_atomic(self, parsed_args: argparse.Namespace) -> bool:
        return bool(parsed_args.atomic or parsed_args.saved.atomic)

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        parsed_args.saved = batch.load_plan(pathlib.Path(parsed_args.plan))
        super().read_arguments(parsed_args)

    def prepare(self, parsed_args: argparse.Namespace) -> Job:
        found = batch.find_saved(self.client, parsed_args.saved, concurrency=parsed_args.concurrency)
        policy = read_policy(parsed_args)
        is_allowed = policy.capacity == "exceed"
        outdated = [move for move in found.moves if not (is_allowed and move.is_overcommitted)]
        if outdated and not parsed_args.replan:
            self._offer_to_replan(outdated, parsed_args)
        plan = found.plan(self.client, policy, replan=parsed_args.replan, concurrency=parsed_args.concurrency)
        return Job(plan, str(parsed_args.saved.selection), is_atomic=self.is_atomic(parsed_args))

    def _offer_to_replan(self, moves: list[batch.Moved], parsed_args: argparse.Namespace) -> None:
        for move in moves[:_MOST_MOVES]:
            tell(self.app.stderr, f"{move.step.subject.name}: {move.what}")
        if len(moves) > _MOST_MOVES:
            tell(self.app.stderr, f"and {len(moves) - _MOST_MOVES:,} more")
        if self.is_harmless(parsed_args) or parsed_args.yes or not self.is_attended():
            raise PlanOutdated(moves)
        told = describe_moves(moves)
        command = f"{APPLY_PLAN} {shlex.quote(parsed_args.plan)} --replan"
        self.confirm(f"{capitalize(told)}. {ask_to_replan(moves)}", f"to plan again later: {command}")
        parsed_args.replan = True
