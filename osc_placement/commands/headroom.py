# SPDX-License-Identifier: Apache-2.0
"""``openstack resource provider headroom``."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from cliff.columns import FormattableColumn

from osc_placement import microversion
from osc_placement.api.consumer import Consumer
from osc_placement.api.garbage import no_collection
from osc_placement.api.names import SEE_AGGREGATES, require_traits
from osc_placement.candidates.cloud import CloudView
from osc_placement.candidates.headroom import Headroom, Rules
from osc_placement.candidates.query import Membership, Traits
from osc_placement.commands import base
from osc_placement.commands.batch_options import add_aggregate_option
from osc_placement.commands.fitted import TABLE, FittedLister
from osc_placement.commands.host_aggregate import ANY_AGGREGATE_HELP
from osc_placement.commands.html_page import add_html_option, write_page
from osc_placement.commands.nova_request import (
    CONF_OPTION,
    ask_for_consumer,
    describe_applied,
    read_scheduler,
    warn_of_unread,
)
from osc_placement.commands.reading import show_reading
from osc_placement.errors import NameNotFound, PlacementError, UsageError
from osc_placement.report.capacity_page import Rows, capacity_page
from osc_placement.report.headroom import (
    CONSUMER_COLUMNS,
    DOMAIN_COLUMNS,
    PLACEMENT_COLUMNS,
    Domain,
    FilteredRules,
    Judged,
    consumer_rows,
    domain_of_aggregate,
    domain_of_tree,
    domain_rows,
    domains_of_aggregates,
    domains_of_hosts,
    format_amounts,
    has_every_host,
    join_domains,
    judge,
    placement_rows,
    sum_up,
)
from osc_placement.report.page import describe_size
from osc_placement.report.read import read_claims, read_cloud
from osc_placement.syntax import NAME
from osc_placement.terminal.escape import printable
from osc_placement.terminal.screen import is_terminal, tell
from osc_placement.terminal.values import add_concurrency_option

#: the exit status if no place was found for some consumer
NO_PLACE: Final = 3
EVERY_PLACE: Final = "Every consumer has a place elsewhere."
_ALL: Final = "(all)"
_AMOUNT: Final = re.compile(rf"{NAME.pattern}=[^=,]+(,{NAME.pattern}=[^=,]+)*")
_DROPPABLE: Final = {
    "domain": ("uuid", "hosts", "missing", "consumers", "not_placed", "reason"),
    "consumer": ("type", "project", "closest", "resources", "domain"),
    "placement": ("domain", "resources"),
}


class AmountsGiven(UsageError):
    """Amounts were given, which another command counts; ``texts`` are those of the command line."""

    def __init__(self, texts: Iterable[str]) -> None:
        amounts = [text for text in texts if _AMOUNT.fullmatch(text)]
        told = shlex.quote(",".join(amounts or ["VCPU=4", "MEMORY_MB=8192"]))
        super().__init__(
            "headroom finds new places for what resource providers hold, and takes no amounts; how often "
            f"amounts fit is the answer of: openstack resource provider capacity --fit {told}"
        )


class ResourcesColumn(FormattableColumn[Mapping[str, Mapping[str, int]]]):
    """Amounts by the name of their provider; people get a line for each provider."""

    def __str__(self) -> str:
        """Return what is for people in one line."""
        return self.human_readable().replace("\n", "; ")

    def human_readable(self) -> str:
        """Return ``compute-1: MEMORY_MB=8192,VCPU=4`` for each provider."""
        return "\n".join(
            f"{printable(name)}: {format_amounts(amounts)}" for name, amounts in self._value.items()
        )


class ShowHeadroom(FittedLister):
    """Show whether resource providers may fail or be drained: whether all consumers would fit elsewhere.

    Each host, aggregate or zone is judged by itself, from one reading of the cloud, and nothing is changed. A
    host is a whole tree of resource providers; an aggregate stands for all its hosts, and not for what shares
    with them. A consumer that holds something of sharing providers only is not lost with a host.

    The consumers are placed one after the other, the one with the largest share of the cloud's capacity of
    any class first, each on the first host with a place by the rules of the server: on its own, if that is
    not lost, then on the fullest.
    What one takes the next cannot take. "fits" means that a place was found for each of them; --by placement
    shows where. "not found" means that this way leaves some of them without, although another way to pack
    them may exist; --by consumer shows which, and what is missing.

    Placement does not know which traits, aggregates and groups a consumer asked for. By default new
    providers must have the traits of the present ones and no other custom traits, hosts whose compute service
    is disabled take nothing, and aggregates do not count; see --traits, --required, --forbidden, --member-of,
    --within and --nova-conf.
    """

    example = "resource provider headroom --each-aggregate --within az1 --within az2"
    minimum = microversion.NESTED_PROVIDERS
    exit_statuses = (
        "Exit status: 0 all fits; 1 not done, the reason is on stderr; 2 the command line is wrong; "
        "3 no place was found for some consumer."
    )

    fits_height = True

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        group = parser.add_argument_group("failure domains", "what fails or is drained; a row for each")
        group.add_argument(
            "provider",
            metavar="<provider>",
            nargs="*",
            help="Name or UUID of a resource provider, which stands for the whole tree that it is in",
        )
        add_aggregate_option(group, "The hosts of {aggregate}, as a rack or a zone. May be repeated.")
        group.add_argument(
            "--each-aggregate",
            action="store_true",
            help="Each aggregate, without those that have every host",
        )
        group.add_argument("--each-host", action="store_true", help="Each host")
        group.add_argument(
            "--together", action="store_true", help="All that is given at the same time, in one row"
        )
        places = parser.add_argument_group("new places", "conditions on the new hosts")
        places.add_argument(
            "--traits",
            choices=("same", "any"),
            default="same",
            help="same (the default): new providers have all traits of the present ones, and no other custom "
            "traits. any: only --required and --forbidden count.",
        )
        places.add_argument(
            "--required",
            metavar="<trait>",
            type=base.read_text,
            action="append",
            default=[],
            help="A trait that the root of the new tree must have; A,B is any of the two. May be repeated.",
        )
        places.add_argument(
            "--forbidden",
            metavar="<trait>",
            type=base.read_trait,
            action="append",
            default=[],
            help="A trait that the root of the new tree must not have. May be repeated.",
        )
        places.add_argument(
            "--member-of",
            metavar="<member_of>",
            type=base.read_text,
            action="append",
            default=[],
            help=f"New hosts are {ANY_AGGREGATE_HELP}. May be repeated; then every one must hold.",
        )
        add_aggregate_option(
            places,
            "Consumers on hosts of {aggregate} stay in it, as in an availability zone. May be repeated.",
            "--within",
        )
        places.add_argument(
            "--group-policy",
            choices=("isolate", "none"),
            default="isolate",
            metavar="<group_policy>",
            help="isolate (the default): what is held of several nested providers needs as many of them. "
            "none: it may come from one.",
        )
        places.add_argument(
            "--nova-conf",
            help="Apply the filters of nova's scheduler that this nova.conf enables, as far as the project "
            "of a consumer and the traits and aggregates of its present host tell what they ask for",
            **CONF_OPTION,
        )
        parser.add_argument(
            "--by",
            choices=tuple(_DROPPABLE),
            default="domain",
            help="Show a row for each failure domain (the default), for each consumer without a place, or "
            "for each consumer with its new place, in the order in which they can be moved",
        )
        # it is no option of this command; without it argparse would take its value for a resource provider
        parser.add_argument("--resource", action="append", default=[], help=argparse.SUPPRESS)
        add_html_option(parser, "Also write an HTML page to this file")
        add_concurrency_option(parser)
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        super().read_arguments(parsed_args)
        if parsed_args.resource:
            raise AmountsGiven([*parsed_args.resource, *parsed_args.provider])
        each = parsed_args.each_aggregate or parsed_args.each_host
        if parsed_args.each_aggregate and parsed_args.each_host:
            raise UsageError("--each-aggregate cannot be used with --each-host")
        if each and (parsed_args.provider or parsed_args.aggregate or parsed_args.together):
            raise UsageError(
                "--each-aggregate and --each-host judge all of them one by one, and cannot be used with "
                "resource providers, --aggregate or --together"
            )
        if not (each or parsed_args.provider or parsed_args.aggregate):
            raise UsageError("Give resource providers, --aggregate, --each-aggregate or --each-host")

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        # unknown names end the command before anything is read
        try:
            providers = [base.resolve_provider(self.client, text) for text in parsed_args.provider]
        except NameNotFound as error:
            if _AMOUNT.fullmatch(error.name):
                raise AmountsGiven(parsed_args.provider) from error
            raise
        aggregates = self.aggregates.resolve(parsed_args.aggregate)
        rules = self._read_rules(parsed_args)
        conf = parsed_args.nova_conf
        scheduler = read_scheduler(self, conf, of_projects=True) if conf else None
        with no_collection(is_last=not self.app.interactive_mode):
            with show_reading(self.app.stderr, parsed_args.concurrency) as reading:
                cloud = read_cloud(self.client, reading=reading)
                domains = self._find_domains(parsed_args, cloud, providers, aggregates)
                for aggregate in sorted(rules.membership.names.union(rules.within)):
                    if not cloud.snapshot.in_any_aggregate([aggregate]):
                        raise PlacementError(_describe_empty(aggregate))
                slots = frozenset[int]().union(*(domain.slots for domain in domains))
                claims = read_claims(self.client, cloud, slots, reading)
                if claims.changed:
                    self.warn(
                        f"{claims.changed} resource providers changed while they were read; repeat the "
                        "command for an answer about one moment"
                    )
            cloud, consumers = claims.cloud, claims.consumers
            holdings = ((consumer.uuid, consumer.allocations) for consumer in consumers)
            filtered = None
            if scheduler:
                filtered = FilteredRules(cloud, consumers, rules, partial(ask_for_consumer, scheduler))
            judged = judge(cloud, Headroom(cloud, holdings, filtered or rules), domains)
        if scheduler and filtered:
            warn_of_unread(self, filtered.asked)
            if is_terminal(self.app.stderr):
                tell(self.app.stderr, describe_applied(scheduler.source, filtered.asked))
        rows = _make_rows(parsed_args.by, cloud, judged, consumers)
        lacking = sum_up(judged)
        rows = replace(rows, verdict=lacking or EVERY_PLACE, level="high" if lacking else "low")
        if parsed_args.html:
            write_page(self, parsed_args, partial(capacity_page, cloud, rows), describe_size(cloud))
        if lacking:
            self.exit_status = NO_PLACE
        elif not rows.values and is_terminal(self.app.stderr):
            tell(self.app.stderr, f"{EVERY_PLACE} (--by placement shows where)")
        self.droppable = _DROPPABLE[parsed_args.by]
        self.breakable = ("missing", "reason", "resources", "closest")
        chosen = parsed_args.full or parsed_args.columns or parsed_args.sort_columns
        if parsed_args.formatter == TABLE and is_terminal(self.app.stdout) and not chosen:
            rows = rows.compact()
        if parsed_args.formatter == TABLE:
            self.totals = rows.values[len(rows.values) - rows.totals :]
        return rows.columns, rows.values[: len(rows.values) - rows.totals]

    def _read_rules(self, parsed_args: argparse.Namespace) -> Rules:
        required = tuple(frozenset(text.split(",")) for text in parsed_args.required)
        forbidden = tuple(frozenset((text,)) for text in parsed_args.forbidden)
        traits = Traits(required, forbidden)
        require_traits(self.client, traits.names, in_query=True)
        member_of = [self.aggregates.resolve(text.split(",")) for text in parsed_args.member_of]
        return Rules(
            traits,
            Membership(tuple(map(frozenset, member_of))),
            frozenset(self.aggregates.resolve(parsed_args.within)),
            same_traits=parsed_args.traits == "same",
            isolated=parsed_args.group_policy == "isolate",
        )

    def _find_domains(
        self,
        parsed_args: argparse.Namespace,
        cloud: CloudView,
        providers: Sequence[str],
        aggregates: Sequence[str],
    ) -> list[Domain]:
        """Return the failure domains that the arguments name, each once."""
        if parsed_args.each_host:
            if domains := domains_of_hosts(cloud):
                return domains
            raise PlacementError("There is no host to judge; see: openstack resource provider list")
        if parsed_args.each_aggregate:
            domains = domains_of_aggregates(cloud, self.aggregates.names())
            for domain in domains:
                if has_every_host(cloud, domain):
                    self.warn(f"Aggregate {domain.name} is left out, because it has every host")
            if domains := [domain for domain in domains if not has_every_host(cloud, domain)]:
                return domains
            raise PlacementError("There is no aggregate to judge: none has some of the hosts and not all")
        for uuid in providers:
            if uuid not in cloud.records:
                # raises the server's error for an unknown provider
                self.client.show_provider(uuid)
                raise PlacementError(f"Resource provider {uuid} was created meanwhile; run the command again")
        domains = [domain_of_tree(cloud, uuid) for uuid in providers]
        for text, uuid in zip(parsed_args.aggregate, aggregates, strict=True):
            domain = domain_of_aggregate(cloud, uuid, text)
            if not domain.slots:
                raise PlacementError(_describe_empty(uuid))
            domains.append(domain)
        domains = list({domain.uuid: domain for domain in domains}.values())
        return [join_domains(domains)] if parsed_args.together else domains


def _make_rows(by: str, cloud: CloudView, judged: Sequence[Judged], consumers: Iterable[Consumer]) -> Rows:
    if by == "consumer":
        by_uuid = {consumer.uuid: consumer for consumer in consumers}
        return Rows("Consumers without a place", CONSUMER_COLUMNS, consumer_rows(judged, by_uuid))
    if by == "placement":
        placed = [(*others, ResourcesColumn(held)) for *others, held in placement_rows(cloud, judged)]
        return Rows("New places", PLACEMENT_COLUMNS, placed)
    rows = domain_rows(judged)
    if len(rows) < 2:
        return Rows("Headroom", DOMAIN_COLUMNS, rows)
    number = sum(each.outcome.fits for each in judged)
    total = (_ALL, "", f"{number:,} of {len(rows):,} fit", "", "", "", "", "")
    return Rows("Headroom", DOMAIN_COLUMNS, [*rows, total], totals=1)


def _describe_empty(aggregate: str) -> str:
    return f"No host is in aggregate {aggregate}; {SEE_AGGREGATES}"
