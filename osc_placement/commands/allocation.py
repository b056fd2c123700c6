# SPDX-License-Identifier: Apache-2.0
"""``openstack resource provider allocation set|unset|show|delete``: the allocations of a consumer."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from osc_placement import microversion, syntax
from osc_placement.api.client import PlacementClient
from osc_placement.api.consumer import Allocations, Consumer, describe_consumers
from osc_placement.api.retry import retry
from osc_placement.commands import base
from osc_placement.commands.fitted import FittedLister
from osc_placement.commands.names import (
    add_names_option,
    read_instance_names,
    read_provider_names,
    tell_problem,
)
from osc_placement.errors import PlacementError, UsageError
from osc_placement.model import canonical_uuid

#: the columns that a table on a narrow terminal leaves out, the first one first
DROPPABLE: Sequence[str] = ("generation", "user_id", "project_id", "consumer_type")
#: the command that shows the allocations of a consumer
SHOW = "openstack resource provider allocation show"


def allocation_columns(client: PlacementClient) -> tuple[str, ...]:
    """Return the columns in which an allocation is shown in the version in use."""
    columns: tuple[str, ...] = ("resource_provider", "generation", "resources")
    if client.version >= microversion.ALLOCATIONS_BY_PROVIDER:
        columns += ("project_id", "user_id")
    if client.version >= microversion.CONSUMER_TYPES:
        columns += ("consumer_type",)
    return columns


def show_allocations(client: PlacementClient, consumer: str) -> tuple[Any, Any]:
    """Return the columns of a consumer's allocations, and a row for each provider."""
    document = client.list_allocations(consumer)
    owner = {key: document.get(key) for key in ("project_id", "user_id", "consumer_type")}
    columns = allocation_columns(client)
    rows = [
        base.columns_of({"resource_provider": provider, **owner, **allocation}, columns)
        for provider, allocation in document["allocations"].items()
    ]
    return columns, rows


def without(
    allocations: Allocations, providers: Collection[str], classes: Collection[str]
) -> dict[str, dict[str, int]]:
    """Return the allocations less these classes of these providers; an empty collection means all."""
    remaining = {
        provider: {
            resource_class: amount
            for resource_class, amount in amounts.items()
            if (providers and provider not in providers) or (classes and resource_class not in classes)
        }
        for provider, amounts in allocations.items()
    }
    return {provider: amounts for provider, amounts in remaining.items() if amounts}


class SetAllocation(FittedLister):
    """Replace the allocations of a consumer; those that are not named are removed unless ``--amend`` is
    given.

    ``--project-id`` and ``--user-id`` are required from {CONSUMER_OWNER_REQUIRED} on, and shown from
    {ALLOCATIONS_BY_PROVIDER}. From {CONSUMER_GENERATIONS} nothing is written if somebody else changes the
    consumer at the same time. ``--consumer-type`` is required where {CONSUMER_TYPES} or higher is asked for;
    where the version is negotiated it may be omitted, and the consumer keeps its type.
    """

    droppable = DROPPABLE

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("uuid", metavar="<uuid>", help="UUID of the consumer")
        parser.add_argument(
            "--allocation",
            metavar="<rp=resource-provider-id,resource-class-name=amount-of-resource-used>",
            action="append",
            default=[],
            help="Name or UUID of a resource provider, and amounts of classes. May be repeated.",
        )
        for option, what in (("project-id", "project"), ("user-id", "user")):
            parser.add_argument(
                f"--{option}",
                metavar=option.replace("-", "_"),
                help=f"ID of the {what} to which the consumer belongs. Required from "
                f"``--os-placement-api-version {microversion.CONSUMER_OWNER_REQUIRED}``.",
                required=base.required_when(
                    self, lambda version: version >= microversion.CONSUMER_OWNER_REQUIRED
                ),
            )
        self.add_option(
            parser,
            "--amend",
            action=base.waiving(self, argparse._StoreTrueAction),
            since=microversion.CONSUMER_GENERATIONS,
            help="Set the named amounts and keep the consumer's others. The consumer also keeps its "
            "project, user and type unless they are given. Concurrent changes by others are kept.",
        )
        parser.add_argument(
            "--consumer-type",
            metavar="consumer_type",
            help="Type of the consumer, such as INSTANCE. Required if at least "
            f"``--os-placement-api-version {microversion.CONSUMER_TYPES}`` is asked for.",
            required=base.required_when(
                self, lambda version: version >= microversion.CONSUMER_TYPES, asked=True
            ),
        )
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        parsed_args.allocation = syntax.parse_allocations(parsed_args.allocation)
        if not syntax.merge_allocations(parsed_args.allocation):
            raise PlacementError("At least one resource allocation must be specified")

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        self._warn_of_unused_options(parsed_args)
        version = self.client.version
        if not parsed_args.consumer_type:
            version = base.version_before_consumer_types(self.client) or version
        allocations = syntax.merge_allocations(
            (base.resolve_provider(self.client, provider), amounts)
            for provider, amounts in parsed_args.allocation
        )

        def amend(_attempt: int) -> None:
            current = self.client.read_consumer(parsed_args.uuid)
            consumer = replace(
                current,
                project_id=parsed_args.project_id or current.project_id,
                user_id=parsed_args.user_id or current.user_id,
                consumer_type=parsed_args.consumer_type or current.consumer_type,
                allocations=with_amounts(current.allocations, allocations),
            )
            if consumer.project_id is None or consumer.user_id is None:
                raise UsageError(
                    f"Consumer {parsed_args.uuid} has no allocations yet; give --project-id and --user-id"
                )
            documents, version = describe_consumers([consumer], self.client.version)
            self.client.set_allocations(consumer.uuid, documents[consumer.uuid], version)

        if parsed_args.amend:
            retry(amend)
        else:
            generation = None
            if version >= microversion.CONSUMER_GENERATIONS:
                generation = self.client.read_consumer(parsed_args.uuid).generation
            consumer = Consumer(
                parsed_args.uuid,
                generation,
                parsed_args.project_id,
                parsed_args.user_id,
                parsed_args.consumer_type,
                allocations,
            )
            self.client.set_allocations(parsed_args.uuid, consumer.to_json(version), version)
        return show_allocations(self.client, parsed_args.uuid)

    def _warn_of_unused_options(self, parsed_args: argparse.Namespace) -> None:
        version = self.client.version
        owner, types = microversion.CONSUMER_OWNER_REQUIRED, microversion.CONSUMER_TYPES
        if version < owner and (parsed_args.project_id or parsed_args.user_id):
            self.warn(
                "--project-id and --user-id options do not affect allocation for "
                f"--os-placement-api-version less than {owner}"
            )
        if version < types and parsed_args.consumer_type:
            self.warn(
                "--consumer-type option does not affect allocation for "
                f"--os-placement-api-version less than {types}"
            )


class UnsetAllocation(FittedLister):
    """Remove allocations of a consumer: all, those from some resource providers, or those of some classes.

    With ``--provider`` and ``--resource-class``, only these classes of these providers are removed. It is not
    an error if the consumer has no such allocation. Before {CONSUMER_GENERATIONS} a concurrent change by
    somebody else may be lost.
    """

    droppable = DROPPABLE
    minimum = microversion.ALLOCATIONS_BY_PROVIDER

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("uuid", metavar="<consumer_uuid>", help="UUID of the consumer")
        parser.add_argument(
            "--provider",
            metavar="provider_uuid",
            action="append",
            default=[],
            help="Name or UUID of a resource provider, such as the source of an evacuation. May be repeated.",
        )
        parser.add_argument(
            "--resource-class",
            metavar="resource_class",
            action="append",
            default=[],
            help="Name of a resource class. May be repeated.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        providers = [base.resolve_provider(self.client, provider) for provider in parsed_args.provider]

        def unset(_attempt: int) -> None:
            consumer = self.client.read_consumer(parsed_args.uuid)
            may_be_empty = self.client.version >= microversion.CONSUMER_GENERATIONS
            if may_be_empty and not consumer.allocations:
                raise PlacementError(f"No allocations for consumer '{parsed_args.uuid}'")
            left = without(consumer.allocations, providers, parsed_args.resource_class)
            if may_be_empty or left:
                version = base.version_before_consumer_types(self.client) or self.client.version
                document = replace(consumer, allocations=left).to_json(version)
                self.client.set_allocations(parsed_args.uuid, document, version)
            else:
                self.client.delete_allocations(parsed_args.uuid)

        retry(unset)
        return show_allocations(self.client, parsed_args.uuid)


def with_amounts(allocations: Allocations, wanted: syntax.Allocations) -> Allocations:
    """Return the allocations with some amounts set."""
    amended = {provider: dict(amounts) for provider, amounts in allocations.items()}
    for provider, amounts in wanted.items():
        amended.setdefault(provider, {}).update(amounts)
    return amended


class ShowAllocation(FittedLister):
    """Show the allocations of a consumer.

    --names adds the names of the resource providers, and the name of the consumer if it is an instance.
    Project and user are shown from {ALLOCATIONS_BY_PROVIDER}, the consumer's type from {CONSUMER_TYPES}.
    """

    droppable = DROPPABLE

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("uuid", metavar="<uuid>", help="UUID of the consumer")
        add_names_option(
            parser,
            "Also show the names of the resource providers, and that of the consumer if it is an instance, "
            "which the compute API is asked for",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        columns, rows = show_allocations(self.client, parsed_args.uuid)
        if not parsed_args.names:
            return columns, rows
        names = read_provider_names(self.client, [provider for provider, *_ in rows])
        consumer = canonical_uuid(parsed_args.uuid)
        instances, problem = read_instance_names(self.app.client_manager, [consumer] if rows else [])
        tell_problem(self.app.stderr, problem)
        self.droppable = (*DROPPABLE, "resource_provider")
        first, *others = columns
        return (first, "provider_name", *others, "consumer_name"), [
            (provider, names.get(provider, ""), *values, instances.get(consumer, ""))
            for provider, *values in rows
        ]


class DeleteAllocation(base.PlacementCommand):
    """Delete all allocations of a consumer."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("uuid", metavar="<uuid>", help="UUID of the consumer")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.client.delete_allocations(parsed_args.uuid)
