# SPDX-License-Identifier: Apache-2.0
"""``openstack resource provider aggregate list|set|add|remove``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from osc_placement import microversion
from osc_placement.api.client import PlacementClient
from osc_placement.api.retry import retry
from osc_placement.commands import base
from osc_placement.commands.host_aggregate import AGGREGATE_HELP
from osc_placement.errors import PlacementError

COLUMNS = ("uuid",)


class SetAggregate(base.ProviderCommand, base.Lister):
    """Replace the aggregates of a resource provider.

    The resource provider is removed from all aggregates that are not named. Without any ``--aggregate`` it is
    in no aggregate afterwards.
    """

    minimum = microversion.PROVIDER_AGGREGATES

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--aggregate",
            metavar="<aggregate_uuid>",
            action="append",
            default=[],
            help=f"{AGGREGATE_HELP}. May be repeated.",
        )
        self.add_option(
            parser,
            "--generation",
            metavar="<resource_provider_generation>",
            type=int,
            since=microversion.AGGREGATES_WITH_GENERATION,
            help="Generation of the provider as it was last read: if somebody changed the provider "
            "since, nothing is written. Required from that version on.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        needs_generation = self.client.version >= microversion.AGGREGATES_WITH_GENERATION
        if needs_generation and parsed_args.generation is None:
            raise PlacementError("A generation must be specified.")
        uuid = base.resolve_provider(self.client, parsed_args.uuid)
        aggregates = self.aggregates.resolve(parsed_args.aggregate)
        document = self.client.set_provider_aggregates(uuid, aggregates, parsed_args.generation)
        return COLUMNS, [[aggregate] for aggregate in document["aggregates"]]


class ListAggregate(base.ProviderCommand, base.Lister):
    """List the aggregates of a resource provider."""

    minimum = microversion.PROVIDER_AGGREGATES

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        uuid = base.resolve_provider(self.client, parsed_args.uuid)
        document = self.client.list_provider_aggregates(uuid)
        return COLUMNS, [[aggregate] for aggregate in document["aggregates"]]


class _AmendAggregates(base.ProviderCommand, base.Lister):
    """A command that changes some of the aggregates of a resource provider."""

    minimum = microversion.PROVIDER_AGGREGATES

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("aggregates", metavar="<aggregate>", nargs="+", help=AGGREGATE_HELP)
        return parser

    def amend(self, current: Sequence[str], named: Sequence[str]) -> list[str]:
        """Return the aggregates that the provider is to be in."""
        raise NotImplementedError

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        named = self.aggregates.resolve(parsed_args.aggregates)
        uuid = base.resolve_provider(self.client, parsed_args.uuid)
        aggregates = retry(
            lambda _attempt: amend_aggregates(self.client, uuid, lambda current: self.amend(current, named))
        )
        return COLUMNS, [[aggregate] for aggregate in sorted(aggregates)]


def amend_aggregates(
    client: PlacementClient, uuid: str, amend: Callable[[Sequence[str]], list[str]]
) -> list[str]:
    """Change the aggregates of a provider; write them only if they differ."""
    document = client.list_provider_aggregates(uuid)
    wanted = amend(document["aggregates"])
    if wanted != document["aggregates"]:
        client.set_provider_aggregates(uuid, wanted, document.get("resource_provider_generation"))
    return wanted


class AddAggregate(_AmendAggregates):
    """Add a resource provider to aggregates; it stays in the aggregates that it is in.

    Before {AGGREGATES_WITH_GENERATION} a concurrent change by somebody else may be lost.
    """

    example = "resource provider aggregate add compute-1 rack1"

    def amend(self, current: Sequence[str], named: Sequence[str]) -> list[str]:
        return list(dict.fromkeys([*current, *named]))


class RemoveAggregate(_AmendAggregates):
    """Remove a resource provider from aggregates; it stays in its other aggregates.

    It is not an error if the resource provider is not in one of them. Before {AGGREGATES_WITH_GENERATION} a
    concurrent change by somebody else may be lost.
    """

    example = "resource provider aggregate remove compute-1 rack1"

    def amend(self, current: Sequence[str], named: Sequence[str]) -> list[str]:
        return [aggregate for aggregate in current if aggregate not in named]
