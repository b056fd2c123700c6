# SPDX-License-Identifier: Apache-2.0
"""Give every instance the allocations that nova's scheduler would have made: the way out of CachingScheduler.

Finds instances on a host that hold nothing, and makes their allocations from the embedded flavor and from the
requests of its ports, for its project and user; adds what a port asks for to what an instance holds; where
others own what an instance holds, it gets its project and user. A wrong host is reported, and so is a wrong
amount, unless `HealAllocations.forces` has it corrected. Never touches an instance in a task, of a cell that
cannot be read, or whose claim could lie in several places; nor one with an accelerator of Cyborg, whose
resources only Cyborg knows, or with a port that cannot be read; nor one that holds nothing on a host of which
consumers without a record hold something, as it may be one of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from osc_placement import microversion
from osc_placement.api.concurrency import map_in_order
from osc_placement.api.consumer import Consumer
from osc_placement.batch import Change, Plan, Recorded, read_states
from osc_placement.errors import UsageError
from osc_placement.migrate.migrations.base import Assessment, Context
from osc_placement.migrate.migrations.cloud import (
    AllocationView,
    Holdings,
    Owner,
    find_unrecorded,
    read_cloud,
    sum_claims,
)
from osc_placement.migrate.migrations.constraints import Admission, HostJudge, HostVerdict, Placed
from osc_placement.migrate.migrations.healer import RECORDS_FIRST, Healer
from osc_placement.migrate.migrations.plausibility import add_replaced, check_nova
from osc_placement.migrate.migrations.port_claims import (
    add_claims,
    describe_skipped,
    read_network,
)
from osc_placement.migrate.migrations.verdict import Unplaced
from osc_placement.migrate.nova.facts import (
    REBUILD_HINT,
    STUCK_AFTER,
    Cell,
    Instance,
)
from osc_placement.migrate.nova.hosts import (
    Hosts,
    Moves,
    find_lost_cells,
    find_strangers,
    judge_strangers,
    read_hosts,
    read_moves,
)
from osc_placement.migrate.nova.shard import WHOLE, Shard
from osc_placement.migrate.nova.source import Source, Unreadable
from osc_placement.migrate.problem import Problem, Reason

NAME = "heal-allocations"


@dataclass(frozen=True, slots=True)
class HealAllocations:
    """The migration; ``instances``, ``hosts`` and ``cells`` (names or UUIDs) narrow it, empty means all.

    With ``skips_ports`` neutron is not read, and ports to which something was granted are reported only. With
    ``forces`` wrong amounts are corrected, of an instance that is in no task and not moving. With
    ``judges_all`` the requests of all instances are searched for a hint with which nova claims nothing, and
    instances on no host that hold something are judged.
    """

    instances: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    shard: Shard = WHOLE
    name: str = NAME
    skips_ports: bool = False
    forces: bool = False
    judges_all: bool = False
    cells: frozenset[str] = frozenset()

    def assess(self, context: Context) -> Assessment:
        """Read both sides and compare; raise UsageError if what narrows it cannot be found."""
        if self.instances and self.cells:
            raise UsageError("--instance cannot be used with --cell")
        cloud = read_cloud(context.client, context.concurrency, usages=True)
        unrecorded = find_unrecorded(context.client, cloud, context.concurrency)
        builds = context.source.list_requested_builds() if self.judges_all else {}
        hosts = read_hosts(context.source)
        moves = read_moves(context.source, hosts)
        unplaced = Unplaced(cloud, builds, moves, STUCK_AFTER) if self.judges_all else None
        network = None if self.skips_ports else read_network(context, cloud)
        healer = Healer(hosts, cloud, moves, network, unrecorded, forces=self.forces)
        problems = list(self._check(context.source, hosts, moves, cloud))
        problems += self._report_unrecorded(cloud, unrecorded)
        seen: set[str] = set()
        judge = HostJudge(context, cloud)
        bare = healer.bare = list[Placed]()

        def choose(cell: Cell, instances: Iterable[Instance]) -> Iterator[Instance]:
            chosen = self._choose(instances, seen, unplaced) if self._has(cell) else ()
            return judge.watch(cell, chosen, bare)

        healer.judge_cells(context.source, choose, problems)
        is_complete = not any(problem.reason is Reason.UNKNOWN for problem in problems)
        if unplaced and is_complete:
            problems += self._report_unplaced(context.source, cloud, unplaced)
        missing = sorted(self.instances - seen)
        problems += judge_strangers("instance", missing, is_complete=is_complete)
        edit = Recorded("allocations of instances", ("allocations", "owner"))
        skipped = describe_skipped(context, cloud) if self.skips_ports else ""
        if doubt := healer.doubt:
            return Assessment(Plan(edit, ()), (*problems, *doubt), cloud.names)
        wrong, unread = _correct_holdings(context, healer, cloud)
        verdicts = judge.verdicts
        changes = (*(_note(change, verdicts[change.uuid]) for change in healer.changes), *wrong)
        grants = healer.choose_grants({change.uuid for change in changes})
        problems += healer.describe_grants()
        notes = [note for move in moves.records if (note := healer.describe_move(move))]
        try:
            problems += _find_unclaimed(context.source) if self.judges_all else []
        except Unreadable as error:
            # an older API shows no hints, and the rest is judged without them
            notes.append(str(error))
        plan = Plan(edit, changes)
        by_subject = {f"instance {uuid}": verdict for uuid, verdict in verdicts.items()}
        found = [*problems, *(_add_verdict(each, by_subject) for each in healer.problems), *unread]
        return Assessment(
            plan,
            found,
            cloud.names,
            notes=notes,
            grants=grants,
            skipped=skipped,
            verdicts=verdicts,
            is_uncorrected=healer.is_uncorrected,
        )

    def _has(self, cell: Cell) -> bool:
        """Return whether the instances of a cell are asked for."""
        return not (self.cells and self.cells.isdisjoint((cell.uuid, cell.name)))

    def _check(self, source: Source, hosts: Hosts, moves: Moves, cloud: AllocationView) -> Iterator[Problem]:
        """Yield the problems of nova as a whole, and of the cells asked for.

        Raise UsageError if nova lacks a host or cell asked for.
        """
        checked, unreadable = add_replaced(source, cloud, hosts)
        others = {cell.label for cell in hosts.cells if not self._has(cell)}
        lost = find_lost_cells(source, hosts)
        if self.cells:
            others |= {*hosts.unknown, *(problem.subject for problem in lost)}
        for problem in (*hosts.problems, *unreadable, *lost, *moves.problems):
            if problem.subject not in others:
                yield problem
        yield from check_nova(checked, cloud)
        yield from find_strangers(hosts, self.hosts)
        known = {text for cell in hosts.cells for text in (cell.uuid, cell.name)}
        yield from judge_strangers("cell", sorted(self.cells - known), is_complete=True)

    def _report_unrecorded(self, cloud: AllocationView, providers: Iterable[str]) -> Iterator[Problem]:
        """Yield a problem for each provider of which consumers without a record hold something."""
        text = f"consumers without a record hold something of it; {RECORDS_FIRST}"
        for name in sorted(map(cloud.name, providers)):
            if self.shard.has(name) and not (self.instances or self.hosts or self.cells):
                yield Problem(Reason.UNRECORDED, f"provider {name}", text)

    def _report_unplaced(self, source: Source, cloud: AllocationView, unplaced: Unplaced) -> list[Problem]:
        """Return a problem for each instance on no host that holds something and that nova has given up."""
        try:
            _, lost = unplaced.find_lost(source, cloud.held.keys() - unplaced.known)
            found = [*unplaced.find_stuck(source), *lost]
        except Unreadable as error:
            return [error.problem]
        return [problem for problem in found if self.shard.has(problem.subject)]

    def _choose(
        self, instances: Iterable[Instance], seen: set[str], unplaced: Unplaced | None
    ) -> Iterator[Instance]:
        """Yield the instances to judge; add to ``seen`` those asked for by UUID that nova has."""
        for instance in instances:
            if unplaced:
                unplaced.judge(instance)
            if instance.uuid in self.instances:
                seen.add(instance.uuid)
            elif self.instances:
                continue
            host = instance.host or ""
            is_chosen = not self.hosts or host in self.hosts if host else instance.uuid in self.instances
            if is_chosen and self.shard.has(host):
                yield instance


def _note(change: Change, verdict: HostVerdict) -> Change:
    """Return a change with the verdict on the host of its instance as its reason, unless that is allowed."""
    return change if verdict.state is Admission.ALLOWED else replace(change, reason=str(verdict))


def _add_verdict(problem: Problem, verdicts: Mapping[str, HostVerdict]) -> Problem:
    """Return a problem with the verdict on its subject, if its host is not allowed."""
    verdict = verdicts.get(problem.subject)
    if verdict is None or verdict.state is not Admission.REFUSED:
        return problem
    return replace(problem, text=f"{problem.text}; {verdict}")


def _find_unclaimed(source: Source) -> list[Problem]:
    """Return a problem for each instance that nova's scheduler claims nothing for, at a move of it too."""
    uuids = source.list_unclaimed()
    found = source.find_instances(uuids) if uuids else ()
    text = (
        f"its request has the scheduler hint {REBUILD_HINT}, with which nova asks placement for nothing, at "
        "each move of it too (CVE-2026-46448)"
    )
    return [Problem(Reason.UNCLAIMED, f"instance {uuid}", text) for uuid in sorted(found)]


def _correct_holdings(
    context: Context, healer: Healer, cloud: AllocationView
) -> tuple[list[Change], list[Problem]]:
    """Return changes that correct what consumers hold, and a problem for each left unchanged.

    A consumer gets its owner, what its ports ask for and it does not hold, and amounts that are corrected.

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
    uuids = dict.fromkeys((*suspects, *healer.incomplete, *healer.corrected))
    consumers = [Consumer(uuid) for uuid in uuids]
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
        if uuid in healer.incomplete or uuid in healer.corrected:
            if after.allocations != cloud.held[uuid]:
                text = "what it holds changed while it was compared; repeat the command"
                problems.append(Problem(Reason.CONFLICT, f"instance {uuid}", text))
                continue
            kept = healer.corrected.get(uuid, cloud.held[uuid])
            after = replace(after, allocations=add_claims(kept, healer.incomplete.get(uuid, {})))
        if uuid in owners and after.owner is not None:
            after = after.owned_by(*owners[uuid])
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
