# SPDX-License-Identifier: Apache-2.0
"""The options for a query for allocation candidates, and the query that they make.

Shared by the commands that ask for candidates. Options that follow ``--group`` belong to that group.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from osc_placement import microversion, syntax
from osc_placement.commands import base
from osc_placement.commands.host_aggregate import ANY_AGGREGATE_HELP
from osc_placement.errors import UsageError

#: the parameters whose conditions are written in one value, with commas between
_JOINED: Final = ("resources", "required", "root_required")

#: the options given for one group of a request, by option
Group = dict[str, list[str]]


class StartGroup(argparse.Action):
    """The action of ``--group``: the options that follow belong to the new group."""

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
    """The action that adds a value to the last group, or to the unnamed one before any ``--group``."""

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
    """Return the groups read so far, by suffix, in order."""
    groups: dict[str, Group] = vars(namespace).setdefault("groups", {})
    return groups


def read_amounts(
    groups: Mapping[str, Group], subtrees: Sequence[str], *, once: bool = False
) -> dict[str, dict[str, int]]:
    """Read the amounts of each group, by resource class; a group of a subtree may have none.

    :param once: raise UsageError if a class is given twice in a group
    """
    amounts = {
        suffix: syntax.parse_amounts(group.get("resources", []), once=once)
        for suffix, group in groups.items()
    }
    in_subtrees = {suffix for subtree in subtrees for suffix in subtree.split(",")}
    for suffix, wanted in amounts.items():
        if not wanted and (suffix not in in_subtrees or not suffix):
            raise UsageError(f"--resources should be provided in group {suffix or '(unnamed)'}")
    unknown = sorted(in_subtrees - groups.keys())
    if unknown:
        raise UsageError(f"--same-subtree names group {unknown[0]!r}, which no --group begins")
    return amounts


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a query: the option that states it, and its part of a query parameter.

    :ivar name: of the parameter, without the suffix of the group
    """

    option: str
    name: str
    suffix: str
    value: str


def join_conditions(conditions: Sequence[Condition], limit: int | None) -> list[tuple[str, str]]:
    """Return the query parameters that state these conditions."""
    alone: dict[str, list[str]] = {}
    joined: dict[str, list[str]] = {}
    for condition in conditions:
        key = f"{condition.name}{condition.suffix}"
        # any of several traits is a value of its own
        is_joined = condition.name in _JOINED and not condition.value.startswith("in:")
        alone.setdefault(key, [])
        joined.setdefault(key, [])
        (joined if is_joined else alone)[key].append(condition.value)
    default = ["none"] if any(condition.suffix for condition in conditions) else []
    policies = alone.pop("group_policy", default)
    params = [
        (key, value)
        for key, values in alone.items()
        for value in [*values, *([",".join(joined[key])] if joined[key] else [])]
    ]
    if limit is not None:
        params.append(("limit", str(limit)))
    return params + [("group_policy", policy) for policy in policies]


class CandidateQuery(base.PlacementCommand):
    """The base of commands that ask for candidates; ``parsed_args.amounts`` are the amounts of each group."""

    minimum = microversion.ALLOCATION_CANDIDATES
    #: whether a class may be given once only in a group; the reference plugin takes the last amount
    takes_amounts_once: ClassVar[bool] = True

    def add_query_options(
        self,
        parser: argparse.ArgumentParser,
        *,
        with_limit: bool = True,
        read_forbidden: Callable[[str], str] = base.read_trait,
    ) -> None:
        """Add the options of a query."""
        parser.add_argument(
            "--resource",
            metavar="<resource_class>=<value>",
            dest="resources",
            action=AddToGroup,
            help="An amount of a resource class to request. May be repeated.",
        )
        if with_limit:
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
            type=read_forbidden,
            action=AddToGroup,
            since=microversion.FORBIDDEN_TRAITS,
            help="A trait that the providers must not have. May be repeated.",
        )
        group = parser.add_mutually_exclusive_group()
        self.add_option(
            group,
            "--member-of",
            action=AddToGroup,
            metavar="<member_of>",
            since=microversion.CANDIDATES_BY_AGGREGATE,
            help=f"Providers {ANY_AGGREGATE_HELP}. May be repeated from "
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
            help="none (the default) lets several groups use the same provider, isolate does not",
        )
        self.add_option(
            parser,
            "--not-member-of",
            metavar="<member_of>",
            action=AddToGroup,
            since=microversion.FORBIDDEN_AGGREGATES,
            help="Providers in none of these aggregates, given as for --member-of. May be repeated.",
        )
        self.add_option(
            parser,
            "--in-tree",
            metavar="<provider>",
            action=AddToGroup,
            since=microversion.CANDIDATES_IN_TREE,
            help="Providers of the tree to which the provider with this name or UUID belongs.",
        )
        self.add_option(
            parser,
            "--root-required",
            metavar="<trait>",
            action="append",
            default=[],
            since=microversion.ROOT_REQUIRED,
            help="A trait that the root of the tree must have. May be repeated.",
        )
        self.add_option(
            parser,
            "--root-forbidden",
            metavar="<trait>",
            type=base.read_trait,
            action="append",
            default=[],
            since=microversion.ROOT_REQUIRED,
            help="A trait that the root of the tree must not have. May be repeated.",
        )
        self.add_option(
            parser,
            "--same-subtree",
            metavar="<group>,<group>",
            action="append",
            default=[],
            since=microversion.SAME_SUBTREE,
            help="Comma-separated groups, one of whose providers must be the root of a subtree with all "
            "their providers; such a group needs no resources. May be repeated.",
        )

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        groups = groups_of(parsed_args)
        parsed_args.amounts = self.read_group_amounts(parsed_args, groups)
        for suffix, group in groups.items():
            if len(group.get("in_tree", [])) > 1:
                raise UsageError(f"--in-tree is given twice in group {suffix or '(unnamed)'}")
        limit = getattr(parsed_args, "limit", None)
        parsed_args.limit = syntax.parse_whole_number(limit, "--limit") if limit else None

    def read_group_amounts(
        self, parsed_args: argparse.Namespace, groups: dict[str, Group]
    ) -> dict[str, dict[str, int]]:
        """Return the amounts of each group, by resource class."""
        if not groups:
            raise UsageError("At least one --resource must be specified.")
        return read_amounts(groups, parsed_args.same_subtree, once=self.takes_amounts_once)

    def check_versions(self, given: Mapping[str, Any]) -> None:
        super().check_versions(given)
        groups = given.get("groups", {})
        if any(groups):
            self.client.require(microversion.GRANULAR_CANDIDATES, "group")
        if not all(suffix.isdigit() for suffix in groups if suffix):
            self.client.require(microversion.NAMED_GROUPS, "group")
        for group in groups.values():
            super().check_versions(group)
            base.require_any_traits(self.client, group.get("required", []))

    def traits_of(self, parsed_args: argparse.Namespace) -> list[str]:
        """Return every trait that the options name."""
        texts = [*parsed_args.root_required, *parsed_args.root_forbidden]
        for group in groups_of(parsed_args).values():
            texts += [*group.get("required", []), *group.get("forbidden", [])]
        return [name for text in texts for name in text.split(",")]

    def classes_of(self, parsed_args: argparse.Namespace) -> list[str]:
        """Return every resource class that the options name."""
        return [name for amounts in parsed_args.amounts.values() for name in amounts]

    def read_conditions(
        self, parsed_args: argparse.Namespace, amounts: Mapping[str, Mapping[str, int]]
    ) -> list[Condition]:
        """Return the conditions of a query for the amounts of each group, in its order.

        Names of providers and host aggregates are resolved by requests.
        """
        groups = groups_of(parsed_args)
        if any("aggregate_uuid" in group for group in groups.values()):
            self.deprecated_option_warning("--aggregate-uuid", "--member-of")
        conditions = []

        def add(option: str, text: str, name: str, value: str, suffix: str = "") -> None:
            group = f"--group {suffix} " if suffix else ""
            conditions.append(Condition(f"{group}{option} {text}", name, suffix, value))

        for suffix, group in groups.items():
            for name, amount in amounts[suffix].items():
                add("--resource", f"{name}={amount}", "resources", f"{name}:{amount}", suffix)
            for text in group.get("required", []):
                add("--required", text, "required", f"in:{text}" if "," in text else text, suffix)
            for text in group.get("forbidden", []):
                add("--forbidden", text, "required", f"!{text}", suffix)
            for text in group.get("member_of", []):
                resolved = self.aggregates.resolve_condition(text)
                add("--member-of", text, "member_of", f"in:{resolved}", suffix)
            if "aggregate_uuid" in group:
                text = ",".join(group["aggregate_uuid"])
                add("--aggregate-uuid", text, "member_of", f"in:{text}", suffix)
            for text in group.get("not_member_of", []):
                resolved = self.aggregates.resolve_condition(text)
                add("--not-member-of", text, "member_of", f"!in:{resolved}", suffix)
            for text in group.get("in_tree", []):
                add("--in-tree", text, "in_tree", base.resolve_provider(self.client, text), suffix)
        for text in parsed_args.root_required:
            add("--root-required", text, "root_required", text)
        for text in parsed_args.root_forbidden:
            add("--root-forbidden", text, "root_required", f"!{text}")
        for text in parsed_args.same_subtree:
            add("--same-subtree", text, "same_subtree", text)
        if parsed_args.group_policy != "none" and any(groups):
            add("--group-policy", parsed_args.group_policy, "group_policy", parsed_args.group_policy)
        return conditions

    def make_query(self, parsed_args: argparse.Namespace) -> list[tuple[str, str]]:
        """Return the query parameters; names of providers and host aggregates are resolved by requests."""
        return join_conditions(self.read_conditions(parsed_args, parsed_args.amounts), parsed_args.limit)
