# SPDX-License-Identifier: Apache-2.0
"""The order in which the steps of a plan are made that depend on each other. Pure.

A state file, and the undo of its apply, create and delete things: a parent comes before its children, a
resource class before the inventories of it, and a provider goes when nothing is allocated from it any more.
The order follows from the changes alone, so that an undo and a resume find it as well.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence, Set

from osc_placement.api.consumer import Consumer
from osc_placement.batch.facets import ProviderState, read_identity
from osc_placement.batch.holdings import admit
from osc_placement.batch.plan import Change, CustomName
from osc_placement.model import Inventory, Provider


def find_stages(steps: Sequence[Change], twice: Container[str] = ()) -> list[list[Change]]:
    """Return the steps in stages; those of one stage do not depend on each other.

    1. consumers that give up all they hold
    2. classes and traits that are created
    3. providers that are created or changed, parents before children: a stage for each level
    4. consumers that hold something afterwards
    5. providers that lose a class of which a consumer of stage 4 gives up all that it holds there, also if
       they are changed otherwise; parents before children: a stage for each level
    6. providers that are deleted, children before parents: a stage for each level
    7. classes and traits that are deleted

    A provider that is created, and has less capacity than its consumers hold, is in stage 3 with the
    inventories of `find_temporary_inventories`, and in stage 5 again; ``twice`` has its UUID.

    A provider of stage 5 that also gets what a consumer of stage 4 needs has to be widened before that stage,
    see `find_widened`. No order serves two providers that exchange their places in a tree, of which one is
    in stage 5: the server refuses the other.
    """
    by_uuid = {step.uuid: step for step in steps}
    given_up = _find_given_up(steps)
    stages: dict[tuple[int, int], list[Change]] = {}
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
        stages.setdefault((stage, level), []).append(step)
        if step.uuid in twice:
            stages.setdefault((5, level), []).append(step)
    return [stages[rank] for rank in sorted(stages)]


def _find_awaited(step: Change, given_up: Set[tuple[str, str]]) -> list[str]:
    """Return the classes that a provider loses when consumers have given them up."""
    lost = (step.before.inventories or {}).keys() - (step.after.inventories or {}).keys()
    return [name for name in lost if (step.uuid, name) in given_up]


def find_widened(steps: Sequence[Change]) -> list[Change]:
    """Return changes that give providers new inventories beside those that their consumers still hold.

    They are for providers that lose a class which a consumer gives up, and from which a consumer holds
    something afterwards. Each has the inventories before and after alone.
    """
    given_up = _find_given_up(steps)
    claimed = {
        uuid for step in steps if isinstance(step.subject, Consumer) for uuid in step.after.allocations or ()
    }
    widened = []
    for step in steps:
        if step.uuid in claimed and (awaited := _find_awaited(step, given_up)):
            before, after = step.before.inventories or {}, step.after.inventories or {}
            both = {**{name: before[name] for name in awaited}, **after}
            if both.keys() != before.keys() or any(both[name] != before[name] for name in both):
                images = ProviderState(inventories=before), ProviderState(inventories=both)
                widened.append(Change(step.subject, *images))
    return widened


def find_temporary_inventories(steps: Sequence[Change]) -> dict[str, dict[str, Inventory]]:
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


def find_names_in_the_way(takers: Sequence[Change], holders: Sequence[Change]) -> list[Change]:
    """Return those of ``holders`` whose providers have a name that one of ``takers`` gives to another."""
    wanted = {
        read_identity(step.after.identity)[0]: step.uuid
        for step in takers
        if "identity" in step.facets and step.after.identity
    }
    return [
        step
        for step in holders
        if "identity" in step.facets
        and step.before.identity
        and not isinstance(step.subject, CustomName)
        and wanted.get(read_identity(step.before.identity)[0], step.uuid) != step.uuid
    ]
