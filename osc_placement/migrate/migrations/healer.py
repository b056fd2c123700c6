# SPDX-License-Identifier: Apache-2.0
"""Judge what instances on hosts hold, and plan what they should hold: of `heal_allocations` and `audit`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from osc_placement.api.consumer import Consumer
from osc_placement.batch import Change, ProviderState
from osc_placement.flavor import NoClaim
from osc_placement.migrate.migrations.base import Grant
from osc_placement.migrate.migrations.cloud import AllocationView, Claims, Owner, sum_claims
from osc_placement.migrate.migrations.move_baremetal import claim_of_node
from osc_placement.migrate.migrations.placing import Ledger, Unplaceable
from osc_placement.migrate.migrations.plausibility import check_ports
from osc_placement.migrate.migrations.port_claims import (
    Network,
    PortClaims,
    PortJudge,
    Unclear,
    add_claims,
    describe_grant,
)
from osc_placement.migrate.migrations.verdict import is_off_host
from osc_placement.migrate.nova.facts import (
    RESIZED,
    UNREADABLE_PORT,
    Cell,
    ComputeNode,
    Instance,
    MigrationRecord,
)
from osc_placement.migrate.nova.flavors import claim_of, key_of_claim
from osc_placement.migrate.nova.hosts import Hosts, Moves, Place
from osc_placement.migrate.nova.ports import PORT_CLASSES
from osc_placement.migrate.nova.source import Source, Unreadable
from osc_placement.migrate.problem import Problem, Reason
from osc_placement.model import UNKNOWN_TYPE

if TYPE_CHECKING:
    from osc_placement.migrate.migrations.constraints import Placed

#: classes that come from the flavor alone; others may come from ports and devices besides
_SIZES = frozenset(("VCPU", "PCPU", "MEMORY_MB", "DISK_GB"))
#: what a flavor asks Cyborg for
_DEVICE_PROFILE = "accel:device_profile"
#: what gives a record to each consumer that has none
RECORDS_FIRST = (
    "run placement-server db online_data_migrations first, or with openstack-placement placement-manage db "
    "online_data_migrations"
)
_SET_BY_HAND = "openstack resource provider allocation set {} gives it all that it has"
#: problems with what an instance holds
_HELD_WRONG = (Reason.WRONG_HOST, Reason.DOUBLED, Reason.WRONG_AMOUNT, Reason.BUSY)
#: what an image may ask for, where its properties are not told
_OF_IMAGES = ("PCPU", "MEM_ENCRYPTION_CONTEXT")


class Healer:
    """The plan of the instances judged so far; what is planned for one counts as used for the next."""

    def __init__(
        self,
        hosts: Hosts,
        cloud: AllocationView,
        moves: Moves,
        network: Network | None = None,
        unrecorded: frozenset[str] = frozenset(),
        *,
        forces: bool = False,
    ) -> None:
        self._cloud = cloud
        self._ledger = Ledger(cloud)
        self._hosts, self._nodes = hosts, hosts.by_place
        self._moves = moves
        #: providers of which consumers without a record hold something
        self._unrecorded = unrecorded
        self._forces = forces
        self._reach: dict[str, frozenset[str]] = {}
        self._claims: dict[Hashable, dict[str, int] | NoClaim] = {}
        self._network = network
        self._ports = PortJudge(network, cloud, self._ledger) if network else None
        #: instances on hosts, and those of them that have a port
        self._placed = self._with_port = 0
        #: the instances on a compute node that hold nothing, if they are wanted
        self.bare: list[Placed] | None = None
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
        #: by instance that holds wrong amounts, what it is to hold instead
        self.corrected: dict[str, Claims] = {}
        #: whether an instance that is to be corrected holds something wrong that stays
        self.is_uncorrected = False
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
                is_held_wrong = problem.reason in _HELD_WRONG and instance.uuid in self._cloud.held
                self.is_uncorrected |= self._forces and is_held_wrong

    def find_node(self, cell: Cell, instance: Instance) -> ComputeNode | None:
        """Return the compute node that an instance is on; None if that is not there, or not clear."""
        nodes = self._nodes.get((cell.uuid, instance.host or "", instance.node or ""), [])
        return nodes[0] if len(nodes) == 1 else None

    def describe_move(self, move: MigrationRecord) -> str:
        """Say of a move that is not over what is held where it comes from; nothing if that says nothing."""
        if not move.is_evacuated:
            names = ", ".join(map(self._cloud.name, self._cloud.held.get(move.uuid or "", ())))
            holds = f" {move.uuid} holds resources of {names}" if names else " holds nothing"
            return f"instance {move.instance_uuid}: it is {move.describe()}, and its migration{holds}"
        held = self._cloud.held.get(move.instance_uuid, {})
        if all(each.isdisjoint(held) for each in self.find_left_behind(move.instance_uuid).values()):
            return ""
        return (
            f"instance {move.instance_uuid}: it was evacuated from {move.source_host} to {move.dest_host}, "
            f"and keeps what it held of {move.source_host} until nova-compute is started there, or "
            "placement-migrate audit --delete removes it"
        )

    def find_left_behind(self, instance: str) -> dict[Place, frozenset[str]]:
        """Return by node that an instance was evacuated from, and that was not up since, its providers."""
        return {
            place: frozenset(
                provider
                for node in self._nodes.get(place, ())
                if node.uuid and node.uuid in self._cloud.records
                for provider in self._cloud.tree(node.uuid)
            )
            for place in self._moves.left.get(instance, ())
        }

    def _judge(self, cell: Cell, instance: Instance) -> Problem | None:
        held = self._cloud.held.get(instance.uuid)
        if held and instance.project_id and instance.user_id:
            self.owners[instance.uuid] = (sys.intern(instance.project_id), sys.intern(instance.user_id))
        node = self.find_node(cell, instance)
        is_on_node = node and node.uuid in self._cloud.records and not is_off_host(instance)
        if self.bare is not None and not held and node and is_on_node:
            self.bare.append((instance, node))
        if instance.task_state:
            self.busy[instance.uuid] = instance.task_state
            if not held:
                return _problem(Reason.BUSY, instance, f"it is {instance.task_state}")
            if not (self._forces and is_on_node):
                return None
        if not instance.host:
            return _problem(Reason.NO_COMPUTE_NODE, instance, "it is on no host, so it needs no allocations")
        if is_off_host(instance):
            return None
        if node is None or node.uuid is None:
            text = f"there is no compute node {instance.node} on host {instance.host}"
            return _problem(Reason.NO_COMPUTE_NODE, instance, text)
        if node.uuid not in self._cloud.records:
            text = f"placement has no resource provider {node.uuid} for its node {node.name}"
            return _problem(Reason.NO_PROVIDER, instance, text)
        if not (held or self._unrecorded.isdisjoint(self._reach_of(node.uuid))):
            text = f"it holds nothing, unless it is a consumer without a record; {RECORDS_FIRST}"
            return _problem(Reason.MISSING, instance, text)
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
            if isinstance(wrong, Problem):
                return wrong
            # its migration may hold what it lacks
            if self._is_busy(instance):
                return None
            held = wrong or held
        problem = self._find_unknown(instance, held or {}, claim)
        problem = problem or self._complete(instance, held or {}, claim, node.uuid)
        if problem and instance.uuid in self.corrected:
            self._ledger.replace(self.corrected.pop(instance.uuid), self._cloud.held[instance.uuid])
        return problem

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
        except (Unclear, Unplaceable) as error:
            return _problem(error.reason, instance, str(error))
        self._ledger.take(ports.missing)
        if ports.grants:
            self.grants[instance.uuid] = ports.grants
        if ports.surplus and instance.uuid not in self._moves.left:
            self.surplus[instance.uuid] = ports.surplus
        if not held:
            # as nova does, which writes allocations in a microversion from before there were types
            consumer = Consumer(instance.uuid, None, instance.project_id, instance.user_id, UNKNOWN_TYPE)
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
    ) -> Problem | Claims | None:
        """Return a problem with what an instance holds, or what it is to hold instead of wrong amounts."""
        is_busy = self._is_busy(instance)
        expected = reach = self._reach_of(node)
        if instance.uuid in self._moves.left:
            expected = reach.union(*self.find_left_behind(instance.uuid).values())
        elsewhere = [uuid for uuid in held if uuid not in expected]
        if elsewhere and not is_busy:
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
        if not wrong or (is_busy and not self._forces):
            return None
        if is_busy or (instance.vm_state == RESIZED and self._forces):
            text = f"it is {instance.task_state or 'moving'}, so its amounts are not corrected"
            return _problem(Reason.BUSY, instance, text)
        text = f"it holds {_format(total, wrong)} and should hold {_format(claim, wrong)}"
        if not self._forces:
            advice = f"placement-migrate heal-allocations --force --instance {instance.uuid} corrects it"
            return _problem(Reason.WRONG_AMOUNT, instance, f"{text}; {advice}")
        profile = instance.flavor and instance.flavor.extra_specs.get(_DEVICE_PROFILE)
        if unclear := sorted(PORT_CLASSES & wrong or (wrong - _SIZES if profile else ())):
            text += f"; what it holds of {', '.join(unclear)} may be that of a port or an accelerator"
            kind = Reason.WRONG_AMOUNT if PORT_CLASSES & wrong else Reason.DEVICE
            return _problem(kind, instance, text)
        try:
            amounts = {resource: claim.get(resource, 0) for resource in sorted(wrong)}
            self.corrected[instance.uuid] = self._ledger.correct(held, amounts, node)
        except Unplaceable as error:
            return _problem(error.reason, instance, f"{text}; {error}")
        return self.corrected[instance.uuid]

    def _is_busy(self, instance: Instance) -> bool:
        """Return whether an instance is in a task or moving, so that nova may write what it holds."""
        return bool(instance.task_state) or instance.uuid in self._moves.moving

    def _claim(self, instance: Instance) -> dict[str, int]:
        """Return the claim of an instance; raise NoClaim if it is unknown.

        PERF: computed once for identical instances; for 10,000 of one flavor it took a fifth of the time.
        """
        key = key_of_claim(instance)
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
