# SPDX-License-Identifier: Apache-2.0
"""The headroom of failure domains: providers that fail or are drained together. Pure.

A host is a whole tree of providers. It belongs to an aggregate if a provider of it that does not share is a
member; so a rack does not take the storage with it that it shares with others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Final

from osc_placement.api.consumer import Consumer
from osc_placement.candidates.cloud import CloudView
from osc_placement.candidates.headroom import Headroom, Outcome, Rules, Unplaced
from osc_placement.candidates.nova_filters import Asked, Refused, State, list_applied
from osc_placement.candidates.query import Membership
from osc_placement.model import NOVA_TYPES
from osc_placement.terminal.lines import count_things

FITS: Final = "fits"
NOT_FOUND: Final = "not found"
DOMAIN_COLUMNS: Final = (
    "domain",
    "uuid",
    "verdict",
    "hosts",
    "consumers",
    "not_placed",
    "missing",
    "reason",
)
CONSUMER_COLUMNS: Final = ("domain", "consumer", "type", "project", "resources", "reason", "closest")
PLACEMENT_COLUMNS: Final = ("domain", "consumer", "host", "resources")


@dataclass(frozen=True, slots=True)
class Domain:
    """What fails or is drained together.

    :ivar slots: of whole trees
    """

    name: str
    uuid: str
    slots: frozenset[int]


@dataclass(frozen=True, slots=True)
class Judged:
    """A domain with the number of its hosts and consumers, and what was found for them."""

    domain: Domain
    hosts: int
    consumers: int
    outcome: Outcome


class FilteredRules:
    """The rules of each consumer, with what the filters of nova's scheduler ask for.

    What a consumer asked for is told by its project and by its present hosts; ``ask`` returns the answers of
    the filters for a project, for traits of these hosts and for aggregates of them. A consumer that is not
    nova's is not filtered, and one that a filter refuses has no place.

    :ivar asked: the answers so far
    """

    def __init__(
        self,
        cloud: CloudView,
        consumers: Iterable[Consumer],
        rules: Rules,
        ask: Callable[[str | None, frozenset[str], frozenset[str]], Iterable[Asked]],
    ) -> None:
        self.asked: set[Asked] = set()
        self._cloud = cloud
        self._consumers = {consumer.uuid: consumer for consumer in consumers}
        self._rules = rules
        self._ask = ask
        self._known: dict[tuple[str | None, frozenset[str], frozenset[str]], Rules] = {}

    def __call__(self, consumer: str) -> Rules:
        """Return the rules of a consumer."""
        one = self._consumers[consumer]
        if one.consumer_type is not None and one.consumer_type not in NOVA_TYPES:
            return self._rules
        cloud = self._cloud
        held = [cloud.node(uuid) for uuid in one.allocations if uuid in cloud.records]
        roots = [cloud.root_of(node.uuid) for node in held if not node.shares]
        traits = frozenset[str]().union(*(node.traits for node in (*held, *roots)))
        aggregates = frozenset[str]().union(*(root.aggregates for root in roots))
        key = one.project_id, traits, aggregates
        if key not in self._known:
            self._known[key] = self._filter(*key)
        return self._known[key]

    def _filter(self, project: str | None, traits: frozenset[str], aggregates: frozenset[str]) -> Rules:
        try:
            asked = list(self._ask(project, traits, aggregates))
        except Refused as error:
            # there is no host in one of no aggregates
            nowhere = Membership((frozenset(),))
            asked = [Asked(error.name, State.APPLIED, error.reason, membership=nowhere)]
        self.asked.update(asked)
        root, membership = self._rules.traits, self._rules.membership
        for one in list_applied(asked):
            root, membership = root.plus(one.root), membership.plus(one.membership)
        return replace(self._rules, traits=root, membership=membership)


def domain_of_tree(cloud: CloudView, uuid: str) -> Domain:
    """Return the tree of a provider as a domain."""
    root = cloud.root_of(uuid)
    slots = cloud.snapshot.slots_of_tree(cloud.snapshot.slot_by_uuid[root.uuid])
    return Domain(root.name, root.uuid, frozenset(slots))


def domains_of_hosts(cloud: CloudView) -> list[Domain]:
    """Return each tree with a provider that does not share and has an inventory as a domain."""
    snapshot = cloud.snapshot
    return [
        domain_of_tree(cloud, root.uuid)
        for root in cloud.roots
        if any(
            snapshot.nodes[slot].stocks and not snapshot.nodes[slot].shares
            for slot in snapshot.slots_of_tree(snapshot.slot_by_uuid[root.uuid])
        )
    ]


def domain_of_aggregate(cloud: CloudView, aggregate: str, name: str = "") -> Domain:
    """Return the hosts of an aggregate as a domain, which is empty if it has none."""
    found = {domain.uuid: domain for domain in domains_of_aggregates(cloud, {aggregate: name})}
    return found.get(aggregate, Domain(name or aggregate, aggregate, frozenset()))


def domains_of_aggregates(cloud: CloudView, names: Mapping[str, str]) -> list[Domain]:
    """Return each aggregate that has a host as a domain; ``names`` has the names of some."""
    members: dict[str, set[int]] = {}
    snapshot = cloud.snapshot
    for slot, node in enumerate(cloud.nodes):
        if not node.shares:
            for aggregate in node.aggregates:
                members.setdefault(aggregate, set()).update(snapshot.slots_of_tree(snapshot.root_of[slot]))
    return [
        Domain(names.get(uuid) or uuid, uuid, frozenset(slots)) for uuid, slots in sorted(members.items())
    ]


def join_domains(domains: Sequence[Domain]) -> Domain:
    """Return several domains as one."""
    if len(domains) == 1:
        return domains[0]
    slots = frozenset[int]().union(*(domain.slots for domain in domains))
    first, second, *others = [domain.name for domain in domains]
    return Domain(f"{first} and {f'{len(others) + 1} more' if others else second}", "", slots)


def has_every_host(cloud: CloudView, domain: Domain) -> bool:
    """Return whether no provider that does not share and has an inventory is outside of a domain."""
    return all(
        slot in domain.slots for slot, node in enumerate(cloud.nodes) if node.stocks and not node.shares
    )


def judge(cloud: CloudView, headroom: Headroom, domains: Iterable[Domain]) -> list[Judged]:
    """Judge each domain by itself; those with the most consumers that have no place come first."""
    roots = {cloud.snapshot.slot_by_uuid[root.uuid] for root in cloud.roots}
    judged = [
        Judged(domain, len(domain.slots & roots), headroom.count(domain.slots), headroom.judge(domain.slots))
        for domain in domains
    ]
    return sorted(judged, key=lambda each: (-len(each.outcome.unplaced), each.domain.name))


def domain_rows(judged: Iterable[Judged]) -> list[tuple[Any, ...]]:
    """Return a row for each domain: whether all fits, what is missing, and why the first one has no place."""
    rows = []
    for each in judged:
        unplaced = each.outcome.unplaced
        missing: Counter[str] = Counter()
        for one in unplaced:
            missing.update(one.amounts)
        rows.append(
            (
                each.domain.name,
                each.domain.uuid,
                FITS if each.outcome.fits else NOT_FOUND,
                each.hosts,
                each.consumers,
                len(unplaced),
                format_amounts(missing),
                describe_reason(unplaced[0]) if unplaced else "",
            )
        )
    return rows


def sum_up(judged: Sequence[Judged]) -> str:
    """Return in a sentence for how many consumers no place was found; empty if there is one for each."""
    number = sum(len(each.outcome.unplaced) for each in judged)
    if all(each.outcome.fits for each in judged):
        return ""
    several = f", in {sum(not each.outcome.fits for each in judged):,} of {len(judged):,} failure domains"
    return f"No place was found for {count_things(number, 'consumer')}{several if len(judged) > 1 else ''}."


def consumer_rows(judged: Iterable[Judged], consumers: Mapping[str, Consumer]) -> list[tuple[Any, ...]]:
    """Return a row for each consumer of each domain for which no place was found."""
    return [
        (
            each.domain.name,
            one.consumer,
            consumers[one.consumer].consumer_type or "",
            consumers[one.consumer].project_id or "",
            format_amounts(one.amounts),
            describe_reason(one),
            one.shortage.closest.name if one.shortage.closest else "",
        )
        for each in judged
        for one in each.outcome.unplaced
    ]


def placement_rows(cloud: CloudView, judged: Iterable[Judged]) -> list[tuple[Any, ...]]:
    """Return a row for each consumer that has a place, in the order of the moves: all that it holds then."""
    return [
        (
            each.domain.name,
            move.consumer,
            move.host.name,
            {cloud.node(uuid).name: dict(amounts) for uuid, amounts in move.allocations.items()},
        )
        for each in judged
        for move in each.outcome.moves
    ]


def format_amounts(amounts: Mapping[str, int]) -> str:
    """Return amounts as ``DISK_GB=10,VCPU=2``."""
    return ",".join(f"{name}={amount}" for name, amount in sorted(amounts.items(), key=itemgetter(0)))


def describe_reason(unplaced: Unplaced) -> str:
    """Describe what a consumer without a place lacks."""
    shortage = unplaced.shortage
    if unplaced.is_cut and shortage.resource_class is None:
        text = "its groups have too many combinations to tell whether a host has room"
    elif unplaced.despite_traits is not None:
        text = f"no room but on hosts with other traits, as {unplaced.despite_traits.name}"
    elif not unplaced.hosts:
        text = "no other host meets the conditions"
    elif shortage.resource_class is None:
        text = "no host has all of it free"
    elif shortage.closest is None:
        text = f"{shortage.resource_class}: no host gives {shortage.amount} at once"
    else:
        text = f"{shortage.resource_class}: {shortage.amount} asked, {shortage.free} free"
    return text
