# SPDX-License-Identifier: Apache-2.0
"""What is compared in a case, and what it has to reach: the arithmetic of the benchmarks, without any I/O."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass


class Cut(float):
    """What a measurement had come to when it was given up; the true value is greater."""


def percentile(values: Sequence[float], per_cent: float) -> float:
    """The least of the values that so many per cent of them do not exceed."""
    ordered = sorted(values)
    # counted in ceilings, in whole numbers: 99 per cent of 100 values are 99, of 101 values 100
    rank = -int(-len(ordered) * per_cent // 100)
    return ordered[max(rank, 1) - 1]


def p99(values: Sequence[float]) -> float:
    """The value that one in a hundred exceeds."""
    return percentile(values, 99)


@dataclass(frozen=True)
class Figure:
    """One number of each side, made from all of its samples.

    :ivar is_compared: whether it makes sense to say how many times better one side is
    :ivar parts: what it is the sum of; the samples of each are by :meth:`part`
    """

    name: str
    unit: str
    more_is_better: bool = False
    is_compared: bool = True
    summary: Callable[[Sequence[float]], float] = statistics.median
    parts: tuple[str, ...] = ()

    def part(self, name: str) -> str:
        """The name that the samples of one of the parts have."""
        return f"{self.name}: {name}"

    def summarize(self, values: Sequence[float]) -> float | None:
        """The number for these samples, None without any; cut if one of them is."""
        if not values:
            return None
        if any(isinstance(value, Cut) for value in values):
            return Cut(max(value for value in values if isinstance(value, Cut)))
        return self.summary(values)

    def times_better(self, ours: float | None, reference: float | None) -> float | None:
        """How many times better than the reference ours is; None if that cannot be said."""
        if ours is None or reference is None or isinstance(ours, Cut) or not self.is_compared:
            return None
        worse, better = (ours, reference) if self.more_is_better else (reference, ours)
        if not better or not worse:
            return None
        return type(worse)(worse / better)


@dataclass(frozen=True)
class Target:
    """What a side has to reach: any of these bounds, each None where it does not matter.

    :ivar times: so many times better than the reference at least
    :ivar at_most: the number itself
    :ivar at_least: the number itself
    :ivar beyond: so much more than the reference at most
    """

    times: float | None = None
    at_most: float | None = None
    at_least: float | None = None
    beyond: float | None = None

    def holds(self, figure: Figure, ours: float | None, reference: float | None) -> bool | None:
        """Whether every bound is kept; None if there is none, or nothing to compare with."""
        verdicts = [
            None if self.times is None else _is_at_least(figure.times_better(ours, reference), self.times),
            None if self.at_most is None else _is_at_most(ours, self.at_most),
            None if self.at_least is None else _is_at_least(ours, self.at_least),
            None if self.beyond is None or reference is None else _is_at_most(ours, reference + self.beyond),
        ]
        known = [verdict for verdict in verdicts if verdict is not None]
        return all(known) if known else None

    def format(self, unit: str) -> str:
        """The bounds for people."""
        bounds = (
            (self.times, "at least {:g} times"),
            (self.at_most, f"at most {{:g}} {unit}"),
            (self.at_least, f"at least {{:g}} {unit}"),
            (self.beyond, f"at most {{:g}} {unit} more"),
        )
        return ", ".join(words.format(bound) for bound, words in bounds if bound is not None)


def _is_at_least(value: float | None, bound: float) -> bool | None:
    return None if value is None else value >= bound


def _is_at_most(value: float | None, bound: float) -> bool | None:
    if value is None:
        return None
    return value <= bound and not isinstance(value, Cut)
