# SPDX-License-Identifier: Apache-2.0
"""Queries for allocation candidates that have a flavor's groups and the filters of nova's scheduler."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import cast

from osc_placement.candidates.request import CandidateRequest
from osc_placement.commands.candidate_query import CandidateQuery, Condition, Group, groups_of
from osc_placement.commands.nova_request import NovaRequest, asks_for_nova, read_nova_request
from osc_placement.errors import UsageError


class NovaQuery(CandidateQuery):
    """The base of commands whose query may be that of nova's scheduler."""

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        parsed_args.is_of_nova = asks_for_nova(parsed_args)
        parsed_args.nova = NovaRequest(None)
        super().read_arguments(parsed_args)

    def read_group_amounts(
        self, parsed_args: argparse.Namespace, groups: dict[str, Group]
    ) -> dict[str, dict[str, int]]:
        """Return the amounts of each group; those of a flavor are read later."""
        if not parsed_args.flavor:
            return super().read_group_amounts(parsed_args, groups)
        if any(suffix or "resources" in group for suffix, group in groups.items()):
            raise UsageError("--resource and --group cannot be used with --flavor, which has its own")
        groups.setdefault("", {})
        return {"": {}}

    def read_nova(self, parsed_args: argparse.Namespace) -> NovaRequest:
        """Read the request of nova's scheduler, if the options ask for it; its amounts count from now on."""
        if parsed_args.is_of_nova:
            groups = groups_of(parsed_args)
            # any of several traits is none that the instance requires
            required = [
                text for group in groups.values() for text in group.get("required", ()) if "," not in text
            ]
            parsed_args.nova = read_nova_request(self, parsed_args, required)
            if parsed_args.nova.groups is None:
                if parsed_args.nova.image_traits and "resources" not in groups.get("", {}):
                    raise UsageError(
                        "--image requires traits of the request without --group, which has no --resource"
                    )
            else:
                parsed_args.amounts = {
                    group.suffix: dict(group.resources) for group in parsed_args.nova.groups.groups
                }
        return cast(NovaRequest, parsed_args.nova)

    def read_conditions(
        self, parsed_args: argparse.Namespace, amounts: Mapping[str, Mapping[str, int]]
    ) -> list[Condition]:
        """Return the conditions of the query: those of the options, of the flavor and of the filters."""
        nova: NovaRequest = parsed_args.nova
        if nova.groups is None:
            own = super().read_conditions(parsed_args, amounts)
            return [*own, *image_conditions(nova), *filter_conditions(nova)]
        # the conditions of the flavor have its amounts
        own = super().read_conditions(parsed_args, {"": {}})
        return [*flavor_conditions(parsed_args.flavor, nova.groups), *own, *filter_conditions(nova)]

    def traits_of(self, parsed_args: argparse.Namespace) -> list[str]:
        """Return every trait that the options and the flavor name."""
        groups = parsed_args.nova.groups
        own = [] if groups is None else [name for group in groups.groups for name in group.traits.names]
        return [*super().traits_of(parsed_args), *own]


def flavor_conditions(flavor: str, request: CandidateRequest) -> Iterator[Condition]:
    """Yield the conditions of a flavor."""
    for group in request.groups:
        for name, amount in group.resources.items():
            yield Condition(
                f"--flavor {flavor}: {name}={amount}", "resources", group.suffix, f"{name}:{amount}"
            )
        for mark, parts in (("", group.traits.required), ("!", group.traits.forbidden)):
            for name in sorted(frozenset[str]().union(*parts)):
                yield Condition(f"--flavor {flavor}: {mark}{name}", "required", group.suffix, f"{mark}{name}")
    if request.isolated:
        yield Condition(f"--flavor {flavor}: group_policy=isolate", "group_policy", "", "isolate")


def image_conditions(nova: NovaRequest) -> Iterator[Condition]:
    """Yield the conditions of the image of a request that has no flavor."""
    for name in sorted(nova.image_traits):
        yield Condition(f"image: {name}", "required", "", name)


def filter_conditions(nova: NovaRequest) -> Iterator[Condition]:
    """Yield the conditions that the filters of nova's scheduler add."""
    for one in nova.applied:
        parts = (
            ("root_required", "", one.root.required),
            ("root_required", "!", one.root.forbidden),
            ("member_of", "in:", one.membership.required),
            ("member_of", "!in:", one.membership.forbidden),
        )
        for name, mark, conditions in parts:
            for names in conditions:
                yield Condition(one.name, name, "", f"{mark}{','.join(sorted(names))}")
