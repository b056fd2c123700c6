# SPDX-License-Identifier: Apache-2.0
"""Joining what satisfies each group into candidates that satisfy all of them at one anchor. Pure.

The groups are decided one after the other (backtracking). A choice is dropped as soon as it breaks a rule:

1. Together the groups take no more of a provider than it has left, nor more than its max_unit.
2. With ``group_policy=isolate`` no two named groups use the same provider.
3. The providers of groups tied by ``same_subtree`` are all below one of them, checked when the last of those
   groups is decided.

What is left possible depends only on what has been taken so far, not on who took it. A state from which
nothing was found is remembered, so groups over like devices are not tried in all their permutations before it
is known that none fits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from osc_placement.server.candidates.request import CandidateRequest
from osc_placement.server.candidates.snapshot import Snapshot


class Line(NamedTuple):
    """An amount of a class taken from the provider in a slot."""

    slot: int
    resource_class: str
    amount: int


class Match(NamedTuple):
    """One way to satisfy one group: the providers that do, and what each gives."""

    slots: tuple[int, ...]
    lines: tuple[Line, ...]


class Candidate(NamedTuple):
    """One way to satisfy the request: a line per provider and class, and the providers of each group."""

    lines: tuple[Line, ...]
    mappings: tuple[tuple[str, tuple[int, ...]], ...]


def combine(
    snapshot: Snapshot, request: CandidateRequest, matches: Sequence[Sequence[Match]]
) -> Iterator[Candidate]:
    """Yield the candidates made of one match per group, in the order of the request's groups."""
    if len(matches) == 1 and not request.same_subtrees:
        suffix = request.groups[0].suffix
        return (Candidate(match.lines, ((suffix, match.slots),)) for match in matches[0])
    return _Combination(snapshot, request, matches).candidates()


@dataclass(slots=True)
class _Taken:
    """What the groups decided so far take, and the providers that no further one may use."""

    amounts: dict[tuple[int, str], int]
    isolated: frozenset[int]

    def add(self, match: Match, *, isolate: bool) -> _Taken:
        amounts = dict(self.amounts)
        for slot, name, amount in match.lines:
            amounts[slot, name] = amounts.get((slot, name), 0) + amount
        return _Taken(amounts, self.isolated | frozenset(match.slots) if isolate else self.isolated)

    def state(self, depth: int) -> tuple[int, frozenset[tuple[tuple[int, str], int]], frozenset[int]]:
        return depth, frozenset(self.amounts.items()), self.isolated


class _Combination:
    def __init__(
        self, snapshot: Snapshot, request: CandidateRequest, matches: Sequence[Sequence[Match]]
    ) -> None:
        self._snapshot = snapshot
        self._request = request
        self._matches = matches
        self._dead: set[object] = set()
        position = {group.suffix: index for index, group in enumerate(request.groups)}
        # by the index of the group that completes it: the groups tied together
        self._tied: dict[int, list[list[int]]] = {}
        for suffixes in request.same_subtrees:
            indexes = sorted(position[suffix] for suffix in suffixes)
            self._tied.setdefault(indexes[-1], []).append(indexes)

    def candidates(self) -> Iterator[Candidate]:
        return self._extend([], _Taken({}, frozenset()))

    def _extend(self, chosen: list[Match], taken: _Taken) -> Iterator[Candidate]:
        depth = len(chosen)
        if depth == len(self._matches):
            yield self._candidate(chosen, taken.amounts)
            return
        # which providers a tie allows depends on who was chosen, not only on what was taken
        state = None if self._tied else taken.state(depth)
        if state in self._dead:
            return
        found = False
        for match in self._matches[depth]:
            if self._is_allowed(match, chosen, taken):
                isolate = self._request.isolated and self._request.groups[depth].one_provider
                for candidate in self._extend([*chosen, match], taken.add(match, isolate=isolate)):
                    found = True
                    yield candidate
        if not found and state is not None:
            self._dead.add(state)

    def _is_allowed(self, match: Match, chosen: Sequence[Match], taken: _Taken) -> bool:
        depth = len(chosen)
        if (
            self._request.isolated
            and self._request.groups[depth].one_provider
            and match.slots[0] in taken.isolated
        ):
            return False
        if any(not self._fits(line, taken.amounts) for line in match.lines):
            return False
        decided = [*chosen, match]
        return all(self._is_one_subtree(decided, tie) for tie in self._tied.get(depth, ()))

    def _fits(self, line: Line, amounts: Mapping[tuple[int, str], int]) -> bool:
        before = amounts.get((line.slot, line.resource_class))
        if before is None:
            # by itself it fits, or it would not be a match
            return True
        return before + line.amount <= self._snapshot.nodes[line.slot].stocks[line.resource_class].room

    def _is_one_subtree(self, decided: Sequence[Match], tie: Sequence[int]) -> bool:
        slots = {slot for index in tie for slot in decided[index].slots}
        common = set.intersection(*(set(self._snapshot.ancestors(slot)) for slot in slots))
        return bool(common & slots)

    def _candidate(self, chosen: Sequence[Match], amounts: Mapping[tuple[int, str], int]) -> Candidate:
        lines = tuple(Line(slot, name, amount) for (slot, name), amount in amounts.items())
        groups = self._request.groups
        mappings = tuple((group.suffix, match.slots) for group, match in zip(groups, chosen, strict=True))
        return Candidate(lines, mappings)
