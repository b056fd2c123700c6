# SPDX-License-Identifier: Apache-2.0
"""``openstack allocation candidate claim``: find free capacity for a consumer, and allocate it."""

from __future__ import annotations

import argparse
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from osc_placement import microversion, syntax
from osc_placement.api.client import Document, PlacementClient
from osc_placement.api.consumer import Consumer, describe_consumers
from osc_placement.api.names import naming_unknown
from osc_placement.api.retry import is_conflict, retry
from osc_placement.commands.allocation import SHOW
from osc_placement.commands.candidate_query import CandidateQuery, Condition, join_conditions
from osc_placement.commands.candidate_rows import (
    CHOICES,
    GROUP_COLUMNS,
    add_amounts,
    group_rows,
    order_candidates,
    read_names,
)
from osc_placement.commands.fitted import TABLE, FittedLister
from osc_placement.errors import Conflict, PlacementError
from osc_placement.terminal.progress import WriteWatch
from osc_placement.terminal.screen import is_terminal
from osc_placement.terminal.tables import LinesColumn
from osc_placement.terminal.values import read_number

#: the default of --limit
_LIMIT: Final = 1000
_USAGE: Final = GROUP_COLUMNS[-1]


class NoCandidate(PlacementError):
    """There is no candidate, as ``cause`` leaves none, or others took all of them."""

    def __init__(self, tried: int, cause: Condition | None = None) -> None:
        self.tried = tried
        self.cause = cause
        if cause is None:
            text = f"Others have taken the capacity of all {tried} candidates; try again"
        elif cause.name == "resources":
            text = (
                "No candidate: no resource provider has the capacity for this request; "
                f"{cause.option} leaves none"
            )
        else:
            text = (
                f"No candidate: there is capacity for this request, but {cause.option} leaves none of it; to "
                "see what each condition rules out: openstack allocation candidate explain, with the same "
                "options"
            )
        super().__init__(text)


class ConsumerExists(PlacementError):
    """The consumer has allocations already, which a claim would replace."""

    def __init__(self, consumer: str) -> None:
        self.consumer = consumer
        super().__init__(
            f"Consumer {consumer} has allocations already, and a claim does not replace them; "
            f"see: {SHOW} {consumer}"
        )


@dataclass(frozen=True, slots=True)
class Claim:
    """The candidates in order of preference, the first of which is claimed, and the provider summaries."""

    candidates: Sequence[Document]
    summaries: Document


class ClaimAllocationCandidate(CandidateQuery, FittedLister):
    """Find free capacity for a consumer, and allocate it.

    One of the candidates that ``allocation candidate list`` shows for the same options is chosen and
    allocated to the consumer, which must have no allocations yet. If somebody else takes that capacity first,
    the next candidate is tried; after the last one, placement is asked for candidates again. The command can
    safely run in many places at once: no consumer gets less than it requests, and no resource provider gives
    more than it has.
    """

    example = "allocation candidate claim $UUID --resource VCPU=4 --project-id $PROJECT --user-id $OWNER"
    minimum = microversion.CONSUMER_GENERATIONS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("uuid", metavar="<consumer_uuid>", help="UUID of the consumer")
        parser.add_argument("--project-id", metavar="<id>", required=True, help="Project of the consumer")
        parser.add_argument("--user-id", metavar="<id>", required=True, help="User of the consumer")
        self.add_option(
            parser,
            "--consumer-type",
            metavar="<type>",
            since=microversion.CONSUMER_TYPES,
            help="Type of the consumer, such as INSTANCE; without it the consumer has none.",
        )
        parser.add_argument(
            "--choose",
            choices=list(CHOICES),
            default="first",
            help="Which candidate to claim: the first in placement's order, a random one, or the one "
            "that leaves the most or least free capacity, compared by the class of which the "
            "smallest part is left (default: first)",
        )
        parser.add_argument(
            "--alternates",
            metavar="<number>",
            type=read_number,
            default=0,
            help="Also show this many of the other candidates, in order of preference",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="Show what would be claimed; write nothing"
        )
        self.add_query_options(parser)
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        syntax.check_consumers(parsed_args.uuid)
        super().read_arguments(parsed_args)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        if parsed_args.limit is None:
            parsed_args.limit = _LIMIT
        conditions = self.read_conditions(parsed_args, parsed_args.amounts)
        if parsed_args.dry_run:
            claim = self._search(conditions, parsed_args)
            require_nothing(self.client, parsed_args.uuid)
        else:
            with WriteWatch(self.app.stderr, f"{SHOW} {parsed_args.uuid}") as watch:
                claim = self._claim(conditions, parsed_args, watch)
        names = read_names(self.client, claim.summaries) if claim.candidates else {}
        rows = list(rows_of(claim, parsed_args, names))
        # without alternates, all rows are about the same candidate
        self.droppable = ("group", "uuid", *(() if parsed_args.alternates else ("candidate",)), _USAGE)
        if parsed_args.formatter == TABLE and is_terminal(self.app.stdout) and not parsed_args.full:
            rows = [
                (LinesColumn(title.replace("be ", "be\n")), *between, _split(amounts), _split(usage))
                for title, *between, amounts, usage in rows
            ]
        return ("candidate", *GROUP_COLUMNS), rows

    def _search(self, conditions: Sequence[Condition], parsed_args: argparse.Namespace) -> Claim:
        """Return the candidates, at least one; raise NoCandidate if there are none."""
        with naming_unknown(self.client, self.traits_of(parsed_args), self.classes_of(parsed_args)):
            document = self.client.allocation_candidates(join_conditions(conditions, parsed_args.limit))
        summaries = document["provider_summaries"]
        candidates = order_candidates(parsed_args.choose, document["allocation_requests"], summaries)
        if not candidates:
            raise NoCandidate(0, find_cause(self.client, conditions))
        return Claim(candidates, summaries)

    def _claim(
        self, conditions: Sequence[Condition], parsed_args: argparse.Namespace, watch: WriteWatch
    ) -> Claim:
        """Claim a candidate; return it and the later ones, without those that turned out to be taken."""
        owner = {"project_id": parsed_args.project_id, "user_id": parsed_args.user_id}
        if parsed_args.consumer_type:
            owner["consumer_type"] = parsed_args.consumer_type

        def claim(_attempt: int) -> Claim:
            found = self._search(conditions, parsed_args)
            watch.begin()
            for number, candidate in enumerate(found.candidates):
                if claim_candidate(self.client, parsed_args.uuid, candidate, owner):
                    return Claim(found.candidates[number:], found.summaries)
            raise NoCandidate(len(found.candidates))

        return retry(claim, after=lambda error: isinstance(error, NoCandidate) and error.tried > 0)


def _split(amounts: str) -> LinesColumn:
    """Return amounts as a cell with a line for each class."""
    return LinesColumn(amounts.replace(",", "\n"))


def find_cause(client: PlacementClient, conditions: Sequence[Condition]) -> Condition:
    """Return the condition that leaves no candidate, of conditions that together leave none.

    Resources are tried first, and subtrees last. The server is asked for a candidate that meets the first of
    the conditions; a binary search needs few requests, however many conditions there are.
    """
    with_resources = {condition.suffix for condition in conditions if condition.name == "resources"}

    def rank(condition: Condition) -> int:
        if condition.name == "resources":
            return 0
        # a group without resources is only allowed in a subtree
        is_tied = condition.name == "same_subtree" or condition.suffix not in {"", *with_resources}
        return 2 if is_tied else 1

    ordered = sorted(conditions, key=rank)
    single = sum(rank(condition) < 2 for condition in ordered)

    def is_empty(number: int) -> bool:
        query = join_conditions(ordered[: number + 1], 1)
        return not client.allocation_candidates(query)["allocation_requests"]

    # all conditions together are known to leave none
    first = bisect_left(range(min(single, len(ordered) - 1)), True, key=is_empty)
    return ordered[first] if first < single else ordered[-1]


def claim_candidate(client: PlacementClient, consumer: str, candidate: Document, owner: Document) -> bool:
    """Allocate a candidate to a consumer that has nothing; return False if the capacity is taken."""
    taker = Consumer.from_json(consumer, candidate | owner)
    documents, version = describe_consumers([taker], client.version)

    def write(_attempt: int) -> None:
        try:
            # a candidate also has the groups (mappings), which are not part of an allocation
            client.set_allocations(consumer, candidate | documents[consumer], version)
        except Conflict as conflict:
            if is_conflict(conflict):
                require_nothing(client, consumer)
            raise

    try:
        retry(write)
    except Conflict:
        return False
    return True


def require_nothing(client: PlacementClient, consumer: str) -> None:
    """Raise ConsumerExists if a consumer has something."""
    if client.list_allocations(consumer)["allocations"]:
        raise ConsumerExists(consumer)


def rows_of(
    claim: Claim, parsed_args: argparse.Namespace, names: dict[str, str]
) -> Iterator[tuple[Any, ...]]:
    """Return rows for the candidate that was claimed, and for as many further candidates as requested.

    Usages are those after the claim, or before it if it is not made.
    """
    summaries = claim.summaries if parsed_args.dry_run else add_amounts(claim.summaries, claim.candidates[0])
    for number, candidate in enumerate(claim.candidates[: parsed_args.alternates + 1]):
        title = f"alternate {number}" if number else "would be claimed" if parsed_args.dry_run else "claimed"
        for row in group_rows(candidate, parsed_args.amounts, summaries, names):
            yield title, *row
