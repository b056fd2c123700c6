# SPDX-License-Identifier: Apache-2.0
"""Host aggregates of nova as aggregates of resource providers.

Finds compute nodes whose provider is not in the aggregates of its host. Adds what is missing; with ``prune``
removes memberships in nova's aggregates that nova does not have, with ``prune_foreign`` in any others too.
Never touches a provider that is no compute node, nor a host whose cell cannot be read; and takes nobody out
while nova has no host in any aggregate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from osc_placement import microversion
from osc_placement.batch import Change, Plan, ProviderState, Recorded
from osc_placement.errors import UsageError
from osc_placement.migrate.migrations.base import Assessment, Context
from osc_placement.migrate.migrations.cloud import find_providers
from osc_placement.migrate.nova.facts import HostAggregate
from osc_placement.migrate.nova.hosts import Hosts, find_strangers, read_hosts
from osc_placement.migrate.nova.shard import WHOLE, Shard
from osc_placement.migrate.problem import Problem, Reason
from osc_placement.model import ProviderRecord

NAME = "mirror-aggregates"
_NO_MEMBERS = (
    "it has no host in any host aggregate, and placement has providers in aggregates, so none is taken out; "
    "check where [api_database]/connection, --nova-api-db or --nova-endpoint leads"
)


@dataclass(frozen=True, slots=True)
class MirrorAggregates:
    """The migration; ``hosts`` and ``aggregates`` (names or UUIDs) narrow it, empty means all."""

    hosts: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()
    prune: bool = False
    prune_foreign: bool = False
    shard: Shard = WHOLE
    name: str = NAME

    def assess(self, context: Context) -> Assessment:
        """Read both sides and compare."""
        context.client.require(microversion.PROVIDER_AGGREGATES, "a mirror of aggregates")
        records = context.client.read_providers(want=("aggregates",), concurrency=context.concurrency)
        known = context.source.list_aggregates()
        hosts = read_hosts(context.source)
        return self.compare(known, hosts, {record.provider.uuid: record for record in records})

    def compare(
        self, known: Iterable[HostAggregate], hosts: Hosts, records: Mapping[str, ProviderRecord]
    ) -> Assessment:
        """Compare nova's aggregates with those of the providers, by UUID. Pure."""
        known = list(known)
        missing = sorted(self.aggregates - {name for each in known for name in (each.name, each.uuid)})
        if missing:
            raise UsageError(f"Nova has no host aggregate {', '.join(missing)}")
        chosen = [each for each in known if not self.aggregates or {each.name, each.uuid} & self.aggregates]
        wanted: dict[str, set[str]] = defaultdict(set)
        for aggregate in chosen:
            for host in aggregate.hosts:
                wanted[host].add(aggregate.uuid)
        names = {each.uuid: each.name for each in known}
        own = frozenset(aggregate.uuid for aggregate in chosen)
        members = {host for aggregate in known for host in aggregate.hosts}
        strangers = find_strangers(hosts, self.hosts, members)
        problems = strangers if self.hosts else list(hosts.problems)
        prunes = self.prune or self.prune_foreign
        # to prune, hosts that are in no aggregate matter as well
        candidates = {*wanted, *(hosts.with_nodes if prunes else ())}
        if prunes and not members and any(record.aggregates for record in records.values()):
            prunes = False
            problems.append(Problem(Reason.UNKNOWN, "nova", _NO_MEMBERS))
        candidates = candidates & self.hosts if self.hosts else candidates
        steps = []
        for host in sorted(filter(self.shard.has, candidates)):
            for _, record in find_providers(host, hosts, records, problems):
                current, after = record.aggregates or frozenset(), frozenset(wanted.get(host, ()))
                for uuid in current - after:
                    may_go = uuid in own or (self.prune_foreign and uuid not in names)
                    after |= frozenset() if prunes and may_go else {uuid}
                before, state = ProviderState(aggregates=current), ProviderState(aggregates=after)
                reason = "is mirrored already" if after == current else ""
                steps.append(Change(record.provider, before, state, reason))
        title = f"mirror of {len(chosen)} host aggregates"
        plan = Plan(Recorded(title, ("aggregates",)), tuple(steps))
        return Assessment(plan, tuple(problems), names)
