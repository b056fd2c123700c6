# SPDX-License-Identifier: Apache-2.0
"""``openstack allocation candidate list``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from osc_placement import microversion
from osc_placement.api.client import Document
from osc_placement.commands.candidate_rows import (
    GROUP_COLUMNS,
    amounts_by_provider,
    group_rows,
    join_amounts,
    join_summary,
    read_names,
)
from osc_placement.commands.fitted import TABLE, FittedLister
from osc_placement.commands.names import add_names_option
from osc_placement.commands.nova_query import NovaQuery
from osc_placement.commands.nova_request import FILTER_COLUMNS, add_nova_options, show_summary
from osc_placement.microversion import Version
from osc_placement.terminal.screen import is_terminal, tell


def candidate_rows(
    document: Document, version: Version, names: Mapping[str, str] | None = None
) -> Iterator[list[Any]]:
    """Return a row for each provider of each allocation request, with the amounts requested from it.

    With ``names`` of providers it has the name behind the UUID.
    """
    summaries = document["provider_summaries"]
    for number, request in enumerate(document["allocation_requests"], 1):
        for provider, amounts in amounts_by_provider(request).items():
            summary = summaries[provider]
            name = [] if names is None else [names.get(provider, "")]
            row = [number, join_amounts(amounts), provider, *name, join_summary(summary["resources"])]
            if version >= microversion.CANDIDATES_TRAITS:
                row.append(",".join(summary["traits"]))
            yield row


class ListAllocationCandidate(NovaQuery, FittedLister):
    """List the ways in which a request for resources can be met.

    Rows with the same number belong together: allocating all of them at once meets the request, as with
    ``openstack resource provider allocation set``. The last columns show how full each provider is, and its
    traits. With ``--by-group`` there is a row for each group and provider instead, with the provider's name.

    For example: openstack allocation candidate list --resource VCPU=4 --resource MEMORY_MB=2048
    """

    takes_amounts_once = False

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        # a list is sent unchanged, as osc-placement 4 sends it
        self.add_query_options(parser, read_forbidden=str)
        add_nova_options(self, parser, in_query=True, amounts="--resource and --group")
        self.add_option(
            parser,
            "--by-group",
            action="store_true",
            since=microversion.MAPPINGS,
            help="Show a row for each group and provider, with the provider's name and the amounts.",
        )
        add_names_option(parser, "Also show the names of the resource providers, as --by-group does")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        nova = self.read_nova(parsed_args)
        if parsed_args.show_nova_filters:
            return FILTER_COLUMNS, nova.rows(is_table=parsed_args.formatter == TABLE)
        document = self.client.allocation_candidates(self.make_query(parsed_args))
        show_summary(self, nova)
        if is_terminal(self.app.stderr) and not document["allocation_requests"]:
            tell(
                self.app.stderr,
                "No candidates. To see why, give the same options to: openstack allocation candidate explain",
            )
        self.droppable = ("traits", "inventory used/capacity")
        if parsed_args.by_group:
            self.droppable += ("uuid",)
            return ("#", *GROUP_COLUMNS), list(self._rows_by_group(document, parsed_args))
        names = read_names(self.client, document["provider_summaries"]) if parsed_args.names else None
        name: tuple[str, ...] = ()
        if names is not None:
            name = ("name",)
            self.droppable += ("resource provider",)
        columns: tuple[str, ...] = ("#", "allocation", "resource provider", *name, "inventory used/capacity")
        if self.client.version >= microversion.CANDIDATES_TRAITS:
            columns += ("traits",)
        return columns, list(candidate_rows(document, self.client.version, names))

    def _rows_by_group(
        self, document: Document, parsed_args: argparse.Namespace
    ) -> Iterator[tuple[Any, ...]]:
        summaries = document["provider_summaries"]
        names = read_names(self.client, summaries)
        for number, request in enumerate(document["allocation_requests"], 1):
            for row in group_rows(request, parsed_args.amounts, summaries, names):
                yield number, *row
