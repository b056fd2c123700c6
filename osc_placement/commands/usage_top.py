# SPDX-License-Identifier: Apache-2.0
"""``openstack resource usage top``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Final

from osc_placement import microversion, syntax
from osc_placement.commands.reading import require_classes, show_reading
from osc_placement.commands.report import ReportCommand
from osc_placement.errors import UsageError
from osc_placement.report.holdings import Holding, class_capacities, rank, sum_by_project
from osc_placement.report.read import STOCKS, read_holdings

_DEFAULT_LIMIT: Final = 10


class TopUsage(ReportCommand):
    """Show the largest consumers, or the largest projects.

    Their size is their largest share of any class: the last two columns show the class, and the share as a
    percentage of its capacity in the whole cloud. With --resource-class only that class counts. Where
    resource providers are named or selected, only these count: what is allocated from them, and their
    capacity.

    The API lists consumers by resource provider and projects by consumer, so this takes a request for each
    provider that is used and one for each consumer.
    """

    example = "resource usage top --by project --limit 10"
    minimum = microversion.ALLOCATIONS_BY_PROVIDER
    droppable: Sequence[str] = ("user", "type", "resources", "project")
    breakable = ("resources",)

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--by",
            choices=("consumer", "project"),
            default="consumer",
            help="Compare consumers or projects (default: consumer)",
        )
        parser.add_argument("--resource-class", metavar="<resource_class>", help="Compare by this class only")
        parser.add_argument(
            "--limit",
            metavar="<number>",
            default=str(_DEFAULT_LIMIT),
            help=f"How many to show; 0 for all (default: {_DEFAULT_LIMIT})",
        )
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        super().read_arguments(parsed_args)
        parsed_args.limit = syntax.parse_whole_number(parsed_args.limit, "--limit")
        if parsed_args.limit < 0:
            raise UsageError(f"--limit must be at least 0, not {parsed_args.limit}")

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        with show_reading(self.app.stderr, parsed_args.concurrency) as reading:
            selected = self.read_cloud(parsed_args, STOCKS, reading, only_capacity=True)
            cloud = selected.part
            if parsed_args.resource_class is not None:
                require_classes(self.client, cloud, [parsed_args.resource_class])
            holdings = read_holdings(self.client, cloud, reading, only_here=selected.uuids is not None)
        by_project = parsed_args.by == "project"
        holders = sum_by_project(holdings) if by_project else [(holding, 1) for holding in holdings]
        ranks = rank(holders, class_capacities(cloud), parsed_args.resource_class)
        shown = ranks[: parsed_args.limit or None]
        if rest := len(ranks) - len(shown):
            self.last_line = (
                f"... and {rest:,} more {parsed_args.by}{'s' if rest > 1 else ''} (--limit 0 shows them)"
            )
        if by_project:
            self.droppable = ("resources",)
            return ("project", "consumers", "resources", "of_class", "percent"), [
                (one.holder.project, one.consumers, _amounts(one.holder), one.scarcest, round(one.percent, 2))
                for one in shown
            ]
        return ("consumer", "type", "project", "user", "resources", "of_class", "percent"), [
            (
                one.holder.consumer,
                one.holder.kind,
                one.holder.project,
                one.holder.user,
                _amounts(one.holder),
                one.scarcest,
                round(one.percent, 2),
            )
            for one in shown
        ]


def _amounts(holding: Holding) -> str:
    return ",".join(f"{name}={amount}" for name, amount in holding.amounts.items())
