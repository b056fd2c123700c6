# SPDX-License-Identifier: Apache-2.0
"""The common base of reports in rows: selection of providers, columns, totals, and ``--watch``."""

from __future__ import annotations

import argparse
import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, TextIO, cast

from osc_placement import microversion
from osc_placement.api.concurrency import Reading
from osc_placement.batch.select import Selection, select_providers
from osc_placement.candidates.cloud import CloudView
from osc_placement.candidates.node import SHARING_TRAIT, Node
from osc_placement.commands import base
from osc_placement.commands.batch_options import add_selectors, read_selection
from osc_placement.commands.watching import WatchedCommand
from osc_placement.errors import PlacementError
from osc_placement.model import Part, Provider
from osc_placement.report.read import read_cloud
from osc_placement.terminal.screen import screen_of
from osc_placement.terminal.tables import choose_columns, show_cell
from osc_placement.terminal.values import add_concurrency_option

TABLE: Final = "table"


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


class FittedLister(base.Lister):
    """The base of commands whose table leaves out columns to fit the terminal."""

    #: the columns that a table leaves out, the first one first
    droppable: Sequence[str] = ()
    #: rows about all others, which are printed after them in any order
    totals: Sequence[tuple[Any, ...]] = ()
    #: the lines that may be printed; None for any number
    height: int | None = None

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--long",
            action="store_true",
            help="Show all columns of the table, where those that do not fit the terminal are left out",
        )
        return parser

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        totals = [dict(zip(column_names, row, strict=True)) for row in self.totals]
        self.formatter = cast(Any, _ReportFormatter(self.formatter, totals, self.droppable, self.height))
        return super().produce_output(parsed_args, column_names, data)


class ReportCommand(WatchedCommand, FittedLister):
    """The base of commands that print rows about all resource providers or about selected ones."""

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
            "which resource providers to report on; all given conditions must hold. Providers below a "
            "member of an aggregate are in it too",
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
        if not (uuids or parsed_args.allow_empty):
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
        return groups


class _ReportFormatter:
    """A formatter of cliff that prints totals last, and tables that fit the terminal."""

    def __init__(
        self,
        formatter: Any,
        totals: Sequence[Mapping[str, Any]],
        droppable: Sequence[str],
        height: int | None,
    ) -> None:
        self._formatter = formatter
        self._totals = totals
        self._droppable = droppable
        self._height = height

    def emit_list(
        self,
        names: Sequence[str],
        rows: Iterable[Sequence[Any]],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        """Print rows."""
        totals = [tuple(show_cell(row[name]) for name in names) for row in self._totals]
        rows = list(rows)
        width = screen_of(stdout).width
        left_out: list[str] = []
        if parsed_args.formatter == TABLE and width and not (parsed_args.long or parsed_args.columns):
            chosen = choose_columns(names, [*rows, *totals], parsed_args.max_width or width, self._droppable)
            left_out = [name for name in names if name not in chosen]
            numbers = [names.index(name) for name in chosen]
            rows, totals = (
                [tuple(row[number] for number in numbers) for row in each] for each in (rows, totals)
            )
            names = chosen
        note = f"Not shown: {', '.join(left_out)} (--long shows them)\n" if left_out else ""

        def draw(shown: int) -> str:
            text = io.StringIO()
            self._formatter.emit_list(names, [*rows[:shown], *totals], text, parsed_args)
            more = f"... and {len(rows) - shown:,} more rows\n" if shown < len(rows) else ""
            return f"{text.getvalue()}{note}{more}"

        shown = len(rows) if self._height is None else min(len(rows), self._height)
        text = draw(shown)
        while shown and self._height is not None and (lines := text.count("\n")) > self._height:
            shown = min(shown - 1, shown * self._height // lines)
            text = draw(shown)
        stdout.write(text)
