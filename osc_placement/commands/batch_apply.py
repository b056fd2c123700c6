# SPDX-License-Identifier: Apache-2.0
"""``openstack resource provider batch apply``: carry out a plan that was saved."""

from __future__ import annotations

import argparse
import pathlib

from osc_placement.batch import select
from osc_placement.batch.advice import advise
from osc_placement.batch.journal import saved
from osc_placement.batch.plan import FACETS, count_providers
from osc_placement.batch.service import Job, check_server
from osc_placement.commands.batch_execution import PlanCommand
from osc_placement.commands.batch_options import add_execution, add_overcommit
from osc_placement.errors import PlacementError
from osc_placement.terminal.escape import printable


class PlanOutdated(PlacementError):
    """Some providers changed since they were planned."""

    def __init__(self, moves: list[saved.Move]) -> None:
        self.moves = moves
        super().__init__(
            f"Nothing was changed: {count_providers(len(moves))} moved since the plan was made; "
            "--replan plans these again and carries the rest out as planned"
        )


class ApplyPlanFile(PlanCommand):
    """Carry out a plan that --plan-out saved, exactly as it was shown.

    If a resource provider changed since the plan was made, the command shows what changed and changes
    nothing. With --replan it plans these providers again.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("plan", metavar="<file>", help="The file that --plan-out wrote")
        parser.add_argument(
            "--replan",
            action="store_true",
            help="Plan resource providers that changed since again, and change the others as planned",
        )
        add_overcommit(
            parser,
            "Change resource providers that are planned again even if less capacity is left than is"
            " allocated",
        )
        add_execution(parser)
        return parser

    def is_atomic(self, parsed_args: argparse.Namespace) -> bool:
        return bool(parsed_args.atomic or parsed_args.saved.atomic)

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        parsed_args.saved = saved.load_plan(pathlib.Path(parsed_args.plan))
        super().read_arguments(parsed_args)

    def prepare(self, parsed_args: argparse.Namespace) -> Job:
        plan: saved.SavedPlan = parsed_args.saved
        check_server(plan.server, self.client.endpoint)
        readings = select.read_again(
            self.client,
            [step.subject for step in plan.steps],
            FACETS,
            with_usages=True,
            concurrency=parsed_args.concurrency,
        )
        moves = saved.find_moves(plan, readings)
        if moves and not parsed_args.replan:
            self._offer_to_replan(moves, parsed_args)
        usages = {move.step.uuid: move.now.usages for move in moves if move.now.usages is not None}
        # providers that did not move were judged when they were planned
        judged = advise(
            saved.plan_saved(plan, moves), usages, allow_overcommitted=parsed_args.allow_overcommitted
        )
        return Job(judged, str(plan.selection), is_atomic=self.is_atomic(parsed_args))

    def _offer_to_replan(self, moves: list[saved.Move], parsed_args: argparse.Namespace) -> None:
        told = "\n".join(
            printable(f"{move.step.subject.name} ({move.step.uuid}): {move.what}") for move in moves
        )
        print(told, file=self.app.stderr)
        if self.is_harmless(parsed_args) or not self.is_attended():
            raise PlanOutdated(moves)
        self.confirm(f"These moved since the plan was made. Plan {len(moves)} of them again?")
