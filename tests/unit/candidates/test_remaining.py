# SPDX-License-Identifier: Apache-2.0
"""The conditions of what remains hold where Hall's theorem says so, and equal states have an equal future."""

from itertools import chain, combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from osc_placement.candidates.node import Node, Stock
from osc_placement.candidates.remaining import Need, Remaining, _is_enough
from osc_placement.candidates.request import CandidateRequest, Group
from osc_placement.candidates.snapshot import Snapshot
from osc_placement.candidates.work import Work
from osc_placement.model import Inventory

SLOTS = range(6)
demands = st.tuples(st.integers(1, 6), st.lists(st.sampled_from(SLOTS), min_size=1, unique=True))


@settings(max_examples=500)
@given(st.lists(demands, min_size=1, max_size=6), st.lists(st.integers(0, 5), min_size=6, max_size=6))
def test_amounts_are_enough_if_no_demands_ask_for_more_than_all_they_may_use(asked, room):
    """This holds for every choice of some demands, and is tried for all of them here."""
    choices = chain.from_iterable(combinations(asked, count) for count in range(1, len(asked) + 1))
    enough = all(
        sum(demand for demand, _ in some)
        <= sum(room[slot] for slot in set().union(*(each for _, each in some)))
        for some in choices
    )
    assert _is_enough(asked, dict(enumerate(room)), Work(10**6)) == enough


def test_what_is_not_known_when_the_work_is_over_may_be_enough():
    """Only what was proved is said."""
    asked = [(1, [0]), (1, [0, 1]), (1, [0, 1])]
    assert not _is_enough(asked, {0: 1, 1: 1}, Work(100))
    assert _is_enough(asked, {0: 1, 1: 1}, Work(0))


def remaining(units, groups, **kwargs):
    stocks = [{"VGPU": Stock(Inventory(each))} for each in units]
    nodes = [Node(slot, f"{slot}", None, slot, each) for slot, each in enumerate(stocks)]
    need = Need({"VGPU": 1}, range(len(units)))
    asked = [Group(f"_{number}", {"VGPU": 1}) for number in range(groups)]
    return Remaining(Snapshot(nodes), CandidateRequest(asked, **kwargs), [[need]] * groups, Work(10**6))


def test_devices_are_counted_by_what_is_left_of_them():
    """Two units of a device of three leave as much as none of a device of one."""
    left = remaining([3, 2, 1], 4)
    some, other = {(0, "VGPU"): 2}, {(0, "VGPU"): 1, (1, "VGPU"): 1}
    assert left.key(2, some, (), ()) == left.key(2, other, (), ()) != left.key(2, {(2, "VGPU"): 1}, (), ())


def test_more_than_the_groups_ask_for_makes_no_difference():
    """Whether a device has five units left or fifty, one group takes one."""
    left = remaining([50, 50, 5], 3)
    assert left.key(2, {(0, "VGPU"): 2}, (), ()) == left.key(2, {(0, "VGPU"): 1, (2, "VGPU"): 1}, (), ())


def test_a_device_of_an_isolated_group_is_not_as_one_with_as_much_left():
    """The one takes no other group, and the other does."""
    left = remaining([2, 1], 3, isolated=True)
    assert left.key(1, {(0, "VGPU"): 1}, {0}, ()) != left.key(1, {(0, "VGPU"): 1}, (), ())
