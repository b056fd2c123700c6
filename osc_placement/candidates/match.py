# SPDX-License-Identifier: Apache-2.0
"""The ways to satisfy one group at an anchor: compares amounts with the free capacity there. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from osc_placement.candidates.combine import PAUSED, Line, Match, Work
from osc_placement.candidates.plan import Plan
from osc_placement.candidates.query import Traits
from osc_placement.candidates.sets import Mask, slots_in
from osc_placement.candidates.snapshot import Snapshot


class Matcher:
    """A search for the ways to satisfy one group at an anchor."""

    def __init__(self, snapshot: Snapshot, plan: Plan, work: Work) -> None:
        self._snapshot = snapshot
        self._group = plan.group
        self._plan = plan
        self._work = work

    def at(self, root: int) -> Sequence[Match] | _Product:
        raise NotImplementedError


class _Choice:
    """The providers with free capacity for an amount: those of a tree, and those that share with it."""

    def __init__(
        self, snapshot: Snapshot, mask: Mask, sharing: Mask, needs: Sequence[tuple[str, int]], work: Work
    ) -> None:
        self._snapshot = snapshot
        # PERF: reading a bit takes time in proportion to the integer's length; a character of text does not
        self._bits = snapshot.bits(mask)
        self._sharing = mask & sharing
        self._needs = needs
        self._work = work
        self._shared_with: dict[frozenset[str], list[int]] = {}

    def at(self, slots: Sequence[int]) -> list[int]:
        """Return the slots to choose from at an anchor whose tree has these slots."""
        bits = self._bits
        found = [slot for slot in slots if bits[slot] == "1" and self._has_room(slot)]
        if self._sharing:
            known = set(slots)
            found += [slot for slot in self._sharing_with(slots) if slot not in known]
            found.sort()
        self._work.charge(len(slots) // 8 + len(found))
        return found

    def _sharing_with(self, slots: Sequence[int]) -> list[int]:
        """Return the providers that share with a tree, computed once for all trees in the same aggregates."""
        nodes = self._snapshot.nodes
        aggregates = frozenset(uuid for slot in slots for uuid in nodes[slot].aggregates)
        if aggregates not in self._shared_with:
            sharing = self._sharing & self._snapshot.in_any_aggregate(aggregates)
            self._shared_with[aggregates] = [slot for slot in slots_in(sharing) if self._has_room(slot)]
        return self._shared_with[aggregates]

    def _has_room(self, slot: int) -> bool:
        stocks = self._snapshot.nodes[slot].stocks
        return all(stocks[name].fits(amount) for name, amount in self._needs)


class NamedMatcher(Matcher):
    """A matcher of a group that one provider has to satisfy."""

    def __init__(self, snapshot: Snapshot, plan: Plan, work: Work) -> None:
        super().__init__(snapshot, plan, work)
        self._needs = tuple(plan.group.resources.items())
        self._choice = _Choice(snapshot, plan.eligible, snapshot.sharing, self._needs, work)

    def at(self, root: int) -> Sequence[Match]:
        return [
            Match((slot,), tuple([Line(slot, name, amount) for name, amount in self._needs]))
            for slot in self._choice.at(self._snapshot.slots_of_tree(root))
        ]


class UnnamedMatcher(Matcher):
    """A matcher of the group whose classes may come from several providers."""

    def __init__(self, snapshot: Snapshot, plan: Plan, work: Work) -> None:
        super().__init__(snapshot, plan, work)
        sharing = snapshot.sharing & plan.members if plan.group.in_tree is None else 0
        self._members = snapshot.bits(plan.members)
        needs = plan.group.resources.items()
        self._choices = [
            (need, _Choice(snapshot, plan.by_class[need[0]], sharing, (need,), work)) for need in needs
        ]

    def at(self, root: int) -> _Product:
        slots = self._snapshot.slots_of_tree(root)
        members = self._members
        options = []
        for (name, amount), choice in self._choices:
            usable = choice.at(slots)
            if members[root] != "1":
                in_tree = frozenset(slots)
                usable = [slot for slot in usable if slot not in in_tree or members[slot] == "1"]
            options.append([Line(slot, name, amount) for slot in usable])
        return _Product(self._snapshot, options, self._group.traits, self._work)


class _Product:
    """All combinations of one line per class whose providers together have the traits, computed lazily."""

    def __init__(
        self, snapshot: Snapshot, options: Sequence[Sequence[Line]], traits: Traits, work: Work
    ) -> None:
        self._snapshot = snapshot
        self._options = options
        self._traits = traits
        self._work = work

    def __bool__(self) -> bool:
        return all(self._options)

    def __iter__(self) -> Iterator[Match | None]:
        work = self._work
        for lines in product(*self._options):
            if work.step():
                yield PAUSED
            if work.is_over:
                return
            slots = tuple(dict.fromkeys([line.slot for line in lines]))
            if _have_together(self._snapshot, slots, self._traits):
                yield Match(slots, lines)


def _have_together(snapshot: Snapshot, slots: Sequence[int], traits: Traits) -> bool:
    if not traits.required:
        return True
    together = frozenset[str]().union(*(snapshot.nodes[slot].traits for slot in slots))
    return all(any_of & together for any_of in traits.required)
