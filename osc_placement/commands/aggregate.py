# SPDX-License-Identifier: Apache-2.0
"""``openstack resource provider aggregate list|set``."""

from __future__ import annotations

import argparse
from typing import Any

from osc_placement import microversion
from osc_placement.commands import base
from osc_placement.errors import PlacementError

COLUMNS = ("uuid",)


class SetAggregate(base.Lister):
    """Replace the aggregates of a resource provider.

    Aggregates that are not named are left; without any ``--aggregate`` the provider is in none afterwards.
    """

    minimum = microversion.PROVIDER_AGGREGATES

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        base.add_provider_argument(parser)
        parser.add_argument(
            "--aggregate",
            metavar="<aggregate_uuid>",
            action="append",
            default=[],
            help="UUID of an aggregate. May be repeated.",
        )
        self.add_option(
            parser,
            "--generation",
            metavar="<resource_provider_generation>",
            type=int,
            since=microversion.AGGREGATES_WITH_GENERATION,
            help="Generation of the provider as it was last seen: if somebody changed the provider since, "
            "nothing is done. Must be given from that version on.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        needs_generation = self.client.version >= microversion.AGGREGATES_WITH_GENERATION
        if needs_generation and parsed_args.generation is None:
            raise PlacementError("A generation must be specified.")
        uuid = base.resolve_provider(self.client, parsed_args.uuid)
        document = self.client.set_provider_aggregates(uuid, parsed_args.aggregate, parsed_args.generation)
        return COLUMNS, [[aggregate] for aggregate in document["aggregates"]]


class ListAggregate(base.Lister):
    """List the aggregates of a resource provider."""

    minimum = microversion.PROVIDER_AGGREGATES

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        base.add_provider_argument(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        uuid = base.resolve_provider(self.client, parsed_args.uuid)
        document = self.client.list_provider_aggregates(uuid)
        return COLUMNS, [[aggregate] for aggregate in document["aggregates"]]
