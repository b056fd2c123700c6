# SPDX-License-Identifier: Apache-2.0
"""The combination of what satisfies each group into candidates that satisfy all of them at one anchor. Pure.

The groups are decided one after the other (backtracking). A choice is dropped as soon as it breaks a rule:

1. Together the groups take no more of a provider than it has left, nor more than its max_unit.
2. With ``group_policy=isolate`` no two named groups use the same provider.
3. The providers of groups tied by ``same_subtree`` are all below one of them. While some are undecided, one
   that may yet become the top has to be above all that are decided.

The candidates that remain possible depend only on the amounts taken so far, not on the groups that took them,
nor on which of several identical devices they were taken from. Devices are identical if they are in the same
tree, have the same free capacity, traits and aggregates, and satisfy the same groups. A state that gave no
result is remembered in these terms, so that seventeen groups over sixteen identical devices are rejected
after seventeen states and not after all permutations.

Each match tried is a step of `Work`; operations whose time grows with the number of groups are charged as
well. A search that finds nothing for long pauses, so that other anchors have their turn, and the work of a
request is bounded: no request of a client can keep a worker busy for long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from osc_placement.candidates.request import CandidateRequest
    from osc_placement.candidates.snapshot import Snapshot


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


class Work:
    """The steps that a search may still do, of some microseconds each."""

    #: number of steps without a candidate after which other anchors have their turn
    PAUSE = 500
    #: number of parts in a step, the unit of `charge`
    PARTS = 4

    def __init__(self, steps: int) -> None:
        """Allow this number of steps."""
        self.left = steps
        self._until_pause = self.PAUSE
        self._parts = 0

    @property
    def is_over(self) -> bool:
        """Return whether no step is left."""
        return self.left <= 0

    def step(self) -> bool:
        """Do one step and return whether it is time to pause."""
        self.left -= 1
        self._until_pause -= 1
        if self._until_pause:
            return False
        self._until_pause = self.PAUSE
        return True

    def charge(self, parts: int) -> None:
        """Count other work than steps, in parts of a step."""
        steps, self._parts = divmod(self._parts + parts, self.PARTS)
        self.left -= steps


#: the value that an anchor yields to let other anchors have their turn
PAUSED = None


def combine(
    snapshot: Snapshot,
    request: CandidateRequest,
    matches: Sequence[Iterable[Match | None]],
    equivalence: Mapping[int, object],
    work: Work,
) -> Iterator[Candidate | None]:
    """Yield the candidates made of one match per group, in the order of the request's groups.

    :param matches: for each group the ways to satisfy it; each is iterated over any number of times
    :param equivalence: the equivalence class of each device, by slot
    """
    if len(matches) == 1 and not request.same_subtrees:
        suffix = request.groups[0].suffix
        return (
            PAUSED if match is None else Candidate(match.lines, ((suffix, match.slots),))
            for match in matches[0]
        )
    return _Combination(snapshot, request, matches, equivalence, work).extend()


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
    def state(self) -> tuple[frozenset[int], frozenset[int]]:
        return self.above[-1], self.used[-1] & self.above[-1]


class _Combination:
    def __init__(
        self,
        snapshot: Snapshot,
        request: CandidateRequest,
        matches: Sequence[Iterable[Match | None]],
        equivalence: Mapping[int, object],
        work: Work,
    ) -> None:
        self._snapshot = snapshot
        self._groups = request.groups
        self._matches = matches
        self._equivalence = equivalence
        self._work = work
        self._isolating = [request.isolated and group.one_provider for group in request.groups]
        self._dead: set[object] = set()
        self._chosen: list[Match] = []
        self._amounts: dict[tuple[int, str], int] = {}
        self._isolated: set[int] = set()
        self._ties: list[_Tie] = []
        position = {group.suffix: index for index, group in enumerate(request.groups)}
        for suffixes in request.same_subtrees:
            groups = [position[suffix] for suffix in suffixes]
            slots = [slot for index in groups for match in matches[index] if match for slot in match.slots]
            self._work.charge(len(slots) // 8)
            self._ties.append(_Tie(groups, frozenset(slots)))

    def extend(self) -> Iterator[Candidate | None]:
        """Yield every candidate that begins with the matches chosen so far."""
        depth = len(self._chosen)
        if depth == len(self._matches):
            # assembling and rendering the candidate is work as well
            self._work.left -= len(self._groups)
            lines = tuple([Line(slot, name, amount) for (slot, name), amount in self._amounts.items()])
            chosen = zip(self._groups, self._chosen, strict=True)
            yield Candidate(lines, tuple([(group.suffix, match.slots) for group, match in chosen]))
            return
        # PERF: making a state takes time, and without a failed state there is nothing to compare it with
        if self._dead and self._state() in self._dead:
            return
        found = False
        for match in self._matches[depth]:
            if match is None or self._work.step():
                yield PAUSED
            if self._work.is_over:
                return
            if match is None or not self._take(match, depth):
                continue
            for candidate in self.extend():
                found = found or candidate is not None
                yield candidate
            self._chosen.pop()
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
        if not found and not self._work.is_over:
            self._dead.add(self._state())

    def _take(self, match: Match, depth: int) -> bool:
        """Choose a match for the next group; return False, with nothing changed, if it breaks a rule."""
        amounts = self._amounts
        isolating = self._isolating[depth]
        if isolating and match.slots[0] in self._isolated:
            return False
        for slot, name, amount in match.lines:
            # a match fits by itself, so only the sum of several has to be compared
            before = amounts.get((slot, name))
            if before is not None and before + amount > self._snapshot.nodes[slot].stocks[name].free_capacity:
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

    def _state(self) -> object:
        """Return a key of the remaining candidates, which is equal for identical devices."""
        self._work.charge((len(self._amounts) + len(self._isolated) + len(self._ties)) // 4)
        taken: dict[int, list[object]] = {}
        for (slot, name), amount in self._amounts.items():
            taken.setdefault(slot, []).append((name, amount))
        for slot in self._isolated:
            taken.setdefault(slot, []).append(None)
        equivalence = self._equivalence
        counts: dict[object, int] = {}
        for slot, items in taken.items():
            # ties depend on the provider itself, so identical devices are not equivalent
            device = slot if self._ties else equivalence.get(slot, slot)
            key = device, frozenset(items)
            counts[key] = counts.get(key, 0) + 1
        ties = tuple(tie.state for tie in self._ties)
        return len(self._chosen), frozenset(counts.items()), ties
