# SPDX-License-Identifier: Apache-2.0
"""The number of times that a request with numbered groups still fits, such as one for several vGPUs. Pure.

The group without a suffix is counted as in `fit`. All of a numbered group comes from one provider of the
tree, and with ``group_policy=isolate`` each group of an instance comes from another provider. The number is
that of the scarcer part; this needs that no class is in both, so `NotCountable` is raised otherwise.

The groups that an instance has on one provider are one allocation there: their sum is limited by max_unit.

1. Identical groups are counted exactly: ``n`` instances of ``k`` groups fit if the providers, each of which
   serves an instance once if they are isolated and up to max_unit otherwise, together have ``n * k`` groups.
2. So are groups that have no class in common and may be on the same provider.
3. For others, one instance after the other is placed, each group on the provider with the most free capacity:
   the number is a lower bound, unless another part of the request allows no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from osc_placement.candidates.fit import Fits, HostFit, count_fits
from osc_placement.candidates.match import make_plan
from osc_placement.candidates.node import Node
from osc_placement.candidates.request import CandidateRequest, Group, NotCountable
from osc_placement.candidates.sets import slots_in
from osc_placement.candidates.snapshot import Snapshot

#: the choices of a provider that are tried for one instance; one that needs more does not count
_CHOICES = 5_000


def count_request(snapshot: Snapshot, request: CandidateRequest, only: Collection[str] | None = None) -> Fits:
    """Count how often the groups of a request fit, for every tree, or for these ones, that has some of it.

    The other conditions of the request are left out. Raise NotCountable if this cannot be counted.
    """
    unnamed = [group for group in request.groups if not group.one_provider]
    named = [group for group in request.groups if group.one_provider]
    if not unnamed:
        raise NotCountable("has numbered request groups only")
    if not named:
        return count_fits(snapshot, unnamed[0], only)
    for group in named:
        if common := sorted(group.resources.keys() & unnamed[0].resources.keys()):
            raise NotCountable(f"asks for {common[0]} with and without a numbered request group")
    eligible = [snapshot.bits(make_plan(snapshot, group).eligible) for group in named]
    limits = [f"resources{group.suffix}" for group in named]
    # what is shared from outside of a tree is not counted for it
    classes = {name for group in named for name in group.resources}
    is_exact = not any(classes & snapshot.nodes[slot].stocks.keys() for slot in slots_in(snapshot.sharing))

    def cap(fit: HostFit) -> HostFit:
        nonlocal is_exact
        slots = snapshot.slots_of_tree(snapshot.slot_by_uuid[fit.host.uuid])
        offers = [
            _Offer(group, [snapshot.nodes[slot] for slot in slots if bits[slot] == "1"])
            for group, bits in zip(named, eligible, strict=True)
        ]
        number, exact = _count(offers, isolated=request.isolated, most=fit.count)
        is_exact = is_exact and exact
        return fit if number == fit.count else replace(fit, count=number, limits=limits)

    fits = count_fits(snapshot, unnamed[0], only, cap)
    return replace(fits, exact=fits.exact and is_exact)


@dataclass(frozen=True, slots=True)
class _Offer:
    """A group and the providers of a tree that may provide all of it."""

    group: Group
    nodes: Sequence[Node]

    def times(self) -> Mapping[str, int]:
        """Return how often the group fits on each provider, by UUID, as if it were the only one."""
        amounts = self.group.resources
        return {
            node.uuid: min(
                node.stocks[name].inventory.how_many(amount, node.stocks[name].used)
                for name, amount in amounts.items()
            )
            for node in self.nodes
        }

    def times_of_instance(self) -> list[int]:
        """Return how often one instance may have the group on each provider, by max_unit."""
        return [
            min(
                node.stocks[name].inventory.max_unit // amount
                for name, amount in self.group.resources.items()
            )
            for node in self.nodes
        ]


def _count(offers: Sequence[_Offer], *, isolated: bool, most: int) -> tuple[int, bool]:
    """Return how many instances fit, ``most`` at most, and whether that is exact."""
    times = [offer.times() for offer in offers]
    first = offers[0]
    alike = all(
        each.group.resources == first.group.resources and each.nodes == first.nodes for each in offers
    )
    if alike:
        of_instance = [1] * len(first.nodes) if isolated else first.times_of_instance()
        return _count_alike(list(times[0].values()), of_instance, len(offers), most), True
    names = [name for offer in offers for name in offer.group.resources]
    if not isolated and len(names) == len(set(names)):
        return min([most, *(sum(each.values()) for each in times)]), True
    number = _place(offers, isolated=isolated, most=most)
    return number, number == most


def _count_alike(times: Sequence[int], of_instance: Sequence[int], groups: int, most: int) -> int:
    """Return the largest number of instances, ``most`` at most, each of which has that many identical groups.

    :param times: the number of groups that each provider has room for
    :param of_instance: the number of these that may be of one instance
    """
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if sum(map(min, times, (middle * each for each in of_instance))) >= middle * groups:
            low = middle
        else:
            high = middle - 1
    return low


def _place(offers: Sequence[_Offer], *, isolated: bool, most: int) -> int:
    """Return how many instances were placed one after the other."""
    free = {
        (node.uuid, name): node.stocks[name].free
        for offer in offers
        for node in offer.nodes
        for name in offer.group.resources
    }
    for number in range(most):
        if not _place_one(offers, free, Counter(), isolated, [_CHOICES]):
            return number
    return most


def _place_one(
    offers: Sequence[_Offer],
    free: dict[tuple[str, str], int],
    taken: Counter[tuple[str, str]],
    isolated: bool,
    choices: list[int],
) -> bool:
    """Place the groups of one instance, and return whether that is possible; ``free`` is reduced.

    ``taken`` is what other groups of the instance have, by provider and class.
    """
    if not offers:
        return True
    offer, *others = offers
    amounts = offer.group.resources

    def times(uuid: str) -> int:
        return min(free[uuid, name] // amount for name, amount in amounts.items())

    def admits(node: Node, name: str, amount: int) -> bool:
        inventory = node.stocks[name].inventory
        return inventory.fits_unit(amount) and taken[node.uuid, name] + amount <= inventory.max_unit

    occupied = {uuid for uuid, _ in taken} if isolated else set()
    uuids = [
        node.uuid
        for node in offer.nodes
        if node.uuid not in occupied and all(admits(node, name, amount) for name, amount in amounts.items())
    ]
    for uuid in sorted(uuids, key=times, reverse=True):
        choices[0] -= 1
        if not times(uuid) or choices[0] < 0:
            return False
        own = Counter({(uuid, name): amount for name, amount in amounts.items()})
        for name, amount in amounts.items():
            free[uuid, name] -= amount
        if _place_one(others, free, taken + own, isolated, choices):
            return True
        for name, amount in amounts.items():
            free[uuid, name] += amount
    return False
