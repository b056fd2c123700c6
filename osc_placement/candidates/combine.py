# SPDX-License-Identifier: Apache-2.0
"""The combination of what satisfies each group into candidates that satisfy all of them at one anchor. Pure.

The groups are decided one after the other (backtracking). A choice is dropped as soon as it breaks a rule:

1. Together the groups take no more of a provider than it has left, nor more than its max_unit.
2. With ``group_policy=isolate`` no two named groups use the same provider.
3. The providers of groups tied by ``same_subtree`` are all below one of them. While some are undecided, one
   that may yet become the top has to be above all that are decided.
4. Before nested candidates, one takes from a single provider of each tree.

Whether there may be a candidate at all is asked first (`Remaining.may_fit`). A search that has tried much
without a result asks that for each state that it comes to, from the beginning: where the conditions are
sufficient, each state then leads to a candidate.

A state that gave no result is remembered by what it leaves to the undecided groups (`Remaining.key`), not by
the groups and providers that took the rest. So seventeen groups over sixteen devices that are alike for them
are rejected after seventeen states and not after all permutations.

Each match chosen is a step of `Work`, and one that breaks a rule a part of a step; operations whose time
grows with the number of groups are charged as well. A search that finds nothing for long pauses, so that
other anchors have their turn, and the work of a request is bounded: no request of a client can keep a worker
busy for long.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from osc_placement.candidates.remaining import Need, Remaining, Tie

if TYPE_CHECKING:
    from osc_placement.candidates.request import CandidateRequest
    from osc_placement.candidates.snapshot import Snapshot
    from osc_placement.candidates.work import Work


class Line(NamedTuple):
    """An amount of a class taken from the provider in a slot."""

    slot: int
    resource_class: str
    amount: int


class Match(NamedTuple):
    """One way to satisfy one group: the providers, and the amounts taken from each."""

    slots: tuple[int, ...]
    lines: tuple[Line, ...]


class Candidate(NamedTuple):
    """One way to satisfy the request: a line per provider and class, and the providers of each group."""

    lines: tuple[Line, ...]
    mappings: tuple[tuple[str, tuple[int, ...]], ...]


#: the value that an anchor yields to let other anchors have their turn
PAUSED = None
#: the matches tried without a result, for each group, after which every state is examined
PATIENCE: Final = 8
#: what `next` returns where no match is left
_END: Final = Match((), ())


class Matches(Protocol):
    """The ways to satisfy one group at an anchor, of which there are none if it is false."""

    @property
    def needs(self) -> Sequence[Need]:
        """Return what is needed, the same objects each time."""

    def __bool__(self) -> bool: ...

    def __iter__(self) -> Iterator[Match | None]:
        """Yield each way, and `PAUSED` when the turn is over."""


def combine(
    snapshot: Snapshot, request: CandidateRequest, matches: Sequence[Matches], work: Work
) -> Iterator[Candidate | None]:
    """Yield the candidates made of one match per group, in the order of the request's groups.

    :param matches: for each group the ways to satisfy it; each is iterated over any number of times
    """
    if len(matches) == 1 and not request.same_subtrees:
        suffix = request.groups[0].suffix
        return (
            PAUSED if match is None else Candidate(match.lines, ((suffix, match.slots),))
            for match in matches[0]
        )
    return _Combination(snapshot, request, matches, work).find()


class _Tie:
    """Groups tied by ``same_subtree``, and the providers that may be the top of what they use."""

    def __init__(self, groups: Sequence[int], tops: frozenset[int]) -> None:
        self.groups = frozenset(groups)
        self.last = max(groups)
        #: before each group decided so far: the providers above all that are decided, and the providers used
        self.above: list[frozenset[int]] = [tops]
        self.used: list[frozenset[int]] = [frozenset()]

    def push(self, snapshot: Snapshot, slots: Sequence[int], depth: int) -> bool:
        """Decide one of the groups; return False, with nothing decided, if no top is left."""
        above = self.above[-1]
        for slot in slots:
            above = above & snapshot.lineage(slot)
        used = self.used[-1] | frozenset(slots)
        if not above or (depth == self.last and not above & used):
            return False
        self.above.append(above)
        self.used.append(used)
        return True

    def pop(self) -> None:
        self.above.pop()
        self.used.pop()

    @property
    def state(self) -> Tie:
        return Tie(self.above[-1], self.used[-1] & self.above[-1])


class _Combination:
    def __init__(
        self, snapshot: Snapshot, request: CandidateRequest, matches: Sequence[Matches], work: Work
    ) -> None:
        self._snapshot = snapshot
        self._nested = request.nested
        self._groups = request.groups
        self._matches = matches
        self._work = work
        self._free = {name: snapshot.free_capacity(name) for name in request.totals}
        self._isolating = [request.isolated and group.one_provider for group in request.groups]
        self._remaining = Remaining(snapshot, request, [each.needs for each in matches], work)
        self._dead: set[object] = set()
        self._chosen: list[Match] = []
        self._amounts: dict[tuple[int, str], int] = {}
        self._isolated: set[int] = set()
        self._ties: list[_Tie] = []
        position = {group.suffix: index for index, group in enumerate(request.groups)}
        for suffixes in request.same_subtrees:
            groups = [position[suffix] for suffix in suffixes]
            slots = frozenset(
                slot for index in groups for need in matches[index].needs for slot in need.slots
            )
            work.charge(len(slots) // 8)
            self._ties.append(_Tie(groups, slots))

    def find(self) -> Iterator[Candidate | None]:
        """Yield every candidate."""
        work, matches = self._work, self._matches
        if not self._may_fit():
            return
        most = PATIENCE * len(matches)
        # for each group from the first to the one that is being decided: its matches to try, and whether one
        # of those tried had a candidate
        levels = [iter(matches[0])]
        found = [False]
        tried = 0
        is_wary = False
        while levels:
            depth = len(levels) - 1
            match = next(levels[-1], _END)
            if match is _END:
                levels.pop()
                if not found.pop() and not work.is_over:
                    self._dead.add(self._key())
                if self._chosen:
                    self._give_back()
                continue
            is_taken = match is not None and self._take(match, depth)
            if is_taken:
                tried += 1
                work.step()
            else:
                work.charge(1)
            if match is None or work.is_turn_over:
                yield PAUSED
            if work.is_over:
                return
            if not is_taken:
                continue
            if tried > most and not is_wary:
                is_wary = True
                if not found[0]:
                    # all states so far were chosen without care
                    while self._chosen:
                        self._give_back()
                    levels, found = [iter(matches[0])], [False]
                    continue
            if depth + 1 == len(matches):
                found = [True] * len(found)
                tried, is_wary = 0, False
                # assembling and rendering the candidate is work as well
                work.left -= len(self._groups)
                yield self._assemble()
                self._give_back()
            elif self._is_dead(is_wary):
                self._give_back()
            else:
                levels.append(iter(matches[depth + 1]))
                found.append(False)

    def _take(self, match: Match, depth: int) -> bool:
        """Choose a match for the next group; return False, with nothing changed, if it breaks a rule."""
        amounts = self._amounts
        isolating = self._isolating[depth]
        if isolating and match.slots[0] in self._isolated:
            return False
        for slot, name, amount in match.lines:
            # a match fits by itself, so only the sum of several has to be compared
            before = amounts.get((slot, name))
            if before is not None and before + amount > self._free[name][slot]:
                return False
        if not self._nested and not takes_once_from_a_tree(
            self._snapshot, {*(slot for slot, _ in amounts), *(line.slot for line in match.lines)}
        ):
            return False
        if self._ties and not self._tie(match, depth):
            return False
        for slot, name, amount in match.lines:
            amounts[slot, name] = amounts.get((slot, name), 0) + amount
        if isolating:
            self._isolated.add(match.slots[0])
        self._chosen.append(match)
        return True

    def _tie(self, match: Match, depth: int) -> bool:
        self._work.charge(len(self._ties) // 4)
        pushed: list[_Tie] = []
        for tie in self._ties:
            if depth in tie.groups:
                if not tie.push(self._snapshot, match.slots, depth):
                    for other in pushed:
                        other.pop()
                    return False
                pushed.append(tie)
        return True

    def _give_back(self) -> None:
        """Undo the last choice."""
        match = self._chosen.pop()
        depth = len(self._chosen)
        if self._isolating[depth]:
            self._isolated.discard(match.slots[0])
        for tie in self._ties:
            if depth in tie.groups:
                tie.pop()
        for slot, name, amount in match.lines:
            if left := self._amounts[slot, name] - amount:
                self._amounts[slot, name] = left
            else:
                del self._amounts[slot, name]

    def _is_dead(self, is_wary: bool) -> bool:
        """Return whether the groups that are left are known to find nothing; examine that if wary."""
        # PERF: making a key takes time, and without a failed state there is nothing to compare it with
        if not self._dead and not is_wary:
            return False
        key = self._key()
        if key in self._dead:
            return True
        if is_wary and not self._may_fit():
            self._dead.add(key)
            return True
        return False

    def _may_fit(self) -> bool:
        states = [tie.state for tie in self._ties]
        return self._remaining.may_fit(len(self._chosen), self._amounts, self._isolated, states)

    def _key(self) -> object:
        states = [tie.state for tie in self._ties]
        return self._remaining.key(len(self._chosen), self._amounts, self._isolated, states)

    def _assemble(self) -> Candidate:
        lines = tuple([Line(slot, name, amount) for (slot, name), amount in self._amounts.items()])
        chosen = zip(self._groups, self._chosen, strict=True)
        return Candidate(lines, tuple([(group.suffix, match.slots) for group, match in chosen]))


def takes_once_from_a_tree(snapshot: Snapshot, slots: Collection[int]) -> bool:
    """Return whether no two of these providers are in one tree."""
    return len({snapshot.root_of[slot] for slot in slots}) == len(slots)
