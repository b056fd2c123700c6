# SPDX-License-Identifier: Apache-2.0
"""The providers for the claim of an instance whose host is known. Pure.

A class is placed on the provider of the host's tree, or the sharing provider, that has inventory of it. If
several have free capacity, it is unknown which one nova's driver took, so the claim is not placed. The groups
of a port are placed in the host's tree, on providers with the traits that they require.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from osc_placement.candidates.node import Stock
from osc_placement.migrate.migrations.cloud import AllocationView, Claims, iterate_amounts
from osc_placement.migrate.nova.ports import RequestGroup
from osc_placement.migrate.problem import Reason

_THOUSAND: Final = 1000
#: groups that are tried on a provider before the search for a choice ends; they take less than a second
_MOST_TRIES: Final = 20_000


class Unplaceable(Exception):
    """An error: a claim cannot be placed, for the reason in its text; ``reason`` is the kind of problem."""

    reason: ClassVar[Reason]


class NoInventory(Unplaceable):
    """An error: no provider of the host has inventory of a class."""

    reason = Reason.NO_INVENTORY


class Ambiguous(Unplaceable):
    """An error: several providers could have the allocation."""

    reason = Reason.AMBIGUOUS


@dataclass
class OverCapacity(Unplaceable):
    """An error: the only provider of a class is full; the allocation ratio ``ratio`` would make it fit."""

    reason = Reason.OVER_CAPACITY

    provider: str
    resource: str
    amount: int
    ratio: float

    def __str__(self) -> str:
        room = f"{self.provider} has no room for {self.resource}={self.amount}"
        return f"{room}; an allocation ratio of {self.ratio:g} would fit it"


class Ledger:
    """The usage of each inventory, including what was placed since it was read."""

    def __init__(self, cloud: AllocationView) -> None:
        self._cloud = cloud
        self._used = defaultdict(int, cloud.usages())

    def place(self, claim: Mapping[str, int], node: str) -> dict[str, dict[str, int]]:
        """Place a claim on the host with this compute node, and take it; Unplaceable says why not."""
        reach = self._cloud.reach(node)
        placed: dict[str, dict[str, int]] = defaultdict(dict)
        for resource, amount in claim.items():
            placed[self._find(resource, amount, reach)][resource] = amount
        self.take(placed)
        return dict(placed)

    def correct(self, claims: Claims, amounts: Mapping[str, int], node: str) -> dict[str, dict[str, int]]:
        """Return claims on the host with this compute node with these amounts of classes, and take them.

        An amount stays on the provider that has some of its class; 0 takes it away. Raise Unplaceable, and
        take nothing, if an amount does not fit or may be on several providers.
        """
        reach = self._cloud.reach(node)
        corrected = {provider: dict(held) for provider, held in claims.items()}
        for resource, amount in amounts.items():
            holders = {
                uuid: corrected[uuid].pop(resource) for uuid in reach if resource in claims.get(uuid, ())
            }
            if amount:
                provider = (
                    self._find_again(resource, amount, holders)
                    if holders
                    else self._find(resource, amount, reach)
                )
                corrected.setdefault(provider, {})[resource] = amount
        self.replace(claims, corrected)
        return {provider: held for provider, held in corrected.items() if held}

    def _find_again(self, resource: str, amount: int, holders: Mapping[str, int]) -> str:
        """Return the provider on which an amount replaces what is held; raise Unplaceable if it does not fit.

        A provider that is over its capacity takes less than before, as placement allows that.
        """
        if len(holders) > 1:
            choices = ", ".join(sorted(map(self._describe, holders)))
            raise Ambiguous(f"{resource}={amount} may be on any of {choices}")
        ((provider, held),) = holders.items()
        inventory = self._cloud.inventory(provider, resource)
        if inventory and amount <= held and inventory.fits_unit(amount):
            return provider
        self._used[provider, resource] -= held
        try:
            return self._find(resource, amount, (provider,))
        finally:
            self._used[provider, resource] += held

    def take(self, claims: Claims) -> None:
        """Count claims as used."""
        for provider, resource, amount in iterate_amounts(claims):
            self._used[provider, resource] += amount

    def replace(self, claims: Claims, others: Claims) -> None:
        """Count other claims as used in place of these."""
        for provider, resource, amount in iterate_amounts(claims):
            self._used[provider, resource] -= amount
        self.take(others)

    def check(self, provider: str, resource: str, amount: int) -> None:
        """Raise Unplaceable unless an amount fits on a provider."""
        self._find(resource, amount, (provider,))

    def has_traits(self, provider: str, required: Collection[str]) -> bool:
        """Return whether a provider has all of these traits."""
        return (self._cloud.records[provider].traits or frozenset()).issuperset(required)

    def choose(
        self,
        groups: Sequence[RequestGroup],
        node: str,
        subtrees: Sequence[Sequence[int]],
        *,
        is_isolated: bool,
        taken: Claims,
    ) -> Sequence[str]:
        """Return the provider of each group in the tree of a node; take nothing.

        Two choices are enough to know that there is no only one, so that no more are looked for.

        :param subtrees: numbers of groups whose providers are in the subtree of one of them
        :param is_isolated: whether each group has a provider of its own
        :param taken: what is used besides
        :raises Unplaceable: there is no choice, or more than one, or it takes too long to find out
        """
        options = [self._find_options(group, self._cloud.tree(node)) for group in groups]
        used = Counter({(uuid, name): amount for uuid, name, amount in iterate_amounts(taken)})
        choices = (
            choice
            for choice in self._combine(
                groups, options, used, iter(range(_MOST_TRIES)), is_isolated=is_isolated
            )
            if all(self._is_subtree([choice[number] for number in numbers]) for numbers in subtrees)
        )
        found = list(itertools.islice(choices, 2))
        wanted = "; ".join(
            ", ".join(f"{name}={amount}" for name, amount in sorted(group.resources.items()))
            for group in groups
        )
        if len(found) > 1:
            named = sorted({self._describe(uuid) for choice in found for uuid in choice})
            raise Ambiguous(f"{wanted} of its ports may be on any of {', '.join(named)}")
        if found:
            return found[0]
        if len(groups) == len(options[0]) == 1:
            for resource, amount in groups[0].resources.items():
                self.check(options[0][0], resource, amount)
        names = ", ".join(sorted({self._cloud.name(uuid) for each in options for uuid in each}))
        raise NoInventory(f"none of {names} has room for {wanted} of its ports")

    def _find_options(self, group: RequestGroup, tree: Sequence[str]) -> Sequence[str]:
        """Return the providers that could serve a group if nothing of them was used."""
        found = [
            uuid
            for uuid in tree
            if self.has_traits(uuid, group.required)
            and all(
                (inventory := self._cloud.inventory(uuid, resource)) and inventory.capacity > 0
                for resource in group.resources
            )
        ]
        if not found:
            traits = f" with the traits {', '.join(sorted(group.required))}" if group.required else ""
            resources = ", ".join(sorted(group.resources))
            raise NoInventory(f"no provider of its host{traits} has inventory of {resources}")
        return found

    def _combine(
        self,
        groups: Sequence[RequestGroup],
        options: Sequence[Sequence[str]],
        used: Counter[tuple[str, str]],
        tries: Iterator[int],
        *,
        is_isolated: bool,
        chosen: tuple[str, ...] = (),
    ) -> Iterator[tuple[str, ...]]:
        """Yield the choices of a provider for each group that have room.

        Each try takes one of ``tries``; raise Ambiguous if there are none left.
        """
        if len(chosen) == len(groups):
            yield chosen
            return
        amounts = groups[len(chosen)].resources
        for uuid in options[len(chosen)]:
            if next(tries, None) is None:
                text = (
                    f"{len(groups)} groups of its ports may be on too many combinations of providers to try"
                )
                raise Ambiguous(text)
            if is_isolated and uuid in chosen:
                continue
            stocks = {
                resource: Stock(inventory, self._used[uuid, resource] + used[uuid, resource])
                for resource in amounts
                if (inventory := self._cloud.inventory(uuid, resource))
            }
            if all(stocks[resource].fits(amount) for resource, amount in amounts.items()):
                also = used + Counter({(uuid, resource): amount for resource, amount in amounts.items()})
                yield from self._combine(
                    groups, options, also, tries, is_isolated=is_isolated, chosen=(*chosen, uuid)
                )

    def _is_subtree(self, providers: Sequence[str]) -> bool:
        """Return whether one of these providers is above all others, or there is none."""
        above = [{node.uuid for node in self._cloud.ancestry(self._cloud.node(uuid))} for uuid in providers]
        return not providers or any(all(uuid in each for each in above) for uuid in providers)

    def _describe(self, uuid: str) -> str:
        return f"{self._cloud.name(uuid)} ({uuid})"

    def _find(self, resource: str, amount: int, reach: Sequence[str]) -> str:
        inventories = {uuid: self._cloud.inventory(uuid, resource) for uuid in reach}
        stocks = {
            uuid: Stock(inventory, self._used[uuid, resource])
            for uuid, inventory in inventories.items()
            if inventory and inventory.capacity > 0
        }
        if not stocks:
            raise NoInventory(f"no provider of its host has inventory of {resource}")
        fitting = [uuid for uuid, stock in stocks.items() if stock.fits(amount)]
        if len(fitting) == 1:
            return fitting[0]
        if len(stocks) == 1:
            ((uuid, stock),) = stocks.items()
            name = self._cloud.name(uuid)
            if stock.inventory.fits_unit(amount):
                raise OverCapacity(name, resource, amount, _find_ratio(stock, amount))
            raise NoInventory(
                f"{name} admits no {resource}={amount}: see its min_unit, max_unit and step_size"
            )
        if not fitting:
            names = ", ".join(sorted(map(self._cloud.name, stocks)))
            raise NoInventory(f"none of {names} has room for {resource}={amount}")
        choices = ", ".join(sorted(map(self._describe, fitting)))
        raise Ambiguous(f"{resource}={amount} may be on any of {choices}")


def _find_ratio(stock: Stock, amount: int) -> float:
    """Return the lowest allocation ratio, in thousandths, with which the amount fits."""
    inventory = stock.inventory
    total = inventory.total - inventory.reserved
    thousandths = math.ceil((stock.used + amount) / total * _THOUSAND)
    # 1000 * 1.001 is less than 1001
    while not replace(stock, inventory=replace(inventory, allocation_ratio=thousandths / _THOUSAND)).fits(
        amount
    ):
        thousandths += 1
    return thousandths / _THOUSAND
