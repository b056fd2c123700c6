# SPDX-License-Identifier: Apache-2.0
"""Find root providers without a live compute node, and plan what becomes of each.

A root provider whose UUID no compute node of nova has is of one of these kinds:

- *duplicated*: the machine has a compute node with another UUID, as after a reinstallation. The right
  provider is the one with that UUID. It gets traits, aggregates, inventories and allocations (`Repair`).
- *stale*: nova deleted the compute node, and the provider and all below it hold nothing. It is deleted; that
  of a node of bare metal only if it was asked for, and Ironic does not have the node.
- *in use*: nova deleted the compute node, and still has instances, moves or a mapping of the host. It is left
  alone.
- *held*: as stale, and consumers hold something of it that nova has elsewhere or not at all. It is left
  alone, and each consumer is named.
- *of another service*: sharing providers, nodes that Ironic has, and what nova never had. It is left alone.
- *unknown*: not all of nova can be read, its cell is disabled, or the evidence is not enough. It is left
  alone.

Whatever is allocated from the old provider of a machine is allocated from the right one afterwards, whoever
holds it: an instance in any state, also one that was evacuated, a migration, or a consumer that nova does not
have. So no state of an instance decides about a claim: the audit finds orphans afterwards. Nova only decides
which provider is of which machine, and if any cell cannot be read, nothing is planned.

Allocations are read before nova: a compute node, an instance or a migration that appears meanwhile is seen.
An instance that is built while a repair is planned moves the generation of a provider or of a consumer, of
which a reshape has those that it was planned on; the server then refuses it, and it is planned again.
"""

from __future__ import annotations

import enum
import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from osc_placement import microversion
from osc_placement.api.consumer import Consumer
from osc_placement.batch import (
    Change,
    Plan,
    ProviderState,
    Replacement,
    World,
    find_managed,
    plan_staged,
    temporary_name,
)
from osc_placement.errors import PlacementError
from osc_placement.migrate.migrations.base import Assessment, Context, limit_removals
from osc_placement.migrate.migrations.cloud import AllocationView, choose_providers, read_cloud
from osc_placement.migrate.migrations.move_baremetal import read_ironic
from osc_placement.migrate.migrations.plausibility import add_replaced, check_cells, check_nova
from osc_placement.migrate.nova.facts import ComputeNode, Instance
from osc_placement.migrate.nova.hosts import Hosts, Moves, find_lost_cells, name_some, read_hosts, read_moves
from osc_placement.migrate.nova.shard import WHOLE, Shard
from osc_placement.migrate.nova.source import Source, Unreadable
from osc_placement.migrate.problem import Problem, Reason
from osc_placement.model import OWNER_NOVA, Provider, ProviderRecord, is_uuid

NAME: Final = "providers"
TITLE: Final = "providers without a compute node"
_OWNER: Final = "OWNER_"
_OF_COMPUTES: Final = "COMPUTE_"


class Kind(enum.StrEnum):
    """A kind of root provider without a live compute node; JSON output has its value."""

    DUPLICATED = "duplicated"
    STALE = "stale"
    IN_USE = "in use"
    HELD = "held"
    FOREIGN = "of another service"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Judged:
    """A root provider without a live compute node.

    :ivar right: UUID of the provider of the same machine, if it is duplicated
    """

    name: str
    uuid: str
    kind: Kind
    text: str = ""
    right: str = ""


@dataclass(frozen=True, slots=True)
class Repair:
    """The replacement of a provider by that of its machine's compute node, in three runs.

    1. ``preparation``: rename the old provider, by which its machine is known afterwards; create the right
       one with the name of its compute node and the traits and aggregates of the old one, or add aggregates
       and custom traits if it exists; give it the children of the old one.
    2. a reshape that gives it the inventories, unless it has its own, and moves all allocations; ``move`` has
       its changes as far as they are known now.
    3. the deletion of the old provider, which has nothing any more.
    """

    old: Provider
    right: Provider
    preparation: Plan
    move: Sequence[Change]
    removal: Change

    @property
    def changes(self) -> tuple[Change, ...]:
        """Return the changes of all three runs, to be shown."""
        moved = (each for each in self.move if each.facets)
        return (*self.preparation.changes, *moved, self.removal)


@dataclass(frozen=True, slots=True)
class Survey:
    """The providers without a live compute node, with the repairs and the plan of deletions."""

    judged: Sequence[Judged]
    repairs: Sequence[Repair]
    deletions: Assessment


def replaced_name(right: str) -> str:
    """Return the name of an old provider until it is deleted.

    A later comparison knows by it which provider is in its place.

    :param right: UUID of the right provider
    """
    return f"replaced-by-{right}"


@dataclass(frozen=True, slots=True)
class Providers:
    """The comparison; ``names`` (names or UUIDs of providers) narrows it, empty means all.

    ``max_removals`` is the number of stale providers that each shard may delete; None stands for 5 or a tenth
    of the providers of hosts, in all shards together. A shard is one of hosts. Every shard reads everything,
    as only all of nova tells which provider is of which machine.
    """

    names: frozenset[str] = frozenset()
    max_removals: int | None = None
    shard: Shard = WHOLE
    name: str = NAME

    def assess(self, context: Context) -> Survey:
        """Read both sides and compare."""
        context.client.require(microversion.RESHAPER, "a repair of resource providers")
        cloud = read_cloud(context.client, context.concurrency)
        chosen = choose_providers(cloud, self.names)
        nova = read_former(context.source, cloud)
        suspects = [root.uuid for root in cloud.roots if root.uuid not in nova.live]
        places = {place for uuid in suspects for place in nova_names(cloud, nova.former, uuid)}
        if suspects:
            nova.read_instances(context.source, cloud, suspects, places)
        suspects = [uuid for uuid in suspects if uuid in chosen]
        judge = Judge(nova, cloud, is_named=bool(self.names))
        if any(judge.is_of_metal(cloud.records[uuid]) for uuid in suspects):
            nova.ironic = _ask_ironic(context)
        judge.judge_all(suspects, self.shard)
        # of all shards together, if these are limited
        whole = judge
        if self.max_removals is None and self.shard != WHOLE:
            whole = Judge(nova, cloud, is_named=bool(self.names))
            whole.judge_all(suspects)
        changes = judge.deletions
        # every shard reports what could not be read
        problems = [
            each for each in nova.problems if each.reason is Reason.UNKNOWN or self.shard.has(each.subject)
        ]
        problems += judge.problems
        roots = frozenset(suspects)
        number, of_all = (sum(each.uuid in roots for each in of.deletions) for of in (judge, whole))
        most = limit_removals(self.max_removals, len(cloud.hosts))
        if changes and of_all > most:
            text = (
                f"{of_all} providers would be deleted, more than the {most} that are allowed without an "
                f"option; if nova has none of their hosts any more, add --max-removals {number} to this "
                "command, and if it has, check [api_database]/connection and nova-manage cell_v2 list_cells"
            )
            problems.append(Problem(Reason.TOO_MANY, NAME, text))
        assessment = Assessment(plan_staged("stale providers", changes), problems, cloud.names)
        return Survey(judge.judged, judge.repairs, assessment)


@dataclass
class FormerNova:
    """The parts of nova that tell which machine a provider is of.

    :ivar former: deleted compute nodes by UUID
    :ivar ironic: the UUIDs of Ironic's nodes, or why they are not known
    :ivar instances: by UUID, the instances that hold something of a suspect or are on its host
    """

    hosts: Hosts
    moves: Moves
    former: Mapping[str, ComputeNode]
    problems: list[Problem]
    ironic: Collection[str] | Unreadable = ()
    instances: dict[str, Instance] = field(default_factory=dict)

    @property
    def live(self) -> frozenset[str]:
        """Return the UUIDs of all compute nodes that are not deleted."""
        return frozenset(node.uuid for node in self.hosts.all_nodes() if node.uuid)

    @property
    def is_complete(self) -> bool:
        """Return whether all of nova could be read, and is the nova of this placement."""
        return not any(problem.reason is Reason.UNKNOWN for problem in self.problems)

    @property
    def disabled(self) -> frozenset[str]:
        """Return the UUIDs of the disabled cells."""
        return frozenset(cell.uuid for cell in self.hosts.cells if cell.is_disabled)

    def read_instances(
        self, source: Source, cloud: AllocationView, roots: Iterable[str], places: Collection[str]
    ) -> None:
        """Read the instances that hold something of the trees of ``roots``, or are on one of ``places``.

        :param places: names of hosts and compute nodes
        """
        named, trees = frozenset(places), {uuid for root in roots for uuid in cloud.tree(root)}
        holders = {uuid for uuid, claims in cloud.held.items() if not trees.isdisjoint(claims)}
        for cell in self.hosts.readable_cells:
            try:
                for instance in source.iterate_instances(cell):
                    if instance.uuid in holders or named.intersection((instance.host, instance.node)):
                        self.instances[instance.uuid] = instance
            except Unreadable as error:
                self.problems.append(error.problem)

    def describe_consumer(self, consumer: str) -> str:
        """Return where nova has the instance that a consumer may be."""
        if instance := self.instances.get(consumer):
            return f"nova has this instance on {f'host {instance.host}' if instance.host else 'no host'}"
        if not self.is_complete:
            return "whether nova has it is unknown, because not all of nova can be read"
        return "nova lists no instance with this UUID"


def read_former(source: Source, cloud: AllocationView) -> FormerNova:
    """Read nova's compute nodes, deleted ones too, and its moves."""
    hosts = read_hosts(source)
    moves = read_moves(source, hosts)
    problems = [*hosts.problems, *moves.problems, *find_lost_cells(source, hosts)]
    former: dict[str, ComputeNode] = {}
    # a host that was moved may be in two cells with one UUID; if one of them is disabled, that counts
    for cell in sorted(hosts.readable_cells, key=lambda cell: cell.is_disabled):
        try:
            nodes = source.list_former_nodes(cell)
            former |= {node.uuid: replace(node, cell=cell.uuid) for node in nodes if node.uuid}
        except Unreadable as error:
            problems.append(error.problem)
    # a provider of a deleted compute node tells as well that this is the nova of this placement
    nodes_of = defaultdict(tuple, hosts.nodes)
    for node in former.values():
        if node.uuid in cloud.records:
            nodes_of[node.cell, node.host] += (node,)
    known, unreadable = add_replaced(source, cloud, replace(hosts, nodes=nodes_of))
    problems += [*unreadable, *check_nova(known, cloud), *check_cells(known, cloud)]
    return FormerNova(hosts, moves, former, problems)


def _ask_ironic(context: Context) -> Collection[str] | Unreadable:
    """Return the UUIDs of Ironic's nodes, or why they are not known."""
    try:
        nodes = read_ironic(context)
    except Unreadable as error:
        return error
    return Unreadable("Ironic", "nothing says where it is") if nodes is None else nodes


def nova_names(cloud: AllocationView, former: Mapping[str, ComputeNode], uuid: str) -> frozenset[str]:
    """Return the names by which nova may know the host or node of a provider without a live compute node."""
    node = former.get(uuid)
    # the host of a node of bare metal is not its machine
    known = () if node is None else (node.name,) if node.is_bare_metal else (node.host, node.name)
    return frozenset(filter(None, (cloud.name(uuid), *known)))


class Judge:
    """The providers judged so far.

    :param is_named: whether somebody asked for these providers by their names
    """

    def __init__(self, nova: FormerNova, cloud: AllocationView, *, is_named: bool = False) -> None:
        self._is_named = is_named
        self._nova = nova
        self._cloud = cloud
        self._nodes: dict[str, list[ComputeNode]] = defaultdict(list)
        self._of_host: dict[tuple[str, str], list[ComputeNode]] = defaultdict(list)
        for node in nova.hosts.all_nodes():
            self._nodes[node.name].append(node)
            self._of_host[node.cell, node.host].append(node)
        self._by_uuid = {node.uuid: node for node in nova.hosts.all_nodes() if node.uuid}
        self._holders: dict[str, dict[str, Mapping[str, int]]] = defaultdict(dict)
        for consumer, claims in cloud.held.items():
            for provider, amounts in claims.items():
                self._holders[provider][consumer] = amounts
        self._replaced: set[str] = set()
        self.judged: list[Judged] = []
        self.repairs: list[Repair] = []
        self.deletions: list[Change] = []
        self.problems: list[Problem] = []

    def judge_all(self, roots: Iterable[str], shard: Shard = WHOLE) -> None:
        """Judge the root providers without a live compute node whose hosts are in a shard."""
        for uuid in roots:
            record, former = self._cloud.records[uuid], self._nova.former.get(uuid)
            nodes = self._find_right(record)
            # all old providers of a machine have the host in common
            host = (nodes[0].host if nodes else former.host if former else "") or record.provider.name
            if shard.has(host):
                self.judge(uuid)

    def judge(self, uuid: str) -> None:
        """Find the kind of a root provider without a live compute node, and plan what becomes of it."""
        record = self._cloud.records[uuid]
        is_of_metal, ironic = self.is_of_metal(record), self._nova.ironic
        has_node = ironic if isinstance(ironic, Unreadable) else uuid in ironic
        if not is_of_metal and (text := self.find_other_owner(record)):
            self._add_foreign(record, text)
        elif not self._nova.is_complete:
            text = "nova may have its compute node where it cannot be read, so it is left alone"
            self._add(record, Kind.UNKNOWN, text, Reason.UNKNOWN)
        elif record.provider.name == temporary_name(uuid):
            text = "a run that was interrupted gave it this name; placement-migrate run list shows which"
            self._add(record, Kind.UNKNOWN, f"{text}, run resume continues it", Reason.BUSY)
        elif nodes := self._find_right(record):
            self._judge_duplicate(record, nodes)
        elif is_of_metal and isinstance(has_node, Unreadable):
            text = f"Ironic may have this node, which is not known: {has_node.reason}"
            self._add(record, Kind.UNKNOWN, text, Reason.UNKNOWN)
        elif is_of_metal and has_node:
            self._add_foreign(record, "Ironic has this node")
        else:
            self._judge_stale(record, is_of_metal=is_of_metal)

    def _add(
        self, record: ProviderRecord, kind: Kind, text: str, reason: Reason | None = None, right: str = ""
    ) -> None:
        provider = record.provider
        self.judged.append(Judged(provider.name, provider.uuid, kind, text, right))
        if reason is not None:
            self.problems.append(Problem(reason, f"provider {provider.name}", text))

    def _add_foreign(self, record: ProviderRecord, text: str) -> None:
        """Add a provider of another service, which is a problem only if somebody asked for it."""
        self._add(record, Kind.FOREIGN, text, Reason.FOREIGN if self._is_named else None)

    def is_of_metal(self, record: ProviderRecord) -> bool:
        """Return whether a provider is of a bare metal node that nova had."""
        is_known = record.provider.uuid in self._nova.former or was_reported(record)
        return is_known and self._looks_like_metal(record) and not self._find_service(record)

    def _looks_like_metal(self, record: ProviderRecord) -> bool:
        # a node of Ironic has its UUID as a name, and comes and goes with it
        former = self._nova.former.get(record.provider.uuid)
        return bool(former and former.is_bare_metal) or is_uuid(record.provider.name)

    def _find_service(self, record: ProviderRecord) -> str:
        """Return what shows that a provider is of another service than nova; empty if nothing does."""
        owners = sorted(each for each in record.traits or () if each.startswith(_OWNER))
        if self._cloud.node(record.provider.uuid).shares:
            return "it shares with others"
        return f"it has the trait {', '.join(owners)}" if owners and owners != [OWNER_NOVA] else ""

    def find_other_owner(self, record: ProviderRecord) -> str:
        """Return why a provider is none that nova-compute made for a host; empty if it may be one."""
        former = self._nova.former.get(record.provider.uuid)
        if text := self._find_service(record):
            return text
        if self._looks_like_metal(record):
            return "it is a node of bare metal"
        uuid = record.provider.uuid
        is_of_host = uuid in self._cloud.hosts or was_reported(record) or former
        is_of_host = is_of_host or record.provider.name in self._nodes or self._find_marked(record)
        return "" if is_of_host else "nothing says that nova ever had it"

    def _find_marked(self, record: ProviderRecord) -> ComputeNode | None:
        """Return the compute node that a repair which was not finished has named in the provider's name."""
        prefix, right = replaced_name(""), record.provider.name.removeprefix(replaced_name(""))
        return self._by_uuid.get(right) if record.provider.name.startswith(prefix) else None

    def _find_right(self, record: ProviderRecord) -> list[ComputeNode]:
        """Return the live compute nodes of the machine of a provider; several if that is not clear.

        The evidence is the name that a repair gave it, the name of the compute node, or a deleted compute
        node of its UUID on the same host, of the same name: a host of vCenter has nodes of other names, which
        are other machines. The domain may differ if the host has no other node, or if placement has nothing
        of the live one yet.
        """
        marked = self._find_marked(record)
        if marked is not None:
            return [marked]
        found = list(self._nodes.get(record.provider.name, ()))
        former = self._nova.former.get(record.provider.uuid)
        if former is None or not (former.host and former.name):
            return found
        nodes = self._of_host.get((former.cell, former.host), ())
        for node in nodes:
            right = self._cloud.records.get(node.uuid or "")
            is_used = right is not None and (right.inventories or self._holders.get(right.provider.uuid))
            is_same = node.name == former.name
            is_only_one = len(nodes) == 1 and node.is_only_one and former.is_only_one
            is_renamed = _shorten(node.name) == _shorten(former.name) and (is_only_one or not is_used)
            if (is_same or is_renamed) and node not in found:
                found.append(node)
        return found

    # duplicated

    def _judge_duplicate(self, record: ProviderRecord, nodes: Sequence[ComputeNode]) -> None:
        objection = self._object(record, nodes)
        right = nodes[0].uuid or ""
        if objection:
            self._add(record, Kind.DUPLICATED, objection, Reason.DUPLICATE, right)
            return
        try:
            repair = self._plan_repair(record, nodes[0])
        except PlacementError as error:
            self._add(record, Kind.DUPLICATED, str(error), Reason.DUPLICATE, right)
            return
        number = len(self._holders.get(record.provider.uuid, ()))
        text = f"compute node {nodes[0].name} of host {nodes[0].host} is {right}"
        text += f"; {number} consumer{'s' * (number != 1)} to move"
        self._replaced.add(right)
        self.repairs.append(repair)
        self._add(record, Kind.DUPLICATED, text, right=right)

    def _object(self, record: ProviderRecord, nodes: Sequence[ComputeNode]) -> str:
        """Return why a duplicated provider cannot be replaced; empty if it can."""
        node, uuid = nodes[0], record.provider.uuid
        if len(nodes) > 1:
            names = name_some(f"{each.name} of host {each.host}" for each in nodes)
            return f"it is not clear of which compute node it is: {names}"
        if node.uuid is None:
            return f"compute node {node.name} has no UUID yet; start nova-compute of Queens or later once"
        if node.is_bare_metal:
            return f"compute node {node.name} is a node of bare metal"
        if node.cell in self._nova.disabled:
            return "its cell is disabled, so it is left alone"
        if node.uuid in self._replaced:
            return f"another old provider of {node.name} is replaced first; give the command again afterwards"
        right = self._cloud.records.get(node.uuid)
        if right and right.provider.parent_provider_uuid:
            return f"the provider of its compute node, {node.uuid}, is not a root"
        if right is None and record.provider.name != node.name:
            others = [each for each in self._cloud.records.values() if each.provider.name == node.name]
            if others:
                other = others[0].provider.uuid
                return f"provider {other} has the name of its compute node; repair or delete that one first"
        children = self._children(uuid)
        foreign = [child for child in children if not is_of_nova(self._cloud.records[child])]
        if foreign:
            names = name_some(map(self._cloud.name, foreign))
            return f"nested providers may be of another service: {names}; move or delete them first"
        # of a repair that was interrupted some are moved, and no two have one name
        is_begun = self._find_marked(record) is not None
        if children and right and not is_begun and self._children(right.provider.uuid):
            names = name_some(map(self._cloud.name, children))
            text = "both it and the provider of its compute node have nested providers"
            return f"{text}: {names}; merge them by hand"
        return ""

    def _children(self, uuid: str) -> list[str]:
        """Return the providers below a root."""
        return [each for each in self._cloud.tree(uuid) if each != uuid]

    def _plan_repair(self, record: ProviderRecord, node: ComputeNode) -> Repair:
        """Plan a replacement on what was read; raise PlacementError if it cannot be."""
        old, right = record.provider, self._cloud.records.get(node.uuid or "")
        new = right.provider if right else Provider(node.uuid or "", node.name, 0)
        steps = []
        if old.name != replaced_name(new.uuid):
            steps.append(_identify(old, replaced_name(new.uuid), old.parent_provider_uuid))
        traits, aggregates = record.traits or frozenset(), record.aggregates or frozenset()
        if right is None:
            steps.append(Change.creating(new, traits=traits, aggregates=aggregates))
        else:
            # a provider without inventories was not reported by nova-compute, and gets all traits
            added = traits - find_managed(traits) if right.inventories else traits
            had, was_in = right.traits or frozenset(), right.aggregates or frozenset()
            before = ProviderState(traits=had, aggregates=was_in)
            after = ProviderState(traits=had | added, aggregates=was_in | aggregates)
            steps += [Change(new, before, after)] if before != after else []
        for uuid in self._children(old.uuid):
            child = self._cloud.records[uuid].provider
            if child.parent_provider_uuid == old.uuid:
                steps.append(_identify(child, child.name, new.uuid))
        world = World(
            {old.uuid: old, new.uuid: new},
            {old.uuid: record.inventories or {}, new.uuid: (right.inventories if right else None) or {}},
            {uuid: self._holders.get(uuid, {}) for uuid in (old.uuid, new.uuid)},
            {
                consumer: Consumer(consumer, allocations=self._cloud.held[consumer])
                for consumer in self._holders.get(old.uuid, ())
            },
        )
        move = Replacement(old.uuid, new.uuid).plan(world).changes if record.inventories else ()
        title = f"provider {node.name}: prepare {new.uuid} in place of {old.uuid}"
        left = replace(record, inventories={}, provider=old)
        return Repair(old, new, plan_staged(title, steps), move, plan_deletion(left))

    # stale

    def _judge_stale(self, record: ProviderRecord, *, is_of_metal: bool) -> None:
        uuid = record.provider.uuid
        former = self._nova.former.get(uuid)
        if former and former.cell in self._nova.disabled:
            self._add(record, Kind.UNKNOWN, "its cell is disabled, so it is left alone", Reason.DISABLED)
            return
        if text := self.find_doubt(record):
            self._add(record, Kind.UNKNOWN, text, Reason.AMBIGUOUS)
            return
        if text := self._find_use(uuid):
            self._add(record, Kind.IN_USE, text, Reason.IN_USE)
            return
        tree = self._cloud.tree(uuid)
        holders = {consumer: each for each in tree for consumer in self._holders.get(each, ())}
        if holders:
            texts = [
                f"consumer {consumer} holds something of {self._cloud.name(of)}, and "
                f"{self._nova.describe_consumer(consumer)}"
                for consumer, of in sorted(holders.items())
            ]
            host = shlex.quote((former.host if former else "") or record.provider.name)
            texts.append(f"placement-migrate decommission {host} finds out which of these are orphans")
            self._add(record, Kind.HELD, "; ".join(texts), Reason.FOREIGN)
            return
        foreign = [each for each in self._children(uuid) if not is_of_nova(self._cloud.records[each])]
        if foreign:
            text = f"nested providers may be of another service: {name_some(map(self._cloud.name, foreign))}"
            self._add(record, Kind.UNKNOWN, text, Reason.AMBIGUOUS)
            return
        name = shlex.quote(record.provider.name)
        by_name = f"placement-migrate providers --delete --resource-provider {name}"
        if not former and not (self._is_named and was_reported(record)):
            advice = by_name if was_reported(record) else "delete it by hand"
            text = f"nova has no record of a compute node of it; if its host is gone, {advice}"
            self._add(record, Kind.UNKNOWN, text, Reason.NO_COMPUTE_NODE)
            return
        if is_of_metal and not self._is_named:
            text = f"nova has deleted this node of bare metal, and Ironic does not have it; {by_name}"
            self._add(record, Kind.STALE, text, Reason.NO_NODE)
            return
        self.deletions += [plan_deletion(self._cloud.records[each]) for each in reversed(tree)]
        self._add(record, Kind.STALE, "nothing holds it")

    def find_doubt(self, record: ProviderRecord, host: str | None = None) -> str:
        """Return why a provider may be of a machine that is still there; empty if nothing says so.

        :param host: a host whose machine does not count
        """
        name = record.provider.name
        if name.startswith(replaced_name("")) and record.provider.uuid not in self._nova.former:
            return (
                "a repair gave it this name, and nova no longer has the compute node in it, nor a record of "
                "its own; placement-migrate run list shows the repair"
            )
        for node in self._nova.hosts.all_nodes():
            if node.host != host and _shorten(name) in (_shorten(node.name), _shorten(node.host)):
                return (
                    f"it may be an old provider of host {node.host}, which has compute node {node.name} "
                    f"({node.uuid}), and nothing in nova's databases says whether it is; it is left alone"
                )
        return ""

    def _find_use(self, uuid: str) -> str:
        """Return what nova still has on the host of a provider; empty if nothing."""
        names = nova_names(self._cloud, self._nova.former, uuid)
        # what is on a host that has compute nodes is on these, unless it names another
        hosts = names - {node.host for node in self._nova.hosts.all_nodes()}
        if mapped := sorted(hosts & self._nova.hosts.cell_of.keys()):
            return (
                f"nova maps host {mapped[0]} to a cell, and has no compute node of it; "
                f"placement-migrate decommission {shlex.quote(mapped[0])} shows what is left of it"
            )
        on = sorted(
            each.uuid for each in self._nova.instances.values() if each.node in names or each.host in hosts
        )
        if on:
            return f"nova says that {name_some(on)} {'are' if len(on) > 1 else 'is'} still on its host"
        moves = [
            move.instance_uuid
            for move in self._nova.moves.records
            if not move.is_evacuated and move.touches(hosts, names)
        ]
        return f"{name_some(moves)}: a move from or to its host is not over" if moves else ""


def _shorten(name: str) -> str:
    """Return the name of a machine without its domain, in lower case; an IP address as it is."""
    short = name.partition(".")[0]
    return name if short.isdigit() else short.casefold()


def was_reported(record: ProviderRecord) -> bool:
    """Return whether a provider has traits that only nova-compute reports."""
    traits = record.traits or frozenset()
    return OWNER_NOVA in traits or any(each.startswith(_OF_COMPUTES) for each in traits)


def is_of_nova(record: ProviderRecord) -> bool:
    """Return whether a nested provider is certainly nova's."""
    traits = record.traits or frozenset()
    owners = {each for each in traits if each.startswith(_OWNER)}
    return owners <= {OWNER_NOVA} and (bool(owners) or any(each.startswith(_OF_COMPUTES) for each in traits))


def plan_deletion(record: ProviderRecord) -> Change:
    """Return the change that deletes a provider."""
    state = ProviderState(
        record.inventories or {}, record.traits or frozenset(), record.aggregates or frozenset()
    )
    return Change.deleting(record.provider, state)


def _identify(provider: Provider, name: str, parent: str | None) -> Change:
    """Return the change that gives a provider this name and parent."""
    return Change(provider, ProviderState(), ProviderState()).and_identify(name, parent)
