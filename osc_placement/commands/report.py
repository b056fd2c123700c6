# SPDX-License-Identifier: Apache-2.0
"""The common base of reports in rows: selection of providers, columns, totals, and ``--watch``."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from osc_placement import microversion
from osc_placement.api.concurrency import Reading
from osc_placement.batch import Selection, select_providers
from osc_placement.candidates.cloud import CloudView
from osc_placement.candidates.node import SHARING_TRAIT, Node
from osc_placement.commands import base
from osc_placement.commands.batch_options import add_selectors, read_selection
from osc_placement.commands.fitted import FittedLister
from osc_placement.commands.watching import WatchedCommand
from osc_placement.errors import PlacementError
from osc_placement.model import Part, Provider
from osc_placement.report.read import read_cloud
from osc_placement.terminal.values import add_concurrency_option


@dataclass(frozen=True)
class SelectedCloud:
    """The trees in which selected providers are, and the UUIDs of these providers; None for all of them."""

    cloud: CloudView
    uuids: Collection[str] | None = None

    @cached_property
    def part(self) -> CloudView:
        """Return the selected providers alone."""
        if self.uuids is None:
            return self.cloud
        return CloudView(record for uuid, record in self.cloud.records.items() if uuid in self.uuids)


@dataclass(frozen=True)
class _Group:
    """Providers that meet some conditions; ``with_below`` if those below them do so too."""

    providers: Sequence[Provider]
    with_below: bool = False

    @cached_property
    def _uuids(self) -> Collection[str]:
        return {provider.uuid for provider in self.providers}

    def has(self, cloud: CloudView, node: Node) -> bool:
        """Return whether a provider of the cloud meets the conditions."""
        nodes = cloud.ancestry(node) if self.with_below else (node,)
        return any(each.uuid in self._uuids for each in nodes)


class ReportCommand(WatchedCommand, FittedLister):
    """The base of commands that print rows about all resource providers or about selected ones."""

    fits_height = True

    #: a trait that all providers have that are reported on; there may be none
    only_with: ClassVar[str] = ""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "provider",
            metavar="<provider>",
            nargs="*",
            help="Name or UUID of a resource provider to report on, with all providers below it (default: "
            "all resource providers)",
        )
        add_selectors(
            self,
            parser,
            "all conditions that are given must hold; providers below a member of an aggregate are in it too",
        )
        add_concurrency_option(parser)
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        super().read_arguments(parsed_args)
        given = argparse.Namespace(**{**vars(parsed_args), "all": True})
        aggregates = self.aggregates.resolve(parsed_args.aggregate)
        parsed_args.selection = read_selection(given, self.app.stdin, aggregates)

    def check_versions(self, given: Mapping[str, Any]) -> None:
        super().check_versions(given)
        base.require_any_traits(self.client, given["required"])

    def read_cloud(
        self,
        parsed_args: argparse.Namespace,
        want: Iterable[Part],
        reading: Reading,
        *,
        only_capacity: bool = False,
        with_sharing: bool = False,
    ) -> SelectedCloud:
        """Read the whole trees of the selected providers; ``with_sharing`` reads sharing providers too."""
        client = self.client
        groups = self._select(parsed_args)
        if not groups:
            return SelectedCloud(read_cloud(client, want, only_capacity=only_capacity, reading=reading))
        roots = set.intersection(
            *({one.root_provider_uuid or one.uuid for one in group.providers} for group in groups)
        )
        if with_sharing and client.version >= microversion.LIST_BY_TRAITS:
            sharing = map(Provider.from_json, client.list_providers(required=[SHARING_TRAIT]))
            roots |= {provider.root_provider_uuid or provider.uuid for provider in sharing}
        cloud = read_cloud(client, want, roots=roots, only_capacity=only_capacity, reading=reading)
        uuids = {node.uuid for node in cloud.nodes if all(group.has(cloud, node) for group in groups)}
        if not (uuids or parsed_args.allow_empty or self.only_with):
            raise PlacementError(
                "No resource provider meets all conditions; see what there is with: openstack resource "
                "provider list, or give --allow-empty"
            )
        return SelectedCloud(cloud, uuids)

    def _select(self, parsed_args: argparse.Namespace) -> Sequence[_Group]:
        """Read the providers that meet each kind of condition; return nothing if there is no condition."""
        client = self.client
        selection: Selection = parsed_args.selection
        groups = []
        if parsed_args.provider:
            uuids = [base.resolve_provider(client, text) for text in parsed_args.provider]
            named = [Provider.from_json(client.show_provider(uuid)) for uuid in uuids]
            groups.append(_Group(named, with_below=True))
        allow_empty = parsed_args.allow_empty
        if selection.aggregates:
            members = Selection(aggregates=selection.aggregates)
            groups.append(_Group(select_providers(client, members, allow_empty=allow_empty), with_below=True))
        others = replace(selection, aggregates=())
        if others.has_conditions:
            if others.in_tree:
                others = replace(others, in_tree=base.resolve_provider(client, others.in_tree))
            groups.append(_Group(select_providers(client, others, allow_empty=allow_empty)))
        if self.only_with:
            having = Selection(required=(self.only_with,))
            groups.append(_Group(select_providers(client, having, allow_empty=True)))
        return groups
