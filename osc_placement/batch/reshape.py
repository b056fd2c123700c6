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

A `Request` says what is asked for, and plans it on what is there now: `Moves`, the `Replacement` of a
provider by another, or a `RecordedReshape`. `service.Job.for_reshape` makes a job of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from osc_placement import microversion
from osc_placement.api.consumer import Allocations, Consumer
from osc_placement.batch.facets import ProviderState, is_same_cell
from osc_placement.batch.plan import Change
from osc_placement.errors import PlacementError
from osc_placement.model import Inventory, Provider
from osc_placement.terminal.lines import list_names

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

    @property
    def changes(self) -> tuple[Change, ...]:
        """Return the change of each provider, and then of each consumer that moves."""
        world = self.world
        providers = (
            Change(
                world.providers[uuid],
                ProviderState(inventories=world.inventories[uuid]),
                ProviderState(inventories=inventories),
            )
            for uuid, inventories in self.inventories.items()
        )
        consumers = (
            Change(
                replace(world.consumers[uuid], allocations={}),
                ProviderState(allocations=world.consumers[uuid].allocations),
                ProviderState(allocations=self.amounts_of(uuid)),
            )
            for uuid in self.consumers
        )
        return (*providers, *consumers)

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


class Request(Protocol):
    """Asks for a reshape."""

    @property
    def classes(self) -> Mapping[str, Set[str] | None]:
        """Return by provider the classes of which allocations may have to move; None stands for all."""

    def describe(self, world: World) -> str:
        """Return the title of the run."""

    def plan(self, world: World) -> ReshapePlan:
        """Plan on what is there now; raise ReshapeRefused if it cannot be."""

    def is_done(self, world: World) -> bool:
        """Return whether nothing is left to do, also because a request that was sent earlier did it."""


@dataclass(frozen=True, slots=True)
class Moves:
    """Asks for moves of inventories; ``pins`` are providers by consumer."""

    moves: Sequence[Move]
    pins: Mapping[str, str] = field(default_factory=dict)

    @property
    def classes(self) -> dict[str, set[str]]:
        """Return by source the classes that are moved from it, and no class by target."""
        classes: dict[str, set[str]] = {}
        for move in self.moves:
            classes.setdefault(move.source, set()).add(move.resource_class)
            classes.setdefault(move.target, set())
        return classes

    def describe(self, world: World) -> str:
        """Return the moves in one line."""
        told = [
            f"{move.resource_class}={move.amount} from {world.name(move.source)} to {world.name(move.target)}"
            for move in self.moves
        ]
        return f"reshape {list_names(told, _FEW)}"

    def plan(self, world: World) -> ReshapePlan:
        """Decide what moves where; raise ReshapeRefused if it cannot be."""
        inventories = move_inventories(world, self.moves)
        if all(held == world.inventories[uuid] for uuid, held in inventories.items()):
            # whether such a reshape was done, nothing could tell
            raise ReshapeRefused("The moves cancel out: no inventory would change")
        transfers = _Distribution(world, inventories, self.moves, self.pins).transfers()
        return ReshapePlan(world, self.moves, inventories, transfers)

    def is_done(self, _world: World) -> bool:
        """Return False: moves say how much, and not what is there afterwards."""
        return False


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


@dataclass(frozen=True, slots=True)
class Replacement:
    """Asks for a move of everything that is allocated from ``old`` to ``new``, which are UUIDs.

    ``new`` keeps its inventories, or gets those of ``old`` if it has none. ``old`` is left with none.
    """

    old: str
    new: str

    @property
    def classes(self) -> dict[str, Set[str] | None]:
        """Return that everything moves from the one to the other."""
        return {self.old: None, self.new: frozenset()}

    def describe(self, world: World) -> str:
        """Return what moves, and where to."""
        name = world.name(self.new)
        return f"provider {name}: move inventories and allocations of {self.old} to {self.new}"

    def plan(self, world: World) -> ReshapePlan:
        """Move all allocations; raise ReshapeRefused if they do not fit."""
        old, new, name = self.old, self.new, world.name(self.old)
        held = world.holdings[old]
        for consumer, amounts in sorted(held.items()):
            if twice := sorted(amounts.keys() & world.holdings[new].get(consumer, {}).keys()):
                raise ReshapeRefused(
                    f"consumer {consumer} holds {', '.join(twice)} of {name} and of the provider of the "
                    "compute node too; which of both is right is unknown, "
                    f"openstack resource provider allocation show {consumer} shows them"
                )
        given = new if world.inventories[new] else old
        inventories, sizes = world.inventories[given], f"provider {world.name(given)} ({given})"
        transfers = tuple(
            Transfer(consumer, old, new, resource, amount)
            for consumer, amounts in sorted(held.items())
            for resource, amount in sorted(amounts.items())
        )
        plan = ReshapePlan(world, (), {old: {}, new: inventories}, transfers)
        for transfer in transfers:
            resource = transfer.resource_class
            inventory = inventories.get(resource)
            if inventory is None:
                raise ReshapeRefused(
                    f"consumer {transfer.consumer} holds {resource} of {name}, and the provider of the "
                    "compute node has no inventory of it"
                )
            if not inventory.fits_unit(transfer.amount):
                raise ReshapeRefused(
                    f"consumer {transfer.consumer} holds {transfer.amount} of {resource}, which min_unit, "
                    f"max_unit or step_size of {sizes} forbid"
                )
        for resource in sorted({transfer.resource_class for transfer in transfers}):
            capacity = inventories[resource].capacity
            if (used := plan.used(new, resource)) > capacity:
                raise ReshapeRefused(
                    f"{used} of {resource} would be allocated in all, and {sizes} has a capacity of "
                    f"{capacity}; move instances away, or raise its allocation ratio"
                )
        return plan

    def is_done(self, world: World) -> bool:
        """Return whether the old provider has nothing."""
        return not (world.inventories[self.old] or world.holdings[self.old])


class RecordedReshape:
    """Asks for the changes of a reshape that was recorded, or for their reverse, on what is there now.

    :ivar transfers: what they move; what a consumer has given up since stays given up
    :ivar classes: by provider, the classes of which allocations may have to move
    """

    def __init__(self, title: str, changes: Iterable[Change]) -> None:
        self._title = title
        #: by provider, by class that changes, the inventories before and after
        self._inventories: dict[str, dict[str, tuple[Inventory | None, Inventory | None]]] = {}
        #: by consumer that moves, what it held when this was planned
        self._held: dict[str, Allocations] = {}
        transfers: list[Transfer] = []
        for change in changes:
            if isinstance(change.subject, Provider):
                old, new = change.before.inventories or {}, change.after.inventories or {}
                pairs = {name: (old.get(name), new.get(name)) for name in sorted({*old, *new})}
                moved = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
                self._inventories[change.uuid] = moved
            else:
                held, after = change.before.allocations or {}, change.after.allocations or {}
                self._held[change.uuid] = held
                transfers += [Transfer(change.uuid, *each) for each in _pair_amounts(held, after)]
        self.transfers = tuple(transfers)
        self.classes = {
            uuid: {name for name, (old, _) in moved.items() if old}
            for uuid, moved in self._inventories.items()
        }
        # a provider whose inventories did not change has no change in the journal
        for one in transfers:
            self.classes.setdefault(one.target, set())
            self.classes.setdefault(one.source, set()).add(one.resource_class)

    def describe(self, _world: World) -> str:
        """Return the title of the run."""
        return self._title

    def is_done(self, world: World) -> bool:
        """Return whether the inventories are as they are to be, which tells that it was carried out."""
        return all(
            is_same_cell(world.inventories[uuid].get(name), new)
            for uuid, moved in self._inventories.items()
            for name, (_, new) in moved.items()
        )

    def plan(self, world: World) -> ReshapePlan:
        """Plan the changes on what is there now; raise ReshapeRefused if they are not possible any more.

        A provider whose inventories do not change is in the plan as well, so that its generation is compared.
        """
        inventories = {uuid: dict(world.inventories[uuid]) for uuid in self.classes}
        for uuid, moved in self._inventories.items():
            for name, (old, new) in moved.items():
                if inventories[uuid].pop(name, None) != old:
                    raise ReshapeRefused(
                        f"The inventory of {name} on {world.name(uuid)} was changed since; this reshape can "
                        "neither be undone nor gone on with"
                    )
                if new:
                    inventories[uuid][name] = new
        moving = tuple(
            one
            for one in self.transfers
            if _amount(world.holdings[one.source], one.consumer, one.resource_class) >= one.amount
        )
        self._check_parts(world)
        self._check_claims(world, moving)
        totals = (
            {uuid: {name: each.total for name, each in held[uuid].items()} for uuid in inventories}
            for held in (world.inventories, inventories)
        )
        plan = ReshapePlan(world, [Move(*each) for each in _pair_amounts(*totals)], inventories, moving)
        for uuid, after in plan.inventories.items():
            for name in {name for held in world.holdings[uuid].values() for name in held}:
                over = plan.used(uuid, name) - (after[name].capacity if name in after else 0)
                if over > 0:
                    raise ReshapeRefused(
                        f"{over} of {name} are allocated from {world.name(uuid)} since, for which there was "
                        "no room before; move or delete those allocations first"
                    )
        return plan

    def _check_parts(self, world: World) -> None:
        """Raise ReshapeRefused if a consumer holds enough for some of its transfers, but not for all."""
        parts: dict[tuple[str, str, str], list[Transfer]] = {}
        for one in self.transfers:
            parts.setdefault((one.consumer, one.source, one.resource_class), []).append(one)
        for (consumer, at, name), transfers in parts.items():
            here = _amount(world.holdings[at], consumer, name)
            wanted = sum(one.amount for one in transfers)
            if min(one.amount for one in transfers) <= here < wanted:
                targets = " and ".join(sorted(world.name(one.target) for one in transfers))
                raise ReshapeRefused(
                    f"Consumer {consumer} holds {here} of {name} of {world.name(at)} now, and {wanted} would "
                    f"have to go to {targets}; how to divide less is unknown"
                )

    def _check_claims(self, world: World, moving: Sequence[Transfer]) -> None:
        """Raise ReshapeRefused if a consumer got more meanwhile of a class that is to move.

        What it got at the source would stay there, and the claim be split. What it got where the class moves
        to would be added to, and the claim be doubled.
        """
        come: dict[tuple[str, str, str], list[str]] = {}
        for one in moving:
            held, name = self._held[one.consumer], one.resource_class
            if _amount(world.holdings[one.target], one.consumer, name) > _amount(held, one.target, name):
                come.setdefault((one.consumer, one.source, one.target), []).append(name)
                continue
            here = _amount(world.holdings[one.source], one.consumer, name)
            if here > (planned := _amount(held, one.source, name)):
                raise ReshapeRefused(
                    f"Consumer {one.consumer} holds {here} of {name} of {world.name(one.source)} now, and "
                    f"held {planned} when this was planned, so its claim would be split"
                )
        for (consumer, at, to), names in come.items():
            classes = " ".join(f"--resource-class {name}" for name in sorted(names))
            raise ReshapeRefused(
                f"Consumer {consumer} got {', '.join(sorted(names))} of {world.name(to)} meanwhile, and also "
                f"holds it of {world.name(at)}; if it is one claim, openstack resource "
                f"provider allocation unset --provider {at} {classes} {consumer}"
            )


def _amount(allocations: Allocations, key: str, resource_class: str) -> int:
    """Return the amount of a class under a key of allocations; zero if there is none."""
    return allocations.get(key, {}).get(resource_class, 0)


def _pair_amounts(before: Allocations, after: Allocations) -> Iterator[tuple[str, str, str, int]]:
    """Yield what one provider lost and another one got: both UUIDs, a class, and an amount.

    Any pairing of these will do.
    """
    providers = list({**before, **after})
    for name in sorted({name for held in (*before.values(), *after.values()) for name in held}):
        more = {
            uuid: after.get(uuid, {}).get(name, 0) - before.get(uuid, {}).get(name, 0) for uuid in providers
        }
        for source in providers:
            for target in providers:
                amount = min(-more[source], more[target])
                if amount > 0:
                    yield source, target, name, amount
                    more[source] += amount
                    more[target] -= amount
