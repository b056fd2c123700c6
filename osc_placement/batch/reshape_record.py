# SPDX-License-Identifier: Apache-2.0
"""A reshape as a run has it: a change for each provider and consumer; and its way back from these. Pure.

The changes are made in one transaction, so what undoes them, or makes them after all, is a reshape as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from osc_placement.batch.plan import Change, Plan, ProviderState
from osc_placement.batch.repeat import Recorded
from osc_placement.batch.reshape import ReshapePlan

#: the kind of such a run, in the settings of its journal
KIND: Final = "reshape"
_FACETS: Final = ("inventories", "allocations")
#: how many moves are told in words
_FEW: Final = 2


def describe_moves(plan: ReshapePlan) -> str:
    """The moves in one line."""
    name = plan.world.name
    told = [
        f"{move.resource_class}={move.amount} from {name(move.source)} to {name(move.target)}"
        for move in plan.moves[:_FEW]
    ]
    more = [f"{len(plan.moves) - _FEW} more"] if len(plan.moves) > _FEW else []
    return f"reshape {', '.join(told + more)}"


def changes_of(plan: ReshapePlan) -> tuple[Change, ...]:
    """Return the change of each provider, and then of each consumer that moves."""
    world = plan.world
    providers = (
        Change(
            world.providers[uuid],
            ProviderState(inventories=world.inventories[uuid]),
            ProviderState(inventories=inventories),
        )
        for uuid, inventories in plan.inventories.items()
    )
    return (*providers, *(_change_consumer(plan, uuid) for uuid in plan.consumers))


def _change_consumer(plan: ReshapePlan, uuid: str) -> Change:
    held = plan.world.consumers[uuid]
    return Change(
        replace(held, allocations={}),
        ProviderState(allocations=held.allocations),
        ProviderState(allocations=plan.amounts_of(uuid)),
    )


def plan_steps(title: str, steps: Iterable[Change]) -> Plan:
    """The plan of a run with such changes."""
    return Plan(Recorded(title, _FACETS), tuple(steps))
