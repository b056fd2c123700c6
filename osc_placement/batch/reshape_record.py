# SPDX-License-Identifier: Apache-2.0
"""A reshape as a run has it: a change for each provider and consumer; and its way back from these. Pure.

The changes are made in one transaction, so what undoes them, or makes them after all, is a reshape as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from osc_placement.api.consumer import Allocations
from osc_placement.batch.difference import is_same_inventory
from osc_placement.batch.plan import Change, Plan, ProviderState
from osc_placement.batch.repeat import Recorded
from osc_placement.batch.reshape import Inventories, ReshapePlan, Transfer, World
from osc_placement.model import Inventory, Provider

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
    """What becomes of each provider, and then of each consumer that moves."""
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


@dataclass(frozen=True, slots=True)
class Undo:
    """The way back: inventories by provider, of the classes that were moved, and what moved with them."""

    before: Mapping[str, Inventories]
    after: Mapping[str, Inventories]
    transfers: tuple[Transfer, ...]

    @property
    def providers(self) -> tuple[str, ...]:
        """The providers concerned."""
        return tuple(self.after)

    @property
    def classes(self) -> dict[str, frozenset[str]]:
        """By provider, those of which allocations may have to move."""
        # where as much came as went no inventory changed, and allocations moved all the same
        return {
            uuid: frozenset(held) | {one.resource_class for one in self.transfers if one.target == uuid}
            for uuid, held in self.after.items()
        }

    def turn(self) -> Undo:
        """The way there."""
        return Undo(
            self.after,
            self.before,
            tuple(
                Transfer(one.consumer, one.target, one.source, one.resource_class, one.amount)
                for one in self.transfers
            ),
        )

    def is_done(self, world: World) -> bool:
        """Whether the inventories are what they shall become, which is as much as the transaction tells."""
        return all(
            _is_same(world.inventories[uuid].get(name), wanted.get(name))
            for uuid, wanted in self.before.items()
            for name in {*wanted, *self.after[uuid]}
        )


def _is_same(one: Inventory | None, other: Inventory | None) -> bool:
    if one is None or other is None:
        return one is other
    return is_same_inventory(one, other)


def undo_of(changes: Iterable[Change]) -> Undo:
    """What undoes the changes of a reshape."""
    before: dict[str, Inventories] = {}
    after: dict[str, Inventories] = {}
    transfers: list[Transfer] = []
    for change in changes:
        if isinstance(change.subject, Provider):
            old, new = change.before.inventories or {}, change.after.inventories or {}
            moved = {name for name in {*old, *new} if old.get(name) != new.get(name)}
            before[change.uuid] = {name: old[name] for name in old if name in moved}
            after[change.uuid] = {name: new[name] for name in new if name in moved}
        else:
            transfers += _find_transfers(
                change.uuid, change.before.allocations or {}, change.after.allocations or {}
            )
    return Undo(before, after, tuple(transfers))


def _find_transfers(consumer: str, before: Allocations, after: Allocations) -> Iterator[Transfer]:
    """What a consumer had to give up here and got there; of several ways to pair these, any is as good."""
    providers = list({**before, **after})
    for name in sorted({name for held in (*before.values(), *after.values()) for name in held}):
        more = {
            uuid: after.get(uuid, {}).get(name, 0) - before.get(uuid, {}).get(name, 0) for uuid in providers
        }
        for source in providers:
            for target in providers:
                amount = min(-more[source], more[target])
                if amount > 0:
                    yield Transfer(consumer, source, target, name, amount)
                    more[source] += amount
                    more[target] -= amount
