# SPDX-License-Identifier: Apache-2.0
"""Allocation candidates: `search` finds, lazily and fairly, all ways a snapshot can satisfy a request. Pure.

How it works::

    request ──► for each group, who may provide what (sets)
                        │
                        ▼
            anchors: roots whose trees, with what is shared with them, have something for every group
                        │  one at a time, in turns
                        ▼
            for each group the matches at this anchor ──► combine ──► candidates

1. Conditions that hold for a provider by itself (traits, aggregates, tree, some room of a class) are
   intersections of sets, computed once for the request.
2. The anchors are the intersection, over the groups, of the roots those sets reach. Almost all of them lead
   to candidates, so a request with a limit does work in proportion to its limit and not to the cloud.
3. At an anchor, amounts are compared with what is left, and the groups' matches are combined (`combine`).
4. Anchors take turns: each gives its first candidate before any gives its second, so a limit starves no host.
   One that looks for long without finding anything lets others go on as well.

Most clouds are hosts that stand alone: trees of one provider, to which nothing is lent. Such a *lone* host
has at most one candidate, in which it gives everything, and that is told by comparing a few numbers.

An *anchor* is the root of the tree a candidate belongs to; sharing providers take part in the candidates of
all the trees they lend to. The rules are those of openstack-placement, ``GET /allocation_candidates``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from osc_placement.server.candidates.combine import PAUSED, Candidate, Line, Match, Work, combine
from osc_placement.server.candidates.query import Membership, Traits
from osc_placement.server.candidates.request import CandidateRequest, Group
from osc_placement.server.candidates.shape import Patterns, Placed, Shapes
from osc_placement.server.candidates.snapshot import Mask, Snapshot, slots_in

#: a candidate, or what `expand` makes one of: that of a tree like others, the slot of a lone host
Found = Candidate | Placed | int

#: what one search may do at most: somewhat less than a second
STEPS: Final = 100_000


def search(
    snapshot: Snapshot,
    request: CandidateRequest,
    work: Work | None = None,
    *,
    shuffle: Callable[[list[int]], None] | None = None,
) -> Iterator[Found]:
    """Yield every candidate once; stop reading to stop the work.

    The order is the same for equal snapshots and requests: anchors by id, or as ``shuffle`` puts them, in
    turns. When ``work`` is over, so is the search, which may then have left candidates out.
    """
    work = work or Work(STEPS)
    plans = [_plan(snapshot, group) for group in request.groups]
    anchors = _acceptable_roots(snapshot, request.root)
    for plan in plans:
        anchors &= plan.anchors
    order: Iterable[int] = slots_in(anchors)
    if shuffle is not None:
        order = list(order)
        shuffle(order)
    if anchors & snapshot.lone == anchors:
        return _lone_hosts(snapshot, request, order)
    return _all_hosts(snapshot, _Hosts(snapshot, request, plans, work), order, work)


def expand(request: CandidateRequest, found: Found) -> Candidate:
    """What was found, as a candidate: a lone host gives everything, to every group."""
    if isinstance(found, Candidate):
        return found
    if isinstance(found, Placed):
        return found.expand()
    lines = tuple(Line(found, name, amount) for name, amount in request.totals.items())
    return Candidate(lines, tuple((group.suffix, (found,)) for group in request.groups))


def _lone_hosts(snapshot: Snapshot, request: CandidateRequest, order: Iterable[int]) -> Iterator[int]:
    """The lone hosts of these that have room for all; O(1) for each."""
    needs = [(snapshot.rooms(name), amount) for name, amount in request.totals.items()]
    plain = len(request.groups) == 1
    if request.isolated and sum(group.one_provider for group in request.groups) > 1:
        return
    for slot in order:
        for rooms, amount in needs:
            if rooms[slot] < amount:
                break
        else:
            # PERF: units are looked at last, and at once for hosts that take any amount
            if (plain and snapshot.is_plain(slot)) or _fits_units(snapshot, request, slot):
                yield slot


def _fits_units(snapshot: Snapshot, request: CandidateRequest, slot: int) -> bool:
    stocks = snapshot.nodes[slot].stocks
    return all(
        stocks[name].fits(amount) for group in request.groups for name, amount in group.resources.items()
    )


def _all_hosts(snapshot: Snapshot, hosts: _Hosts, order: Iterable[int], work: Work) -> Iterator[Found]:
    seen: set[Candidate] = set()
    for found in _in_turns((hosts.at(root) for root in order), work):
        if snapshot.sharing and isinstance(found, Candidate) and _is_all_shared(snapshot, found):
            # the same whichever tree it was found at
            if found in seen:
                continue
            seen.add(found)
        yield found


def _acceptable_roots(snapshot: Snapshot, traits: Traits) -> Mask:
    return _having(snapshot, traits) & snapshot.roots


def _having(snapshot: Snapshot, traits: Traits) -> Mask:
    """The providers that have all the traits required, each by itself, and none forbidden."""
    mask = snapshot.everything & ~snapshot.with_any_trait(traits.forbidden)
    for any_of in traits.required:
        mask &= snapshot.with_any_trait(any_of)
    return mask


def _members(snapshot: Snapshot, membership: Membership) -> Mask:
    """The providers that are in all the aggregates required; forbidden ones are not looked at."""
    mask = snapshot.everything
    for any_of in membership.required:
        mask &= snapshot.in_any_aggregate(any_of)
    return mask


def _in_turns(iterators: Iterator[Iterator[Found | None]], work: Work) -> Iterator[Found]:
    """The first of each, then the second of each, and so on; each is started only when its turn comes."""
    waiting: deque[Iterator[Found | None]] = deque()
    for iterator in iterators:
        for item in iterator:
            if item is not PAUSED:
                yield item
            waiting.append(iterator)
            break
        if work.is_over:
            return
    while waiting and not work.is_over:
        iterator = waiting.popleft()
        for item in iterator:
            if item is not PAUSED:
                yield item
            waiting.append(iterator)
            break


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where one group can be satisfied at all: step 1 of the search.

    :ivar eligible: the providers that may provide all of a named group
    :ivar by_class: the providers that may provide something of each class of the unnamed group
    :ivar members: the providers in the aggregates required
    """

    group: Group
    anchors: Mask
    eligible: Mask
    by_class: Mapping[str, Mask]
    members: Mask


def _plan(snapshot: Snapshot, group: Group) -> _Plan:
    tree = _tree_of(snapshot, group.in_tree)
    return (_plan_named if group.one_provider else _plan_unnamed)(snapshot, group, tree)


def _tree_of(snapshot: Snapshot, uuid: str | None) -> Mask:
    if uuid is None:
        return snapshot.everything
    slot = snapshot.slot_by_uuid.get(uuid)
    return 0 if slot is None else snapshot.tree(snapshot.root_of[slot])


def _plan_named(snapshot: Snapshot, group: Group, tree: Mask) -> _Plan:
    members = _members(snapshot, group.membership)
    eligible = tree & members & _having(snapshot, group.traits)
    eligible &= ~snapshot.in_any_aggregate(group.membership.forbidden)
    for name in group.resources:
        eligible &= snapshot.with_room(name)
    anchors = snapshot.roots_of(eligible)
    for slot in slots_in(eligible & snapshot.sharing):
        anchors |= snapshot.anchors_of(slot)
    return _Plan(group, anchors, eligible, {}, members)


def _plan_unnamed(snapshot: Snapshot, group: Group, tree: Mask) -> _Plan:
    """The plan of the group whose classes may come from several providers, which have its traits together."""
    members = _members(snapshot, group.membership)
    allowed = tree & ~snapshot.with_any_trait(group.traits.forbidden)
    allowed &= ~snapshot.in_any_aggregate(group.membership.forbidden)
    by_class = {name: allowed & snapshot.with_room(name) for name in group.resources}
    # what is shared from outside a tree does not count as in it
    lenders = snapshot.sharing & members if group.in_tree is None else 0
    anchors = snapshot.roots & ~snapshot.in_any_aggregate(group.membership.forbidden)
    for mask in by_class.values():
        anchors &= _reach(snapshot, mask, members, lenders)
    providers = 0
    for mask in by_class.values():
        providers |= mask
    for any_of in group.traits.required:
        having = providers & snapshot.with_any_trait(any_of)
        anchors &= _reach(snapshot, having, members, lenders)
    return _Plan(group, anchors, 0, by_class, members)


def _reach(snapshot: Snapshot, providers: Mask, members: Mask, lenders: Mask) -> Mask:
    """The anchors at which some of these providers may be used.

    A provider is as good as in the aggregates required if its root is.
    """
    anchors = snapshot.roots_of(providers & members) | (snapshot.roots_of(providers) & members)
    for slot in slots_in(providers & lenders):
        anchors |= snapshot.anchors_of(slot)
    return anchors


class _Hosts:
    """The candidates at each anchor: step 3 of the search, with what its anchors have in common."""

    def __init__(
        self, snapshot: Snapshot, request: CandidateRequest, plans: Sequence[_Plan], work: Work
    ) -> None:
        self._snapshot = snapshot
        self._request = request
        self._work = work
        self._plans = plans
        self._needs = [(snapshot.rooms(name), amount) for name, amount in request.totals.items()]
        # PERF: like groups have like matches, which are looked for once for all of them; eight groups over
        # sixteen devices each took a third of the time
        kinds: dict[object, _Matcher] = {}
        self._matchers = []
        for plan in plans:
            if plan.group.one_provider:
                kind = (plan.eligible, tuple(plan.group.resources.items()))
                matcher = kinds.setdefault(kind, _NamedMatcher(snapshot, plan, work))
            else:
                matcher = _UnnamedMatcher(snapshot, plan, work)
            self._matchers.append(matcher)
        masks = [mask for plan in plans for mask in (plan.eligible, plan.members, *plan.by_class.values())]
        self._shapes = Shapes(snapshot, request, masks)
        # where a request names its tree, others are not alike
        named = any(group.in_tree for group in request.groups)
        self._closed = snapshot.bits(0 if named else snapshot.closed)

    def at(self, root: int) -> Iterator[Found | None]:
        """The candidates at one anchor."""
        snapshot, request = self._snapshot, self._request
        if snapshot.lone >> root & 1:
            yield from _lone_hosts(snapshot, request, (root,))
            return
        if self._work.step():
            yield PAUSED
        if self._closed[root] == "1":
            patterns = self._shapes.patterns(root, lambda: self._patterns(root))
            yield from patterns.at(snapshot.slots_of_tree(root))
        else:
            yield from self._search(root)

    def _patterns(self, root: int) -> Patterns:
        slots = self._snapshot.slots_of_tree(root)
        return Patterns(slots, self._search(root), self._work, len(self._request.groups))

    def _search(self, root: int) -> Iterator[Candidate | None]:
        """The candidates at one anchor, looked for there."""
        snapshot, request = self._snapshot, self._request
        if not snapshot.sharing and not self._may_fit(root):
            return
        matches: list[Iterable[Match | None]] = []
        by_matcher: dict[int, Iterable[Match | None]] = {}
        for matcher in self._matchers:
            found = by_matcher.get(id(matcher))
            if found is None:
                found = by_matcher[id(matcher)] = matcher.at(root)
                if not found:
                    return
            matches.append(found)
        likeness = _Likeness(snapshot, self._plans)
        for candidate in combine(snapshot, request, matches, likeness, self._work):
            if candidate is PAUSED or request.nested or not _takes_twice_from_a_tree(snapshot, candidate):
                yield candidate

    def _may_fit(self, root: int) -> bool:
        """Whether a tree that nobody lends to has as much in all as is asked for in all."""
        slots = self._snapshot.slots_of_tree(root)
        return all(sum([rooms[slot] for slot in slots]) >= amount for rooms, amount in self._needs)


class _Likeness(dict[int, object]):
    """What like devices have in common, by slot, found when it is asked for."""

    def __init__(self, snapshot: Snapshot, plans: Sequence[_Plan]) -> None:
        super().__init__()
        self._snapshot = snapshot
        self._plans = plans

    def get(self, slot: int, default: object = None) -> object:
        if slot not in self:
            self[slot] = self._describe(slot)
        return self[slot]

    def _describe(self, slot: int) -> object:
        snapshot = self._snapshot
        node = snapshot.nodes[slot]
        stocks = frozenset(
            (name, stock.room, stock.inventory.min_unit, stock.inventory.step_size)
            for name, stock in node.stocks.items()
        )
        return node.aggregates, frozenset(node.traits), snapshot.root_of[slot], stocks, self._roles(slot)

    def _roles(self, slot: int) -> tuple[bool, ...]:
        return tuple(
            bool(mask >> slot & 1)
            for plan in self._plans
            for mask in (plan.eligible, *plan.by_class.values())
        )


class _Matcher:
    """The ways to satisfy one group at an anchor."""

    def __init__(self, snapshot: Snapshot, plan: _Plan, work: Work) -> None:
        self._snapshot = snapshot
        self._group = plan.group
        self._plan = plan
        self._work = work

    def at(self, root: int) -> Sequence[Match] | _Product:
        raise NotImplementedError


class _Choice:
    """The providers that have room for an amount: those of a tree, and those that lend to it."""

    def __init__(
        self, snapshot: Snapshot, mask: Mask, lenders: Mask, needs: Sequence[tuple[str, int]]
    ) -> None:
        self._snapshot = snapshot
        # PERF: a bit of a long integer costs as much as the integer is long, a character of a text does not
        self._bits = snapshot.bits(mask)
        self._lenders = mask & lenders
        self._needs = needs
        self._lending: dict[frozenset[str], list[int]] = {}

    def at(self, slots: Sequence[int]) -> list[int]:
        """The slots to choose from at an anchor, in whose tree are these."""
        bits = self._bits
        found = [slot for slot in slots if bits[slot] == "1" and self._has_room(slot)]
        if self._lenders:
            known = set(slots)
            found += [slot for slot in self._lend_to(slots) if slot not in known]
            found.sort()
        return found

    def _lend_to(self, slots: Sequence[int]) -> list[int]:
        """Who lends to trees that are in the same aggregates as this one, found once for all of them."""
        nodes = self._snapshot.nodes
        aggregates = frozenset(uuid for slot in slots for uuid in nodes[slot].aggregates)
        if aggregates not in self._lending:
            lenders = self._lenders & self._snapshot.in_any_aggregate(aggregates)
            self._lending[aggregates] = [slot for slot in slots_in(lenders) if self._has_room(slot)]
        return self._lending[aggregates]

    def _has_room(self, slot: int) -> bool:
        stocks = self._snapshot.nodes[slot].stocks
        return all(stocks[name].fits(amount) for name, amount in self._needs)


class _NamedMatcher(_Matcher):
    """Of a group that one provider has to satisfy."""

    def __init__(self, snapshot: Snapshot, plan: _Plan, work: Work) -> None:
        super().__init__(snapshot, plan, work)
        self._needs = tuple(plan.group.resources.items())
        self._choice = _Choice(snapshot, plan.eligible, snapshot.sharing, self._needs)

    def at(self, root: int) -> Sequence[Match]:
        return [
            Match((slot,), tuple([Line(slot, name, amount) for name, amount in self._needs]))
            for slot in self._choice.at(self._snapshot.slots_of_tree(root))
        ]


class _UnnamedMatcher(_Matcher):
    """Of the group whose classes may come from several providers."""

    def __init__(self, snapshot: Snapshot, plan: _Plan, work: Work) -> None:
        super().__init__(snapshot, plan, work)
        lenders = snapshot.sharing & plan.members if plan.group.in_tree is None else 0
        self._members = snapshot.bits(plan.members)
        needs = plan.group.resources.items()
        self._choices = [
            (need, _Choice(snapshot, plan.by_class[need[0]], lenders, (need,))) for need in needs
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
    """Every choice of one line per class whose providers have the traits together; made while it is read."""

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


def _takes_twice_from_a_tree(snapshot: Snapshot, candidate: Candidate) -> bool:
    slots = {line.slot for line in candidate.lines}
    return len({snapshot.root_of[slot] for slot in slots}) < len(slots)


def _is_all_shared(snapshot: Snapshot, candidate: Candidate) -> bool:
    return all(snapshot.sharing >> line.slot & 1 for line in candidate.lines)
