# SPDX-License-Identifier: Apache-2.0
"""The ways to satisfy one group of a request: sets of providers first, then the amounts at one anchor. Pure.

`make_plan` is step 1 of `search`, and the matchers are the first half of step 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Final

from osc_placement.candidates.combine import PAUSED, Line, Match, Matches, takes_once_from_a_tree
from osc_placement.candidates.query import Membership, Traits
from osc_placement.candidates.remaining import Need
from osc_placement.candidates.request import Group
from osc_placement.candidates.sets import Mask, slots_in
from osc_placement.candidates.snapshot import Snapshot
from osc_placement.candidates.work import Work


@dataclass(frozen=True, slots=True)
class Plan:
    """The anchors and providers with which one group can be satisfied at all.

    :ivar anchors: the roots at which each class may be had from some provider
    :ivar roots: the roots that the group admits, whatever is free there
    :ivar allowed: the providers that the group admits, whatever they have free
    :ivar members: the providers in the aggregates required
    :ivar sharing: the sharing providers that the group may use outside of their own tree
    :ivar eligible: the providers that may provide all of a named group
    :ivar by_class: the providers that may provide something of each class of the unnamed group
    """

    group: Group
    anchors: Mask
    roots: Mask
    allowed: Mask
    members: Mask
    sharing: Mask
    eligible: Mask
    by_class: Mapping[str, Mask]


def make_plan(snapshot: Snapshot, group: Group) -> Plan:
    """Return the plan of one group."""
    members = snapshot.everything
    for any_of in group.membership.required:
        members &= snapshot.in_any_aggregate(any_of)
    excluded = snapshot.in_any_aggregate(group.membership.unwanted)
    allowed = ~excluded & snapshot.everything
    if group.in_tree is not None:
        slot = snapshot.slot_by_uuid.get(group.in_tree)
        allowed &= 0 if slot is None else snapshot.tree(snapshot.root_of[slot])
    if group.one_provider:
        allowed &= members & having(snapshot, group.traits)
        eligible = allowed
        for name in group.resources:
            eligible &= snapshot.with_free_capacity(name)
        anchors = _reach(snapshot, eligible, members, snapshot.sharing)
        return Plan(group, anchors, snapshot.roots, allowed, members, snapshot.sharing, eligible, {})
    # the classes and traits of the unnamed group may come from several providers
    allowed &= ~snapshot.with_any_trait(group.traits.unwanted)
    by_class = {name: allowed & snapshot.with_free_capacity(name) for name in group.resources}
    # a provider that shares with a tree from outside is not in the tree
    sharing = snapshot.sharing & members if group.in_tree is None else 0
    roots = anchors = snapshot.roots & ~excluded
    providers = 0
    for mask in by_class.values():
        anchors &= _reach(snapshot, mask, members, sharing)
        providers |= mask
    for any_of in group.traits.required:
        anchors &= _reach(snapshot, providers & snapshot.with_any_trait(any_of), members, sharing)
    return Plan(group, anchors, roots, allowed, members, sharing, 0, by_class)


def _reach(snapshot: Snapshot, providers: Mask, members: Mask, sharing: Mask) -> Mask:
    """Return the anchors at which some of these providers may be used.

    A provider is counted as in the required aggregates if its root is.
    """
    anchors = snapshot.roots_of(providers & members) | (snapshot.roots_of(providers) & members)
    for slot in slots_in(providers & sharing):
        anchors |= snapshot.anchors_of(slot)
    return anchors


def having(snapshot: Snapshot, traits: Traits) -> Mask:
    """Return the providers that have all the traits required, each by itself, and none forbidden."""
    mask = snapshot.everything & ~snapshot.with_any_trait(traits.unwanted)
    for any_of in traits.required:
        mask &= snapshot.with_any_trait(any_of)
    return mask


def select(
    snapshot: Snapshot, *, membership: Membership, traits: Traits, resources: Mapping[str, int]
) -> Sequence[int]:
    """Return the slots of providers with the traits and aggregates, and free capacity for all resources.

    These are the filters of ``GET /resource_providers``, which judge each provider by itself.
    Sets are intersected first; then amounts are compared for the remaining providers, at O(1) each.
    """
    found = having(snapshot, traits) & ~snapshot.in_any_aggregate(membership.unwanted)
    for name in resources:
        found &= snapshot.with_free_capacity(name)
    for any_of in membership.required:
        found &= snapshot.in_any_aggregate(any_of)
    if not resources:
        return range(len(snapshot.nodes)) if found == snapshot.everything else list(slots_in(found))
    needs = [(name, snapshot.free_capacity(name), amount) for name, amount in resources.items()]
    nodes = snapshot.nodes
    return [
        slot
        for slot in slots_in(found)
        if all(
            amount <= free[slot] and nodes[slot].stocks[name].inventory.fits_unit(amount)
            for name, free, amount in needs
        )
    ]


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
        found = [slot for slot in slots if bits[slot] == "1" and self._fits(slot)]
        if self._sharing:
            nodes = self._snapshot.nodes
            aggregates = frozenset(uuid for slot in slots for uuid in nodes[slot].aggregates)
            # PERF: computed once for all trees in the same aggregates
            if aggregates not in self._shared_with:
                sharing = slots_in(self._sharing & self._snapshot.sharing_in(aggregates))
                self._shared_with[aggregates] = [slot for slot in sharing if self._fits(slot)]
            known = set(slots)
            found += [slot for slot in self._shared_with[aggregates] if slot not in known]
            found.sort()
        self._work.charge(len(slots) // 8 + len(found))
        return found

    def _fits(self, slot: int) -> bool:
        stocks = self._snapshot.nodes[slot].stocks
        return all(stocks[name].fits(amount) for name, amount in self._needs)


class NamedMatcher:
    """A search for the ways to satisfy a group at an anchor, with one provider."""

    def __init__(self, snapshot: Snapshot, plan: Plan, work: Work) -> None:
        self._snapshot = snapshot
        self._needs = tuple(plan.group.resources.items())
        self._choice = _Choice(snapshot, plan.eligible, plan.sharing, self._needs, work)

    def at(self, root: int) -> Matches:
        return _Singles(self._needs, self._choice.at(self._snapshot.slots_of_tree(root)))


class _Singles:
    """The providers that satisfy a group by themselves."""

    def __init__(self, amounts: Sequence[tuple[str, int]], slots: Sequence[int]) -> None:
        self._amounts = amounts
        self._slots = slots
        self._matches = [
            Match((slot,), tuple([Line(slot, name, amount) for name, amount in amounts])) for slot in slots
        ]

    def __bool__(self) -> bool:
        return bool(self._matches)

    @cached_property
    def needs(self) -> Sequence[Need]:
        """Return the only need."""
        return [Need(dict(self._amounts), self._slots)]

    def __iter__(self) -> Iterator[Match]:
        return iter(self._matches)


class UnnamedMatcher:
    """A search for the ways to satisfy the group whose classes may come from several providers."""

    def __init__(self, snapshot: Snapshot, plan: Plan, work: Work, *, nested: bool) -> None:
        """Take whether one tree may provide from several of its providers."""
        self._snapshot = snapshot
        self._traits = plan.group.traits
        self._nested = nested
        self._work = work
        self._members = snapshot.bits(plan.members)
        needs = plan.group.resources.items()
        self._choices = [
            (need, _Choice(snapshot, plan.by_class[need[0]], plan.sharing, (need,), work)) for need in needs
        ]

    def at(self, root: int) -> Matches:
        slots = self._snapshot.slots_of_tree(root)
        options = []
        for (name, amount), choice in self._choices:
            usable = choice.at(slots)
            if self._members[root] != "1":
                usable = _keep_members(usable, slots, self._members)
            options.append([Line(slot, name, amount) for slot in usable])
        return _Product(self._snapshot, options, self._traits, self._work, nested=self._nested)


#: a search for the ways to satisfy one group at an anchor
Matcher = NamedMatcher | UnnamedMatcher


def _keep_members(usable: Sequence[int], slots: Sequence[int], members: str) -> list[int]:
    """Return the providers that may be used in a tree of these slots whose root is in no required aggregate.

    :param members: the providers in the required aggregates, which sharing providers are anyway
    """
    in_tree = frozenset(slots)
    return [slot for slot in usable if slot not in in_tree or members[slot] == "1"]


class Admitted:
    """The providers that a group admits at an anchor, whatever they have free; explanations need them."""

    def __init__(self, snapshot: Snapshot, plan: Plan) -> None:
        self._snapshot = snapshot
        self._roots = snapshot.bits(plan.roots)
        self._members = snapshot.bits(plan.members)
        self._choice = _Choice(snapshot, plan.allowed, plan.sharing, (), Work(0))

    def at(self, root: int) -> Sequence[int]:
        """Return the slots of the tree of an anchor, and those that share with it, that the group admits."""
        if self._roots[root] != "1":
            return ()
        slots = self._snapshot.slots_of_tree(root)
        found = self._choice.at(slots)
        return found if self._members[root] == "1" else _keep_members(found, slots, self._members)


class _Product:
    """All combinations of one provider per class that together have the traits, computed lazily."""

    #: the number of sets of traits that are distinguished; with more, some combinations are tried in vain
    MOST_SETS: Final = 64

    def __init__(
        self,
        snapshot: Snapshot,
        options: Sequence[Sequence[Line]],
        traits: Traits,
        work: Work,
        *,
        nested: bool,
    ) -> None:
        self._snapshot = snapshot
        self._options = options
        self._traits = traits
        self._work = work
        self._nested = nested

    def __bool__(self) -> bool:
        return all(self._options)

    @cached_property
    def needs(self) -> Sequence[Need]:
        """Return the needs, one for each class."""
        return [
            Need({lines[0].resource_class: lines[0].amount}, [line.slot for line in lines])
            for lines in self._options
        ]

    def __iter__(self) -> Iterator[Match | None]:
        work, plain = self._work, self._nested and not self._traits.required
        combinations = product(*self._options) if plain else self._combine()
        for lines in combinations:
            work.step()
            if lines is None or work.is_turn_over:
                yield PAUSED
            if work.is_over:
                return
            if lines is not None:
                yield Match(tuple(dict.fromkeys([line.slot for line in lines])), tuple(lines))

    def _combine(self) -> Iterator[Sequence[Line] | None]:
        """Yield the combinations, in order, and `PAUSED` when the turn is over."""
        options, work = self._options, self._work
        covers = {line.slot: self._cover(line.slot) for lines in options for line in lines}
        work.charge(len(covers))
        enough = self._find_enough(covers)
        levels = [iter(options[0])]
        chosen: list[Line] = []
        covered = [0]
        while levels:
            line = next(levels[-1], None)
            if line is None:
                levels.pop()
                if chosen:
                    chosen.pop()
                    covered.pop()
                continue
            work.step()
            if work.is_turn_over:
                yield PAUSED
            if work.is_over:
                return
            cover = covered[-1] | covers[line.slot]
            if not any(each & ~cover == 0 for each in enough[len(levels)]):
                continue
            lines = [*chosen, line]
            if not self._nested and not takes_once_from_a_tree(self._snapshot, {each.slot for each in lines}):
                continue
            if len(lines) == len(options):
                yield lines
                continue
            chosen.append(line)
            covered.append(cover)
            levels.append(iter(options[len(chosen)]))

    def _cover(self, slot: int) -> int:
        """Return which of the required traits, each one of several, a provider has, as bits."""
        traits = self._snapshot.nodes[slot].traits
        return sum(
            1 << number
            for number, any_of in enumerate(self._traits.required)
            if not any_of.isdisjoint(traits)
        )

    def _find_enough(self, covers: Mapping[int, int]) -> Sequence[set[int]]:
        """Return, for each number of classes decided, sets of traits one of which they have to cover."""
        lacking = {(1 << len(self._traits.required)) - 1}
        result = [lacking]
        for lines in reversed(self._options):
            lacking = {each & ~covers[line.slot] for each in lacking for line in lines}
            # what lacks less says all
            lacking = {
                each for each in lacking if not any(less & ~each == 0 != less ^ each for less in lacking)
            }
            self._work.charge(len(lacking) * len(lines))
            if len(lacking) > self.MOST_SETS:
                lacking = {0}
            result.insert(0, lacking)
        return result


def have_together(snapshot: Snapshot, slots: Sequence[int], traits: Traits) -> bool:
    """Return whether each required trait is on one of these providers; forbidden ones are not checked."""
    if not traits.required:
        return True
    together = frozenset[str]().union(*(snapshot.nodes[slot].traits for slot in slots))
    return all(any_of & together for any_of in traits.required)
