# SPDX-License-Identifier: Apache-2.0
"""What a plan must not do: a module for each rule, and `guard`, which runs all of them.

A guard takes a plan and returns it with refusals, by UUID, and with warnings; the policy of the plan says
what it may take away. ``staged`` is about what the server would refuse of a plan whose steps depend on each
other, ``capacity`` and ``advice`` about what is allocated, ``devices`` about one-time-use devices, ``names``
about unknown traits and resource classes, and ``managed`` about traits that nova-compute reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from osc_placement.api.concurrency import CONCURRENCY
from osc_placement.batch.guards.advice import advise
from osc_placement.batch.guards.capacity import is_shrinking
from osc_placement.batch.guards.devices import guard_devices
from osc_placement.batch.guards.managed import guard_managed
from osc_placement.batch.guards.names import refuse_unknown
from osc_placement.batch.guards.staged import guard_staged
from osc_placement.batch.plan import Change, Plan, Policy, Reading
from osc_placement.batch.select import read_usages

if TYPE_CHECKING:
    from osc_placement.api.client import PlacementClient


def guard(
    client: PlacementClient,
    plan: Plan,
    policy: Policy,
    readings: Sequence[Reading] | None = None,
    *,
    planned: Iterable[Change] | None = None,
    concurrency: int = CONCURRENCY,
) -> Plan:
    """Return the plan with what a policy refuses, and with warnings; nothing is written.

    Raise PlacementError where nothing of a staged plan can be made, or its surroundings cannot be read. A
    provider of another plan about which something cannot be read is not changed.

    :param readings: what the plan was made of, with usages where they are known; of a staged plan, of all
        providers
    :param planned: the changes of which it was made that were planned before, for a resume, an undo or a
        saved plan: the names in these may be unknown by now, and their devices used again
    """
    plan = replace(plan, policy=policy)
    plan = guard_devices(client, plan, planned=planned or (), concurrency=concurrency)
    plan = plan if planned is None else refuse_unknown(client, plan)
    # what is refused by itself may be what others depend on, and what is refused otherwise drops nothing
    plan = guard_managed(plan) if plan.goes_on else plan
    if plan.is_staged:
        plan = guard_staged(client, plan, readings, concurrency=concurrency)
    elif policy.capacity != "ignore":
        plan = _guard_capacity(client, plan, readings, concurrency)
    return plan if plan.goes_on else guard_managed(plan)


def guard_again(
    client: PlacementClient, plan: Plan, changes: Iterable[Change], *, concurrency: int = CONCURRENCY
) -> Plan:
    """Return a plan of changes that were planned again after a conflict, with what the policy refuses."""
    again = Plan(plan.edit, tuple(changes), policy=plan.policy, goes_on=True)
    if plan.policy.capacity == "keep":
        again = _guard_capacity(client, again, None, concurrency)
    return guard_managed(guard_devices(client, again, is_again=True, concurrency=concurrency))


def _guard_capacity(
    client: PlacementClient, plan: Plan, readings: Sequence[Reading] | None, concurrency: int
) -> Plan:
    """Read the usages that `advise` needs, and return the plan with its warnings and refusals.

    :param readings: what the plan was made of, where their usages may be known; else those are read
    """
    if readings is None:
        readings = [Reading(step.subject, step.before) for step in plan.changes]
    shrinking = {step.uuid for step in plan.changes if is_shrinking(step)}
    concerned = [reading for reading in readings if reading.subject.uuid in shrinking]
    known = read_usages(client, concerned, concurrency=concurrency) if concerned else ()
    unknown = {reading.subject.uuid: reading.error for reading in known if reading.error is not None}
    return advise(
        replace(plan, unreadable={**plan.unreadable, **unknown}),
        {reading.subject.uuid: reading.usages for reading in known if reading.usages is not None},
    )
