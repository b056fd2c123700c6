# SPDX-License-Identifier: Apache-2.0
"""Where the request of a flavor fits: on hosts as they are, on empty ones, and what it leaves unused. Pure.

*Empty* hosts are one of each kind: trees whose providers have the same inventories, traits and aggregates, as
far as any of the requests names them, and with which the same providers share. What holds for one of them
holds for all, so many hosts cost no more than a few.

A host of which a class runs out leaves the rest of its other classes unused. That share is measured on an
empty host that takes as many of the request as fit:

1. The request fits `HostFit.count` times; its ``limits`` are the classes that run out.
2. Of each class that the request asks for, the share is what is left of the inventory of the tree itself, not
   of what is shared with it. An overcommitted inventory counts with what is really there (total without
   reserved): capacity that only a ratio makes is not lost by leaving it unused.
3. The best host is the one where the largest of these shares is the smallest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from osc_placement.candidates.cloud import CloudView
from osc_placement.candidates.fit import count_request
from osc_placement.candidates.match import having
from osc_placement.candidates.node import Node
from osc_placement.candidates.request import CandidateRequest, NotCountable
from osc_placement.candidates.search import STEPS, search
from osc_placement.candidates.sets import slots_in
from osc_placement.candidates.work import Work


@dataclass(frozen=True, slots=True)
class BestHost:
    """The empty host on which a request leaves the least unused.

    :ivar count: the number of times that the request fits; a lower bound unless it is ``exact``
    :ivar limits: the classes, traits and numbered groups that allow no more
    :ivar unused: by class that the request asks for, the share that stays unused, from 0 to 1
    """

    host: Node
    count: int
    limits: Sequence[str]
    unused: Mapping[str, float]
    exact: bool = True


class FlavorFit:
    """A cloud in which requests are judged, each by itself.

    :ivar now: all hosts as they are
    :ivar empty: one host of each kind, with nothing used
    :ivar alike: by provider of an empty host, the number of hosts of its kind
    """

    def __init__(self, cloud: CloudView, requests: Iterable[CandidateRequest]) -> None:
        self.now = cloud
        named: set[str] = set()
        for request in requests:
            named |= request.classes | request.aggregates | request.root.names
            named.update(*(group.traits.names for group in request.groups))
        kinds: dict[Hashable, list[Sequence[Node]]] = defaultdict(list)
        for root in cloud.roots:
            tree = cloud.tree_of(root.uuid)
            kinds[_kind_of(cloud, root, tree, named)].append(tree)
        self.alike = {node.uuid: len(trees) for trees in kinds.values() for node in trees[0]}
        self.empty = CloudView(replace(cloud.records[uuid], usages={}) for uuid in self.alike)

    def fits_now(self, request: CandidateRequest) -> bool | None:
        """Return whether a host takes the request as it is; None if the search was too long to tell."""
        return _has_candidate(self.now, request)

    def find_suitable(self, request: CandidateRequest) -> list[Node]:
        """Return the providers of trees with the traits and aggregates that a request requires; used or not.

        Those that share are among them.
        """
        snapshot = self.now.snapshot
        roots = snapshot.roots & having(snapshot, request.root)
        for group in request.groups:
            roots &= ~snapshot.in_any_aggregate(group.membership.unwanted)
            for any_of in group.membership.required:
                roots &= snapshot.roots_of(snapshot.in_any_aggregate(any_of))
            for any_of in group.traits.required:
                with_trait = snapshot.with_any_trait(any_of)
                reached = snapshot.roots_of(with_trait)
                for slot in slots_in(with_trait & snapshot.sharing):
                    reached |= snapshot.anchors_of(slot)
                roots &= reached
        slots = {slot for root in slots_in(roots) for slot in snapshot.slots_of_tree(root)}
        return [snapshot.nodes[slot] for slot in sorted(slots | set(slots_in(snapshot.sharing)))]

    def fits_empty(self, request: CandidateRequest) -> bool | None:
        """Return whether a host would take the request if it were empty, enabled or not."""
        return _has_candidate(self.empty, request)

    def find_best(self, request: CandidateRequest) -> BestHost | None:
        """Return the empty host on which the request leaves the least unused.

        Return None if there is none, and for a request that cannot be counted: one that has numbered groups
        only, or a class both with and without such a group.
        """
        snapshot = self.empty.snapshot
        roots = slots_in(snapshot.roots & having(snapshot, request.root))
        try:
            fits = count_request(snapshot, request, {snapshot.nodes[slot].uuid for slot in roots}).hosts
        except NotCountable:
            return None
        hosts = []
        for fit in fits:
            if not fit.count:
                continue
            unused = {}
            for name, amount in request.totals.items():
                own = [node.stocks[name] for node in fit.providers if name in node.stocks and not node.shares]
                inventories = [stock.inventory for stock in own]
                # without overcommitment
                there = sum(min(each.total - each.reserved, each.capacity) for each in inventories)
                if there > 0:
                    unused[name] = max(0.0, 1 - fit.count * amount / there)
            hosts.append(BestHost(fit.host, fit.count, fit.limits, unused, fit.exact))
        return min(
            hosts, key=lambda best: (max(best.unused.values(), default=0.0), -best.count), default=None
        )


def _has_candidate(cloud: CloudView, request: CandidateRequest) -> bool | None:
    work = Work(STEPS)
    for _ in search(cloud.snapshot, request, work):
        return True
    return None if work.is_over else False


def _kind_of(cloud: CloudView, root: Node, tree: Sequence[Node], named: Collection[str]) -> Hashable:
    """Return what is equal for trees that stand for each other.

    :param named: the traits, classes and aggregates that count
    """
    if any(node.shares for node in tree):
        # whom it shares with is in no other tree
        return root.uuid
    places = {node.id: place for place, node in enumerate(tree)}
    providers = tuple(
        (
            places.get(-1 if node.parent_id is None else node.parent_id),
            frozenset(name for name in node.traits if name in named),
            frozenset(uuid for uuid in node.aggregates if uuid in named),
            frozenset((name, stock.inventory) for name, stock in node.stocks.items() if name in named),
        )
        for node in tree
    )
    return providers, frozenset(node.uuid for node in cloud.sharing_with(root.uuid))
