# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of the benchmarks: percentiles, ratios, what was cut off, and what holds."""

import pytest

from benchmarks.figure import Cut, Figure, Target, p99, percentile

TIME = Figure("time", "ms")
RATE = Figure("rate", "per s", more_is_better=True)


@pytest.mark.parametrize(
    ("count", "per_cent", "expected"),
    [(100, 99, 99), (101, 99, 100), (10, 99, 10), (10, 50, 5), (1, 99, 1), (4, 0, 1)],
)
def test_percentile_is_the_least_value_not_exceeded_by_so_many(count, per_cent, expected):
    """Of the numbers from 1 on, each percentile is one of them, by its rank."""
    assert percentile(list(range(count, 0, -1)), per_cent) == expected


def test_figure_is_the_median_unless_told_otherwise():
    """One slow sample does not move a time, and is all that counts for a p99."""
    samples = [1.0, 2.0, 90.0]
    assert TIME.summarize(samples) == 2.0
    assert Figure("slowest", "ms", summary=p99).summarize(samples) == 90.0


def test_figure_without_samples_is_none():
    """A side that was left out has no number."""
    assert TIME.summarize([]) is None


def test_one_sample_cut_off_cuts_the_figure():
    """What was given up once is greater than the limit, however quick the other samples were."""
    number = TIME.summarize([5.0, Cut(30.0), 6.0])
    assert (number, type(number)) == (30.0, Cut)


@pytest.mark.parametrize(
    ("figure", "ours", "expected"), [(TIME, 4.0, 5.0), (RATE, 100.0, 5.0), (TIME, 40.0, 0.5)]
)
def test_times_better_has_the_direction_of_the_figure(figure, ours, expected):
    """A fifth of the time is five times better, and so is five times the rate; worse is less than one."""
    assert figure.times_better(ours, 20.0) == expected


def test_reference_that_was_cut_off_gives_a_lower_bound():
    """Ours took a second where the reference was given up after thirty: more than thirty times better."""
    ratio = TIME.times_better(1.0, Cut(30.0))
    assert (ratio, type(ratio)) == (30.0, Cut)


@pytest.mark.parametrize(("ours", "reference"), [(None, 1.0), (1.0, None), (Cut(30.0), 40.0), (0.0, 1.0)])
def test_what_cannot_be_compared_has_no_ratio(ours, reference):
    """A side left out, one of ours cut off, or a zero, say nothing about how many times better."""
    assert TIME.times_better(ours, reference) is None


def test_figure_may_refuse_comparison():
    """A share handed out is right or wrong, not so many times better."""
    assert Figure("share", "%", is_compared=False).times_better(100.0, 110.0) is None


@pytest.mark.parametrize(
    ("target", "ours", "reference", "expected"),
    [
        (Target(times=20), 1.0, 20.0, True),
        (Target(times=20), 1.0, 19.9, False),
        (Target(times=20), 1.0, None, None),
        (Target(times=20), 1.0, Cut(30.0), True),
        (Target(at_most=30), 30.0, None, True),
        (Target(at_most=30), 31.0, None, False),
        (Target(at_most=30), Cut(20.0), None, False),
        (Target(at_least=100, at_most=100), 100.0, None, True),
        (Target(at_least=100, at_most=100), 110.0, None, False),
        (Target(beyond=60), 1050.0, 1000.0, True),
        (Target(beyond=60), 1061.0, 1000.0, False),
        (Target(beyond=60), 1061.0, None, None),
        (Target(at_most=30), None, None, None),
        (Target(), 1.0, 1.0, None),
    ],
)
def test_target_holds(target, ours, reference, expected):
    """Every bound has to be kept; without anything to judge there is no verdict."""
    assert target.holds(TIME, ours, reference) is expected


def test_target_is_said_in_words():
    """The table shows each bound with its unit."""
    assert Target(times=20).format("ms") == "at least 20 times"
    assert Target(at_least=100, at_most=100).format("%") == "at most 100 %, at least 100 %"
    assert Target(beyond=60).format("ms") == "at most 60 ms more"
    assert Target().format("ms") == ""
