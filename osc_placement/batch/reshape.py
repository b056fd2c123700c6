# SPDX-License-Identifier: Apache-2.0
"""Moving inventory between providers together with the allocations on it, planned. Pure.

1. The inventories: a move takes an amount from the total of one provider and adds it to another's, which gets
   the source's terms where it has none of the class. What of ``reserved`` no longer fits goes along, and a
   ``max_unit`` that was the whole total stays the whole total.
2. The allocations: of a source that is left with less capacity than is allocated from it, consumers move
   until it fits; those that are pinned first, then the largest, each whole, and to the target with the most
   room.
3. What does not fit is refused, with what and by how much, before anything is written.

A run has a change for each provider and each consumer that moves. They are made in one transaction, so what
undoes them, or makes them after all, is a reshape as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from osc_placement import microversion
from osc_placement.api.consumer import Allocations, Consumer
from osc_placement.batch.facets import ProviderState
from osc_placement.batch.plan import Change
from osc_placement.errors import PlacementError
from osc_placement.model import Inventory, Provider
from osc_placement.terminal.lines import list_names

#: the kind of a run that is a reshape, in the settings of its journal
KIND: Final = "reshape"
#: how many moves are told in words
_FEW: Final = 2
#: by resource class
Inventories = Mapping[str, Inventory]


class ReshapeRefused(PlacementError):
    """The moves make no sense, or something would not fit."""


@dataclass(frozen=True, slots=True)
class Move:
    """An amount of a class from one provider, by UUID, to another."""

    source: str
    target: str
    resource_class: str
    amount: int


@dataclass(frozen=True, slots=True)
class Transfer:
    """The amount of a class that one consumer holds, moved from one provider to another."""

    consumer: str
    source: str
    target: str
    resource_class: str
    amount: int

    def reverse(self) -> Transfer:
        """Return the transfer back."""
        return replace(self, source=self.target, target=self.source)


@dataclass(frozen=True, slots=True)
class World:
    """The current inventories and allocations that a reshape is about.

    :ivar inventories: by provider: everything that each provider concerned has
    :ivar holdings: by provider, by consumer: everything that is allocated from each provider concerned
    :ivar consumers: those who hold something that may have to move
    """

    providers: Mapping[str, Provider]
    inventories: Mapping[str, Inventories]
    holdings: Mapping[str, Allocations]
    consumers: Mapping[str, Consumer]

    def name(self, uuid: str) -> str:
        """Return the name of a provider."""
        return self.providers[uuid].name if uuid in self.providers else uuid

    def used(self, uuid: str, resource_class: str, transfers: Sequence[Transfer] = ()) -> int:
        """Return how much of a class is allocated from a provider after some transfers."""
        held = sum(amounts.get(resource_class, 0) for amounts in self.holdings[uuid].values())
        moved = [one for one in transfers if one.resource_class == resource_class]
        come = sum(one.amount for one in moved if one.target == uuid)
        return held + come - sum(one.amount for one in moved if one.source == uuid)


@dataclass(frozen=True, slots=True)
class ReshapePlan:
    """The new inventories of the providers, and the allocations that move."""

    world: World
    moves: Sequence[Move]
    inventories: Mapping[str, Inventories]
    transfers: Sequence[Transfer]

    def amounts_of(self, consumer: str) -> dict[str, dict[str, int]]:
        """Return the amounts that a consumer that moves holds afterwards, by provider and class."""
        amounts = {uuid: dict(held) for uuid, held in self.world.consumers[consumer].allocations.items()}
        for transfer in self.transfers:
            if transfer.consumer == consumer:
                name = transfer.resource_class
                for uuid, change in ((transfer.source, -transfer.amount), (transfer.target, transfer.amount)):
                    held = amounts.setdefault(uuid, {})
                    held[name] = held.get(name, 0) + change
                    if not held[name]:
                        del held[name]
        return {uuid: held for uuid, held in amounts.items() if held}

    def used(self, uuid: str, resource_class: str) -> int:
        """Return how much of a class is allocated from a provider afterwards."""
        return self.world.used(uuid, resource_class, self.transfers)

    @property
    def consumers(self) -> Sequence[str]:
        """Return the consumers that move, each once."""
        return sorted({transfer.consumer for transfer in self.transfers})

    def to_json(self) -> dict[str, Any]:
        """Return the body of the request, in the form of 1.28 up to 1.37."""
        world = self.world
        return {
            "inventories": {
                uuid: {
                    "inventories": {name: inventory.to_json() for name, inventory in inventories.items()},
                    "resource_provider_generation": world.providers[uuid].generation,
                }
                for uuid, inventories in self.inventories.items()
            },
            "allocations": {
                uuid: replace(world.consumers[uuid], allocations=self.amounts_of(uuid)).to_json(
                    microversion.REPARENTING
                )
                for uuid in self.consumers
            },
        }


def plan_reshape(world: World, moves: Sequence[Move], pins: Mapping[str, str] | None = None) -> ReshapePlan:
    """Decide what moves where; ``pins`` are providers by consumer. ReshapeRefused if it cannot be."""
    inventories = move_inventories(world, moves)
    if all(held == world.inventories[uuid] for uuid, held in inventories.items()):
        # whether such a reshape was done, nothing could tell
        raise ReshapeRefused("The moves cancel out: no inventory would change")
    distribution = _Distribution(world, inventories, moves, pins or {})
    transfers = distribution.transfers()
    return ReshapePlan(world, moves, inventories, transfers)


def move_inventories(world: World, moves: Iterable[Move]) -> dict[str, dict[str, Inventory]]:
    """Return the inventories of the providers concerned after the moves, made one after the other."""
    after: dict[str, dict[str, Inventory]] = {}
    for move in moves:
        source = after.setdefault(move.source, dict(world.inventories[move.source]))
        target = after.setdefault(move.target, dict(world.inventories[move.target]))
        if move.source == move.target:
            raise ReshapeRefused(f"{world.name(move.source)} cannot give {move.resource_class} to itself")
        given = source.get(move.resource_class)
        if given is None or given.total < move.amount:
            there = f"only {given.total}" if given else "none"
            raise ReshapeRefused(
                f"{world.name(move.source)} has {there} of {move.resource_class}, {move.amount} cannot be "
                "moved from it"
            )
        total = given.total - move.amount
        reserved = min(given.reserved, total)
        had = target.get(move.resource_class)
        base = had or replace(given, total=0, reserved=0)
        target[move.resource_class] = replace(
            base,
            total=base.total + move.amount,
            reserved=base.reserved + given.reserved - reserved,
            max_unit=_scale(had or given, base.total + move.amount),
        )
        if total:
            max_unit = _scale(given, total)
            source[move.resource_class] = replace(given, total=total, reserved=reserved, max_unit=max_unit)
        else:
            del source[move.resource_class]
    return after


def _scale(inventory: Inventory, total: int) -> int:
    """Return the max_unit for a new total: the total if it was the total before, else unchanged."""
    return total if inventory.max_unit == inventory.total else inventory.max_unit


class _Distribution:
    """Finds places for what has to move; what it keeps is what has been placed so far."""

    def __init__(
        self,
        world: World,
        inventories: Mapping[str, Inventories],
        moves: Sequence[Move],
        pins: Mapping[str, str],
    ) -> None:
        self._world = world
        self._inventories = inventories
        self._pins = pins
        self._placed: list[Transfer] = []
        #: by source and class, in order and each once
        self._targets: dict[tuple[str, str], dict[str, None]] = {}
        for move in moves:
            self._targets.setdefault((move.source, move.resource_class), {})[move.target] = None

    def transfers(self) -> Sequence[Transfer]:
        """Return a target for each amount that has to move; raise ReshapeRefused if it cannot."""
        for consumer, provider in self._pins.items():
            held = [
                (source, name, targets)
                for (source, name), targets in self._targets.items()
                if name in self._world.holdings[source].get(consumer, {})
            ]
            if not held:
                raise ReshapeRefused(f"Consumer {consumer} has nothing that is moved; leave it out")
            if not any(provider == source or provider in targets for source, _, targets in held):
                raise ReshapeRefused(
                    f"Nothing that consumer {consumer} has is moved to {self._world.name(provider)}"
                )
        # the pinned ones first, as the others go where there is free capacity
        for (source, resource_class), targets in self._targets.items():
            for consumer, amount in self._held(source, resource_class):
                pinned = self._pins.get(consumer)
                if pinned is None or pinned not in targets:
                    continue
                if not self._fits(consumer, pinned, resource_class, amount):
                    raise ReshapeRefused(self._describe_misfit(consumer, resource_class, amount, [pinned]))
                self._placed.append(Transfer(consumer, source, pinned, resource_class, amount))
        for (source, resource_class), targets in self._targets.items():
            self._relieve(source, resource_class, tuple(targets))
        return tuple(self._placed)

    def _relieve(self, source: str, resource_class: str, targets: Sequence[str]) -> None:
        misfit = ""
        over = self._excess(source, resource_class)
        for consumer, amount in self._held(source, resource_class):
            if over <= 0:
                return
            if consumer in self._pins:
                continue
            # the target with the most free capacity that takes the amount; of equals the first
            fitting = [uuid for uuid in targets if self._fits(consumer, uuid, resource_class, amount)]
            target = max(fitting, key=lambda uuid: -self._excess(uuid, resource_class), default=None)
            if target is None:
                misfit = misfit or self._describe_misfit(consumer, resource_class, amount, targets)
                continue
            self._placed.append(Transfer(consumer, source, target, resource_class, amount))
            over = self._excess(source, resource_class)
        if over > 0:
            raise ReshapeRefused(
                f"{over} of {resource_class} would be allocated from {self._world.name(source)} beyond what "
                f"is left there; {misfit or 'the consumers that are left are pinned elsewhere'}"
            )

    def _held(self, source: str, resource_class: str) -> Sequence[tuple[str, int]]:
        """Return the consumers and the amounts they hold, the largest first."""
        held = [
            (consumer, amounts[resource_class])
            for consumer, amounts in self._world.holdings[source].items()
            if resource_class in amounts
        ]
        return sorted(held, key=lambda pair: (-pair[1], pair[0]))

    def _excess(self, uuid: str, resource_class: str) -> int:
        inventory = self._inventories[uuid].get(resource_class)
        return self._used(uuid, resource_class) - (inventory.capacity if inventory else 0)

    def _used(self, uuid: str, resource_class: str) -> int:
        return self._world.used(uuid, resource_class, self._placed)

    def _fits(self, consumer: str, target: str, resource_class: str, amount: int) -> bool:
        inventory = self._inventories[target].get(resource_class)
        if inventory is None:
            return False
        held = self._world.holdings[target].get(consumer, {}).get(resource_class, 0)
        come = sum(
            one.amount
            for one in self._placed
            if (one.consumer, one.target, one.resource_class) == (consumer, target, resource_class)
        )
        used = self._used(target, resource_class)
        return inventory.fits_unit(held + come + amount) and inventory.has_room(amount, used)

    def _describe_misfit(
        self, consumer: str, resource_class: str, amount: int, targets: Sequence[str]
    ) -> str:
        rooms = ", ".join(
            f"{self._world.name(uuid)} has room for {max(0, -self._excess(uuid, resource_class))}"
            for uuid in targets
        )
        best = max((max(0, -self._excess(uuid, resource_class)) for uuid in targets), default=0)
        short = (
            f"{amount - best} short" if amount > best else "min_unit, max_unit or step_size forbid it there"
        )
        return f"the {amount} of consumer {consumer} fit nowhere ({short}: {rooms})"


def describe_moves(plan: ReshapePlan) -> str:
    """Return the moves in one line."""
    name = plan.world.name
    told = [
        f"{move.resource_class}={move.amount} from {name(move.source)} to {name(move.target)}"
        for move in plan.moves
    ]
    return f"reshape {list_names(told, _FEW)}"


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
    consumers = (
        Change(
            replace(world.consumers[uuid], allocations={}),
            ProviderState(allocations=world.consumers[uuid].allocations),
            ProviderState(allocations=plan.amounts_of(uuid)),
        )
        for uuid in plan.consumers
    )
    return (*providers, *consumers)
