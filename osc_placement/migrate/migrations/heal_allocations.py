# SPDX-License-Identifier: Apache-2.0
"""Give every instance the allocations that nova's scheduler would have made: the way out of CachingScheduler.

Finds instances on a host that hold nothing, and makes their allocations from the embedded flavor and from the
requests of its ports, for its project and user; adds what a port asks for to what an instance holds; where
others own what an instance holds, it gets its project and user. A wrong amount or host is reported. Never
touches an instance in a task, of a cell that cannot be read, or whose claim could lie in several places; nor
one with an accelerator of Cyborg, whose resources only Cyborg knows, or with a port that cannot be read.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from osc_placement import microversion
from osc_placement.api.concurrency import map_in_order
from osc_placement.api.consumer import Consumer
from osc_placement.batch.plan import Change, Plan, ProviderState, describe_owner
from osc_placement.batch.repeat import Recorded, edits_of
from osc_placement.batch.select import read_states
from osc_placement.flavor import NoClaim
from osc_placement.migrate.migrations.base import Assessment, Context, Grant
from osc_placement.migrate.migrations.cloud import (
    AllocationView,
    Claims,
    Holdings,
    Owner,
    read_cloud,
    sum_claims,
)
from osc_placement.migrate.migrations.move_baremetal import claim_of_node
from osc_placement.migrate.migrations.placing import Ambiguous, Ledger, OverCapacity, Unplaceable
from osc_placement.migrate.migrations.plausibility import add_replaced, check_nova, check_ports
from osc_placement.migrate.migrations.port_claims import (
    Network,
    PortClaims,
    PortJudge,
    Unclear,
    add_claims,
    describe_grant,
    describe_skipped,
    read_network,
)
from osc_placement.migrate.nova.facts import UNREADABLE_PORT, Cell, ComputeNode, Instance, MigrationRecord
from osc_placement.migrate.nova.flavors import claim_of
from osc_placement.migrate.nova.hosts import (
    Hosts,
    Moves,
    find_lost_cells,
    find_strangers,
    judge_strangers,
    read_hosts,
    read_moves,
)
from osc_placement.migrate.nova.ports import PORT_CLASSES
from osc_placement.migrate.nova.shard import WHOLE, Shard
from osc_placement.migrate.nova.source import Source, Unreadable
from osc_placement.migrate.problem import Problem, Reason

NAME = "heal-allocations"
#: classes that come from the flavor alone; others may come from ports and devices besides
_SIZES = frozenset(("VCPU", "PCPU", "MEMORY_MB", "DISK_GB"))
#: what a flavor asks Cyborg for
_DEVICE_PROFILE = "accel:device_profile"
_SET_BY_HAND = "openstack resource provider allocation set {} gives it all that it has"
#: what an image may ask for, where its properties are not told
_OF_IMAGES = ("PCPU", "MEM_ENCRYPTION_CONTEXT")


@dataclass(frozen=True, slots=True)
class HealAllocations:
    """The migration; ``instances`` and ``hosts`` narrow it, empty means all.

    With ``skips_ports`` neutron is not read, and ports to which something was granted are reported only.
    """

    instances: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    shard: Shard = WHOLE
    name: str = NAME
    skips_ports: bool = False

    def assess(self, context: Context) -> Assessment:
        """Read both sides and compare."""
        cloud = read_cloud(context.client, context.concurrency)
        hosts = read_hosts(context.source)
        moves = read_moves(context.source, hosts)
        network = None if self.skips_ports else read_network(context, cloud)
        healer = Healer(hosts, cloud, moves, network)
        known, unreadable = add_replaced(context.source, cloud, hosts)
        problems = [*hosts.problems, *unreadable, *check_nova(known, cloud)]
        problems += [*find_lost_cells(context.source, hosts), *moves.problems]
        problems += find_strangers(hosts, self.hosts)
        seen: set[str] = set()
        healer.judge_cells(context.source, lambda _, instances: self._choose(instances, seen), problems)
        is_complete = not any(problem.reason is Reason.UNKNOWN for problem in problems)
        missing = sorted(self.instances - seen)
        problems += judge_strangers("instance", missing, is_complete=is_complete)
        edit = Recorded("allocations of instances", ("allocations", "owner"))
        skipped = describe_skipped(context, cloud) if self.skips_ports else ""
        if doubt := healer.doubt:
            return Assessment(Plan(edit, ()), (*problems, *doubt), cloud.names)
        wrong, unread = _correct_holdings(context, healer, cloud)
        changes = (*healer.changes, *wrong)
        grants = healer.choose_grants({change.uuid for change in changes})
        problems += healer.describe_grants()
        notes = [note for move in moves.records if (note := healer.describe_move(move))]
        plan = Plan(edit, changes, edits=edits_of(edit, changes))
        found = (*problems, *healer.problems, *unread)
        return Assessment(plan, found, cloud.names, notes=notes, grants=grants, skipped=skipped)

    def _choose(self, instances: Iterable[Instance], seen: set[str]) -> Iterator[Instance]:
        """Yield the instances to judge; add to ``seen`` those asked for by UUID that nova has."""
        for instance in instances:
            if instance.uuid in self.instances:
                seen.add(instance.uuid)
            elif self.instances:
                continue
            host = instance.host or ""
            is_chosen = not self.hosts or host in self.hosts if host else instance.uuid in self.instances
            if is_chosen and self.shard.has(host):
                yield instance


def _correct_holdings(
    context: Context, healer: Healer, cloud: AllocationView
) -> tuple[list[Change], list[Problem]]:
    """Return changes that correct what consumers hold, and a problem for each left unchanged.

    A consumer gets its owner, and what its ports ask for and it does not hold.

    A server with the bulk read returns all owners at once. Other servers return an owner with each consumer,
    which takes a request for each, and the total usage of an owner. If that is the sum of what its instances
    hold, all of them have the right owner, and none of them is read.

    Left unchanged are consumers that cannot be read, and the ``busy``, by task: a move or rebuild of an
    instance writes its allocations, and the owner with them.
    """
    owners, busy = healer.owners, healer.busy
    if cloud.owners:
        suspects = [uuid for uuid, owner in owners.items() if cloud.owners.get(uuid) != owner]
    else:
        suspects = [uuid for uuids in _find_miscounted(context, owners, cloud.held) for uuid in uuids]
    consumers = [Consumer(uuid) for uuid in dict.fromkeys((*suspects, *healer.incomplete))]
    readings = read_states(
        context.client, consumers, ("allocations", "owner"), concurrency=context.concurrency
    )
    changes, problems = [], []
    for reading in readings:
        uuid = reading.subject.uuid
        if reading.state is None:
            problems.append(Problem(Reason.UNKNOWN, f"instance {uuid}", str(reading.error)))
            continue
        after = reading.state
        if missing := healer.incomplete.get(uuid):
            if after.allocations != cloud.held[uuid]:
                text = "what it holds changed while it was compared; repeat the command"
                problems.append(Problem(Reason.CONFLICT, f"instance {uuid}", text))
                continue
            after = replace(after, allocations=add_claims(cloud.held[uuid], missing))
        owner = describe_owner(*owners[uuid]) if uuid in owners else None
        if None not in (after.owner, owner):
            after = replace(after, owner=owner)
        if after == reading.state:
            continue
        if uuid in busy:
            text = f"it is {busy[uuid]}, and what it holds is of another project or user"
            problems.append(Problem(Reason.BUSY, f"instance {uuid}", text))
        else:
            changes.append(Change(reading.subject, reading.state, after))
    return changes, problems


def _find_miscounted(
    context: Context, owners: Mapping[str, Owner], held: Holdings
) -> Iterator[Sequence[str]]:
    """Yield the instances of each owner whose usage is not the sum of their allocations."""
    of_owner: dict[Owner, list[str]] = defaultdict(list)
    for uuid, owner in owners.items():
        of_owner[owner].append(uuid)

    def check(item: tuple[Owner, list[str]]) -> Sequence[str]:
        (project, user), uuids = item
        usages = context.client.total_usages(project, user_id=user, version=microversion.TOTAL_USAGES)
        held_by_all: Counter[str] = Counter()
        for uuid in uuids:
            held_by_all.update(sum_claims(held[uuid]))
        return () if held_by_all == {name: amount for name, amount in usages.items() if amount} else uuids

    return iter(map_in_order(check, list(of_owner.items()), threads=context.concurrency))


class Healer:
    """The plan of the instances judged so far; what is planned for one counts as used for the next."""

    def __init__(
        self, hosts: Hosts, cloud: AllocationView, moves: Moves, network: Network | None = None
    ) -> None:
        self._cloud = cloud
        self._ledger = Ledger(cloud)
        self._hosts, self._nodes = hosts, hosts.by_place
        self._moves = moves
        self._reach: dict[str, frozenset[str]] = {}
        self._claims: dict[Hashable, dict[str, int] | NoClaim] = {}
        self._network = network
        self._ports = PortJudge(network, cloud, self._ledger) if network else None
        #: instances on hosts, and those of them that have a port
        self._placed = self._with_port = 0
        self.changes: list[Change] = []
        self.problems: list[Problem] = []
        #: by instance that holds something and is in a task, the task
        self.busy: dict[str, str] = {}
        #: by instance that holds something, its project and user
        self.owners: dict[str, Owner] = {}
        #: by instance, the providers of hosts that it is not on
        self.misplaced: dict[str, list[str]] = {}
        #: by instance that holds something, what it lacks of what its ports ask for
        self.incomplete: dict[str, Claims] = {}
        #: by instance, what it holds of the classes of ports, and no port of it asks for
        self.surplus: dict[str, Claims] = {}
        #: by instance, what the binding profiles of its ports are to name
        self.grants: dict[str, tuple[Grant, ...]] = {}

    @property
    def doubt(self) -> list[Problem]:
        """Return a problem if this is hardly the neutron of this nova, or does not show all ports."""
        is_read = self._network is not None and self._network.unknown is None
        return check_ports(self._placed, self._with_port) if is_read else []

    def judge_cells(
        self,
        source: Source,
        choose: Callable[[Cell, Iterable[Instance]], Iterable[Instance]],
        problems: list[Problem],
    ) -> None:
        """Read the cells one after the other, and judge those of their instances that ``choose`` yields.

        Add a problem for each cell that cannot be read.
        """
        for cell in self._hosts.readable_cells:
            if cell.uuid in self._moves.unreadable:
                continue
            try:
                self.judge_all(cell, choose(cell, self.count(source.iterate_instances(cell))))
            except Unreadable as error:
                # those of a doubtful cell were read before
                problems += [error.problem] if error.problem not in problems else []

    def count(self, instances: Iterable[Instance]) -> Iterator[Instance]:
        """Yield instances, and count those on hosts and those of them that have a port."""
        devices = self._network.devices if self._network else ()
        for instance in instances:
            if instance.host:
                self._placed += 1
                self._with_port += instance.uuid in devices
            yield instance

    def judge_all(self, cell: Cell, instances: Iterable[Instance]) -> None:
        """Plan or report whatever is not as it should be with these instances of a cell."""
        for instance in instances:
            if problem := self._judge(cell, instance):
                self.problems.append(problem)

    def find_node(self, cell: Cell, instance: Instance) -> ComputeNode | None:
        """Return the compute node that an instance is on; None if that is not there, or not clear."""
        nodes = self._nodes.get((cell.uuid, instance.host or "", instance.node or ""), [])
        return nodes[0] if len(nodes) == 1 else None

    def describe_move(self, move: MigrationRecord) -> str:
        """Say of a move that is not over what is held where it comes from; nothing if that says nothing."""
        if not move.is_evacuated:
            way = f"it is moving from {move.source_host} to {move.dest_host} ({move.status or 'no status'})"
            names = ", ".join(map(self._cloud.name, self._cloud.held.get(move.uuid or "", ())))
            holds = f" {move.uuid} holds resources of {names}" if names else " holds nothing"
            return f"instance {move.instance_uuid}: {way}, and its migration{holds}"
        held = self._cloud.held.get(move.instance_uuid, {})
        if self._left_behind(move.instance_uuid).isdisjoint(held):
            return ""
        return (
            f"instance {move.instance_uuid}: it was evacuated from {move.source_host} to {move.dest_host}, "
            f"and keeps what it held of {move.source_host} until nova-compute is up there"
        )

    def _left_behind(self, instance: str) -> frozenset[str]:
        """Return the providers of nodes that an instance was evacuated from and that are still down."""
        nodes = [node for place in self._moves.left.get(instance, ()) for node in self._nodes.get(place, ())]
        known = [node.uuid for node in nodes if node.uuid and node.uuid in self._cloud.records]
        return frozenset(provider for uuid in known for provider in self._cloud.tree(uuid))

    def _judge(self, cell: Cell, instance: Instance) -> Problem | None:
        held = self._cloud.held.get(instance.uuid)
        if held and instance.project_id and instance.user_id:
            self.owners[instance.uuid] = (sys.intern(instance.project_id), sys.intern(instance.user_id))
        if instance.task_state:
            if held:
                self.busy[instance.uuid] = instance.task_state
                return None
            return _problem(Reason.BUSY, instance, f"it is {instance.task_state}")
        if not instance.host:
            return _problem(Reason.NO_COMPUTE_NODE, instance, "it is on no host, so it needs no allocations")
        node = self.find_node(cell, instance)
        if node is None or node.uuid is None:
            text = f"there is no compute node {instance.node} on host {instance.host}"
            return _problem(Reason.NO_COMPUTE_NODE, instance, text)
        if node.uuid not in self._cloud.records:
            text = f"placement has no resource provider {node.uuid} for its node {node.name}"
            return _problem(Reason.NO_PROVIDER, instance, text)
        try:
            claim = self._claim(instance)
        except NoClaim as error:
            return _problem(Reason.NO_CLAIM, instance, str(error))
        if node.is_bare_metal:
            inventories = self._cloud.records[node.uuid].inventories or {}
            claim = claim_of_node(claim, (held or {}).get(node.uuid, {}), inventories)
        reach = self._reach_of(node.uuid) if instance.image is None else ()
        choice = [name for name in _OF_IMAGES if any(self._cloud.inventory(uuid, name) for uuid in reach)]
        if choice:
            text = f"nova does not show the properties of its image, which may ask for {' or '.join(choice)}"
            return _problem(Reason.NO_CLAIM, instance, text)
        if held:
            wrong = self._compare(instance, held, claim, node.uuid)
            # its migration may hold what it lacks
            if wrong or instance.uuid in self._moves.moving:
                return wrong
        unknown = self._find_unknown(instance, held or {}, claim)
        return unknown or self._complete(instance, held or {}, claim, node.uuid)

    def _find_unknown(self, instance: Instance, held: Claims, claim: Mapping[str, int]) -> Problem | None:
        """Return a problem if an instance should hold what is not known, and does not."""
        profile = instance.flavor.extra_specs.get(_DEVICE_PROFILE) if instance.flavor else None
        if profile and sum_claims(held).keys() <= claim.keys() | PORT_CLASSES:
            text = f"its flavor has the device profile {profile}, and only Cyborg knows its resources"
            return _problem(Reason.DEVICE, instance, f"{text}; {_SET_BY_HAND.format(instance.uuid)}")
        granted, known = set[str](), "only neutron knows how much"
        if self._network and not self._network.unknown:
            ports = self._network.ports.get(instance.uuid, ())
            granted = {UNREADABLE_PORT, *(uuid for port in ports for uuid in port.granted.values())}
            known = "neutron shows no port with these"
        # what nova's databases say of ports may be more than neutron shows
        if missing := instance.ports - held.keys() - granted:
            names = ", ".join(sorted(map(self._cloud.name, missing)))
            text = f"its ports hold resources of {names}, and {known}"
            return _problem(Reason.PORT, instance, f"{text}; {_SET_BY_HAND.format(instance.uuid)}")
        return None

    def _complete(
        self, instance: Instance, held: Claims, claim: Mapping[str, int], node: str
    ) -> Problem | None:
        """Plan what an instance does not hold of its claim and of what its ports ask for."""
        try:
            ports = self._ports.judge(instance, held, claim, node) if self._ports else PortClaims()
            if ports.missing and instance.uuid in self._moves.moving:
                text = "it is moving, and its ports ask for resources of one of two hosts"
                return _problem(Reason.PORT, instance, text)
            placed = {} if held else self._ledger.place(claim, node)
        except Unclear as error:
            return _problem(error.reason, instance, str(error))
        except OverCapacity as error:
            return _problem(Reason.OVER_CAPACITY, instance, str(error))
        except Ambiguous as error:
            return _problem(Reason.AMBIGUOUS, instance, str(error))
        except Unplaceable as error:
            return _problem(Reason.NO_INVENTORY, instance, str(error))
        self._ledger.take(ports.missing)
        if ports.grants:
            self.grants[instance.uuid] = ports.grants
        if ports.surplus and instance.uuid not in self._moves.left:
            self.surplus[instance.uuid] = ports.surplus
        if not held:
            consumer = Consumer(instance.uuid, None, instance.project_id, instance.user_id, "INSTANCE")
            after = ProviderState(allocations=add_claims(placed, ports.missing))
            self.changes.append(Change(consumer, ProviderState(allocations={}), after))
        elif ports.missing:
            self.incomplete[instance.uuid] = ports.missing
        return None

    def choose_grants(self, changing: Collection[str]) -> dict[str, tuple[Grant, ...]]:
        """Return the grants of instances that hold what they should once these instances are changed.

        An instance that lacks something and is not changed, because it could not be compared again, gets no
        allocations: the binding profiles of its ports would name a provider of which nothing is held.
        """
        return {
            instance: grants
            for instance, grants in self.grants.items()
            if instance in changing or instance not in self.incomplete
        }

    def describe_grants(self) -> list[Problem]:
        """Return a problem for each port whose binding profile is to name what its instance holds already."""
        planned = {change.uuid for change in self.changes} | self.incomplete.keys()
        return [
            describe_grant(instance, grant)
            for instance, grants in self.grants.items()
            if instance not in planned
            for grant in grants
        ]

    def _compare(
        self, instance: Instance, held: Claims, claim: Mapping[str, int], node: str
    ) -> Problem | None:
        is_moving = instance.uuid in self._moves.moving
        expected = reach = self._reach_of(node)
        if instance.uuid in self._moves.left:
            expected = reach | self._left_behind(instance.uuid)
        elsewhere = [uuid for uuid in held if uuid not in expected]
        if elsewhere and not is_moving:
            self.misplaced[instance.uuid] = elsewhere
            names = ", ".join(map(self._cloud.name, elsewhere))
            kind = Reason.WRONG_HOST if len(elsewhere) == len(held) else Reason.DOUBLED
            return _problem(kind, instance, f"it holds resources of {names}, and is on {instance.host}")
        total = sum_claims({uuid: amounts for uuid, amounts in held.items() if uuid in reach})
        wrong = {
            resource
            for resource in {*claim, *(_SIZES & total.keys())}
            if total.get(resource, 0) != claim.get(resource, 0)
        }
        if wrong and not is_moving:
            text = f"it holds {_format(total, wrong)} and should hold {_format(claim, wrong)}"
            return _problem(Reason.WRONG_AMOUNT, instance, text)
        return None

    def _claim(self, instance: Instance) -> dict[str, int]:
        """Return the claim of an instance; raise NoClaim if it is unknown.

        PERF: computed once for identical instances; for 10,000 of one flavor it took a fifth of the time.
        """
        flavor = instance.flavor
        key: Hashable = instance.flavor_error
        if flavor is not None:
            sizes = (flavor.vcpus, flavor.memory_mb, flavor.root_gb, flavor.ephemeral_gb, flavor.swap_mb)
            image = tuple(sorted((instance.image or {}).items()))
            # as they stand: of two of one group that say the same the later one wins
            key = sizes, tuple(flavor.extra_specs.items()), image, instance.volume_root
        if key not in self._claims:
            try:
                self._claims[key] = claim_of(instance)
            except NoClaim as error:
                self._claims[key] = error
        claim = self._claims[key]
        if isinstance(claim, NoClaim):
            raise claim
        return claim

    def _reach_of(self, node: str) -> frozenset[str]:
        if node not in self._reach:
            self._reach[node] = frozenset(self._cloud.reach(node))
        return self._reach[node]


def _format(amounts: Mapping[str, int], resources: Iterable[str]) -> str:
    return ", ".join(f"{resource}={amounts.get(resource, 0)}" for resource in sorted(resources))


def _problem(reason: Reason, instance: Instance, text: str) -> Problem:
    return Problem(reason, f"instance {instance.uuid}", text)
