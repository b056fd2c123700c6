# SPDX-License-Identifier: Apache-2.0
"""The ways to satisfy one group of a request: sets of providers first, then the amounts at one anchor. Pure.

`make_plan` is step 1 of `search`, and the matchers are the first half of step 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from osc_placement.candidates.combine import PAUSED, Line, Match, Work
from osc_placement.candidates.query import Membership, Traits
from osc_placement.candidates.request import Group
from osc_placement.candidates.sets import Mask, slots_in
from osc_placement.candidates.snapshot import Snapshot


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

    def at(self, root: int) -> Sequence[Match]:
        return [
            Match((slot,), tuple([Line(slot, name, amount) for name, amount in self._needs]))
            for slot in self._choice.at(self._snapshot.slots_of_tree(root))
        ]


class UnnamedMatcher:
    """A search for the ways to satisfy the group whose classes may come from several providers."""

    def __init__(self, snapshot: Snapshot, plan: Plan, work: Work) -> None:
        self._snapshot = snapshot
        self._traits = plan.group.traits
        self._work = work
        self._members = snapshot.bits(plan.members)
        needs = plan.group.resources.items()
        self._choices = [
            (need, _Choice(snapshot, plan.by_class[need[0]], plan.sharing, (need,), work)) for need in needs
        ]

    def at(self, root: int) -> _Product:
        slots = self._snapshot.slots_of_tree(root)
        options = []
        for (name, amount), choice in self._choices:
            usable = choice.at(slots)
            if self._members[root] != "1":
                usable = _keep_members(usable, slots, self._members)
            options.append([Line(slot, name, amount) for slot in usable])
        return _Product(self._snapshot, options, self._traits, self._work)


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
            if have_together(self._snapshot, slots, self._traits):
                yield Match(slots, lines)


def have_together(snapshot: Snapshot, slots: Sequence[int], traits: Traits) -> bool:
    """Return whether each required trait is on one of these providers; forbidden ones are not checked."""
    if not traits.required:
        return True
    together = frozenset[str]().union(*(snapshot.nodes[slot].traits for slot in slots))
    return all(any_of & together for any_of in traits.required)
