# SPDX-License-Identifier: Apache-2.0
"""``openstack resource provider capacity``."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from osc_placement import syntax
from osc_placement.api.concurrency import Reading
from osc_placement.candidates.cloud import CloudView
from osc_placement.candidates.fit import make_request
from osc_placement.candidates.fit_filtered import FilteredFits, count_filtered, describe_removal
from osc_placement.candidates.query import Traits
from osc_placement.candidates.request import CandidateRequest, NotCountable
from osc_placement.commands.fitted import TABLE
from osc_placement.commands.html_page import add_html_option, write_page
from osc_placement.commands.nova_request import (
    FILTER_COLUMNS,
    NovaRequest,
    add_nova_options,
    asks_for_nova,
    read_nova_request,
    show_summary,
)
from osc_placement.commands.reading import require_classes, show_reading
from osc_placement.commands.report import ReportCommand
from osc_placement.errors import UsageError
from osc_placement.model import Part
from osc_placement.report.capacity import Amounts, By, Table, sum_capacity
from osc_placement.report.capacity_page import Rows, capacity_page
from osc_placement.report.explain import describe_limits
from osc_placement.report.flavor import FlavorUnclear
from osc_placement.report.page import describe_size
from osc_placement.report.read import STOCKS, read_sharing
from osc_placement.terminal.screen import is_terminal

_AMOUNTS: Final = ("capacity", "used", "free", "reserved", "percent")
_FIT_COLUMNS: Final = ("host", "fits", "limited_by")
#: the name of what a row of totals is about
ALL: Final = "(all)"
#: the groups of which each provider is in one, and which are more than the classes
_HAVING_TOTALS: Final = ("provider", "root")


class ShowCapacity(ReportCommand):
    """Show the capacity of resource providers, how much of it is used and free, and how much more fits.

    The capacity is ``(total - reserved) * allocation_ratio``; used and free are parts of it. A resource
    provider belongs to the aggregates of all its ancestors too, and counts in each of them. With a placement
    server other than this project's, the column ``reserved`` costs a request for each provider: leave it out
    with ``-c`` to read a large cloud many times faster.

    The fullest rows come first. The last rows of a table are the totals of the classes, unless --by is
    aggregate, whose sums overlap.

    With --fit each row shows how many more times the amounts fit on a host, by the rules of the server: each
    class comes from one provider of the host's tree or from one that shares with it. The last row is for all
    hosts together, which is less than the sum if hosts share. With --flavor, hosts that the request
    filters of nova's scheduler remove have the number 0 and name the filter; --no-nova-filters counts them.
    """

    droppable = ("uuid", "reserved", "free", "used", "capacity")
    example = "resource provider capacity --fit VCPU=4,MEMORY_MB=8192"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--by",
            choices=("provider", "root", "aggregate", "class"),
            default="provider",
            help="How to group the sums (default: provider). root is for whole trees; aggregate also "
            "shows the names of host aggregates, if the compute service can be asked.",
        )
        parser.add_argument(
            "--fit",
            metavar="<resource_class>=<amount>[,...]",
            action="append",
            help="Show how many more times these amounts fit together; memory and disk may have units, as in "
            "MEMORY_MB=8GB. May be repeated for further classes.",
        )
        add_nova_options(self, parser, in_query=False, amounts="--fit")
        parser.add_argument(
            "--total",
            action="store_true",
            help="Add the totals of the classes to other formats than the table too",
        )
        add_html_option(parser, "Also write an HTML page to this file")
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        super().read_arguments(parsed_args)
        parsed_args.want = read_want(parsed_args.fit) if parsed_args.fit is not None else None
        if parsed_args.fit and parsed_args.flavor:
            raise UsageError("--fit cannot be used with --flavor, which has its own amounts")
        parsed_args.is_of_nova = asks_for_nova(parsed_args)
        counts = parsed_args.fit or parsed_args.flavor
        if (parsed_args.is_of_nova or parsed_args.no_nova_filters) and not counts:
            raise UsageError("The options about filters of nova's scheduler need --flavor or --fit")
        if parsed_args.by != "provider" and counts:
            raise UsageError("--by cannot be used with --fit and --flavor, which count by host")
        if parsed_args.total and parsed_args.by not in _HAVING_TOTALS:
            raise UsageError(f"--total cannot be used with --by {parsed_args.by}")

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        parsed_args.nova = NovaRequest(None)
        if parsed_args.is_of_nova:
            parsed_args.nova = read_nova_request(self, parsed_args)
            if parsed_args.show_nova_filters:
                return FILTER_COLUMNS, parsed_args.nova.rows(is_table=parsed_args.formatter == TABLE)
            if parsed_args.flavor:
                parsed_args.want = parsed_args.nova.groups
            elif parsed_args.nova.image_traits:
                parsed_args.want = require_of(parsed_args.want, parsed_args.nova.image_traits)
            show_summary(self, parsed_args.nova)
        cloud, rows = self._report(parsed_args)
        if parsed_args.html:
            write_page(self, parsed_args, partial(capacity_page, cloud, rows), describe_size(cloud))
        chosen = parsed_args.full or parsed_args.columns or parsed_args.sort_columns
        if parsed_args.formatter == TABLE and is_terminal(self.app.stdout) and not chosen:
            rows = rows.compact()
        number = len(rows.values) - rows.totals
        if parsed_args.want or parsed_args.total or parsed_args.formatter == TABLE:
            self.totals = rows.values[number:]
        return rows.columns, rows.values[:number]

    def _report(self, parsed_args: argparse.Namespace) -> tuple[CloudView, Rows]:
        """Return the selected providers and the rows about them."""
        by = parsed_args.by
        with show_reading(self.app.stderr, parsed_args.concurrency) as reading:
            if parsed_args.want:
                return self._report_fits(parsed_args, reading)
            # the column "reserved" costs extra requests
            named = (*parsed_args.columns, *parsed_args.sort_columns)
            is_every_column = parsed_args.html or not parsed_args.columns
            selected = self.read_cloud(
                parsed_args,
                (*STOCKS, "aggregates") if by == "aggregate" else STOCKS,
                reading,
                only_capacity=not (is_every_column or "reserved" in map(str.lower, named)),
            )
            cloud = selected.part
            rows = capacity_rows(by, sum_capacity(selected.cloud, by, selected.uuids), cloud)
        if by == "aggregate":
            # by name where they are host aggregates
            names = self.aggregates.names()
            key, *others = rows.columns
            values = [(names.get(uuid, uuid), uuid, *amounts) for uuid, *amounts in rows.values]
            rows = replace(rows, columns=(key, "uuid", *others), values=values)
        return cloud, rows

    def _report_fits(self, parsed_args: argparse.Namespace, reading: Reading) -> tuple[CloudView, Rows]:
        want: CandidateRequest = parsed_args.want
        nova: NovaRequest = parsed_args.nova
        parts: tuple[Part, ...] = STOCKS
        if any(group.traits.names for group in want.groups):
            parts += ("traits",)
        selected = self.read_cloud(parsed_args, parts, reading, with_sharing=True)
        if parsed_args.fit:
            require_classes(self.client, selected.cloud, want.classes)
        traits = {name for one in nova.applied for name in one.root.names}
        aggregates = {uuid for one in nova.applied for uuid in one.membership.names}
        cloud = read_sharing(self.client, selected.cloud, traits, aggregates)
        hosts = None
        if selected.uuids is not None:
            hosts = {cloud.root_of(uuid).uuid for uuid in selected.uuids if uuid in cloud.records}
        try:
            fits = count_filtered(cloud.snapshot, want, nova.applied, hosts)
        except NotCountable as error:
            raise FlavorUnclear(parsed_args.flavor, str(error)) from error
        return selected.part, fit_rows(want, fits, nova.aggregate_names)


def read_want(texts: list[str]) -> CandidateRequest:
    """Read ``VCPU=4,MEMORY_MB=8192``, each class once."""
    amounts: dict[str, int] = {}
    for text in ",".join(texts).split(","):
        name, separator, number = text.partition("=")
        if not (separator and syntax.NAME.fullmatch(name)):
            raise UsageError(f"Amounts of --fit must be of the form VCPU=4,MEMORY_MB=8192, not {text!r}")
        if name in amounts:
            raise UsageError(f"{name} is given twice")
        amounts[name] = syntax.parse_amount(name, number)
        if amounts[name] < 1:
            raise UsageError(f"Amount of {name} must be at least 1, not {number}")
    return make_request(amounts)


def require_of(want: CandidateRequest, traits: Collection[str]) -> CandidateRequest:
    """Return the request of --fit with traits that its group requires."""
    (group,) = want.groups
    return make_request(group.resources, Traits(tuple(frozenset((name,)) for name in traits)))


def capacity_rows(by: By, table: Table, cloud: CloudView) -> Rows:
    """Return a row for each class of each provider, tree or aggregate, then the totals of the cloud."""
    title, columns = f"Capacity by {by}", ("resource_class", *_AMOUNTS)
    values = [(key, *_amounts_row(name, sums)) for (key, name), sums in table.items()]
    if by == "class":
        return Rows(title, columns, [row[1:] for row in values])
    rows = Rows(title, (by, *columns), values)
    if by not in _HAVING_TOTALS:
        return rows
    classes = sum_capacity(cloud, "class")
    return _with_totals(rows, [(ALL, *_amounts_row(name, sums)) for (_, name), sums in classes.items()])


def _amounts_row(resource_class: str, sums: Amounts) -> tuple[Any, ...]:
    amounts = (sums.capacity, sums.used, sums.free, sums.reserved)
    return resource_class, *amounts, _or_empty(sums.percent)


def _with_totals(rows: Rows, totals: Sequence[tuple[Any, ...]]) -> Rows:
    """Return the rows with totals, unless all rows are about one thing."""
    if len({row[0] for row in rows.values}) < 2:
        return rows
    return replace(rows, values=[*rows.values, *totals], totals=len(totals))


def fit_rows(want: CandidateRequest, filtered: FilteredFits, aggregate_names: Mapping[str, str]) -> Rows:
    """Return a row for each host, and one for all together; a host that a filter removed names it."""
    unnamed = want.groups[0]
    title = "How many more fit: " + ", ".join(f"{name}={amount}" for name, amount in want.totals.items())
    fits, removed = filtered.fits, filtered.removed
    rows = [
        (
            fit.host.name,
            fit.count,
            describe_removal(removed[fit.host.uuid], fit.host, aggregate_names)
            if fit.host.uuid in removed
            else describe_limits(fit, unnamed),
        )
        for fit in fits.hosts
    ]
    note = "shared providers" if fits.total < sum(fit.count for fit in fits.hosts) else ""
    if not fits.exact:
        many = "numbered groups compete" if len(want.groups) > 1 else "hosts share more than one class"
        note = f"at least: {many}"
    counts = Counter(one.name for one in removed.values())
    by_filter = ", ".join(f"{name} {number}" for name, number in counts.items())
    notes = [note, f"hosts removed: {by_filter}" if by_filter else ""]
    return Rows(title, _FIT_COLUMNS, [*rows, (ALL, fits.total, "; ".join(filter(None, notes)))], totals=1)


def _or_empty(value: float | None) -> float | str:
    return "" if value is None else value
