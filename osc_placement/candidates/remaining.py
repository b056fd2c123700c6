# SPDX-License-Identifier: Apache-2.0
"""What the undecided groups of a combination need, and whether what is left may be enough for them. Pure.

`Remaining.may_fit` checks conditions that every candidate meets. Each is a distribution of amounts over
providers, which augmenting paths decide in polynomial time (`_is_enough`):

1. With ``group_policy=isolate``, named groups to providers, one group to each.
2. For each class and each amount asked for, what asks for that or more to providers; a provider takes as many
   as that amount fits into what it has left.
3. For each class, its amounts to what providers have left, cut into pieces of any size.
4. Of each tie by ``same_subtree``: these hold below one provider.

If groups ask for equal amounts of one class, or are isolated, the first two are sufficient, too. Amounts that
differ have to be packed, which is a hard problem, so there may be no candidate although all conditions hold.

`Remaining.key` is equal for states with the same future: it counts the providers that are left by what they
are for the undecided groups.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import gcd
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from osc_placement.candidates.request import CandidateRequest
    from osc_placement.candidates.snapshot import Snapshot
    from osc_placement.candidates.work import Work

#: the number of amounts for which condition 2 is checked; of more, the greatest and others between
_MOST_AMOUNTS: Final = 16
#: amounts taken, by slot and class
Taken = Mapping[tuple[int, str], int]


class Need(NamedTuple):
    """Amounts by class that have to come from one provider, and the slots of those that may give them."""

    amounts: Mapping[str, int]
    slots: Sequence[int]


@dataclass(slots=True)
class _Kind:
    """Needs that are alike.

    :ivar isolated: whether each has to be met by another provider than those of other isolated kinds
    :ivar ties: the ties that the groups belong to
    :ivar positions: the groups among those of the request, ascending
    :ivar below: the slots of the need by each provider that they are below, once that is asked for
    """

    need: Need
    isolated: bool
    ties: frozenset[int]
    positions: list[int] = field(default_factory=list)
    below: dict[int, list[int]] | None = None

    def count(self, depth: int) -> int:
        """Return the number of undecided groups of the kind if those before ``depth`` are decided."""
        return len(self.positions) - bisect_left(self.positions, depth)


@dataclass(frozen=True, slots=True)
class _Class:
    """What undecided groups ask for of a class: all amounts together, the least, and their common divisor."""

    total: int
    least: int
    unit: int

    def cut(self, left: int) -> int:
        """Return how many units the groups can use of what is left on a provider."""
        return 0 if left < self.least else min(left, self.total) // self.unit


class Tie(NamedTuple):
    """The state of a tie: the providers that may be above all of its groups, and those used by its groups."""

    above: frozenset[int]
    used: frozenset[int]


class Remaining:
    """The undecided groups of a request at one anchor, where the first ``depth`` groups are decided."""

    def __init__(
        self, snapshot: Snapshot, request: CandidateRequest, needs: Sequence[Sequence[Need]], work: Work
    ) -> None:
        """Take the needs of each group; those of groups that are alike are the same object."""
        self._snapshot = snapshot
        self._work = work
        kinds: dict[object, _Kind] = {}
        demand: Counter[str] = Counter()
        for position, (group, of_group) in enumerate(zip(request.groups, needs, strict=True)):
            ties = [index for index, suffixes in enumerate(request.same_subtrees) if group.suffix in suffixes]
            for need in of_group:
                key = id(need), *ties
                if key not in kinds:
                    isolated = request.isolated and group.one_provider
                    kinds[key] = _Kind(need, isolated, frozenset(ties))
                kinds[key].positions.append(position)
        self._kinds = list(kinds.values())
        for kind in self._kinds:
            for name in kind.need.amounts:
                demand[name] += len(kind.positions)
        # a class that is asked for once only is not taken by anything else
        self._contested = [name for name, count in demand.items() if count > 1]
        self._is_isolating = sum(len(kind.positions) for kind in self._kinds if kind.isolated) > 1
        self._free = {name: snapshot.free_capacity(name) for name in self._contested}
        self._by_slot = bool(request.same_subtrees) or not request.nested
        self._roles: dict[int, int] | None = None
        unnamed = [
            (position, group) for position, group in enumerate(request.groups) if not group.one_provider
        ]
        self._unnamed = unnamed[0][0] if unnamed else -1
        self._traits = frozenset[str]().union(
            *(names for _, each in unnamed for names in each.traits.required)
        )
        self._by_depth: dict[int, tuple[Mapping[str, _Class], int, int]] = {}

    def may_fit(self, depth: int, taken: Taken, isolated: Collection[int], ties: Sequence[Tie]) -> bool:
        """Return whether a candidate is possible as far as the conditions tell.

        :param isolated: the slots used by isolated groups
        """
        if not ties:
            return self._may_fit(depth, taken, isolated)
        return all(
            any(
                self._may_fit(depth, taken, isolated, index, top)
                for top in (tie.above if self._is_open(index, depth) else tie.above & tie.used)
            )
            for index, tie in enumerate(ties)
        )

    def _is_open(self, tie: int, depth: int) -> bool:
        return any(tie in kind.ties and kind.count(depth) for kind in self._kinds)

    def _may_fit(
        self, depth: int, taken: Taken, isolated: Collection[int], tie: int = -1, top: int = -1
    ) -> bool:
        """Return whether a candidate is possible, with the groups of a tie below one provider."""
        if not self._contested and not self._is_isolating and tie < 0:
            return True
        left: list[tuple[_Kind, int, Sequence[int]]] = []
        # those of the tie first, which have the least choice
        for kind in sorted(self._kinds, key=lambda kind: tie not in kind.ties):
            if count := kind.count(depth):
                slots = self._usable(kind, taken, isolated, top if tie in kind.ties else -1)
                if not slots or (kind.isolated and len(slots) < count):
                    return False
                left.append((kind, count, slots))
        if self._is_isolating:
            demands = [(count, slots) for kind, count, slots in left if kind.isolated]
            room = {slot: 1 for _, slots in demands for slot in slots}
            if not _is_enough(demands, room, self._work):
                return False
        return all(
            self._is_class_enough(name, [each for each in left if name in each[0].need.amounts], taken)
            for name in self._contested
        )

    def _usable(self, kind: _Kind, taken: Taken, isolated: Collection[int], top: int) -> Sequence[int]:
        """Return the slots that may give what a kind needs, below ``top`` if that is not negative."""
        slots = kind.need.slots if top < 0 else self._find_below(kind).get(top, ())
        self._work.charge(len(slots) // 2)
        if kind.isolated and isolated:
            slots = [slot for slot in slots if slot not in isolated]
        if taken:
            for name, amount in kind.need.amounts.items():
                if name in self._free:
                    free = self._free[name]
                    slots = [slot for slot in slots if free[slot] - taken.get((slot, name), 0) >= amount]
        return slots

    def _find_below(self, kind: _Kind) -> Mapping[int, Sequence[int]]:
        """Return the slots that may give what a kind needs, by each provider that they are below."""
        if kind.below is None:
            kind.below = {}
            for slot in kind.need.slots:
                for above in self._snapshot.lineage(slot):
                    kind.below.setdefault(above, []).append(slot)
            self._work.charge(len(kind.need.slots))
        return kind.below

    def _is_class_enough(
        self, name: str, left: Sequence[tuple[_Kind, int, Sequence[int]]], taken: Taken
    ) -> bool:
        if all(kind.isolated for kind, _, _ in left):
            # no provider has to meet two of them
            return True
        # by the providers that may give them: how often each amount is asked for
        asked: dict[tuple[int, ...], Counter[int]] = {}
        for kind, count, slots in left:
            asked.setdefault(tuple(slots), Counter())[kind.need.amounts[name]] += count
        free = self._free[name]
        room = {slot: free[slot] - taken.get((slot, name), 0) for slots in asked for slot in slots}
        amounts = sorted({amount for counts in asked.values() for amount in counts}, reverse=True)
        for least in amounts[:: 1 + len(amounts) // _MOST_AMOUNTS]:
            demands = [
                (sum(count for amount, count in counts.items() if amount >= least), slots)
                for slots, counts in asked.items()
            ]
            if not _is_enough(demands, {slot: each // least for slot, each in room.items()}, self._work):
                return False
        if len(amounts) == 1:
            return True
        unit = gcd(*amounts)
        demands = [
            (sum(count * (amount // unit) for amount, count in counts.items()), slots)
            for slots, counts in asked.items()
        ]
        return _is_enough(demands, {slot: each // unit for slot, each in room.items()}, self._work)

    def key(self, depth: int, taken: Taken, isolated: Collection[int], ties: Sequence[Tie]) -> object:
        """Return a value that is equal for states from which the same groups can be satisfied."""
        self._work.charge((len(taken) + len(isolated) + len(ties)) // 4)
        classes, roles, alone = self._what_matters(depth)
        states: dict[int, object] = {}
        counts: dict[object, int] = {}
        for slot in {*(slot for slot, _ in taken), *isolated}:
            role = self._role(slot) & roles
            traits = self._traits_of(slot) if depth <= self._unnamed else None
            after = (
                role & ~alone if slot in isolated else role,
                traits,
                *[
                    each.cut(self._free[name][slot] - taken.get((slot, name), 0))
                    for name, each in classes.items()
                ],
            )
            states[slot] = after
            # how many providers of each description there are more, or less, than at the beginning
            before = role, traits, *[each.cut(self._free[name][slot]) for name, each in classes.items()]
            counts[before] = counts.get(before, 0) - 1
            counts[after] = counts.get(after, 0) + 1
        if self._by_slot:
            return depth, frozenset(states.items()), tuple(ties)
        return depth, frozenset(item for item in counts.items() if item[1])

    def _what_matters(self, depth: int) -> tuple[Mapping[str, _Class], int, int]:
        """Return the classes asked for from ``depth`` on, and the kinds, all and the isolated, as bits."""
        known = self._by_depth.get(depth)
        if known is None:
            amounts: dict[str, list[tuple[int, int]]] = {}
            roles = alone = 0
            for number, kind in enumerate(self._kinds):
                if count := kind.count(depth):
                    roles |= 1 << number
                    alone |= kind.isolated << number
                    for name, amount in kind.need.amounts.items():
                        amounts.setdefault(name, []).append((amount, count))
            classes = {
                name: _Class(
                    sum(amount * count for amount, count in each),
                    min(amount for amount, _ in each),
                    gcd(*(amount for amount, _ in each)),
                )
                for name, each in amounts.items()
                if name in self._free
            }
            known = self._by_depth[depth] = classes, roles, alone
            self._work.charge(len(self._kinds))
        return known

    def _role(self, slot: int) -> int:
        """Return the kinds that a provider may meet, as bits."""
        if self._roles is None:
            self._roles = {}
            for number, kind in enumerate(self._kinds):
                for each in kind.need.slots:
                    self._roles[each] = self._roles.get(each, 0) | 1 << number
        return self._roles.get(slot, 0)

    def _traits_of(self, slot: int) -> frozenset[str]:
        return self._traits.intersection(self._snapshot.nodes[slot].traits) if self._traits else self._traits


def _is_enough(demands: Iterable[tuple[int, Sequence[int]]], room: dict[int, int], work: Work) -> bool:
    """Return whether amounts can be distributed: a maximum flow, found by augmenting paths.

    :param demands: each an amount and the slots that may give it, in any parts
    :param room: what each slot may give; changed
    :return: True also if the work is over before that is known
    """
    # those with the least choice first, so that most need no path
    ordered = sorted(demands, key=lambda each: len(each[1]))
    work.charge(sum(len(slots) for _, slots in ordered) // 2)
    if len(ordered) == 1:
        return sum([room[slot] for slot in ordered[0][1]]) >= ordered[0][0]
    given: list[dict[int, int]] = []
    givers: dict[int, set[int]] = {}
    for number, (demand, slots) in enumerate(ordered):
        given.append({})
        for slot in slots:
            if amount := min(demand, room[slot]):
                room[slot] -= amount
                given[number][slot] = amount
                givers.setdefault(slot, set()).add(number)
                demand -= amount
                if not demand:
                    break
        while demand:
            amount = _augment(ordered, number, demand, room, given, givers, work)
            if work.is_over:
                return True
            if not amount:
                return False
            demand -= amount
    return True


def _augment(
    demands: Sequence[tuple[int, Sequence[int]]],
    start: int,
    most: int,
    room: dict[int, int],
    given: Sequence[dict[int, int]],
    givers: dict[int, set[int]],
    work: Work,
) -> int:
    """Give one demand up to ``most`` more, by moving what others were given; return how much, 0 if nothing.

    :param given: what each demand was given, by slot
    :param givers: the demands that were given something of each slot
    """
    # by which demand each slot was reached, and by giving up which slot each demand
    reached: dict[int, int] = {}
    leaves: dict[int, int] = {}
    queue = [start]
    for number in queue:
        slots = demands[number][1]
        work.charge(len(slots))
        for slot in slots:
            if slot in reached:
                continue
            reached[slot] = number
            if room[slot]:
                path = [slot]
                while (at := reached[path[-1]]) != start:
                    path.append(leaves[at])
                amount = min(most, room[slot], *(given[reached[a]][b] for a, b in pairwise(path)))
                room[slot] -= amount
                for place, taker in enumerate(path):
                    at = reached[taker]
                    given[at][taker] = given[at].get(taker, 0) + amount
                    givers.setdefault(taker, set()).add(at)
                    if place + 1 < len(path):
                        left = path[place + 1]
                        given[at][left] -= amount
                        if not given[at][left]:
                            givers[left].discard(at)
                return amount
            for other in givers.get(slot, ()):
                if other != start and other not in leaves:
                    leaves[other] = slot
                    queue.append(other)
    return 0
