# SPDX-License-Identifier: Apache-2.0
"""Allocations that belong to nobody, and whatever else in placement and nova does not fit together.

Finds allocations of consumers that nova does not have, and parts of an instance's allocations on hosts that
it is not on: these are the plan, which removes nothing else. Reports instances without allocations or with
wrong amounts, providers without a compute node and compute nodes without a provider. Never touches consumers
of other services, of migrations that are not over, of instances that are being built, moved or in a task; and
while anything of nova cannot be read, or it has no compute node at all, nothing at all.

Allocations are read first, then requested builds, then cells: what appears meanwhile is never taken for an
orphan, as an instance is in its cell before its build request goes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from osc_placement import microversion
from osc_placement.batch.plan import Change, Consumer, Plan, Reading
from osc_placement.batch.record import Recorded, edits_of
from osc_placement.batch.select import read_states
from osc_placement.errors import UsageError
from osc_placement.migrate.base import Assessment, Context, Finding, Trouble
from osc_placement.migrate.facts import Instance
from osc_placement.migrate.heal_allocations import Healer
from osc_placement.migrate.hosts import Hosts, doubt_emptiness, read_hosts
from osc_placement.migrate.landscape import SHARING, Landscape, read_landscape
from osc_placement.migrate.shard import WHOLE, Shard
from osc_placement.migrate.sources.base import Source, Unreadable
from osc_placement.model import UNKNOWN_TYPE

NAME: Final = "audit"
#: the types of nova's consumers; none is that of those made before there were types
_TYPES: Final = frozenset(("INSTANCE", "MIGRATION", UNKNOWN_TYPE))
#: what a provider of nova has, and one of another service need not
_COMPUTE_CLASSES: Final = frozenset(("VCPU", "PCPU", "MEMORY_MB"))


@dataclass(frozen=True, slots=True)
class Audit:
    """The migration; ``providers`` (names or UUIDs) narrows what is removed, empty means all.

    A shard is one of consumers, nodes and providers, and of what is told: everything is read all the same,
    for only who knows all of nova knows whom it does not have.
    """

    providers: frozenset[str] = frozenset()
    shard: Shard = WHOLE
    name: str = NAME

    def assess(self, context: Context) -> Assessment:
        """Read both sides and compare."""
        context.client.require(microversion.CONSUMER_TYPES, "an audit, which must know whose consumers are")
        landscape = read_landscape(context.client, context.concurrency)
        chosen = self._choose(landscape)
        nova = read_nova(context.source, landscape)
        if doubt := doubt_emptiness(nova.hosts, landscape):
            return Assessment(_plan([]), doubt)
        suspects = self._find_suspects(context.source, nova, chosen)
        findings = [*nova.findings, *_compare_providers(nova.hosts, landscape, complete=nova.is_complete)]
        findings = [finding for finding in findings if self._tells(finding)]
        if not nova.is_complete:
            return Assessment(_plan([]), (*findings, *_undecided(suspects)))
        consumers = [Consumer(uuid) for uuid in suspects]
        readings = read_states(context.client, consumers, ("allocations",), concurrency=context.concurrency)
        changes = list(_plan_removals(readings, suspects, landscape))
        failed = [
            Finding(Trouble.UNKNOWN, f"consumer {reading.subject.uuid}", str(reading.error))
            for reading in readings
            if reading.state is None
        ]
        return Assessment(_plan(changes), (*findings, *failed), landscape.names)

    def _find_suspects(
        self, source: Source, nova: Nova, chosen: Collection[str]
    ) -> dict[str, frozenset[str]]:
        """Who holds what he should not; where nova's lists prove nothing, after a second look."""
        found = nova.find_suspects(chosen).items()
        suspects = {uuid: providers for uuid, providers in found if self.shard.has(uuid)}
        if suspects and nova.is_complete and not source.is_exhaustive:
            # what was left out once without a word was most likely there a moment later
            again = read_nova(source, nova.landscape)
            nova.unreadable += [*again.hosts.findings, *again.unreadable]
            suspects = _in_both(suspects, again.find_suspects(chosen))
            nova.unreadable += _clear(suspects, nova.known, source)
        return suspects

    def _tells(self, finding: Finding) -> bool:
        """Whether a finding is of this part; what could not be read is everybody's."""
        return finding.trouble is Trouble.UNKNOWN or self.shard.has(finding.subject)

    def _choose(self, landscape: Landscape) -> frozenset[str]:
        """The providers whose allocations may be removed."""
        if not self.providers:
            return frozenset(landscape.records)
        names = {uuid: {uuid, landscape.name(uuid)} for uuid in landscape.records}
        missing = self.providers.difference(*names.values())
        if missing:
            raise UsageError(f"Placement has no resource provider {', '.join(sorted(missing))}")
        return frozenset(uuid for uuid, own in names.items() if own & self.providers)


@dataclass
class Nova:
    """What nova says about who may hold what."""

    hosts: Hosts
    landscape: Landscape
    known: set[str]
    healer: Healer
    unreadable: list[Finding] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether all of nova could be read."""
        return not self.hosts.unknown and not self.unreadable

    @property
    def findings(self) -> list[Finding]:
        """What is wrong with instances, and what could not be read."""
        missing = [
            Finding(
                Trouble.MISSING, f"instance {change.uuid}", "it holds nothing; placement-migrate allocations"
            )
            for change in self.healer.changes
        ]
        left = {f"instance {uuid}" for uuid in self.healer.misplaced if not self._removable(uuid)}
        kept = [
            each
            for each in self.healer.findings
            if each.trouble not in (Trouble.WRONG_HOST, Trouble.DOUBLED) or each.subject in left
        ]
        return [*self.hosts.findings, *self.unreadable, *missing, *kept]

    @cached_property
    def _of_nodes(self) -> frozenset[str]:
        """The providers in the trees of compute nodes."""
        nodes = {node.uuid for node in self.hosts.all_nodes()}
        records = self.landscape.records.items()
        return frozenset(
            uuid for uuid, record in records if (record.provider.root_provider_uuid or uuid) in nodes
        )

    def _removable(self, instance: str) -> frozenset[str]:
        """Of the providers that an instance is not on, those of other hosts.

        Others may be shared storage, to which the way by an aggregate is missing now and not for ever.
        """
        return self._of_nodes.intersection(self.healer.misplaced[instance])

    def find_suspects(self, chosen: Collection[str]) -> dict[str, frozenset[str]]:
        """By consumer, the providers of which it holds what it should not."""
        suspects = {
            consumer: frozenset(claims).intersection(chosen)
            for consumer, claims in self.landscape.held.items()
            if consumer not in self.known
        }
        for instance in self.healer.misplaced:
            suspects[instance] = self._removable(instance).intersection(chosen)
        return {consumer: providers for consumer, providers in suspects.items() if providers}


def read_nova(source: Source, landscape: Landscape) -> Nova:
    """Read all that may hold something, after what is held was read."""
    builds = source.list_requested_builds()
    hosts = read_hosts(source)
    nova = Nova(hosts, landscape, set(builds), Healer(hosts, landscape))
    for cell in hosts.cells:
        if cell.uuid in hosts.unknown:
            continue
        try:
            moves = source.list_migrations(cell)
            nova.known.update(move.uuid for move in moves if move.uuid)
            moving = frozenset(move.instance_uuid for move in moves)
            nova.healer.judge_all(_note(source.iterate_instances(cell), nova.known), moving)
        except Unreadable as error:
            nova.unreadable.append(Finding(Trouble.UNKNOWN, error.subject, error.reason))
    return nova


def _note(instances: Iterable[Instance], known: set[str]) -> Iterator[Instance]:
    """Note who is there; an instance without a host is known, and not judged."""
    for instance in instances:
        known.add(instance.uuid)
        if instance.host:
            yield instance


def _in_both(
    first: Mapping[str, frozenset[str]], second: Mapping[str, frozenset[str]]
) -> dict[str, frozenset[str]]:
    both = {consumer: first[consumer] & second[consumer] for consumer in first.keys() & second.keys()}
    return {consumer: providers for consumer, providers in both.items() if providers}


def _clear(suspects: dict[str, frozenset[str]], known: Collection[str], source: Source) -> list[Finding]:
    """Take out of the suspects whom nova shows if asked for him alone; what could not be asked."""
    try:
        for uuid in source.find_instances(suspects.keys() - known):
            del suspects[uuid]
    except Unreadable as error:
        return [Finding(Trouble.UNKNOWN, error.subject, error.reason)]
    return []


def _undecided(suspects: Mapping[str, Collection[str]]) -> list[Finding]:
    text = "nova may have it where it cannot be read, so nothing is removed"
    return [Finding(Trouble.UNKNOWN, f"consumer {uuid}", text) for uuid in suspects]


def _plan(changes: Sequence[Change]) -> Plan:
    edit = Recorded("orphaned allocations", ("allocations",))
    return Plan(edit, tuple(changes), edits=edits_of(edit, tuple(changes)))


def _plan_removals(
    readings: Iterable[Reading], suspects: Mapping[str, frozenset[str]], landscape: Landscape
) -> Iterator[Change]:
    for reading in readings:
        consumer, state = reading.subject, reading.state
        if state is None or not isinstance(consumer, Consumer) or consumer.consumer_type not in _TYPES:
            continue
        held = state.allocations or {}
        kept = {
            provider: amounts for provider, amounts in held.items() if provider not in suspects[consumer.uuid]
        }
        if kept != held:
            names = ", ".join(landscape.name(provider) for provider in held if provider not in kept)
            yield Change(consumer, state, replace(state, allocations=kept), f"orphaned on {names}")


def _compare_providers(hosts: Hosts, landscape: Landscape, *, complete: bool) -> Iterator[Finding]:
    """Compute nodes without provider, and the other way round."""
    uuids = {node.uuid for node in hosts.all_nodes()}
    by_name = {record.provider.name: uuid for uuid, record in landscape.records.items()}
    for node in hosts.all_nodes():
        if node.uuid not in landscape.records:
            other = by_name.get(node.name)
            reason = f"placement has no resource provider {node.uuid}"
            if other and other not in uuids:
                yield Finding(
                    Trouble.DUPLICATE,
                    f"node {node.name}",
                    f"{reason}; {other} has its name, as after a re-install",
                )
            else:
                yield Finding(Trouble.NO_PROVIDER, f"node {node.name}", reason)
    for uuid, record in landscape.records.items():
        is_root = record.provider.root_provider_uuid in (None, uuid)
        if complete and is_root and uuid not in uuids and _is_of_nova(record.traits, record.inventories):
            yield Finding(
                Trouble.NO_COMPUTE_NODE,
                f"provider {record.provider.name}",
                f"nova has no compute node {uuid}",
            )


def _is_of_nova(traits: Collection[str] | None, inventories: Mapping[str, object] | None) -> bool:
    return SHARING not in (traits or ()) and bool(_COMPUTE_CLASSES.intersection(inventories or ()))
