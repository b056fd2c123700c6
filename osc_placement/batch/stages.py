# SPDX-License-Identifier: Apache-2.0
"""The writes of a plan whose steps depend on each other, in their order. Pure.

A state file, and the undo of its apply, create and delete things: a parent comes before its children, a
resource class before the inventories of it, and a provider goes when nothing is allocated from it any more.
Some providers are written twice, as others need something in between: a name, or an inventory. The order and
the writes follow from the changes alone, so that an undo and a resume find them as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from osc_placement.api.consumer import Consumer
from osc_placement.batch.facets import ProviderState, describe_identity, read_identity
from osc_placement.batch.holdings import admit, make_room
from osc_placement.batch.plan import Change, CustomName, Plan, temporary_name
from osc_placement.model import Inventory, Provider


class Write(NamedTuple):
    """A write of a step; one that leaves a ``half`` is the first of two."""

    step: Change
    half: ProviderState | None = None

    @property
    def is_name(self) -> bool:
        """Return whether a provider gets a temporary name, so that another can take its own."""
        return self.half is not None and self.half.identity is not None

    @property
    def change(self) -> Change:
        """Return what is written."""
        if self.half is None:
            return self.step
        known = self.half.known
        if self.step.is_new:
            return replace(self.step, after=replace(self.step.after, **known))
        before = ProviderState(**{facet: getattr(self.step.before, facet) for facet in known})
        return Change(self.step.subject, before, self.half)


def schedule(plan: Plan, chosen: Sequence[Change] | None = None) -> list[list[Write]]:
    """Return the writes of a plan in stages; those of one stage do not depend on each other.

    1. consumers that give up all they hold
    2. classes and traits that are created
    3. providers that are created or changed, parents before children: a stage for each level
    4. consumers that hold something afterwards
    5. providers that lose a class of which a consumer of stage 4 gives up all that it holds there, also if
       they are changed otherwise; parents before children: a stage for each level
    6. providers that are deleted, children before parents: a stage for each level
    7. classes and traits that are deleted

    Before stage 3, providers get a temporary name whose name another one takes. A provider that is created,
    and has less capacity than its consumers hold, is in stage 3 with the inventories of
    `find_temporary_inventories`, and in stage 5 again. A provider of stage 5 that also gets what a consumer
    of stage 4 needs gets it before that stage, beside what it loses later.

    Each step of a plan that is not staged has one write, and all are in one stage. No order serves two
    providers that exchange their places in a tree, of which one is in stage 5: the server refuses the other.

    :param chosen: steps of which the writes are returned, with the temporary names that they need; None: all
    """
    steps = plan.steps if chosen is None else chosen
    if not plan.is_staged:
        return [[Write(step) for step in steps]]
    by_uuid = {step.uuid: step for step in steps}
    changes = [step for step in plan.changes if step.uuid in by_uuid]
    given_up = _find_given_up(steps)
    # a resume makes the claims of consumers that could not be read
    temporary = find_temporary_inventories([step for step in plan.steps if step.uuid not in plan.refused])
    for step in changes if plan.goes_on else ():
        if step.is_new and step.halves:  # the run may have made the claims already
            temporary[step.uuid] = step.halves[-1].inventories or {}
    stages: dict[tuple[int, float], list[Write]] = {}
    for name in _find_names_in_the_way(changes, plan.changes):
        stages.setdefault((2, math.inf), []).append(name)
    for widened in _find_widened(changes):
        stages.setdefault((3, math.inf), []).append(widened)
    for step in steps:
        is_deleted = step.before.identity and not step.after.identity
        level = 0
        if isinstance(step.subject, Consumer):
            stage = 4 if step.after.allocations else 1
        elif isinstance(step.subject, CustomName):
            stage = 7 if is_deleted else 2
        elif is_deleted:
            stage, level = 6, -_depth(step, by_uuid, "before")
        else:
            stage, level = 5 if _find_awaited(step, given_up) else 3, _depth(step, by_uuid, "after")
        if step.facets and step.uuid in temporary:
            half = ProviderState(inventories=temporary[step.uuid])
            stages.setdefault((3, level), []).append(Write(step, half))
            stage = 5
        stages.setdefault((stage, level), []).append(Write(step))
    return [stages[rank] for rank in sorted(stages)]


def note_halves(plan: Plan) -> Plan:
    """Return the plan whose steps have what their first writes leave, beside what earlier ones left.

    A resume and an undo find by it that a run ended between the two writes of a step.
    """
    noted: dict[str, Change] = {}
    for write in chain.from_iterable(schedule(plan)):
        step = noted.get(write.step.uuid, write.step)
        half = _find_room(step) if write.half is None else write.half
        # a temporary name is known by itself
        if half is not None and half.identity is None and half not in step.halves:
            noted[step.uuid] = replace(step, halves=(*step.halves, half))
    return replace(plan, steps=tuple(noted.get(step.uuid, step) for step in plan.steps)) if noted else plan


def _find_room(step: Change) -> ProviderState | None:
    """Return what the first write leaves of a provider's inventories and allocations, if there are two."""
    is_known = step.after.allocations is not None and isinstance(step.subject, Provider)
    if not is_known or "allocations" not in step.facets:
        return None
    room = make_room(step.after)
    return None if room == step.after.inventories else ProviderState(room, allocations=step.after.allocations)


def choose_canaries(plan: Plan, stages: Iterable[Iterable[Write]]) -> list[Change]:
    """Return the changes that need no other which is written twice, in the order of their stages."""
    writes = [write for stage in stages for write in stage]
    changing = {step.uuid for step in plan.changes}
    #: what is changed twice, or needs that
    waiting = {write.step.uuid for write in writes if write.half and not write.is_name}
    able = []
    for write in writes:
        step = write.step
        if write.half or step.uuid not in changing:
            continue
        needed = {step.uuid, read_identity(step.after.identity)[1], *(step.after.allocations or ())}
        if waiting.isdisjoint(needed):
            able.append(step)
        else:  # what a consumer holds until then cannot go either
            waiting |= {step.uuid, *(step.before.allocations or ())}
    return able


def _find_awaited(step: Change, given_up: Set[tuple[str, str]]) -> list[str]:
    """Return the classes that a provider loses when consumers have given them up."""
    lost = (step.before.inventories or {}).keys() - (step.after.inventories or {}).keys()
    return [name for name in lost if (step.uuid, name) in given_up]


def _find_widened(steps: Sequence[Change]) -> Iterator[Write]:
    """Yield the writes that give providers new inventories beside those that their consumers still hold.

    They are for providers that lose a class which a consumer gives up, and from which a consumer holds
    something afterwards.
    """
    given_up = _find_given_up(steps)
    claimed = {
        uuid for step in steps if isinstance(step.subject, Consumer) for uuid in step.after.allocations or ()
    }
    for step in steps:
        if step.uuid in claimed and (awaited := _find_awaited(step, given_up)):
            before, after = step.before.inventories or {}, step.after.inventories or {}
            both = {**{name: before[name] for name in awaited}, **after}
            if both.keys() != before.keys() or any(both[name] != before[name] for name in both):
                yield Write(step, ProviderState(inventories=both))


def find_temporary_inventories(steps: Sequence[Change]) -> dict[str, Mapping[str, Inventory]]:
    """Return, by UUID, inventories for providers that are created with less capacity than is allocated.

    Placement has such providers: the capacity was lowered after the claims, or nova-compute reserved a
    one-time-use device for the instance that has it. It refuses the claims there, so they are made while the
    providers have these inventories.
    """
    created = {
        step.uuid: step.after.inventories
        for step in steps
        if isinstance(step.subject, Provider) and step.is_new and step.after.inventories
    }
    claims: dict[tuple[str, str], list[int]] = {}
    for step in steps if created else ():
        if isinstance(step.subject, Consumer):
            for uuid, amounts in (step.after.allocations or {}).items():
                for name, amount in amounts.items() if uuid in created else ():
                    claims.setdefault((uuid, name), []).append(amount)
    temporary = {
        uuid: {name: admit(each, claims.get((uuid, name), ())) for name, each in inventories.items()}
        for uuid, inventories in created.items()
    }
    return {uuid: inventories for uuid, inventories in temporary.items() if inventories != created[uuid]}


def _find_given_up(steps: Sequence[Change]) -> set[tuple[str, str]]:
    """Return provider and class of what consumers give up that hold something else afterwards."""
    return {
        (provider, name)
        for step in steps
        if isinstance(step.subject, Consumer) and step.after.allocations
        for provider, amounts in (step.before.allocations or {}).items()
        for name in amounts.keys() - step.after.allocations.get(provider, {}).keys()
    }


def _depth(step: Change, by_uuid: Mapping[str, Change], image: str) -> int:
    """Return how many of the providers above one are in the plan too; others depend on nothing here."""
    seen = {step.uuid}
    parent = read_identity(getattr(step, image).identity)[1]
    depth = 0
    while parent is not None and parent in by_uuid and parent not in seen:
        seen.add(parent)
        depth += 1
        parent = read_identity(getattr(by_uuid[parent], image).identity)[1]
    return depth


def _find_names_in_the_way(takers: Sequence[Change], holders: Sequence[Change]) -> Iterator[Write]:
    """Yield the writes of temporary names to those of ``holders`` whose names ``takers`` give to others."""
    wanted = {
        read_identity(step.after.identity)[0]: step.uuid
        for step in takers
        if "identity" in step.facets and step.after.identity and isinstance(step.subject, Provider)
    }
    for step in holders:
        name, parent = read_identity(step.before.identity)
        is_renamed = "identity" in step.facets and isinstance(step.subject, Provider)
        if is_renamed and name is not None and wanted.get(name, step.uuid) != step.uuid:
            yield Write(step, ProviderState(identity=describe_identity(temporary_name(step.uuid), parent)))
