# SPDX-License-Identifier: Apache-2.0
"""``openstack allocation candidate list``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from osc_placement import microversion, syntax
from osc_placement.client import Document
from osc_placement.commands import base
from osc_placement.errors import PlacementError
from osc_placement.microversion import Version

#: the options given for one group of a request, by option
Group = dict[str, list[str]]


class StartGroup(argparse.Action):
    """Begin a group: the options that follow belong to it."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        namespace.current_group = str(values)
        groups_of(namespace)[namespace.current_group] = {}


class AddToGroup(argparse.Action):
    """Add a value to the group that was begun last; before any, to the unnamed one."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        group = groups_of(namespace).setdefault(getattr(namespace, "current_group", ""), {})
        group.setdefault(self.dest, []).append(str(values))


def groups_of(namespace: argparse.Namespace) -> dict[str, Group]:
    """The groups read so far, by suffix, in order."""
    groups: dict[str, Group] = vars(namespace).setdefault("groups", {})
    return groups


def group_params(suffix: str, group: Group) -> Iterator[tuple[str, str]]:
    """The query parameters for one group; a mistake in what was typed is a UsageError."""
    if not group.get("resources"):
        raise PlacementError(f"--resources should be provided in group {suffix or '(unnamed)'}")
    amounts = syntax.parse_amounts(group["resources"])
    yield f"resources{suffix}", ",".join(f"{name}:{amount}" for name, amount in amounts.items())
    for value in syntax.format_traits(group.get("required", []), group.get("forbidden", [])):
        yield f"required{suffix}", value
    for value in syntax.format_member_of(group.get("member_of", []), group.get("aggregate_uuid", [])):
        yield f"member_of{suffix}", value


def candidate_rows(document: Document, version: Version) -> Iterator[list[Any]]:
    """A row for each provider of each allocation request, with what the request wants from it."""
    summaries = document["provider_summaries"]
    for number, request in enumerate(document["allocation_requests"], 1):
        for provider, amounts in _wanted(request["allocations"]):
            row = [number, _join(amounts, "{}={}"), provider, _join_summary(summaries[provider]["resources"])]
            if version >= microversion.CANDIDATES_TRAITS:
                row.append(",".join(summaries[provider]["traits"]))
            yield row


def _wanted(allocations: Any) -> Iterator[tuple[str, Mapping[str, int]]]:
    """Provider and amounts, out of what is a list before 1.12."""
    if isinstance(allocations, dict):
        yield from ((provider, item["resources"]) for provider, item in allocations.items())
    else:
        yield from ((item["resource_provider"]["uuid"], item["resources"]) for item in allocations)


def _join(amounts: Mapping[str, Any], form: str) -> str:
    return ",".join(form.format(name, amount) for name, amount in amounts.items())


def _join_summary(resources: Mapping[str, Document]) -> str:
    return ",".join(f"{name}={item['used']}/{item['capacity']}" for name, item in resources.items())


class ListAllocationCandidate(base.Lister):
    """List the ways in which a request for resources can be met.

    Rows with the same number belong together: allocating all of them at once meets the request, as with
    ``openstack resource provider allocation set``. The last columns show how full each provider is, and its
    traits.

    For example: openstack allocation candidate list --resource VCPU=4 --resource MEMORY_MB=2048
    """

    minimum = microversion.ALLOCATION_CANDIDATES

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--resource",
            metavar="<resource_class>=<value>",
            dest="resources",
            action=AddToGroup,
            help="An amount of a resource class that is wanted. May be repeated.",
        )
        self.add_option(
            parser,
            "--limit",
            metavar="<limit>",
            since=microversion.CANDIDATES_LIMIT,
            help="At most this many candidates.",
        )
        self.add_option(
            parser,
            "--required",
            metavar="<required>",
            action=AddToGroup,
            since=microversion.CANDIDATES_TRAITS,
            help="A trait that the providers must have; any of several, separated by commas, from "
            f"``--os-placement-api-version {microversion.ANY_TRAITS}``. May be repeated.",
        )
        self.add_option(
            parser,
            "--forbidden",
            metavar="<forbidden>",
            action=AddToGroup,
            since=microversion.FORBIDDEN_TRAITS,
            help="A trait that the providers must not have. May be repeated.",
        )
        self._add_aggregate_options(parser)
        self._add_group_options(parser)
        return parser

    def _add_aggregate_options(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_mutually_exclusive_group()
        self.add_option(
            group,
            "--member-of",
            action=AddToGroup,
            metavar="<member_of>",
            since=microversion.CANDIDATES_BY_AGGREGATE,
            help="Providers in any of these aggregates, UUIDs separated by commas. May be repeated from "
            f"``--os-placement-api-version {microversion.REPEATED_MEMBER_OF}``; then every one must hold.",
        )
        self.add_option(
            group,
            "--aggregate-uuid",
            action=AddToGroup,
            metavar="<aggregate_uuid>",
            since=microversion.CANDIDATES_BY_AGGREGATE,
            help=argparse.SUPPRESS,
        )

    def _add_group_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--group",
            action=StartGroup,
            metavar="<group>",
            help="A number that begins a group: the resources, traits and aggregates that follow are wanted "
            "from one and the same provider. May be repeated; all groups are met in one tree. Requires at "
            f"least ``--os-placement-api-version {microversion.GRANULAR_CANDIDATES}``, "
            f"``{microversion.NESTED_CANDIDATES}`` to look into trees, and "
            f"``{microversion.NAMED_GROUPS}`` for a name instead of a number.",
        )
        parser.add_argument(
            "--group-policy",
            choices=["none", "isolate"],
            default="none",
            metavar="<group_policy>",
            help="Whether two groups may come from one provider (none, the default) or must not (isolate)",
        )

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        groups = groups_of(parsed_args)
        if not groups:
            raise PlacementError("At least one --resource must be specified.")
        parsed_args.params = [
            pair for suffix, group in groups.items() for pair in group_params(suffix, group)
        ]
        if parsed_args.limit:
            limit = syntax.parse_whole_number(parsed_args.limit, "--limit")
            parsed_args.params.append(("limit", str(limit)))
        if any(groups):
            parsed_args.params.append(("group_policy", parsed_args.group_policy))

    def check_versions(self, given: Mapping[str, Any]) -> None:
        super().check_versions(given)
        groups = given.get("groups", {})
        if any(groups):
            self.client.require(microversion.GRANULAR_CANDIDATES, "group")
        if not all(suffix.isdigit() for suffix in groups if suffix):
            self.client.require(microversion.NAMED_GROUPS, "group")
        for group in groups.values():
            super().check_versions(group)
            if any("," in traits for traits in group.get("required", [])):
                self.client.require(microversion.ANY_TRAITS, "required")

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        if any("aggregate_uuid" in group for group in groups_of(parsed_args).values()):
            self.deprecated_option_warning("--aggregate-uuid", "--member-of")
        document = self.client.allocation_candidates(parsed_args.params)
        columns: tuple[str, ...] = ("#", "allocation", "resource provider", "inventory used/capacity")
        if self.client.version >= microversion.CANDIDATES_TRAITS:
            columns += ("traits",)
        return columns, list(candidate_rows(document, self.client.version))
