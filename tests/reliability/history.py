# SPDX-License-Identifier: Apache-2.0
"""Histories of what clients did and saw, and the search for what no order of it explains.

A history is made of registers: the traits of a provider, what one consumer holds of it, and so on. Nobody
writes to a register before the last writer has its answer, so the order of its versions is known, whatever
servers they were sent to. A write takes effect at one moment between its begin and its end, so at the begin
of a read every version is there that was acknowledged before, and at its end none that was begun after.

A read may show several registers, and of some no more than a condition that they fulfil together. It is

``stale``
    if what it shows is a version older than the last that was acknowledged before the read began, or than
    one that another read showed before this read began;
``early``
    if it is a version whose write began after the read had ended, or that was never written;
``torn``
    if each register is right at some moment of the read, but there is no one moment for all of them.

For a register that is read by itself these conditions are not only necessary: a history without such a read
is linearizable. All times are of one clock.
"""

import heapq
import itertools
import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

#: combinations of versions that are tried at most for one condition; a condition with more is not judged
COMBINATIONS = 4096
#: the kind of what another program oversold, or may have
BESIDE_OTHERS = "oversold beside others"


class Write(NamedTuple):
    """A write that was acknowledged, or whose outcome nobody knows: then it never ended."""

    begun: float
    ended: float
    #: the new value of each register that it writes to, all at one moment
    values: dict[Hashable, Any]


class Seen(NamedTuple):
    """What a read tells about registers: a condition on their values, in the order of their names."""

    names: tuple[Hashable, ...]
    accepts: Callable[..., bool]
    shown: Any


class Read(NamedTuple):
    """A read and all that it tells."""

    begun: float
    ended: float
    name: str
    seen: list[Seen]


class Told(NamedTuple):
    """The generation of a provider that an answer tells; of a write, the one that it made."""

    begun: float
    ended: float
    provider: str
    generation: int
    is_write: bool


class Claim(NamedTuple):
    """A claim that was granted, and when its consumer began to give it back."""

    begun: float
    ended: float
    amount: int
    is_ours: bool
    released: float = math.inf


class Problem(NamedTuple):
    """What cannot be explained."""

    kind: str
    text: str

    def __str__(self):
        return f"{self.kind}: {self.text}"


class Register:
    """The versions of a register, the first of them from before the history."""

    def __init__(self, initial):
        self.values = [initial]
        self.begun = [-math.inf]
        self.ended = [-math.inf]

    def add(self, write, value):
        """Append a version; :raises ValueError: if the one before is not known to have ended by then."""
        if self.ended[-1] > write.begun:
            raise ValueError(f"two writes at once: {value!r} while {self.values[-1]!r} was being written")
        self.values.append(value)
        self.begun.append(write.begun)
        self.ended.append(write.ended)

    def project(self, function):
        """Return the register of what a function makes of each version."""
        made = Register(None)
        made.values = [function(value) for value in self.values]
        made.begun, made.ended = self.begun, self.ended
        return made

    def window(self, begun, ended):
        """Return the numbers of the first and of the last version that may be current in an interval."""
        return bisect_left(self.ended, begun) - 1, bisect_right(self.begun, ended) - 1

    def largest(self, begun, ended):
        """Return the greatest value that may be current in an interval."""
        first, last = self.window(begun, ended)
        return max(self.values[max(first, 0) : last + 1])

    def span(self, number):
        """Return the first and the last moment at which a version may be current."""
        follows = number + 1 < len(self.values)
        return self.begun[number], self.ended[number + 1] if follows else math.inf


def make_registers(initial, writes):
    """Return the registers of a history by key.

    :param initial: the value of every register before the first write
    """
    registers = {key: Register(value) for key, value in initial.items()}
    for write in sorted(writes, key=lambda write: write.begun):
        for key, value in write.values.items():
            registers[key].add(write, value)
    return registers


def find_unexplained(registers, reads):
    """Return the problems of reads: stale, early and torn ones."""
    problems = []
    floors = defaultdict(_Floor)
    for read in sorted(reads, key=lambda read: read.begun):
        moments = [(read.begun, read.ended)]
        is_right = True
        for seen in read.seen:
            window = [registers[name].window(read.begun, read.ended) for name in seen.names]
            if len(seen.names) > 1:
                possible = _can_hold(registers, seen, window)
                spans = None
            else:
                register, floor = registers[seen.names[0]], floors[seen.names[0]]
                first = max(window[0][0], floor.at(read.begun), 0)
                numbers = [
                    number
                    for number in range(first, window[0][1] + 1)
                    if seen.accepts(register.values[number])
                ]
                possible = bool(numbers)
                if numbers:
                    # the smallest that is possible constrains later reads least
                    floor.add(read.ended, numbers[0])
                spans = [register.span(number) for number in numbers]
            if not possible:
                is_right = False
                problems.append(_explain(registers, read, seen, window))
            elif spans is not None:
                moments = _intersect(moments, spans)
        if is_right and not moments:
            problems.append(Problem("torn", f"{read.name} shows what never was at one moment: {_list(read)}"))
    return problems


class _Floor:
    """The newest version that reads which have ended have shown."""

    def __init__(self):
        self._pending = []
        self._floor = 0

    def add(self, ended, number):
        """Note that a read that ended then showed a version, or a newer one."""
        heapq.heappush(self._pending, (ended, number))

    def at(self, moment):
        """Return the oldest version that a read which begins at this moment may show."""
        while self._pending and self._pending[0][0] < moment:
            self._floor = max(self._floor, heapq.heappop(self._pending)[1])
        return self._floor


def _can_hold(registers, seen, window):
    ranges = [range(max(first, 0), last + 1) for first, last in window]
    if math.prod(map(len, ranges)) > COMBINATIONS:
        return True
    values = (
        [registers[key].values[number] for number in numbers]
        for key, numbers in zip(seen.names, ranges, strict=True)
    )
    return any(seen.accepts(*combination) for combination in itertools.product(*values))


def _intersect(moments, spans):
    pairs = ((max(a, c), min(b, d)) for a, b in moments for c, d in spans)
    return [(begin, end) for begin, end in pairs if begin <= end]


def _explain(registers, read, seen, window):
    possible = [
        registers[name].values[max(first, 0) : last + 1]
        for name, (first, last) in zip(seen.names, window, strict=True)
    ]
    kind = "stale"
    if len(seen.names) == 1:
        register, last = registers[seen.names[0]], window[0][1]
        if not any(map(seen.accepts, register.values[: last + 1])):
            kind = "early"
    return Problem(
        kind,
        f"{read.name} from {read.begun:.4f} to {read.ended:.4f} shows {seen.shown!r} for {seen.names}, "
        f"which may have been {possible}",
    )


def _list(read):
    return ", ".join(f"{seen.names}: {seen.shown!r}" for seen in read.seen)


def find_generations_out_of_order(told):
    """Return the problems of generations: what goes back, and writes that were lost to another.

    A provider's generation only grows. Two writes that answer the same one were both judged by the same
    state, so one of them overwrote what it had not seen.
    """
    problems = []
    floors, made = defaultdict(_Floor), {}
    for each in sorted(told, key=lambda each: each.begun):
        floor = floors[each.provider]
        least = floor.at(each.begun) + each.is_write
        if each.generation < least:
            text = f"{each.provider} is told to have generation {each.generation} at {each.begun:.4f}"
            problems.append(Problem("stale", f"{text}, which was {floor.at(each.begun)} before"))
        if each.is_write and (each.provider, each.generation) in made:
            text = f"two writes both made generation {each.generation} of {each.provider}"
            problems.append(Problem("lost", text))
        if each.is_write:
            made[each.provider, each.generation] = each
        floor.add(each.ended, each.generation)
    return problems


def find_oversold(name, claims, capacity):
    """Return the problems of one inventory, oversold by our servers or beside another program.

    When a claim is acknowledged, those claims are surely held that were acknowledged by then and that nobody
    had begun to give back. One of them was granted last, after the begin of each of them, and whoever granted
    it had all others committed before it. So their sum is at most the greatest capacity that there may have
    been between the last begin and now. If it is not, and our servers granted all that may have been the
    last, then one of them granted too much. If another program granted one of these, it may have been that.

    :param capacity: the register of the capacity
    """
    problems = []
    acknowledged = sorted(claims, key=lambda claim: claim.ended)
    held = []
    for claim in acknowledged:
        now = claim.ended
        held = [each for each in held if each.released > now]
        held.append(claim)
        if now == -math.inf:
            # from before the history
            continue
        last = max(each.begun for each in held)
        total, most = sum(each.amount for each in held), capacity.largest(last, now)
        if total > most:
            candidates = [each for each in held if each.ended >= last]
            is_ours = all(each.is_ours for each in candidates)
            kind = "oversold by us" if is_ours else BESIDE_OTHERS
            problems.append(Problem(kind, f"{total} of {most} of {name} at {now:.4f}"))
    return problems
