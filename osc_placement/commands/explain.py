# SPDX-License-Identifier: Apache-2.0
"""``openstack allocation candidate explain``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from osc_placement import codes, microversion
from osc_placement.api.names import SEE_AGGREGATES, require_classes, require_traits
from osc_placement.candidates.cloud import CloudView
from osc_placement.candidates.node import SHARING_TRAIT
from osc_placement.candidates.nova_filters import label_conditions
from osc_placement.candidates.query import BadQuery
from osc_placement.candidates.request import parse
from osc_placement.commands import base
from osc_placement.commands.fitted import TABLE
from osc_placement.commands.nova_query import NovaQuery
from osc_placement.commands.nova_request import FILTER_COLUMNS, add_nova_options, show_summary
from osc_placement.commands.reading import show_reading
from osc_placement.errors import HttpError, PlacementError
from osc_placement.report.explain import explain_cloud, explain_tree, roots_of_candidates
from osc_placement.report.read import read_cloud
from osc_placement.terminal.screen import is_terminal, tell
from osc_placement.terminal.values import add_concurrency_option

COLUMNS: Final = ("group", "constraint", "removed", "left")
HOST_COLUMNS: Final = ("group", "constraint", "met", "detail")
_TOGETHER: Final = "whole request, answer of the server"
_UNKNOWN: Final = "unknown"

Params = list[tuple[str, str]]


class ExplainAllocationCandidate(NovaQuery, base.Lister):
    """Explain which constraints of a request rule out which trees of resource providers.

    It takes the options of ``openstack allocation candidate list`` except --limit. Without --host, each row
    is a constraint of the request, with how many trees it rules out of those that the rows before have left,
    and how many are left. With --host, each row shows whether the tree of that host meets a constraint, and
    if not, how much is missing. The last row is the server's own answer, which also checks the conditions
    between the groups of a request. With --flavor the request is that of nova's scheduler, and the
    constraints of its request filters name them.
    """

    example = "allocation candidate explain --flavor m1.large --host compute-1"
    minimum = microversion.NESTED_CANDIDATES

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        # a limit would hide trees that the question is about
        self.add_query_options(parser, with_limit=False)
        add_nova_options(self, parser, in_query=True, amounts="--resource and --group")
        parser.add_argument(
            "--host",
            type=base.read_text,
            metavar="<provider>",
            help="Name or UUID of a resource provider whose tree to judge",
        )
        add_concurrency_option(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        nova = self.read_nova(parsed_args)
        if parsed_args.show_nova_filters:
            return FILTER_COLUMNS, nova.rows(is_table=parsed_args.formatter == TABLE)
        labels = label_conditions(nova.applied, nova.aggregate_names)
        # an isolated aggregate may be empty, and nobody mistyped it
        known = {uuid for one in nova.applied for uuid in one.membership.unwanted}
        params = self.make_query(parsed_args)
        try:
            request = parse(params, self.client.version)
        except BadQuery as error:
            raise PlacementError(str(error)) from error
        require_traits(self.client, self.traits_of(parsed_args), in_query=True)
        require_classes(self.client, self.classes_of(parsed_args), in_query=True)
        if not parsed_args.host:
            cloud = self._read(parsed_args.concurrency)
            self._warn_of_empty(
                request.aggregates - known, lambda aggregate: cloud.snapshot.in_any_aggregate([aggregate]) > 0
            )
            show_summary(self, nova)
            steps, left = explain_cloud(cloud, request, labels)
            rows: list[tuple[Any, ...]] = [(step.group, step.text, step.removed, step.left) for step in steps]
            answered = self._ask(cloud, params)
            if answered is None:
                rows.append(("", _TOGETHER, "", ""))
            else:
                rows.append(("", _TOGETHER, len(left) - len(answered), len(answered)))
            self._is_vain = not (left if answered is None else answered)
            return self._drop_group(parsed_args, COLUMNS, rows)
        uuid = base.resolve_provider(self.client, parsed_args.host)
        sharing = self.client.list_providers(required=[SHARING_TRAIT])
        trees = [document.get("root_provider_uuid") or document["uuid"] for document in sharing]
        cloud = self._read(parsed_args.concurrency, list(dict.fromkeys([uuid, *trees])))
        if uuid not in cloud.records:
            # raises the server's error for an unknown provider
            self.client.show_provider(uuid)
        self._warn_of_empty(
            request.aggregates - known,
            lambda aggregate: bool(self.client.list_providers(member_of=[f"in:{aggregate}"])),
        )
        root = cloud.root_of(uuid)
        show_summary(self, nova)
        verdicts = explain_tree(cloud, request, root, labels)
        rows = [(one.group, one.text, _yes_or_no(one.met), one.detail) for one in verdicts]
        answered = self._ask(cloud, params)
        met = _UNKNOWN if answered is None else _yes_or_no(root.uuid in answered)
        rows.append(("", _TOGETHER, met, ""))
        return self._drop_group(parsed_args, HOST_COLUMNS, rows)

    def run(self, parsed_args: argparse.Namespace) -> int:
        """On a terminal, say how to go on if the request has no candidate."""
        self._is_vain = False
        status = super().run(parsed_args)
        if self._is_vain and is_terminal(self.app.stdout) and parsed_args.formatter == TABLE:
            told = "No candidate is left; --host HOST shows by how much a host does not meet each constraint."
            tell(self.app.stdout, told)
        return status

    def _drop_group(
        self, parsed_args: argparse.Namespace, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]
    ) -> tuple[Any, Any]:
        """Return the columns and rows; a table on a terminal has no groups if the request has none."""
        is_short = parsed_args.formatter == TABLE and not (parsed_args.columns or parsed_args.sort_columns)
        if is_short and is_terminal(self.app.stdout) and not any(group for group, *_ in rows):
            return columns[1:], [row[1:] for row in rows]
        return columns, rows

    def _read(self, concurrency: int, trees: list[str] | None = None) -> CloudView:
        with show_reading(self.app.stderr, concurrency) as reading:
            return read_cloud(self.client, trees=trees or (), reading=reading)

    def _warn_of_empty(self, aggregates: Collection[str], has_members: Callable[[str], bool]) -> None:
        """Warn of aggregates without members, which placement cannot tell from mistyped ones."""
        for aggregate in sorted(aggregates):
            if not has_members(aggregate):
                self.warn(f"No resource provider is in aggregate {aggregate}; {SEE_AGGREGATES}")

    def _ask(self, cloud: CloudView, params: Params) -> frozenset[str] | None:
        """Return the trees for which the server has candidates; warn and return None if it cannot tell."""
        try:
            document = self.client.allocation_candidates(params)
        except HttpError as error:
            if error.error_code != codes.SEARCH_CUT:
                raise
            self.warn(error.message)
            return None
        found = document["allocation_requests"]
        return roots_of_candidates(cloud, (candidate["allocations"] for candidate in found))


def _yes_or_no(met: bool) -> str:
    return "yes" if met else "no"
