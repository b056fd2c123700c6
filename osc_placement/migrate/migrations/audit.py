# SPDX-License-Identifier: Apache-2.0
"""Find orphaned allocations, and other differences between placement and nova.

Finds allocations of consumers that nova does not have, of instances that use nothing (verdict.py), and parts
of an instance's allocations on hosts that it is not on, or was evacuated from and that are down: these are
the plan, which removes nothing else. Reports instances that are stuck, without allocations or with wrong
amounts or with bandwidth that no port of theirs asks for, providers without a compute node, compute nodes
without a provider, and those whose COMPUTE_STATUS_DISABLED contradicts their service. Never touches consumers
of other services, of migrations that are not over, of instances that are being built, moved or in a task.

Nova's to clean are the trees of its compute nodes and the providers that share with them. While anything of
nova cannot be read, or this is hardly the nova of this placement (plausibility.py), nothing is removed. A
cell whose hosts or instances are all missing, or that is mapped and not there, counts as one that cannot be
read; an instance that is mapped to a cell which never heard of it is left alone by itself. A plan that takes
from more than `Audit.max_removals` is not carried out, and without ``--delete`` it is shown.

Allocations are read first, then ports, then requested builds, then cells: what appears meanwhile is never
taken for an orphan, as an instance is in its cell before its build request goes. The generations of suspects
are read before nova is read again, so that what nova claims for one of its instances from then on is found to
be changed, up to the last reading before the write (`is_stale` of batch/writers/consumers.py). What no port
asks for may be that of a port which is being attached or detached, or whose policy is being changed, so it is
only reported.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from osc_placement import microversion
from osc_placement.api.consumer import Consumer
from osc_placement.batch import Change, Plan, Reading, Recorded, read_states
from osc_placement.migrate.migrations.base import Assessment, Context, limit_removals
from osc_placement.migrate.migrations.cloud import AllocationView, choose_providers, read_cloud
from osc_placement.migrate.migrations.healer import Healer
from osc_placement.migrate.migrations.plausibility import (
    NOTHING_REMOVED,
    add_replaced,
    check_cells,
    check_nova,
)
from osc_placement.migrate.migrations.port_claims import (
    Network,
    describe_skipped,
    describe_surplus,
    read_network,
)
from osc_placement.migrate.migrations.verdict import Halted, Unplaced, Verdict, is_arriving
from osc_placement.migrate.nova.facts import (
    CONFIRMING,
    RESIZED,
    STUCK_AFTER,
    Cell,
    ComputeNode,
    ComputeService,
    Instance,
)
from osc_placement.migrate.nova.hosts import (
    Hosts,
    Moves,
    Place,
    find_lost_cells,
    read_hosts,
    read_moves,
    read_services,
)
from osc_placement.migrate.nova.shard import WHOLE, Shard
from osc_placement.migrate.nova.source import Source, Unreadable
from osc_placement.migrate.problem import Problem, Reason
from osc_placement.model import NOVA_TYPES, UNKNOWN_TYPE

NAME: Final = "audit"
#: the trait that keeps the scheduler from a host whose service is disabled
_STATUS: Final = "COMPUTE_STATUS_DISABLED"


@dataclass(frozen=True, slots=True)
class Audit:
    """The audit; ``providers`` (names or UUIDs) narrows what is removed, empty means all.

    ``max_removals`` is the number of consumers from which each shard may remove; None stands for 5 or a tenth
    of all consumers, in all shards together. A shard is one of consumers, nodes and providers, and of what is
    reported. Every shard reads everything, as only all of nova tells which consumers it does not have. With
    ``skips_ports`` neutron is not read, and nothing is said of what ports ask for. ``retired`` has the root
    providers of a host that is removed, which count as nova's also if it has deleted the compute nodes.
    """

    providers: frozenset[str] = frozenset()
    shard: Shard = WHOLE
    max_removals: int | None = None
    skips_ports: bool = False
    stuck_after: float = STUCK_AFTER
    retired: frozenset[str] = frozenset()
    name: str = NAME

    def assess(self, context: Context) -> Assessment:
        """Read both sides and compare."""
        context.client.require(microversion.CONSUMER_TYPES, "an audit, which needs the types of consumers")
        return self.compare(context, read_cloud(context.client, context.concurrency))

    def compare(self, context: Context, cloud: AllocationView) -> Assessment:
        """Read nova, and compare it with a placement that was read before."""
        chosen = choose_providers(cloud, self.providers)
        network = None if self.skips_ports else read_network(context, cloud)
        skipped = describe_skipped(context, cloud) if self.skips_ports else ""
        nova = self._read_nova(context.source, cloud, network)
        if nova.doubt:
            return Assessment(
                plan_removals([]),
                [replace(each, text=f"{each.text}. {NOTHING_REMOVED}") for each in nova.doubt],
                skipped=skipped,
            )
        of_all = nova.find_suspects(chosen)
        consumers = [Consumer(uuid) for uuid in of_all if self.shard.has(uuid)] if nova.is_complete else []
        readings = read_states(context.client, consumers, ("allocations",), concurrency=context.concurrency)
        of_all, kept = self._confirm(context.source, nova, of_all, chosen)
        suspects = {uuid: providers for uuid, providers in of_all.items() if self.shard.has(uuid)}
        problems = [*nova.problems, *kept, *_compare_providers(nova)]
        # every shard reports what could not be read
        problems = [
            each for each in problems if each.reason is Reason.UNKNOWN or self.shard.has(each.subject)
        ]
        if not nova.is_complete:
            text = "nova may have it where it cannot be read, so nothing is removed"
            undecided = [Problem(Reason.UNKNOWN, f"consumer {uuid}", text) for uuid in suspects]
            return Assessment(plan_removals([]), (*problems, *undecided), skipped=skipped)
        readings = [reading for reading in readings if reading.subject.uuid in suspects]
        changes = list(_find_removals(readings, suspects, nova))
        most = limit_removals(self.max_removals, len(cloud.held))
        # many shards may not remove what one may not: of a shard all suspects count, as it does not read
        # those of others
        is_shared = self.max_removals is None and self.shard != WHOLE
        number = len(of_all) if is_shared else len(changes)
        if changes and number > most:
            text = (
                f"{number} of {len(cloud.held)} consumers would lose allocations, more than the {most} that "
                "are allowed without an option; run this without --delete to see which; if all of them are "
                f"orphans, add --max-removals {len(changes)} to this command, and if not, check "
                "[api_database]/connection, nova-manage cell_v2 list_cells and the endpoint of placement"
            )
            problems.append(Problem(Reason.TOO_MANY, NAME, text))
        failed = [
            Problem(Reason.UNKNOWN, f"consumer {reading.subject.uuid}", str(reading.error))
            for reading in readings
            if reading.state is None
        ]
        return Assessment(plan_removals(changes), (*problems, *failed), cloud.names, skipped=skipped)

    def _read_nova(self, source: Source, cloud: AllocationView, network: Network | None) -> Nova:
        """Read all that may hold something, after what is held and the ports were read."""
        builds = source.list_requested_builds()
        hosts = read_hosts(source)
        moves = read_moves(source, hosts)
        services, unserved = read_services(source, hosts)
        healer = Healer(hosts, cloud, moves, network)
        unplaced = Unplaced(cloud, builds, moves, self.stuck_after)
        nova = Nova(hosts, cloud, moves, services, unplaced, healer, self.retired)
        nova.unreadable += [*moves.problems, *unserved]
        # a host that is removed tells as well that this is the nova of this placement
        nodes = {**hosts.nodes, ("", ""): tuple(ComputeNode(uuid, "", "") for uuid in self.retired)}
        known, unreadable = add_replaced(source, cloud, replace(hosts, nodes=nodes))
        nova.doubt = check_nova(known, cloud)
        nova.unreadable += [*unreadable, *find_lost_cells(source, hosts), *check_cells(known, cloud)]
        nova.healer.judge_cells(source, nova.note, nova.unreadable)
        try:
            nova.stuck = [*unplaced.find_stuck(source)]
        except Unreadable as error:
            nova.unreadable.append(error.problem)
        return nova

    def _confirm(
        self, source: Source, nova: Nova, suspects: dict[str, frozenset[str]], chosen: Collection[str]
    ) -> tuple[dict[str, frozenset[str]], list[Problem]]:
        """Return what each suspect still holds without right, and a problem for each consumer in doubt.

        Nova is read again if it has a suspect, which it may have begun to move or unshelve, and if its lists
        may be incomplete. Then it is asked for each other suspect by itself, as the rows of a move between
        cells may have changed places while the cells were read one after the other.
        """
        is_doubtful = not source.is_exhaustive or not nova.known.isdisjoint(suspects)
        if suspects and nova.is_complete and is_doubtful:
            # what was left out once without a word was most likely there a moment later
            again = self._read_nova(source, nova.cloud, None)
            nova.unreadable += [*again.hosts.problems, *again.unreadable]
            both = again.find_suspects(chosen)
            suspects = {
                consumer: providers & both[consumer]
                for consumer, providers in suspects.items()
                if consumer in both and providers & both[consumer]
            }
        if not nova.is_complete:
            return suspects, []
        try:
            known, problems = nova.unplaced.find_lost(source, suspects.keys() - nova.known)
            for uuid in known:
                del suspects[uuid]
            return suspects, [*problems, *_spare_in_use(suspects, nova, source)]
        except Unreadable as error:
            nova.unreadable.append(error.problem)
            return suspects, []


@dataclass
class Nova:
    """The consumers that nova knows, and the providers on which each may hold allocations."""

    hosts: Hosts
    cloud: AllocationView
    moves: Moves
    services: Mapping[tuple[str, str], ComputeService]
    unplaced: Unplaced
    healer: Healer
    retired: frozenset[str]
    #: problems of the instances on no host that are stuck
    stuck: Sequence[Problem] = ()
    #: by instance that is on a host, the UUID of its compute node; None where that is not clear
    places: dict[str, str | None] = field(default_factory=dict)
    #: by instance that holds something and uses nothing, its state
    unused: dict[str, str] = field(default_factory=dict)
    #: instances on a host that wait for the confirmation of a resize
    resized: set[str] = field(default_factory=set)
    #: by instance, those on a host in a task that nova has not changed for long
    halted: dict[str, Halted] = field(default_factory=dict)
    #: instances that hold something for which their hosts have no use: in a migration that is over, or before
    #: they run there
    doubled: set[str] = field(default_factory=set)
    #: instances on no host for which nova may be claiming
    pending: set[str] = field(default_factory=set)
    unreadable: list[Problem] = field(default_factory=list)
    #: why this is hardly the nova of this placement
    doubt: Sequence[Problem] = ()

    @property
    def known(self) -> set[str]:
        """Return the consumers of nova: requested builds, migrations that are not over, and instances."""
        return self.unplaced.known

    @property
    def is_complete(self) -> bool:
        """Return whether all of nova could be read."""
        return not self.hosts.unknown and not self.unreadable

    @property
    def problems(self) -> list[Problem]:
        """Return the problems of instances, and of what could not be read."""
        missing = [
            Problem(
                Reason.MISSING,
                f"instance {change.uuid}",
                "it holds nothing; placement-migrate heal-allocations",
            )
            for change in self.healer.changes
        ]
        missing += [
            Problem(
                Reason.MISSING,
                f"instance {instance}",
                "it lacks what a port of it asks for; placement-migrate heal-allocations",
            )
            for instance in self.healer.incomplete
        ]
        missing += self.healer.describe_grants()
        missing += self.healer.doubt or [
            describe_surplus(instance, claims, self.cloud) for instance, claims in self.healer.surplus.items()
        ]
        left = {f"instance {uuid}" for uuid in self.healer.misplaced if not self._removable(uuid)}
        halted = list(self._describe_halted())
        told = {(Reason.BUSY, each.subject) for each in halted}
        kept = [
            each
            for each in self.healer.problems
            if each.reason not in (Reason.WRONG_HOST, Reason.DOUBLED) or each.subject in left
            if (each.reason, each.subject) not in told
        ]
        kept += [*self.stuck, *self._describe_left(), *halted]
        return [*self.hosts.problems, *self.unreadable, *missing, *kept]

    @cached_property
    def _roots(self) -> frozenset[str]:
        """Return the compute nodes that have a provider, those of a host that is removed included."""
        nodes = {*self.retired, *(node.uuid for node in self.hosts.all_nodes() if node.uuid)}
        return frozenset(nodes & {root.uuid for root in self.cloud.roots})

    @cached_property
    def of_nodes(self) -> frozenset[str]:
        """Return the providers in the trees of compute nodes."""
        return frozenset(uuid for root in self._roots for uuid in self.cloud.tree(root))

    @cached_property
    def own(self) -> frozenset[str]:
        """Return the providers that nova uses: of compute nodes, and those that share with them."""
        return frozenset(uuid for root in self._roots for uuid in self.cloud.reach(root))

    @cached_property
    def of_strangers(self) -> frozenset[str]:
        """Return the providers in trees that look like those of compute nodes, and are not."""
        strangers = self.cloud.hosts - self._roots
        return frozenset(uuid for root in strangers for uuid in self.cloud.tree(root))

    def _removable(self, instance: str) -> frozenset[str]:
        """Return the providers of other hosts among those that an instance is not on.

        Any other may be shared storage that is in no common aggregate at the moment.
        """
        return self.of_nodes.intersection(self.healer.misplaced[instance])

    def note(self, cell: Cell, instances: Iterable[Instance]) -> Iterator[Instance]:
        """Note who is there, and yield those whose host tells what they use."""
        for instance in instances:
            uuid = instance.uuid
            verdict = self.unplaced.judge(instance)
            if verdict is Verdict.PLACED:
                node = self.healer.find_node(cell, instance)
                self.places[uuid] = node.uuid if node else None
                if instance.vm_state == RESIZED:
                    self.resized.add(uuid)
                elif self.unplaced.is_late(instance.changed_at):
                    self.halted[uuid] = Halted.in_task(instance)
                    if is_arriving(instance) and uuid in self.cloud.held:
                        self.doubled.add(uuid)
                yield instance
            elif uuid in self.cloud.held:
                if verdict is Verdict.UNUSED:
                    state = instance.vm_state or "in no state"
                    self.unused[uuid] = state if instance.host else f"{state}, on no host"
                    continue
                self.pending.add(uuid)

    def find_suspects(self, chosen: Collection[str]) -> dict[str, frozenset[str]]:
        """Return by consumer the providers on which it holds allocations without right."""
        suspects = {
            consumer: self.own.intersection(claims).intersection(chosen)
            for consumer, claims in self.cloud.held.items()
            if consumer not in self.known and self._is_of_nova(claims)
        }
        for instance in self.healer.misplaced:
            suspects[instance] = self._removable(instance).intersection(chosen)
        # another cell may have a row of it in another state
        for instance in sorted(self.unused.keys() - self.places.keys() - self.pending):
            suspects[instance] = self.own.intersection(self.cloud.held[instance]).intersection(chosen)
        for instance, place, providers in self._iterate_left():
            if not self._find_objection(instance, place):
                suspects[instance] = suspects.get(instance, frozenset()) | providers.intersection(chosen)
        return {consumer: providers for consumer, providers in suspects.items() if providers}

    def _iterate_left(self) -> Iterator[tuple[str, Place, frozenset[str]]]:
        """Yield instances with a node that each was evacuated from, and the providers that it holds there."""
        for instance in sorted(self.moves.left.keys() & self.places.keys() - self.moves.moving):
            node = self.places[instance]
            if node is None or node not in self.cloud.records:
                continue
            held = self.cloud.held.get(instance, {}).keys() - self.cloud.reach(node)
            for place, providers in self.healer.find_left_behind(instance).items():
                if left := providers & held:
                    yield instance, place, left

    def _find_objection(self, instance: str, place: Place) -> str:
        """Return why an instance keeps what it holds where it was evacuated from; empty if it is a leak.

        A nova-compute that is up and was not restarted since may have the guest still.
        """
        if task := self.healer.busy.get(instance):
            return f"it is {task} at the moment"
        service = self.services.get(place[:2])
        if service is None or not service.is_up:
            return ""
        return "nova-compute is up there, and removes this when it is restarted"

    def explain(self, instance: str) -> str:
        """Return why an instance uses nothing of what it would lose; empty if that is its host alone."""
        if instance in self.unused:
            return f": its instance uses nothing ({self.unused[instance]})"
        return ": its instance was evacuated" if instance in self.moves.left else ""

    def _describe_left(self) -> Iterator[Problem]:
        """Yield a problem for each evacuated instance that keeps what it holds of the host that it left."""
        for instance, place, providers in self._iterate_left():
            if objection := self._find_objection(instance, place):
                names = ", ".join(sorted(map(self.cloud.name, providers)))
                text = f"it was evacuated from {place[1]}, and holds resources of {names} still; {objection}"
                yield Problem(Reason.IN_USE, f"instance {instance}", text)

    def _describe_halted(self) -> Iterator[Problem]:
        """Yield a problem for each move or task that nova has not gone on with for long.

        Not for a task of an instance that holds what it uses, which only nova has to be told of, nor for the
        move of an idle one for which nothing is held: its record may be left over.
        """
        halted = {
            uuid: each
            for uuid, each in self.halted.items()
            if uuid in self.doubled or uuid not in self.cloud.held or self._holds_elsewhere(uuid)
        }
        for move in self.moves.find_late(self.unplaced.now, self.unplaced.patience):
            uuid = move.instance_uuid
            waits = (
                uuid in self.resized and move.status != CONFIRMING
            ) or move.uuid in self.moves.unconfirmed
            is_idle = uuid in self.places and uuid not in self.healer.busy and not waits
            is_held = move.uuid in self.cloud.held or self._holds_elsewhere(uuid)
            if uuid in self.halted or (is_idle and is_held):
                halted[uuid] = Halted.in_move(move)
        for uuid, each in sorted(halted.items()):
            yield Problem(Reason.STUCK, f"instance {uuid}", each.describe())

    def _holds_elsewhere(self, instance: str) -> bool:
        """Return whether an instance on a host holds something that this host cannot give it."""
        node = self.places.get(instance) or ""
        held = self.cloud.held.get(instance, {})
        return node in self.cloud.records and not held.keys() <= set(self.cloud.reach(node))

    def find_use(self, consumer: str, instance: str) -> frozenset[str]:
        """Return the providers where a consumer holds what an instance uses and does not hold itself.

        The instance holds it itself if it holds of its node's tree every class that the consumer does.
        """
        if instance not in self.places:
            return frozenset()
        node, held = self.places[instance], self.cloud.held[consumer]
        if node is None or node not in self.cloud.records:
            return frozenset(held)
        own = self.cloud.held.get(instance, {})
        tree = self.cloud.tree(node)
        used, replaced = (
            {resource for provider in tree for resource in claims.get(provider, ())} for claims in (held, own)
        )
        if used <= replaced:
            return frozenset()
        return frozenset(self.cloud.reach(node)).intersection(held)

    def _is_of_nova(self, providers: Collection[str]) -> bool:
        """Return whether nova would know the consumer that holds something of these providers.

        Not of one that is on a host which is none of nova's. What is of shared providers alone may be, as
        long as there are hosts that are none of nova's.
        """
        if not self.of_strangers.isdisjoint(providers):
            return False
        return not (self.of_strangers and self.of_nodes.isdisjoint(providers))

    def is_certain(self, providers: Collection[str], consumer_type: str | None) -> bool:
        """Return whether a consumer of this type that holds something of these providers is nova's.

        Other services have consumers without a type, too: an instance holds something of its compute node,
        and nothing of providers that nova has nothing to do with.
        """
        if consumer_type != UNKNOWN_TYPE:
            return consumer_type in NOVA_TYPES
        return not self.of_nodes.isdisjoint(providers) and self.own.issuperset(providers)


def _spare_in_use(suspects: dict[str, frozenset[str]], nova: Nova, source: Source) -> list[Problem]:
    """Drop what a migration that is over holds for its instance; return a problem for each.

    After a move that failed the instance is on the source, which the migration holds, and itself it holds the
    destination. Then the destination is removed, with what both hold of shared providers, and what the
    migration holds stays.
    """
    orphans = suspects.keys() - nova.known
    moves = [move for cell in nova.hosts.cells for move in source.find_migrations(cell, orphans)]
    named = {move.instance_uuid for move in moves} - nova.known
    unsettled = {*source.find_instances(named), *source.find_lost(named)}
    # in the tree of its node the instance may hold a part itself, such as the bandwidth of a port
    shared = nova.own - nova.of_nodes
    problems = []
    for move in moves:
        consumer, instance = move.uuid or "", move.instance_uuid
        used = (
            suspects[consumer]
            if instance in unsettled | nova.healer.busy.keys()
            else nova.find_use(consumer, instance)
        )
        kept = used & suspects[consumer]
        if not kept:
            continue
        suspects[consumer] -= kept
        nova.doubled.add(instance)
        if instance in suspects:
            suspects[instance] |= shared.intersection(nova.cloud.held[instance]) & kept
        names = ", ".join(sorted(map(nova.cloud.name, kept)))
        text = f"it is a migration that is over ({move.status}) and holds what instance {instance} "
        text += f"uses of {names}"
        if task := nova.healer.busy.get(instance):
            text += f", which is {task} at the moment"
        elif nova.cloud.held.get(instance, {}).keys() - suspects.get(instance, frozenset()):
            text += f"; placement-migrate heal-allocations --force --instance {instance} gives it its own, "
            text += "and the next audit removes this"
        else:
            text += f"; openstack resource provider allocation move {consumer} {instance}"
        problems.append(Problem(Reason.IN_USE, f"consumer {consumer}", text))
    return problems


def plan_removals(changes: Sequence[Change]) -> Plan:
    """Return the plan that removes orphaned allocations."""
    edit = Recorded("orphaned allocations", ("allocations",))
    return Plan(edit, tuple(changes))


def _find_removals(
    readings: Iterable[Reading], suspects: Mapping[str, frozenset[str]], nova: Nova
) -> Iterator[Change]:
    for reading in readings:
        consumer, state = reading.subject, reading.state
        if state is None or not isinstance(consumer, Consumer):
            continue
        held = state.allocations or {}
        is_known = consumer.uuid in nova.known
        if not (is_known or nova.is_certain(held, consumer.consumer_type)):
            continue
        kept = {
            provider: amounts for provider, amounts in held.items() if provider not in suspects[consumer.uuid]
        }
        if kept != held:
            names = ", ".join(nova.cloud.name(provider) for provider in held if provider not in kept)
            reason = f"orphaned on {names}{nova.explain(consumer.uuid)}"
            yield Change(consumer, state, replace(state, allocations=kept), reason)


def _compare_providers(nova: Nova) -> Iterator[Problem]:
    """Yield a problem for each compute node without provider, and the reverse."""
    cloud = nova.cloud
    uuids = {node.uuid for node in nova.hosts.all_nodes()}
    by_name = {record.provider.name: uuid for uuid, record in cloud.records.items()}
    for node in nova.hosts.all_nodes():
        if node.uuid not in cloud.records:
            other = by_name.get(node.name)
            reason = f"placement has no resource provider {node.uuid}"
            if other and other not in uuids:
                yield Problem(
                    Reason.DUPLICATE,
                    f"node {node.name}",
                    f"{reason}; {other} has its name, as after a re-install; placement-migrate providers",
                )
            else:
                yield Problem(Reason.NO_PROVIDER, f"node {node.name}", reason)
        else:
            yield from _compare_status(nova, node)
    strangers = cloud.hosts - uuids if nova.is_complete else ()
    consumers = Counter(
        cloud.root(provider)
        for claims in cloud.held.values()
        for provider in claims
        if provider in nova.of_strangers
    )
    for uuid in (uuid for uuid in cloud.records if uuid in strangers):
        text = f"nova has no compute node {uuid}"
        if number := consumers[uuid]:
            text += f"; what {number} consumer{'s' if number > 1 else ''} hold of it is left alone, and "
            text += f"placement-migrate decommission {shlex.quote(cloud.name(uuid))} judges it"
        yield Problem(Reason.NO_COMPUTE_NODE, f"provider {cloud.name(uuid)}", text)


def _compare_status(nova: Nova, node: ComputeNode) -> Iterator[Problem]:
    """Yield a problem if the provider of a node contradicts the service of its host."""
    service = nova.services.get((node.cell, node.host))
    has_trait = _STATUS in (nova.cloud.records[node.uuid or ""].traits or ())
    if service is None or has_trait is service.is_disabled or not (has_trait or service.reports_status):
        return
    state, verb = ("disabled", "lacks") if service.is_disabled else ("enabled", "has")
    text = f"nova-compute of host {node.host} is {state}, and the provider {verb} {_STATUS}"
    text += ", so no instance is scheduled to it" if has_trait else ""
    advice = (
        "restart nova-compute if it stays so" if service.is_up else "nova-compute corrects it when started"
    )
    yield Problem(Reason.STATUS, f"node {node.name}", f"{text}; {advice}")
