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

An *anchor* is the root of the tree a candidate belongs to; sharing providers take part in the candidates of
all the trees they lend to. The rules are those of openstack-placement, ``GET /allocation_candidates``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from osc_placement.server.candidates.combine import Candidate, Line, Match, combine
from osc_placement.server.candidates.query import Membership, Traits
from osc_placement.server.candidates.request import CandidateRequest, Group
from osc_placement.server.candidates.snapshot import Mask, Snapshot, Stock, slots_in


def search(snapshot: Snapshot, request: CandidateRequest) -> Iterator[Candidate]:
    """Yield every candidate once; stop reading to stop the work.

    The order is the same for equal snapshots and requests: anchors by id, in turns.
    """
    plans = [_plan(snapshot, group) for group in request.groups]
    anchors = _acceptable_roots(snapshot, request.root)
    for plan in plans:
        anchors &= plan.anchors
    seen: set[Candidate] = set()
    for candidate in _in_turns(_at_anchor(snapshot, request, plans, root) for root in slots_in(anchors)):
        if not request.nested and _takes_twice_from_a_tree(snapshot, candidate):
            continue
        if _is_all_shared(snapshot, candidate):
            # the same whichever tree it was found at
            if candidate in seen:
                continue
            seen.add(candidate)
        yield candidate


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


def _in_turns(iterators: Iterator[Iterator[Candidate]]) -> Iterator[Candidate]:
    """The first of each, then the second of each, and so on; each is started only when its turn comes."""
    waiting: deque[Iterator[Candidate]] = deque()
    for iterator in iterators:
        for item in iterator:
            yield item
            waiting.append(iterator)
            break
    while waiting:
        iterator = waiting.popleft()
        for item in iterator:
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


def _at_anchor(
    snapshot: Snapshot, request: CandidateRequest, plans: Sequence[_Plan], root: int
) -> Iterator[Candidate]:
    tree = snapshot.tree(root)
    matches: list[Sequence[Match]] = []
    for plan in plans:
        find = _named_matches if plan.group.one_provider else _unnamed_matches
        found = list(find(snapshot, plan, root, tree))
        if not found:
            return
        matches.append(found)
    yield from combine(snapshot, request, matches)


def _named_matches(snapshot: Snapshot, plan: _Plan, root: int, tree: Mask) -> Iterator[Match]:
    lines = tuple(plan.group.resources.items())
    for slot in _usable(snapshot, plan.eligible, plan.eligible & snapshot.sharing, root, tree):
        stocks = snapshot.nodes[slot].stocks
        if all(_fits(stocks[name], amount) for name, amount in lines):
            yield Match((slot,), tuple(Line(slot, name, amount) for name, amount in lines))


def _unnamed_matches(snapshot: Snapshot, plan: _Plan, root: int, tree: Mask) -> Iterator[Match]:
    lenders = snapshot.sharing & plan.members if plan.group.in_tree is None else 0
    if not plan.members >> root & 1:
        tree &= plan.members
    options = []
    for name, amount in plan.group.resources.items():
        mask = plan.by_class[name]
        usable = _usable(snapshot, mask, mask & lenders, root, tree)
        nodes = snapshot.nodes
        fitting = [slot for slot in usable if _fits(nodes[slot].stocks[name], amount)]
        options.append([Line(slot, name, amount) for slot in fitting])
    for lines in product(*options):
        slots = tuple(dict.fromkeys(line.slot for line in lines))
        if _have_together(snapshot, slots, plan.group.traits):
            yield Match(slots, lines)


def _usable(snapshot: Snapshot, providers: Mask, lenders: Mask, root: int, tree: Mask) -> list[int]:
    """Of these providers the ones in the tree, and of the lenders those that lend to it."""
    usable = providers & tree
    for slot in slots_in(lenders & ~tree):
        if snapshot.anchors_of(slot) >> root & 1:
            usable |= 1 << slot
    return list(slots_in(usable))


def _fits(stock: Stock, amount: int) -> bool:
    return amount <= stock.room and (stock.takes_any_amount or stock.inventory.fits_unit(amount))


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
