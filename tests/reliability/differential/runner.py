# SPDX-License-Identifier: Apache-2.0
"""Conversations: each begins with empty databases, and ends after so many requests or at a difference.

Requests are drawn from a seeded generator and not by a Hypothesis state machine. That keeps too little
entropy for a conversation of some hundred requests, each a document; a seed of ours gives the same requests
with every release of it; and what is printed is what was sent, ready to be sent again. Shrinking, for which
one would want it, is `shrink`.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from osc_placement.server.shadow import differences, explained
from osc_placement.server.shadow.exchange import Request
from tests.reliability.differential import clouds, generate
from tests.reliability.differential.sides import Ours, Reference, look

#: requests of one conversation, and how many of them set the scene
LENGTH = 150
OPENING = 25
#: conversations that shrinking may replay
REPLAYS = 150


@dataclass
class Difference:
    """What was answered otherwise, and the requests that lead there, of which the last is the one."""

    requests: Sequence[Request]
    lines: Sequence[str]

    def __str__(self) -> str:
        sent = "\n".join(f"  {request.to_json()}" for request in self.requests)
        return "\n".join(("reference / here:", *(f"  {line}" for line in self.lines), "after:", sent))


@dataclass
class Tally:
    """What was sent."""

    requests: int = 0
    conversations: int = 0
    statuses: collections.Counter[int] = field(default_factory=collections.Counter)
    explained: collections.Counter[str] = field(default_factory=collections.Counter)


class Pair:
    """Both servers, asked the same."""

    def __init__(self, reference: Reference, ours: Ours) -> None:
        self.reference = reference
        self.ours = ours
        self.tally = Tally()
        self.state: Any = None

    def empty(self) -> None:
        """Begin anew."""
        self.reference.empty()
        self.ours.empty()
        self.state = self.reference.state()

    def ask(self, request: Request) -> list[str]:
        """Send to both; the lines that differ and have no reason.

        The state is None after a request that they went apart at, for whatever reason; then there is nothing
        more to compare.
        """
        theirs, ours = self.reference.send(request), self.ours.send(request)
        self.tally.requests += 1
        self.tally.statuses[theirs.status] += 1
        lines = differences.find(request, theirs, ours)
        reason = explained.explain(request, theirs, ours) if lines else None
        if reason is not None:
            self.tally.explained[reason] += 1
            lines = []
        if request.method != "GET":
            apart = self._look()
            lines += apart if reason is None else []
        return lines

    def _look(self) -> list[str]:
        """Compare what is in the databases now."""
        self.reference.forget_phantoms()
        state = self.reference.state()
        apart = state ^ self.ours.state()
        self.state = None if apart else state
        return [f"state: {'-+'[row not in state]} {row}" for row in sorted(apart, key=str)[:10]]


def converse(pair: Pair, random: Random, length: int = LENGTH) -> Difference | None:
    """One conversation; what was answered otherwise, if something was."""
    pair.empty()
    pair.tally.conversations += 1
    requests: list[Request] = []
    for number in range(length):
        requests.append(generate.request(random, look(pair.state), opening=number < OPENING))
        lines = pair.ask(requests[-1])
        if lines:
            return Difference(requests, lines)
        if pair.state is None:
            break
    return None


def ask_about_a_cloud(pair: Pair, random: Random) -> Difference | None:
    """Make a cloud and then only ask; what was answered otherwise, if something was."""
    pair.empty()
    pair.tally.conversations += 1
    requests = clouds.build(random)
    for number, request in enumerate(requests, 1):
        if lines := pair.ask(request):
            return Difference(requests[:number], lines)
    for _ in range(clouds.QUESTIONS):
        request = clouds.question(random, look(pair.state))
        if lines := pair.ask(request):
            return Difference([*requests, request], lines)
    return None


def replay(pair: Pair, requests: Sequence[Request]) -> Difference | None:
    """Send these again, from empty databases; the first difference."""
    pair.empty()
    for number, request in enumerate(requests, 1):
        if lines := pair.ask(request):
            return Difference(requests[:number], lines)
    return None


def shrink(pair: Pair, difference: Difference) -> Difference:
    """The same with as few requests as are found to be enough."""
    size = max(1, len(difference.requests) // 2)
    left = REPLAYS
    while size and left > 0:
        for shorter in _without(difference.requests, size):
            left -= 1
            found = replay(pair, shorter)
            if found is not None and found.requests[-1] == difference.requests[-1]:
                difference = found
                break
            if not left:
                break
        else:
            size //= 2
    return difference


def _without(requests: Sequence[Request], size: int) -> Iterator[list[Request]]:
    """The requests without so many in a row, at each place but the last."""
    for start in range(0, len(requests) - 1, size):
        stop = min(start + size, len(requests) - 1)
        yield [*requests[:start], *requests[stop:]]
