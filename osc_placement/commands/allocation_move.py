# SPDX-License-Identifier: Apache-2.0
"""``openstack resource provider allocation move``."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from osc_placement import microversion, syntax
from osc_placement.api.client import PlacementClient
from osc_placement.api.consumer import Allocations, Consumer, describe_consumers
from osc_placement.api.retry import retry
from osc_placement.commands import base
from osc_placement.commands.allocation import SHOW, without
from osc_placement.errors import PlacementError, UsageError
from osc_placement.model import UNKNOWN_TYPE, canonical_uuid
from osc_placement.terminal.progress import WriteWatch

COLUMNS = ("consumer", "resource_provider", "resources", "project_id", "user_id", "consumer_type")


class MoveAllocation(base.Lister):
    """Move allocations from one consumer to another in one transaction, so that nobody else can take them.

    Without ``--provider`` and ``--resource-class`` all allocations of the first consumer are moved. The
    second consumer keeps its allocations; if it has none, it gets the project and user of the first.
    ``--allocation`` gives the first consumer new allocations in the same transaction. A live migration uses
    it: the migration takes over the allocations on the source, and the instance gets allocations on the
    destination.
    """

    example = "resource provider allocation move $INSTANCE $MIGRATION --consumer-type MIGRATION"
    minimum = microversion.CONSUMER_GENERATIONS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "source",
            metavar="<consumer_uuid>",
            help="UUID of the consumer from which the allocations are moved",
        )
        parser.add_argument(
            "target",
            metavar="<to_consumer_uuid>",
            help="UUID of the consumer to which the allocations are moved",
        )
        parser.add_argument(
            "--provider",
            metavar="<provider>",
            action="append",
            default=[],
            help="Move allocations from this resource provider, given by name or UUID. May be repeated.",
        )
        parser.add_argument(
            "--resource-class",
            metavar="<resource_class>",
            action="append",
            default=[],
            help="Move amounts of this class. May be repeated.",
        )
        parser.add_argument(
            "--allocation",
            metavar="<rp=resource-provider,resource-class=amount>",
            action="append",
            default=[],
            help="Name or UUID of a resource provider, and amounts that the first consumer gets in the "
            "same transaction. May be repeated.",
        )
        self.add_option(
            parser,
            "--consumer-type",
            metavar="<type>",
            since=microversion.CONSUMER_TYPES,
            help="Type of the second consumer (default: its own, or that of the first if it has no "
            "allocations).",
        )
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        parsed_args.allocation = syntax.parse_allocations(parsed_args.allocation)
        syntax.check_consumers(parsed_args.source, parsed_args.target)
        if canonical_uuid(parsed_args.source) == canonical_uuid(parsed_args.target):
            raise UsageError("The two consumers are the same")

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        resolve = partial(base.resolve_provider, self.client)
        parsed_args.provider = [resolve(provider) for provider in parsed_args.provider]
        given = syntax.merge_allocations(
            (resolve(provider), amounts) for provider, amounts in parsed_args.allocation
        )

        def move(_attempt: int) -> list[Consumer]:
            source, target = map(self.client.read_consumer, (parsed_args.source, parsed_args.target))
            kept = without(source.allocations, parsed_args.provider, parsed_args.resource_class)
            moved = subtract(source.allocations, kept)
            if not moved:
                raise PlacementError(
                    f"Consumer {parsed_args.source} has no allocations that match the options"
                )
            consumers = [
                replace(source, allocations=add(kept, given)),
                replace(
                    target,
                    project_id=target.project_id or source.project_id,
                    user_id=target.user_id or source.user_id,
                    consumer_type=parsed_args.consumer_type or target.consumer_type or source.consumer_type,
                    allocations=add(target.allocations, moved),
                ),
            ]
            watch.begin()
            write_consumers(self.client, consumers, types_matter=bool(parsed_args.consumer_type))
            return consumers

        with WriteWatch(self.app.stderr, f"{SHOW} {parsed_args.target}") as watch:
            consumers = retry(move)
        return COLUMNS, rows_of(consumers)


def add(first: Allocations, second: Allocations) -> Allocations:
    """Return the sum of both."""
    return {
        provider: dict(Counter(first.get(provider, {})) + Counter(second.get(provider, {})))
        for provider in dict.fromkeys([*first, *second])
    }


def subtract(first: Allocations, second: Allocations) -> Allocations:
    """Return what the first has and the second does not have."""
    left = {
        provider: dict(Counter(amounts) - Counter(second.get(provider, {})))
        for provider, amounts in first.items()
    }
    return {provider: amounts for provider, amounts in left.items() if amounts}


def write_consumers(client: PlacementClient, consumers: Collection[Consumer], *, types_matter: bool) -> None:
    """Write several consumers in one transaction.

    If one of them has no type, none can be given one: raise PlacementError if the operator gave one.
    """
    untyped = next((consumer for consumer in consumers if consumer.is_untyped), None)
    if untyped and types_matter:
        raise PlacementError(
            f"Consumer {untyped.uuid} has no type, and one request cannot write it together with "
            "consumers that are given one; give it a type too (openstack resource provider allocation set "
            "--amend --consumer-type <type>), or none to the others"
        )
    client.set_many_allocations(*describe_consumers(consumers, client.version))


def rows_of(consumers: Iterable[Consumer]) -> list[tuple[Any, ...]]:
    """Return a row for each provider of each consumer that has something."""
    return [
        (
            consumer.uuid,
            provider,
            dict(amounts),
            consumer.project_id,
            consumer.user_id,
            consumer.consumer_type or UNKNOWN_TYPE,
        )
        for consumer in consumers
        for provider, amounts in consumer.allocations.items()
    ]
