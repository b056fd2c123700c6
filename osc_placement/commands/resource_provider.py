# SPDX-License-Identifier: Apache-2.0
"""``openstack resource provider create|list|show|set|delete``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from types import EllipsisType
from typing import Any

from cliff.columns import FormattableColumn

from osc_placement import microversion, syntax
from osc_placement.api.client import PlacementClient
from osc_placement.commands import base
from osc_placement.commands.candidate_rows import join_amounts
from osc_placement.commands.fitted import FittedLister
from osc_placement.commands.host_aggregate import ANY_AGGREGATE_HELP
from osc_placement.commands.names import add_names_option, read_instance_names, tell_problem
from osc_placement.errors import UsageError
from osc_placement.terminal.escape import printable


def provider_columns(client: PlacementClient) -> tuple[str, ...]:
    """Return the columns in which a provider is shown in the version in use."""
    if client.version >= microversion.NESTED_PROVIDERS:
        return ("uuid", "name", "generation", "root_provider_uuid", "parent_provider_uuid")
    return ("uuid", "name", "generation")


class CreateResourceProvider(base.ShowOne):
    """Create a resource provider."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        self.add_option(
            parser,
            "--parent-provider",
            metavar="<parent_provider>",
            since=microversion.NESTED_PROVIDERS,
            help="Name or UUID of the parent; without it the provider is the root of a new tree.",
        )
        parser.add_argument("--uuid", metavar="<uuid>", help="UUID to give to the resource provider")
        parser.add_argument("name", metavar="<name>", help="Name to give to the resource provider")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        parent = parsed_args.parent_provider and base.resolve_provider(
            self.client, parsed_args.parent_provider
        )
        provider = self.client.create_provider(parsed_args.name, uuid=parsed_args.uuid, parent=parent)
        columns = provider_columns(self.client)
        return columns, base.columns_of(provider, columns)


class ListResourceProvider(FittedLister):
    """List resource providers that meet all conditions given."""

    droppable = ("parent_provider_uuid", "root_provider_uuid", "generation")

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--uuid", metavar="<uuid>", help="The resource provider with this UUID")
        parser.add_argument("--name", metavar="<name>", help="The resource provider with this name")
        self.add_option(
            parser,
            "--resource",
            metavar="<resource_class>=<value>",
            default=[],
            action="append",
            since=microversion.LIST_BY_RESOURCES,
            help="Providers with at least this amount of a resource class free. May be repeated.",
        )
        self.add_option(
            parser,
            "--in-tree",
            metavar="<in_tree>",
            since=microversion.NESTED_PROVIDERS,
            help="Providers in the tree of the provider with this name or UUID.",
        )
        self.add_option(
            parser,
            "--required",
            metavar="<required>",
            action="append",
            default=[],
            since=microversion.LIST_BY_TRAITS,
            help="Providers with this trait; with any of several, separated by commas, from "
            f"``--os-placement-api-version {microversion.ANY_TRAITS}``. May be repeated.",
        )
        self.add_option(
            parser,
            "--forbidden",
            metavar="<forbidden>",
            action="append",
            default=[],
            since=microversion.FORBIDDEN_TRAITS,
            help="Providers without this trait. May be repeated.",
        )
        self._add_aggregate_options(parser)
        return parser

    def _add_aggregate_options(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_mutually_exclusive_group()
        self.add_option(
            group,
            "--member-of",
            default=[],
            action="append",
            metavar="<member_of>",
            since=microversion.LIST_BY_AGGREGATE,
            help=f"Providers {ANY_AGGREGATE_HELP}. May be repeated from "
            f"``--os-placement-api-version {microversion.REPEATED_MEMBER_OF}``; then every one must hold.",
        )
        self.add_option(
            group,
            "--aggregate-uuid",
            default=[],
            action="append",
            metavar="<aggregate_uuid>",
            since=microversion.LIST_BY_AGGREGATE,
            help=argparse.SUPPRESS,
        )

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        parsed_args.resource = syntax.parse_amounts(parsed_args.resource)

    def check_versions(self, given: Mapping[str, Any]) -> None:
        super().check_versions(given)
        base.require_any_traits(self.client, given["required"])

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        if parsed_args.aggregate_uuid:
            self.deprecated_option_warning("--aggregate-uuid", "--member-of")
        member_of = [self.aggregates.resolve_condition(text) for text in parsed_args.member_of]
        in_tree = parsed_args.in_tree and base.resolve_provider(self.client, parsed_args.in_tree)
        providers = self.client.list_providers(
            name=parsed_args.name or None,
            uuid=parsed_args.uuid or None,
            member_of=syntax.format_member_of(member_of, parsed_args.aggregate_uuid),
            resources=parsed_args.resource,
            in_tree=in_tree or None,
            required=syntax.format_traits(parsed_args.required, parsed_args.forbidden),
        )
        columns = provider_columns(self.client)
        return columns, [base.columns_of(provider, columns) for provider in providers]


class ShowResourceProvider(base.ProviderCommand, base.ShowOne):
    """Show a resource provider."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--allocations",
            action="store_true",
            help="Also show the allocations from the provider, by consumer",
        )
        add_names_option(
            parser,
            "With --allocations, also show the names of consumers that are instances, which the compute API "
            "is asked for",
        )
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        if parsed_args.names and not parsed_args.allocations:
            raise UsageError("--names shows the names of consumers and needs --allocations")

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        uuid = base.resolve_provider(self.client, parsed_args.uuid)
        provider = self.client.show_provider(uuid)
        columns = provider_columns(self.client)
        if parsed_args.allocations:
            provider["allocations"] = self.client.list_provider_allocations(uuid)["allocations"]
            columns += ("allocations",)
            if parsed_args.names:
                node, root = provider["name"], provider.get("root_provider_uuid")
                if len(provider["allocations"]) > 1 and root not in (None, provider["uuid"]):
                    # instances are on the node that is the root
                    node = self.client.show_provider(root)["name"]
                consumers = provider["allocations"].keys()
                names, problem = read_instance_names(self.app.client_manager, consumers, node)
                tell_problem(self.app.stderr, problem)
                provider["allocations"] = AllocationsColumn(
                    {
                        consumer: {"name": names.get(consumer, ""), **entry}
                        for consumer, entry in provider["allocations"].items()
                    }
                )
        return columns, base.columns_of(provider, columns)


class AllocationsColumn(FormattableColumn[dict[str, Any]]):
    """Allocations by consumer, with names; people get a line for each consumer."""

    def human_readable(self) -> str:
        """Return ``name (UUID): VCPU=4,MEMORY_MB=8192`` for each consumer, sorted by name."""
        entries = sorted((entry["name"], uuid, entry["resources"]) for uuid, entry in self._value.items())
        return "\n".join(
            f"{f'{printable(name)} ({uuid})' if name else uuid}: {join_amounts(amounts)}"
            for name, uuid, amounts in entries
        )


class SetResourceProvider(base.ProviderCommand, base.ShowOne):
    """Rename a resource provider, give it a parent, or make it the root of a tree of its own.

    ``--name`` is required unless one of the other options is given; the provider then keeps its name.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--name",
            metavar="<name>",
            help="New name of the resource provider",
            required=base.required_when(self, lambda _version: True),
        )
        self.add_option(
            parser,
            "--parent-provider",
            metavar="<parent_provider>",
            action=base.waiving(self, argparse._StoreAction),
            since=microversion.NESTED_PROVIDERS,
            help="Name or UUID of the parent; a provider that has one already can get another from "
            f"``--os-placement-api-version {microversion.REPARENTING}``.",
        )
        self.add_option(
            parser,
            "--no-parent-provider",
            action=base.waiving(self, argparse._StoreTrueAction),
            since=microversion.REPARENTING,
            help="Make the provider, with its descendants, a tree of its own.",
        )
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        if parsed_args.parent_provider and parsed_args.no_parent_provider:
            raise UsageError("--parent-provider and --no-parent-provider exclude each other")

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        uuid = base.resolve_provider(self.client, parsed_args.uuid)
        name = parsed_args.name or self.client.show_provider(uuid)["name"]
        # the present one stays
        parent: str | EllipsisType | None = ...
        if parsed_args.no_parent_provider:
            parent = None
        elif parsed_args.parent_provider:
            parent = base.resolve_provider(self.client, parsed_args.parent_provider)
        provider = self.client.update_provider(uuid, name, parent=parent)
        columns = provider_columns(self.client)
        return columns, base.columns_of(provider, columns)


class DeleteResourceProvider(base.ProviderCommand):
    """Delete a resource provider that has no allocations and no children."""

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.client.delete_provider(base.resolve_provider(self.client, parsed_args.uuid))
