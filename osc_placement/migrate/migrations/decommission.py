# SPDX-License-Identifier: Apache-2.0
"""Find what still holds a host that is to be removed, in the order in which it is to be removed.

The steps are those of `Step`. A hold has the command that removes it only if that is certain: none has one
while anything is unknown or the host is left alone, and what is deleted has one only when all steps before it
are done. The audit (audit.py) finds out which allocations are orphans, for this host also if nova has deleted
its compute nodes; their removal is planned unless nova-compute is up. What is left when nothing holds the
host is its provider with what is nested in it, of which a deletion is planned; while anything holds it, or
not all of nova can be read, none is. If the host is freed first, only instances, moves, nested providers and
allocations that stay count: nova deletes the rest without a provider.

Placement is read before nova, so what nova starts meanwhile is seen. An instance that is built after that
holds its allocations before it has a host, and the server refuses to delete a provider of which something is
allocated, whatever was read before. Volumes and files on the host's disks are not looked at.
"""

from __future__ import annotations

import enum
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from osc_placement.batch import Plan, plan_staged
from osc_placement.errors import UsageError
from osc_placement.migrate.migrations.audit import Audit, plan_removals
from osc_placement.migrate.migrations.base import Assessment, Context
from osc_placement.migrate.migrations.cloud import AllocationView, read_cloud
from osc_placement.migrate.migrations.providers import (
    FormerNova,
    Judge,
    is_of_nova,
    plan_deletion,
    read_former,
    was_reported,
)
from osc_placement.migrate.migrations.verdict import Halted
from osc_placement.migrate.nova.facts import RESIZED, STUCK_AFTER, ComputeNode, ComputeService
from osc_placement.migrate.nova.hosts import read_services
from osc_placement.migrate.problem import Problem, Reason
from osc_placement.model import is_uuid

_LIVE: Final = "openstack server migrate --live-migration {}"
_COLD: Final = "openstack server migrate {}"
#: by vm_state, the command that takes an instance from a host that is down
_EVACUATIONS: Final = dict.fromkeys(("active", "stopped", "error"), "openstack server evacuate {}")
#: by vm_state, the command that takes an instance from its host
_COMMANDS: Final[Mapping[str, str]] = {
    "active": _LIVE,
    "paused": _LIVE,
    "stopped": _COLD,
    "shelved": "openstack server shelve --offload {}",
}
_SHOW: Final = "openstack resource provider allocation show {}"
_CONFIRM: Final = "its owner has to confirm or revert the resize"
#: by vm_state, what has to be done if that is not for an administrator to decide
_ADVICE: Final[Mapping[str, str]] = {
    RESIZED: _CONFIRM,
    "soft-delete": "wait until nova reclaims it ([DEFAULT]/reclaim_instance_interval), or restore it with "
    "openstack server restore {} and move it",
}


class Step(enum.StrEnum):
    """A step of a decommissioning, in the order in which they are done; JSON output has its value."""

    DISABLE = "disable the service"
    MOVES = "wait for moves"
    INSTANCES = "move instances"
    ALLOCATIONS = "remove allocations"
    NESTED = "remove nested providers"
    AGGREGATES = "leave host aggregates"
    SERVICE = "delete the service"
    MAPPING = "delete the host mapping"


#: steps that delete, whose command is shown when those before them are done
_DELETING: Final = frozenset((Step.SERVICE, Step.MAPPING))
#: steps of what nova has of a host, and deletes whether or not the host has providers
_OF_NOVA: Final = _DELETING | {Step.DISABLE, Step.AGGREGATES}


@dataclass(frozen=True, slots=True)
class Hold:
    """A thing that holds a host, and the command that removes it; empty if there is none that is certain.

    :ivar is_orphaned: whether it is an allocation that the audit would remove
    :ivar goes_with_service: whether nova removes it when the service is deleted
    """

    step: Step
    subject: str
    text: str
    command: str = ""
    is_orphaned: bool = False
    goes_with_service: bool = False


@dataclass(frozen=True, slots=True)
class Decommission:
    """What holds a host, in order, and the plans that remove orphaned allocations and delete its providers.

    Both are empty if there are problems; ``freeing`` is so while nova-compute is up, and ``plan`` while
    anything holds the host.
    """

    host: str
    holds: Sequence[Hold]
    problems: Sequence[Problem]
    freeing: Plan
    plan: Plan
    names: Mapping[str, str]
    is_up: bool


def assess(context: Context, host: str, *, frees: bool = False) -> Decommission:
    """Find what holds a host; raise UsageError if neither nova nor placement has it.

    :param frees: whether the host is freed before its providers are deleted
    """
    cloud = read_cloud(context.client, context.concurrency)
    source = context.source
    nova = read_former(source, cloud)
    nodes = [node for node in nova.hosts.all_nodes() if node.host == host]
    former = [node for node in nova.former.values() if node.host == host]
    roots, unclear = _find_roots(cloud, nova, host, (*nodes, *former))
    places = {host, *(node.name for node in (*nodes, *former))}
    nova.read_instances(source, cloud, roots, places)
    found, unread = read_services(source, nova.hosts)
    services = {cell: service for (cell, name), service in found.items() if name == host}
    nova.problems += unread
    aggregates = [each for each in source.list_aggregates() if host in each.hosts]
    is_known = nodes or former or roots or aggregates or services or host in nova.hosts.cell_of
    if not is_known and nova.is_complete:
        raise UsageError("; ".join([f"Neither nova nor placement has a host {host}", *map(str, unclear)]))
    problems = [*nova.problems, *unclear, *_object(nova, cloud, host, nodes, roots, services)]
    view = _Host(host, places, cloud, nova, roots, services.values())
    orphans = view.find_orphans(context)
    problems += [each for each in orphans.problems if each.reason is Reason.UNKNOWN and each not in problems]
    claims = [*view.hold_allocations(orphans)]
    has_evacuated = any(each.goes_with_service for each in claims)
    holds = [
        *_hold_service(host, services, nodes, nova, has_evacuated=has_evacuated),
        *view.hold_moves(),
        *view.hold_instances(),
        *claims,
        *view.hold_nested(),
        *(
            Hold(
                Step.AGGREGATES,
                f"host aggregate {each.name}",
                f"{host} is in it",
                f"openstack aggregate remove host {each.id} {shlex.quote(host)}",
            )
            for each in aggregates
        ),
    ]
    holds.sort(key=lambda hold: list(Step).index(hold.step))
    # nova's API may leave something out, and does not show which cell a host is mapped to
    remaining = [each.step for each in holds if not each.goes_with_service]
    first = frozenset(remaining[:1]) if source.is_exhaustive else frozenset[Step]()
    withheld = frozenset(Step) if problems else _DELETING - first
    holds = [replace(hold, command="") if hold.step in withheld else hold for hold in holds]
    is_freed = frees and not view.is_up
    left = [hold for hold in holds if not (is_freed and (hold.is_orphaned or hold.step in _OF_NOVA))]
    trees = [cloud.records[uuid] for root in roots for uuid in reversed(cloud.tree(root))]
    plan = plan_staged(f"providers of host {host}", [] if left or problems else [*map(plan_deletion, trees)])
    freeing = replace(orphans.plan, steps=() if problems or view.is_up else orphans.plan.steps)
    return Decommission(host, holds, problems, freeing, plan, cloud.names, view.is_up)


def _find_roots(
    cloud: AllocationView, nova: FormerNova, host: str, nodes: Sequence[ComputeNode]
) -> tuple[list[str], list[Problem]]:
    """Return the root providers of a host, and a problem for one that only has its name.

    They are those of its compute nodes, deleted ones too, and one of its name that nova-compute has reported.
    """
    uuids = {node.uuid for node in nodes}
    elsewhere = {node.uuid for node in nova.hosts.all_nodes() if node.host != host}
    judge, found, unclear = Judge(nova, cloud), [], []
    for root in cloud.roots:
        record = cloud.records[root.uuid]
        if root.uuid in uuids - elsewhere:
            found.append(root.uuid)
        elif root.name == host and root.uuid not in elsewhere:
            text = judge.find_other_owner(record) or judge.find_doubt(record, host)
            if not (text or was_reported(record)):
                text = "it has the name of the host, and nothing says that nova-compute made it"
            if text:
                unclear.append(Problem(Reason.AMBIGUOUS, f"provider {root.name}", text))
            else:
                found.append(root.uuid)
    return found, unclear


def _object(
    nova: FormerNova,
    cloud: AllocationView,
    host: str,
    nodes: Sequence[ComputeNode],
    roots: Sequence[str],
    services: Collection[str],
) -> Iterator[Problem]:
    """Yield a problem for each reason not to judge a host; ``services`` are cells that have one of it."""
    cells = {*services, *(node.cell for node in nodes), nova.hosts.cell_of.get(host, "")} - {""}
    if len(cells) > 1:
        text = "several cells have a compute node, a service or the mapping of a host of this name"
        yield Problem(Reason.AMBIGUOUS, f"host {host}", text)
    cells.update(nova.former[uuid].cell for uuid in roots if uuid in nova.former)
    if cells & nova.disabled:
        yield Problem(Reason.DISABLED, f"host {host}", "its cell is disabled, so it is left alone")
    bare = [node.name for node in nodes if node.is_bare_metal]
    bare += [cloud.name(uuid) for uuid in roots if is_uuid(cloud.name(uuid))]
    if bare:
        text = "it has nodes of bare metal, which are Ironic's, and go with them"
        yield Problem(Reason.AMBIGUOUS, f"host {host}", text)


def _hold_service(
    host: str,
    services: Mapping[str, ComputeService],
    nodes: Sequence[ComputeNode],
    nova: FormerNova,
    *,
    has_evacuated: bool,
) -> Iterator[Hold]:
    name = shlex.quote(host)
    if services:
        if not all(service.is_disabled for service in services.values()):
            text = "it is enabled, so that instances are scheduled to it"
            command = f"openstack compute service set --disable {name} nova-compute"
            yield Hold(Step.DISABLE, f"service nova-compute of {host}", text, command)
        text = "its compute nodes, host mapping and resource providers go with it"
        text += ", and what evacuated instances hold of these" if has_evacuated else ""
        text += "; stop nova-compute first"
        listing = f"openstack compute service list --service nova-compute --host {name} -f value -c ID"
        command = f"openstack compute service delete $({listing})"
        yield Hold(Step.SERVICE, f"service nova-compute of {host}", text, command)
    elif nodes:
        text = "nova has it without a service; start nova-compute there once, and then delete the service"
        yield Hold(Step.SERVICE, f"compute node {nodes[0].name}", text)
    cell = nova.hosts.cell_of.get(host)
    if cell:
        labels = {each.uuid: each.label for each in nova.hosts.cells}
        command = f"nova-manage cell_v2 delete_host --cell_uuid {cell} --host {name}"
        text = f"it is mapped to {labels.get(cell, cell)}"
        yield Hold(Step.MAPPING, f"host {host}", text, command)


class _Host:
    """A host, with what was read of it."""

    def __init__(
        self,
        host: str,
        places: set[str],
        cloud: AllocationView,
        nova: FormerNova,
        roots: Sequence[str],
        services: Collection[ComputeService],
    ) -> None:
        self.is_up = any(service.is_up for service in services)
        self._has_service = bool(services)
        self._host = host
        self._cloud = cloud
        self._nova = nova
        self._trees = [uuid for root in roots for uuid in cloud.tree(root)]
        self._roots = roots
        self._on = {
            uuid for uuid, each in nova.instances.items() if places.intersection((each.host, each.node))
        }
        self._moves = [move for move in nova.moves.records if move.touches(places, places)]

    def hold_moves(self) -> Iterator[Hold]:
        """Yield a hold for each move from or to the host that is not over."""
        late = set(self._nova.moves.find_late(datetime.now(UTC), STUCK_AFTER))
        for move in self._moves:
            if move.is_evacuated:
                continue  # it ends when nova-compute is up again; what it holds is an allocation
            text = f"it is {move.describe()}"
            if move.uuid in self._nova.moves.unconfirmed:
                text += f"; {_CONFIRM}"
            elif move in late:
                text = Halted.in_move(move).describe()
            yield Hold(Step.MOVES, f"instance {move.instance_uuid}", text)

    def hold_instances(self) -> Iterator[Hold]:
        """Yield a hold for each instance that nova has on the host, whatever its state."""
        moving = {move.instance_uuid for move in self._moves if not move.is_evacuated}
        for uuid in sorted(self._on - moving):
            instance = self._nova.instances[uuid]
            state = instance.vm_state or ""
            text = f"it is in state {state}" if state else "it is in no state"
            # a command only where an instance can be taken from the host as it is
            command = ""
            if instance.task_state:
                text += f", and its task {instance.task_state} has to end"
                if self._has_service and not self.is_up:
                    text += f"; openstack server set --state error {uuid} ends it if it does not"
            elif state in _ADVICE:
                text += f"; {_ADVICE[state].format(instance.uuid)}"
            elif not self._has_service:
                text += ", and nova moves none from a host without a service; start nova-compute there once"
            elif self.is_up:
                command = _COMMANDS.get(state, "openstack server show {}").format(instance.uuid)
            elif state in _EVACUATIONS:
                command = _EVACUATIONS[state].format(instance.uuid)
            else:
                text += f"; nova-compute is down, and nova evacuates only in state {', '.join(_EVACUATIONS)}"
            yield Hold(Step.INSTANCES, f"instance {uuid}", text, command)

    def _iterate_claims(self) -> Iterator[tuple[str, str]]:
        """Yield the consumers and providers of allocations of what is neither on the host nor moving."""
        consumers = {move.uuid for move in self._moves if not move.is_evacuated}
        consumers |= {move.instance_uuid for move in self._moves if not move.is_evacuated}
        for consumer, claims in sorted(self._cloud.held.items()):
            if consumer not in self._on and consumer not in consumers:
                for provider in sorted(claims.keys() & set(self._trees)):
                    yield consumer, provider

    def find_orphans(self, context: Context) -> Assessment:
        """Return the audit of what is held of the host by what is neither on it nor moving.

        An instance on the host may hold something of its provider from before a reinstallation.
        """
        others = {consumer for consumer, _ in self._iterate_claims()}
        if not others:
            return Assessment(plan_removals([]))
        audit = Audit(
            frozenset(self._trees),
            max_removals=len(self._cloud.held),
            skips_ports=True,
            retired=frozenset(self._roots),
        )
        found = audit.compare(context, self._cloud)
        changes = [change for change in found.plan.changes if change.uuid in others]
        return replace(found, plan=plan_removals(changes))

    def hold_allocations(self, orphans: Assessment) -> Iterator[Hold]:
        """Yield a hold for each consumer of the host that is neither on it nor moving."""
        changes = {change.uuid: change for change in orphans.plan.changes}
        reasons = {each.subject.partition(" ")[2]: each.text for each in orphans.problems}
        name = shlex.quote(self._host)
        for consumer, provider in self._iterate_claims():
            change = changes.get(consumer)
            is_orphaned = change is not None and provider not in (change.after.allocations or {})
            reason, command = reasons.get(consumer, f"{_SHOW.format(consumer)} shows more"), ""
            if change is not None and is_orphaned:
                reason, command = change.reason, f"placement-migrate decommission {name} --free"
            if is_orphaned and self.is_up:
                command = f"placement-migrate audit --delete --resource-provider {provider}"
            goes_with_service = is_orphaned and self._is_evacuated(consumer, provider)
            where = self._nova.describe_consumer(consumer)
            text = f"it holds something of {self._cloud.name(provider)}, and {where}; {reason}"
            subject = f"consumer {consumer}"
            yield Hold(Step.ALLOCATIONS, subject, text, command, is_orphaned, goes_with_service)

    def _is_evacuated(self, consumer: str, provider: str) -> bool:
        """Return whether nova removes an allocation with the service: that of an evacuated instance.

        Nova looks at the trees of the compute nodes that the host has now, and at evacuations from it.
        """
        moves = [move for move in self._moves if move.is_evacuated and move.source_host == self._host]
        nodes = {node.uuid for node in self._nova.hosts.all_nodes() if node.host == self._host}
        return (
            self._has_service
            and not self.is_up
            and self._cloud.root(provider) in nodes
            and any(move.instance_uuid == consumer for move in moves)
        )

    def hold_nested(self) -> Iterator[Hold]:
        """Yield a hold for each nested provider that is not certainly nova's."""
        for uuid in self._trees:
            if uuid not in self._roots and not is_of_nova(self._cloud.records[uuid]):
                text = "it may be of another service, such as an agent of Neutron; delete it there first"
                yield Hold(Step.NESTED, f"provider {self._cloud.name(uuid)}", text)
