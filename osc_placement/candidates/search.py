# SPDX-License-Identifier: Apache-2.0
"""Allocation candidates: `search` finds, lazily and fairly, all ways a snapshot can satisfy a request. Pure.

How it works::

    request ──► for each group, the providers that qualify (sets)
                        │
                        ▼
            anchors: roots whose trees, with their sharing providers, have something for every group
                        │  one at a time, in turns
                        ▼
            for each group the matches at this anchor ──► combine ──► candidates

1. Conditions that hold for a provider by itself (traits, aggregates, tree, free capacity of a class) are
   intersections of sets, computed once for the request.
2. The anchors are the intersection, over the groups, of the roots those sets reach. Almost all of them lead
   to candidates, so a request with a limit does work in proportion to its limit and not to the cloud.
3. At an anchor, amounts are compared with what is left, and the groups' matches are combined (`combine`),
   unless conditions that are cheap to check tell that there is no candidate (`remaining`).
4. Anchors take turns: each gives its first candidate before any gives its second, so a limit starves no host.
   An anchor that has searched for long without a result also lets other anchors continue: each has the same
   share of the work (`_in_turns`).

A search that ends because its work is over proves nothing about what it has not found.

Most clouds consist of *lone* hosts: trees of one provider with which no provider shares. A lone host has at
most one candidate, in which it provides everything, and that is found by comparing a few numbers.

An *anchor* is the root of the tree a candidate belongs to; sharing providers take part in the candidates of
all the trees they share with. The rules are those of openstack-placement, ``GET /allocation_candidates``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from osc_placement.candidates.combine import PAUSED, Candidate, Line, Matches, combine
from osc_placement.candidates.match import Matcher, NamedMatcher, Plan, UnnamedMatcher, having, make_plan
from osc_placement.candidates.sets import Mask, slots_in
from osc_placement.candidates.shape import Patterns, Placed, Shapes
from osc_placement.candidates.work import Work

if TYPE_CHECKING:
    from osc_placement.candidates.request import CandidateRequest
    from osc_placement.candidates.snapshot import Snapshot

#: a candidate, or what `expand` turns into one: a placed pattern of an equivalent tree, or a lone host's slot
Found = Candidate | Placed | int

#: the largest number of steps of one search, which take about a second
STEPS: Final = 100_000


def search(
    snapshot: Snapshot,
    request: CandidateRequest,
    work: Work | None = None,
    *,
    shuffle: Callable[[list[int]], None] | None = None,
    only: Mask | None = None,
) -> Iterator[Found]:
    """Yield every candidate once; stop reading to stop the work.

    The order is the same for equal snapshots and requests: anchors by id, or in the order that ``shuffle``
    gives them, in turns. The search ends when ``work`` is over, and then may not have found all candidates.

    :param only: the anchors to search, if not all
    """
    work = work or Work(STEPS)
    plans = [make_plan(snapshot, group) for group in request.groups]
    anchors = having(snapshot, request.root) & (snapshot.roots if only is None else snapshot.roots & only)
    for plan in plans:
        anchors &= plan.anchors
    order: Iterable[int] = slots_in(anchors)
    if shuffle is not None:
        order = list(order)
        shuffle(order)
    if anchors & snapshot.lone == anchors:
        return _lone_hosts(snapshot, request, order, work)
    hosts = _Hosts(snapshot, request, plans, work)
    return _all_hosts(snapshot, _in_turns(map(hosts.at, order), anchors.bit_count(), work))


def expand(request: CandidateRequest, found: Found) -> Candidate:
    """Return a result of the search as a candidate; a lone host provides everything, to every group."""
    if isinstance(found, Candidate):
        return found
    if isinstance(found, Placed):
        return found.expand()
    lines = tuple(Line(found, name, amount) for name, amount in request.totals.items())
    return Candidate(lines, tuple((group.suffix, (found,)) for group in request.groups))


def _lone_hosts(
    snapshot: Snapshot, request: CandidateRequest, order: Iterable[int], work: Work
) -> Iterator[int]:
    """Yield the lone hosts with free capacity for all; O(1) for each, and for each of many groups."""
    needs = [(snapshot.free_capacity(name), amount) for name, amount in request.totals.items()]
    units = {need for group in request.groups for need in group.resources.items()}
    cost = len(units) // 8
    if request.isolated and sum(group.one_provider for group in request.groups) > 1:
        return
    for slot in order:
        for free, amount in needs:
            if free[slot] < amount:
                break
        else:
            if cost:
                work.charge(cost)
                if work.is_over:
                    return
            # PERF: units are checked last, and not at all for hosts that take any amount
            stocks = snapshot.nodes[slot].stocks
            if snapshot.is_plain(slot) or all(stocks[name].fits(amount) for name, amount in units):
                yield slot


def _all_hosts(snapshot: Snapshot, candidates: Iterable[Found]) -> Iterator[Found]:
    seen: set[Candidate] = set()
    for found in candidates:
        sharing = snapshot.sharing
        if sharing and isinstance(found, Candidate) and all(sharing >> line.slot & 1 for line in found.lines):
            # a candidate of sharing providers only is found at each of their trees
            if found in seen:
                continue
            seen.add(found)
        yield found


def _in_turns(iterators: Iterable[Iterator[Found | None]], count: int, work: Work) -> Iterator[Found]:
    """Yield the first of each, then the second, and so on; each is started only when its turn comes.

    In a round each has a turn. Turns without a result take half of what is left of the work at most, so that
    a tree that takes much of it leaves enough to others. In the next round these come first.
    """
    while count:
        turn = max(1, min(Work.TURN, work.left // (2 * count)))
        paused, others = [], []
        for iterator in iterators:
            work.begin_turn(turn)
            for item in iterator:
                if item is PAUSED:
                    paused.append(iterator)
                else:
                    others.append(iterator)
                    yield item
                break
            if work.is_over:
                return
        iterators = paused + others
        count = len(iterators)


class _Hosts:
    """The candidates at each anchor: step 3 of the search, with what its anchors have in common."""

    def __init__(
        self, snapshot: Snapshot, request: CandidateRequest, plans: Sequence[Plan], work: Work
    ) -> None:
        self._snapshot = snapshot
        self._request = request
        self._work = work
        asking = Counter(name for group in request.groups for name in group.resources)
        # PERF: where providers share, what only one group asks for is left to its matcher; to find out who
        # shares with each of a thousand hosts took 5 ms
        self._needs = [
            (snapshot.free_capacity(name), amount)
            for name, amount in request.totals.items()
            if not snapshot.sharing or asking[name] > 1
        ]
        # PERF: identical groups have identical matches, which are found once for all; eight groups over
        # sixteen devices each took a third of the time
        matchers: dict[object, Matcher] = {}
        self._matchers: list[Matcher] = []
        for plan in plans:
            if plan.group.one_provider:
                kind = (plan.eligible, tuple(plan.group.resources.items()))
                matcher = matchers.setdefault(kind, NamedMatcher(snapshot, plan, work))
            else:
                matcher = UnnamedMatcher(snapshot, plan, work, nested=request.nested)
            self._matchers.append(matcher)
        # PERF: the matcher that found nothing last is tried first at the next anchor; 350
        # groups over 2,000 hosts, of which the last fits nowhere, took 20 s
        self._by_doubt = list(dict.fromkeys(self._matchers))
        masks = [mask for plan in plans for mask in (plan.eligible, plan.members, *plan.by_class.values())]
        bits = [snapshot.bits(mask) for mask in dict.fromkeys(masks)]
        self._shapes = Shapes(snapshot, request, bits, work)
        self._shared_with: dict[frozenset[str], Sequence[int]] = {}
        # a tree that the request names is not equivalent to any other
        named = any(group.in_tree for group in request.groups)
        self._lone = snapshot.bits(snapshot.lone)
        self._closed = snapshot.bits(0 if named else snapshot.closed)

    def at(self, root: int) -> Iterator[Found | None]:
        """Return the candidates at one anchor."""
        if self._lone[root] == "1":
            return _lone_hosts(self._snapshot, self._request, (root,), self._work)
        self._work.step()
        if self._closed[root] == "1":
            slots, cost = self._snapshot.slots_of_tree(root), len(self._request.groups)
            patterns = self._shapes.patterns(
                root, lambda: Patterns(slots, self._search(root), self._work, cost)
            )
            return patterns.at(slots)
        return self._search(root)

    def _search(self, root: int) -> Iterator[Candidate | None]:
        """Yield the candidates at one anchor, found by a search of its tree."""
        if self._needs:
            slots = self._around(root)
            if any(sum([free[slot] for slot in slots]) < amount for free, amount in self._needs):
                return
        by_matcher: dict[Matcher, Matches] = {}
        for place, matcher in enumerate(self._by_doubt):
            found = by_matcher[matcher] = matcher.at(root)
            if not found:
                self._by_doubt.insert(0, self._by_doubt.pop(place))
            if not found or self._work.is_over:
                return
        matches = [by_matcher[matcher] for matcher in self._matchers]
        yield from combine(self._snapshot, self._request, matches, self._work)

    def _around(self, root: int) -> Sequence[int]:
        """Return the providers of a tree, and those that share with it."""
        snapshot = self._snapshot
        slots = snapshot.slots_of_tree(root)
        if not snapshot.sharing:
            return slots
        aggregates = frozenset(uuid for slot in slots for uuid in snapshot.nodes[slot].aggregates)
        # PERF: found once for all trees in the same aggregates
        if aggregates not in self._shared_with:
            self._shared_with[aggregates] = list(slots_in(snapshot.sharing_in(aggregates)))
        return list({*slots, *self._shared_with[aggregates]})
