# SPDX-License-Identifier: Apache-2.0
"""The rule that a one-time-use device is not released while it is in use, whatever edit would do it.

A device may be claimed, and its inventory changed, between reading and writing. Therefore its inventories are
read first, with the generation of the provider, and its usages afterwards, and the release is written with
that generation. A claim increments the generation: one that the usages did not have yet makes the server
refuse the write with 409. A release is not planned again then, as the device may have been used and burned
once more; another change is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from osc_placement import microversion
from osc_placement.api.concurrency import CONCURRENCY
from osc_placement.batch.device import is_wholly_reserved
from osc_placement.batch.facets import Facet
from osc_placement.batch.plan import Change, Plan, Reading
from osc_placement.batch.select import read_states, read_usages
from osc_placement.errors import PlacementError
from osc_placement.model import ONE_TIME_USE

if TYPE_CHECKING:
    from osc_placement.api.client import PlacementClient


class DeviceInUse(PlacementError):
    """A change would release a one-time-use device that is in use."""

    def __init__(self, usages: Mapping[str, int]) -> None:
        self.usages = dict(usages)
        told = " and ".join(f"{used} {name}" for name, used in usages.items() if used)
        super().__init__(
            f"the one-time-use device is in use: {told} allocated; a later run can release it, when it is "
            "free again and was cleaned"
        )


class MayBeUsedAgain(PlacementError):
    """A device was changed after its release was planned, and may have been used again meanwhile."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"{name} was changed since its release was planned, and may have been used again; clean it, and "
            "release it with a new command"
        )


def is_releasing(change: Change) -> bool:
    """Return whether something can be allocated after a change of what was wholly reserved before."""
    after = change.after.inventories or {}
    return any(
        is_wholly_reserved(inventory) and name in after and not is_wholly_reserved(after[name])
        for name, inventory in (change.before.inventories or {}).items()
    )


def guard_devices(
    client: PlacementClient,
    plan: Plan,
    *,
    planned: Iterable[Change] = (),
    is_again: bool = False,
    concurrency: int = CONCURRENCY,
) -> Plan:
    """Return the plan that refuses to release one-time-use devices that are or may be in use.

    Usages are read now, after the inventories that were planned on. A provider of which they, or traits that
    the change does not have, cannot be read is not changed. Below the microversion that has traits nothing is
    a device.

    :param planned: the same changes as they were planned before; a device that was changed since may have
        been used again. A journal keeps the generation of that plan, so that the next resume refuses it too.
    :param is_again: whether the plan is made again after a conflict, so that somebody changed each provider
    """
    releasing = [step for step in plan.changes if is_releasing(step)]
    if not releasing or client.version < microversion.TRAITS:
        return plan
    known = {each.uuid: each.subject for each in planned}
    changed = {
        step.uuid
        for step in releasing
        if is_again or known.get(step.uuid, step.subject).generation != step.subject.generation
    }
    usages = read_usages(
        client, [Reading(step.subject, step.before) for step in releasing], concurrency=concurrency
    )
    used = {each.subject.uuid: each.usages or {} for each in usages}
    asked = [step for step in releasing if step.uuid in changed or any(used[step.uuid].values())]
    traits = _read(client, [step for step in asked if step.before.traits is None], "traits", concurrency)
    devices = [step for step in asked if ONE_TIME_USE in _traits_of(step, traits)]
    in_use = {step.uuid: DeviceInUse(used[step.uuid]) for step in devices if any(used[step.uuid].values())}
    # an earlier write of the run may have released it, while the change keeps what there was before
    doubtful = [step for step in devices if step.uuid in changed and step.uuid not in in_use]
    now = _read(client, doubtful, "inventories", concurrency)
    used_again = {
        step.uuid: MayBeUsedAgain(step.subject.name)
        for step in doubtful
        if (state := now[step.uuid].state) and is_releasing(replace(step, before=state))
    }
    readings = (*usages, *traits.values(), *now.values())
    return replace(
        plan,
        steps=tuple(
            replace(step, subject=known.get(step.uuid, step.subject)) if step.uuid in used_again else step
            for step in plan.steps
        ),
        unreadable={
            **plan.unreadable,
            **{each.subject.uuid: each.error for each in readings if each.error is not None},
        },
        refused={**plan.refused, **in_use, **used_again},
    )


def _read(
    client: PlacementClient, steps: Sequence[Change], facet: Facet, concurrency: int
) -> dict[str, Reading]:
    """Read a facet of the providers of changes as it is now, by UUID."""
    found = read_states(client, [step.subject for step in steps], (facet,), concurrency=concurrency)
    return {each.subject.uuid: each for each in found}


def _traits_of(step: Change, found: Mapping[str, Reading]) -> frozenset[str]:
    """Return the traits that a change has of its provider, or that were read; none if neither is known."""
    state = found[step.uuid].state if step.uuid in found else step.before
    return (state and state.traits) or frozenset()
