# SPDX-License-Identifier: Apache-2.0
"""The checker of histories finds each kind of fault in histories made by hand, and nothing in right ones."""

import math
from random import Random

import pytest

from tests.reliability.history import (
    Claim,
    Read,
    Register,
    Seen,
    Told,
    Write,
    find_generations_out_of_order,
    find_oversold,
    find_unexplained,
    make_registers,
)

#: x becomes 1 from 10 to 20, and 2 from 30 to 40
WRITES = [Write(10, 20, {"x": 1}), Write(30, 40, {"x": 2})]


def read(begun, ended, **shown):
    """A read that shows the values of registers."""
    seen = [
        Seen((name,), lambda value, expected=expected: value == expected, expected)
        for name, expected in shown.items()
    ]
    return Read(begun, ended, "a read", seen)


def kinds(reads, *, writes=WRITES, **initial):
    """The kinds of the problems of reads."""
    registers = make_registers(initial or {"x": 0}, writes)
    return [problem.kind for problem in find_unexplained(registers, reads)]


@pytest.mark.parametrize(
    ("begun", "ended", "value", "found"),
    [
        pytest.param(1, 9, 0, [], id="before the write"),
        pytest.param(1, 9, 1, ["early"], id="a write that had not begun"),
        pytest.param(12, 15, 0, [], id="during the write, the old value"),
        pytest.param(12, 15, 1, [], id="during the write, the new value"),
        pytest.param(21, 25, 0, ["stale"], id="after the write, the old value"),
        pytest.param(21, 25, 1, [], id="after the write, the new value"),
        pytest.param(5, 50, 0, [], id="longer than all writes, the oldest value"),
        pytest.param(5, 50, 2, [], id="longer than all writes, the newest value"),
        pytest.param(41, 42, 1, ["stale"], id="the value before the last"),
        pytest.param(41, 42, 7, ["early"], id="a value that nobody wrote"),
    ],
)
def test_read_shows_acknowledged_writes_and_no_unstarted_ones(begun, ended, value, found):
    """At the edges of each interval."""
    assert kinds([read(begun, ended, x=value)]) == found


def test_a_read_after_another_shows_nothing_older():
    """Both are possible by themselves while the write is under way, but not in this order."""
    assert kinds([read(11, 12, x=1), read(13, 14, x=0)]) == ["stale"]
    assert kinds([read(11, 12, x=0), read(13, 14, x=1)]) == []
    # at the same time each may come first
    assert kinds([read(11, 14, x=1), read(12, 15, x=0)]) == []


def test_value_written_twice_may_be_any_of_its_versions():
    """A value that was written twice is right at both times, and stale between them."""
    writes = [*WRITES, Write(50, 60, {"x": 1})]
    assert kinds([read(55, 56, x=1)], writes=writes) == []
    assert kinds([read(61, 62, x=1)], writes=writes) == []
    assert kinds([read(45, 46, x=1)], writes=writes) == ["stale"]


def test_write_without_an_answer_may_appear_at_any_time():
    """Once it was seen, it has happened."""
    writes = [Write(10, math.inf, {"x": 1})]
    assert kinds([read(100, 101, x=0), read(200, 201, x=1)], writes=writes) == []
    assert kinds([read(100, 101, x=1), read(200, 201, x=0)], writes=writes) == ["stale"]


def test_a_write_after_one_without_an_answer_is_refused():
    """Nobody knows the order of such versions."""
    with pytest.raises(ValueError, match="two writes at once"):
        make_registers({"x": 0}, [Write(10, math.inf, {"x": 1}), Write(30, 40, {"x": 2})])


def test_lost_write_is_reported_by_the_final_read():
    """Every history ends with a read of the database."""
    assert kinds([read(1000, 1000, x=0)]) == ["stale"]


def test_registers_of_one_read_must_be_from_one_moment():
    """The second write came after the first, so nobody can have seen its value without that of the first."""
    writes = [Write(10, 20, {"x": 1}), Write(30, 40, {"y": 1})]
    assert kinds([read(5, 50, x=0, y=1)], writes=writes, x=0, y=0) == ["torn"]
    assert kinds([read(5, 50, x=1, y=0)], writes=writes, x=0, y=0) == []
    assert kinds([read(5, 50, x=1, y=1)], writes=writes, x=0, y=0) == []


def test_sum_of_registers_is_checked_against_all_possible_combinations():
    """The sum of two registers, one of which is being written."""
    writes = [Write(10, 20, {"x": 1})]

    def sum_is(number, begun, ended):
        seen = Seen(("x", "y"), lambda x, y: x + y == number, number)
        return kinds([Read(begun, ended, "a sum", [seen])], writes=writes, x=0, y=5)

    assert [sum_is(5, 12, 13), sum_is(6, 12, 13), sum_is(6, 21, 22)] == [[], [], []]
    assert [sum_is(5, 21, 22), sum_is(7, 12, 13)] == [["stale"], ["stale"]]


def test_decreasing_or_repeated_generations_are_reported():
    """A write that makes a generation that another made has overwritten what it did not see."""
    first = Told(1, 2, "p", 5, True)
    assert find_generations_out_of_order([first, Told(3, 4, "p", 5, False)]) == []
    assert find_generations_out_of_order([first, Told(1.5, 4, "p", 6, True)]) == []
    found = {
        "went back": find_generations_out_of_order([first, Told(3, 4, "p", 4, False)]),
        "made twice": find_generations_out_of_order([first, Told(1.5, 4, "p", 5, True)]),
        "another provider": find_generations_out_of_order([first, Told(3, 4, "q", 4, True)]),
    }
    assert {name: [each.kind for each in problems] for name, problems in found.items()} == {
        "went back": ["stale"],
        "made twice": ["lost"],
        "another provider": [],
    }


def oversold(*claims, capacity=10, writes=()):
    """The kinds of problems of claims on a capacity."""
    register = make_registers({"c": capacity}, writes)["c"]
    return [problem.kind for problem in find_oversold("it", claims, register)]


def test_claims_held_at_once_above_the_capacity_are_reported():
    """Two that were granted at the same moment as well as one after the other."""
    assert oversold(Claim(1, 2, 6, True), Claim(3, 4, 4, True)) == []
    assert oversold(Claim(1, 2, 6, True), Claim(3, 4, 5, True)) == ["oversold by us"]
    assert oversold(Claim(1, 4, 6, True), Claim(2, 3, 5, True)) == ["oversold by us"]


def test_claim_being_deleted_is_not_counted():
    """Its deletion may have been before the claim that was granted."""
    assert oversold(Claim(1, 2, 6, True, released=3), Claim(2.5, 4, 5, True)) == []
    assert oversold(Claim(1, 2, 6, True, released=5), Claim(2.5, 4, 5, True)) == ["oversold by us"]


def test_overselling_is_ours_only_if_ours_granted_the_last_claim():
    """What the other program grants on top, or at the same moment, is not ours; what we grant on top is."""
    assert oversold(Claim(1, 2, 6, True), Claim(3, 4, 5, False)) == ["oversold beside others"]
    assert oversold(Claim(1, 4, 6, True), Claim(2, 3, 5, False)) == ["oversold beside others"]
    assert oversold(Claim(1, 2, 6, False), Claim(3, 4, 5, True)) == ["oversold by us"]
    # what was there before the history was granted by somebody, and counts
    assert oversold(Claim(-math.inf, -math.inf, 12, False)) == []
    assert oversold(Claim(-math.inf, -math.inf, 12, False), Claim(3, 4, 1, True)) == ["oversold by us"]


def test_claim_is_checked_against_the_largest_capacity_during_it():
    """An inventory that shrinks below its use is allowed; a claim after that is not."""
    shrink = [Write(10, 20, {"c": 5})]
    assert oversold(Claim(1, 2, 8, True), writes=shrink) == []
    assert oversold(Claim(11, 12, 8, True), writes=shrink) == []
    assert oversold(Claim(21, 22, 8, True), writes=shrink) == ["oversold by us"]


@pytest.mark.parametrize("seed", range(20))
def test_simulated_correct_histories_have_no_problem(seed):
    """Writes and reads of three registers, each of which takes effect at one moment of its own."""
    random = Random(seed)
    writes, moments = [], {name: [(-1.0, 0)] for name in "xyz"}
    for name in "xyz":
        now = 0.0
        for value in range(1, 40):
            begun = now + random.random() / 10
            moment = begun + random.random()
            now = moment + random.random()
            writes.append(Write(begun, now, {name: value % 7}))
            moments[name].append((moment, value % 7))
    reads = []
    for _ in range(300):
        begun = random.random() * 40
        moment = begun + random.random()
        shown = {
            name: [value for at, value in moments[name] if at <= moment][-1]
            for name in random.sample("xyz", random.randint(1, 3))
        }
        reads.append(read(begun, moment + random.random(), **shown))
    assert kinds(reads, writes=writes, x=0, y=0, z=0) == []
    # and what is shown a while later than it was so is found
    late = [each._replace(begun=each.begun + 10, ended=each.ended + 10) for each in reads]
    assert "stale" in kinds(late, writes=writes, x=0, y=0, z=0)


def test_projection_keeps_the_times_of_its_register():
    """The capacity is a part of what an inventory is."""
    register = Register((1, 2))
    register.add(Write(10, 20, {}), (3, 4))
    assert register.project(max).largest(1, 5) == 2
    assert register.project(max).largest(1, 15) == 4
