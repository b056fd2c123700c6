# SPDX-License-Identifier: Apache-2.0
"""Move bare metal nodes from sizes to custom resource classes.

Finds compute nodes of nova's ironic driver. Gives the provider of each the class of its node in Ironic, as 1;
gives an instance on it that one, in place of VCPU, MEMORY_MB and DISK_GB or of nothing; and takes the
inventories of these sizes away where nobody holds them: all of a node in one transaction. What is reserved
follows nova's driver (NodeEdit). Reports flavors that still ask for sizes, with the command for each.

Where nothing says how to reach Ironic, a node's class is the one that nova-compute has reported. Never
touches a node whose cell cannot be read, nor any node while Ironic does not answer; nor instances in a task,
other consumers, other classes, or the flavors.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

import os_resource_classes

from osc_placement import microversion
from osc_placement.batch import (
    Change,
    Decision,
    Facet,
    Plan,
    ProviderState,
    Recorded,
    UncheckedEdit,
    plan_change,
)
from osc_placement.flavor import Flavor, NoClaim, resources_of
from osc_placement.migrate.migrations.base import Assessment, Context
from osc_placement.migrate.migrations.cloud import AllocationView, find_provider, read_cloud
from osc_placement.migrate.nova.facts import ComputeNode, Instance, IronicNode
from osc_placement.migrate.nova.flavors import STANDARD_CLASSES
from osc_placement.migrate.nova.hosts import Hosts, find_strangers, judge_strangers, read_hosts
from osc_placement.migrate.nova.shard import WHOLE, Shard
from osc_placement.migrate.nova.source import Source, Unreadable
from osc_placement.migrate.problem import Problem, Reason
from osc_placement.model import CUSTOM_PREFIX, Inventory, ProviderRecord

#: the classes that nodes were scheduled by before they had one of their own, in the order of nova's page
_SIZES: Final = ("VCPU", "MEMORY_MB", "DISK_GB")
SIZES: Final = frozenset(_SIZES)
TITLE: Final = "bare metal nodes"
FACETS: Final[tuple[Facet, ...]] = ("inventories", "allocations")

Inventories = Mapping[str, Inventory]


def class_of_node(node: IronicNode) -> str | None:
    """Return the resource class that nova derives from the one in Ironic; None if there is none."""
    name = node.resource_class
    return os_resource_classes.normalize_name(name) if name else None


def reported_class(inventories: Inventories) -> str | None:
    """Return the class that nova-compute has given a node; None if there is none or more than one."""
    whole = [name for name, each in inventories.items() if name.startswith(CUSTOM_PREFIX) and each.total == 1]
    return whole[0] if len(whole) == 1 else None


@dataclass(frozen=True, slots=True)
class NodeEdit(UncheckedEdit):
    """A change that gives a node its class, its instance the node, and removes sizes no consumer holds.

    The inventory of the class is 1, and 1 of it is reserved while nova's ironic driver would not give the
    node to an instance (`IronicNode.is_available`). The driver also reserves it while there is an instance,
    unless it is older or [workarounds]/skip_reserve_in_use_ironic_nodes is set; so while there is an
    instance, an existing inventory keeps its reserved value and the two never undo each other's writes.

    :ivar instance: UUID of the instance on the node, None if there is none or it is unknown
    :ivar is_occupied: whether nova or Ironic has an instance on it
    :ivar is_available: whether nova's driver would give it to an instance; None if Ironic was not asked
    """

    resource_class: str
    instance: str | None = None
    is_occupied: bool = False
    is_available: bool | None = None
    title: str = TITLE
    facets: ClassVar[tuple[Facet, ...]] = FACETS

    def decide(self, state: ProviderState) -> Decision:
        """Return the inventories and allocations of the provider after the move."""
        holdings = {consumer: dict(amounts) for consumer, amounts in (state.allocations or {}).items()}
        if self.instance:
            held = holdings.get(self.instance, {})
            kept = {name: amount for name, amount in held.items() if name not in SIZES}
            holdings[self.instance] = kept | {self.resource_class: 1}
        used = {name for amounts in holdings.values() for name in amounts}
        current = state.inventories or {}
        own = current.get(self.resource_class)
        if own is None or self.is_available is not None:
            reserved = int(self.is_occupied or self.is_available is False)
            if own and own.total == 1 and self.is_occupied:
                reserved = own.reserved
            own = Inventory(1, reserved=reserved, max_unit=1)
        inventories = {name: each for name, each in current.items() if name not in SIZES or name in used}
        inventories |= {self.resource_class: own}
        after = replace(state, inventories=inventories, allocations=holdings)
        if after == state:
            return Decision(after, "is one of its class already")
        left = sorted(SIZES & inventories.keys())
        notes = [f"{', '.join(left)} stay, as others hold them"] if left else []
        if inventories[self.resource_class].reserved:
            notes.append(f"reserved, as it is {'in use' if self.is_occupied else 'not available'}")
        return Decision(after, "; ".join(notes))


def claim_of_node(
    claim: Mapping[str, int], held: Mapping[str, int], inventories: Inventories
) -> dict[str, int]:
    """Return what an instance needs of a bare metal node, given its flavor's claim and what it holds.

    The flavor embedded in an instance may be older than the resource class of its node. An instance that
    holds 1 of the class holds the whole node. Sizes that the node does not have are left out of the claim,
    and if nothing remains of it, the claim is 1 of the class.
    """
    own = reported_class(inventories)
    if own and held == {own: 1}:
        return dict(held)
    kept = {name: amount for name, amount in claim.items() if name not in SIZES or name in inventories}
    return kept or ({own: 1} if own else dict(claim))


@dataclass
class FlavorUse:
    """The use of flavors by name: classes of nodes, nodes of unknown class, and virtual machines.

    The name of a flavor never changes.
    """

    classes: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    unsure: set[str] = field(default_factory=set)
    elsewhere: set[str] = field(default_factory=set)
    is_complete: bool = True

    def note_metal(self, instance: Instance, resource_class: str | None) -> None:
        """Note an instance on a node of this class, or of an unknown one (None)."""
        if instance.flavor is None or not instance.flavor.name:
            return
        if resource_class is None:
            self.unsure.add(instance.flavor.name)
        else:
            self.classes[instance.flavor.name].add(resource_class)

    def note_elsewhere(self, instance: Instance) -> None:
        """Note an instance on no node of bare metal."""
        if instance.flavor is not None and instance.flavor.name:
            self.elsewhere.add(instance.flavor.name)


def judge_flavors(
    flavors: Iterable[Flavor], use: FlavorUse, classes: Collection[str], chosen: Collection[str]
) -> Iterator[Problem]:
    """Yield a problem for each flavor of bare metal that asks for sizes; ``classes`` are those of all nodes.

    A flavor is one of bare metal if it names the class of a node, or if an instance on a node was made of it.
    Any other cannot be told from a flavor of virtual machines. Flavors for none of the ``chosen`` classes
    are left out.
    """
    for flavor in flavors:
        try:
            asked = resources_of(flavor, STANDARD_CLASSES)
        except NoClaim:
            continue  # nova would refuse it for bare metal as for anything else
        named = asked.keys() & set(classes)
        wanted = named or use.classes.get(flavor.name, set())
        is_done = (
            len(named) == 1 and all(asked[name] == 1 for name in named) and not asked.keys() & set(_SIZES)
        )
        if wanted.intersection(chosen) and not is_done:
            yield _judge(flavor, asked, sorted(wanted), use)


def _judge(flavor: Flavor, asked: Mapping[str, int], wanted: list[str], use: FlavorUse) -> Problem:
    subject = f"flavor {flavor.name}"
    if len(wanted) > 1:
        text = f"it is one for nodes of {', '.join(wanted)}; make a flavor for each of them"
        return Problem(Reason.AMBIGUOUS, subject, text)
    is_named = wanted[0] in asked
    if not is_named and flavor.name in use.elsewhere:
        text = f"virtual machines are made of it too; make another for nodes of {wanted[0]}"
        return Problem(Reason.AMBIGUOUS, subject, text)
    if not is_named and flavor.name in use.unsure:
        text = f"instances on nodes of {wanted[0]} are made of it, and on nodes of unknown class too"
        return Problem(Reason.AMBIGUOUS, subject, text)
    if not is_named and not use.is_complete:
        text = (
            f"instances on nodes of {wanted[0]} are made of it, and as some instances are unreadable, it is "
            "unknown whether virtual machines are too"
        )
        return Problem(Reason.UNKNOWN, subject, text)
    text = ", ".join(f"{name}={amount}" for name, amount in asked.items()) or "nothing"
    return Problem(Reason.FLAVOR, subject, f"it asks for {text}; {mend(flavor, wanted[0])}")


def mend(flavor: Flavor, resource_class: str) -> str:
    """Return the command that makes a flavor ask for one node of a class, and for no sizes."""
    wanted = {f"resources:{resource_class}": "1"} | {f"resources:{name}": "0" for name in _SIZES}
    missing = {key: value for key, value in wanted.items() if flavor.extra_specs.get(key) != value}
    if not missing:
        return "remove the resources from its numbered groups"
    properties = " ".join(f"--property {key}={value}" for key, value in missing.items())
    return f"openstack flavor set {properties} {shlex.quote(flavor.name)}"


NAME: Final = "move-baremetal"
_NO_WAY: Final = (
    "nova-compute has reported no resource class for it, and nothing says how to ask Ironic: "
    "[ironic] in nova.conf does, or --ironic-endpoint"
)


@dataclass(frozen=True, slots=True)
class MoveBaremetal:
    """The migration; ``hosts`` and ``nodes`` (UUIDs in Ironic) narrow it, empty means all."""

    hosts: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    shard: Shard = WHOLE
    name: str = NAME

    def assess(self, context: Context) -> Assessment:
        """Read all sides and compare."""
        hosts = read_hosts(context.source)
        metal = {node.name for node in hosts.all_nodes() if node.is_bare_metal}
        missing = sorted(self.nodes - metal)
        strangers = judge_strangers("bare metal node", missing, is_complete=not hosts.unknown)
        strangers += find_strangers(hosts, self.hosts)
        if not metal:
            return Assessment(_plan([]), (*hosts.problems, *strangers))
        context.client.require(microversion.RESHAPER, "a move of bare metal nodes")
        builds = frozenset(context.source.list_requested_builds())
        cloud = read_cloud(context.client, context.concurrency)
        residents = read_residents(context.source, hosts)
        problems = [*hosts.problems, *strangers, *residents.unreadable.values()]
        try:
            ironic = read_ironic(context)
        except Unreadable as error:
            text = f"{error.reason}; bare metal nodes are left alone"
            return Assessment(_plan([]), (*problems, Problem(Reason.UNKNOWN, error.subject, text)))
        judge = Judge(hosts, cloud, residents, ironic, builds)
        # of all nodes, or the advice on a flavor would be right for the chosen ones and wrong for the others
        found = [(node, judge.survey(node)) for node in hosts.all_nodes() if node.is_bare_metal]
        for node, surveyed in found:
            is_chosen = (not self.hosts or node.host in self.hosts) and (
                not self.nodes or node.name in self.nodes
            )
            if is_chosen and self.shard.has(node.name):
                judge.judge(node, surveyed)
        advice = judge_flavors(context.source.list_flavors(), residents.use, judge.classes, judge.chosen)
        judge.problems += advice
        new_classes = frozenset(
            edit.resource_class
            for change, edit in judge.steps
            if change.facets and edit.resource_class not in (change.before.inventories or {})
        )
        return Assessment(_plan(judge.steps), (*problems, *judge.problems), cloud.names, new_classes)


def _plan(steps: list[tuple[Change, NodeEdit]]) -> Plan:
    edits = {change.uuid: edit for change, edit in steps}
    return Plan(Recorded(TITLE, FACETS), tuple(change for change, _ in steps), edits=edits)


@dataclass
class Residents:
    """The instances by cell and UUID of their node in Ironic; ``unreadable`` has problems by cell."""

    by_node: dict[tuple[str, str], list[Instance]] = field(default_factory=lambda: defaultdict(list))
    use: FlavorUse = field(default_factory=FlavorUse)
    unreadable: dict[str, Problem] = field(default_factory=dict)

    def of(self, node: ComputeNode) -> list[Instance]:
        """Return the instances on a node."""
        return self.by_node.get((node.cell, node.name), [])


def read_residents(source: Source, hosts: Hosts) -> Residents:
    """Read the instances of all cells that can be read."""
    metal = {node.name for node in hosts.all_nodes() if node.is_bare_metal}
    residents = Residents()
    for cell in hosts.readable_cells:
        try:
            for instance in source.iterate_instances(cell):
                if instance.node in metal:
                    residents.by_node[cell.uuid, instance.node or ""].append(instance)
                elif instance.host:
                    residents.use.note_elsewhere(instance)
        except Unreadable as error:
            residents.unreadable[cell.uuid] = error.problem
    residents.use.is_complete = not (hosts.unknown or residents.unreadable)
    return residents


def read_ironic(context: Context) -> dict[str, IronicNode] | None:
    """Read the nodes of Ironic by UUID; None without an address of it, Unreadable if it does not answer."""
    source = context.open_ironic()
    return None if source is None else {node.uuid: node for node in source.list_nodes()}


#: the provider of a node, and its resource class
Surveyed = tuple[ProviderRecord, str]


class Judge:
    """The plan and problems of the nodes judged so far."""

    def __init__(
        self,
        hosts: Hosts,
        cloud: AllocationView,
        residents: Residents,
        ironic: Mapping[str, IronicNode] | None,
        builds: frozenset[str],
    ) -> None:
        self._hosts = hosts
        self._cloud = cloud
        self._residents = residents
        self._ironic = ironic
        self._builds = builds
        #: the allocations of consumers by provider
        self._holders: dict[str, dict[str, Mapping[str, int]]] = defaultdict(dict)
        for consumer, claims in cloud.held.items():
            for provider, amounts in claims.items():
                self._holders[provider][consumer] = amounts
        self.steps: list[tuple[Change, NodeEdit]] = []
        self.problems: list[Problem] = []
        #: of all nodes that have one, and of those that were judged
        self.classes: set[str] = set()
        self.chosen: set[str] = set()

    def survey(self, node: ComputeNode) -> Surveyed | Problem | None:
        """Return provider and class of a node, or the problem with it; None if its cell is unreadable."""
        if node.cell in self._residents.unreadable:
            return None
        surveyed: Surveyed | Problem
        subject, name = f"node {node.name}", None
        record = find_provider(node.host, node, self._cloud.records)
        if isinstance(record, Problem):
            surveyed = record
        elif self._ironic is None:
            name = reported_class(record.inventories or {})
            surveyed = (record, name) if name else Problem(Reason.UNKNOWN, subject, _NO_WAY)
        elif node.name not in self._ironic:
            surveyed = Problem(Reason.NO_NODE, subject, "Ironic does not have it")
        else:
            name = class_of_node(self._ironic[node.name])
            set_class = f"openstack baremetal node set --resource-class <class> {node.name}"
            text = f"it has no resource class; {set_class}"
            surveyed = (record, name) if name else Problem(Reason.NO_CLASS, subject, text)
        if name:
            self.classes.add(name)
        for instance in self._residents.of(node):
            self._residents.use.note_metal(instance, name)
        return surveyed

    def judge(self, node: ComputeNode, surveyed: Surveyed | Problem | None) -> None:
        """Plan the change of a node, or report why it is left unchanged."""
        if surveyed is None:
            return
        if isinstance(surveyed, Problem):
            self.problems.append(surveyed)
            return
        self.chosen.add(surveyed[1])
        change, edit = self._plan(node, *surveyed)
        problems = list(self._object(node, change, edit)) if change.facets else []
        self.problems += problems
        if not problems:
            self.steps.append((change, edit))
            for consumer, amounts in (change.before.allocations or {}).items():
                kept = sorted(SIZES & amounts.keys())
                if consumer != edit.instance and kept:
                    text = f"consumer {consumer} holds {', '.join(kept)} of it, and is no instance on it"
                    told = f"{text}; see placement-migrate audit"
                    self.problems.append(Problem(Reason.FOREIGN, f"node {node.name}", told))

    def _plan(self, node: ComputeNode, record: ProviderRecord, name: str) -> tuple[Change, NodeEdit]:
        present = self._residents.of(node)
        known = self._ironic[node.name] if self._ironic is not None else None
        edit = NodeEdit(
            name,
            present[0].uuid if len(present) == 1 else None,
            is_occupied=bool(present or (known and known.instance_uuid)),
            is_available=known.is_available if known else None,
        )
        state = ProviderState(
            inventories=record.inventories or {}, allocations=self._holders.get(record.provider.uuid, {})
        )
        if edit.instance and edit.instance not in self._cloud.held:
            state = state.owned_by(present[0].project_id, present[0].user_id)
        return plan_change(edit, record.provider, state), edit

    def _object(self, node: ComputeNode, change: Change, edit: NodeEdit) -> Iterator[Problem]:
        """Yield each problem that keeps a node from being changed."""
        present, held = self._residents.of(node), change.before.allocations or {}
        building = sorted(self._builds & held.keys())
        if len(present) > 1:
            names = ", ".join(instance.uuid for instance in present)
            yield Problem(Reason.AMBIGUOUS, f"node {node.name}", f"it has several instances: {names}")
        if building:
            text = f"instance {building[0]} is being built on it"
            yield Problem(Reason.BUSY, f"node {node.name}", text)
        after = change.after.allocations or {}
        if len(present) != 1 or held.get(present[0].uuid, {}) == after.get(present[0].uuid, {}):
            return
        instance, name, subject = present[0], edit.resource_class, f"instance {present[0].uuid}"
        others = sorted(held.get(instance.uuid, {}).keys() - SIZES - {name})
        foreign = [uuid for uuid, amounts in held.items() if uuid != instance.uuid and name in amounts]
        if instance.task_state:
            yield Problem(Reason.BUSY, subject, f"it is {instance.task_state}")
        elif others:
            yield Problem(Reason.CONFLICT, subject, f"it holds {', '.join(others)}, and its node is {name}")
        elif foreign:
            yield Problem(Reason.FOREIGN, subject, f"{name} of its node is held by consumer {foreign[0]}")
        elif instance.uuid not in held and instance.uuid in self._cloud.held:
            yield Problem(Reason.WRONG_HOST, subject, "what it holds is not of its node")
        elif instance.uuid not in held and not (instance.project_id and instance.user_id):
            yield Problem(Reason.NO_CLAIM, subject, "nova knows no project or user of it")
