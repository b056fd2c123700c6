# SPDX-License-Identifier: Apache-2.0
"""Why a tree is no candidate: what each constraint rules out, and what one tree lacks."""

import pytest

from osc_placement.report.explain import explain_cloud, explain_tree, roots_of_candidates
from osc_placement.report.query import Condition, Group, Query, read_query
from tests.unit.report.clouds import cloud, node, stock, storage

CLOUD = cloud(
    node("a", traits=["T", "U"], aggregates=["x"], VCPU=stock(8, 6)),
    node("b", traits=["T"], aggregates=["x"], VCPU=8),
    node("c", VCPU=stock(8, max_unit=2)),
    node("n", aggregates=["y"], traits=["ROOT"]),
    node("n0", "n", traits=["T"], VCPU=4),
    node("n1", "n", VCPU=8, PGPU=1),
    storage("s", ["x"], DISK_GB=100),
)


def steps(*params):
    """The constraints with what they rule out, those that rule out nothing left out."""
    found, left = explain_cloud(CLOUD, read_query(params))
    return [(step.text, step.removed) for step in found if step.removed], sorted(left)


def verdicts(root, *params):
    """What a tree does not meet, and how far it is from it."""
    found = explain_tree(CLOUD, read_query(params), CLOUD.by_uuid[root])
    return [(verdict.text, verdict.detail) for verdict in found if not verdict.met]


def test_each_constraint_counts_what_it_removes():
    """Trees without the class, with units too small, and with too little room, in this order."""
    assert steps(("resources", "VCPU:4")) == (
        [("has VCPU", 1), ("VCPU=4: min_unit, max_unit, step_size", 1), ("VCPU=4: free", 1)],
        ["b", "n"],
    )


def test_classes_may_come_from_different_providers_and_from_those_that_share():
    """The storage serves the hosts of its aggregate; the processors are in other providers."""
    assert steps(("resources", "VCPU:1,DISK_GB:10"))[1] == ["a", "b"]
    assert steps(("resources", "VCPU:1,PGPU:1"))[1] == ["n"]


def test_a_group_with_a_suffix_is_met_by_one_provider():
    """The trait and the amount have to be on the same one."""
    assert steps(("resources", "VCPU:6"), ("required", "T"))[1] == ["b"]
    assert steps(("resources1", "VCPU:4"), ("required1", "T"))[1] == ["b", "n"]
    assert steps(("resources1", "VCPU:6"), ("required1", "T"))[0][-1] == ("required T", 1)


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        (("required", "T"), ["a", "b", "n"]),
        (("required", "T,U"), ["a"]),
        (("required", "in:U,V"), ["a"]),
        (("required", "!U"), ["b", "c", "n"]),
        (("required", "T,!U"), ["b", "n"]),
        (("member_of", "x"), ["a", "b"]),
        (("member_of", "in:x,y"), ["a", "b", "n"]),
        (("member_of", "!x"), ["c", "n"]),
        (("member_of", "!in:x,y"), ["c"]),
        (("in_tree", "n0"), ["n"]),
        (("root_required", "ROOT"), ["n"]),
        (("root_required", "!ROOT"), ["a", "b", "c"]),
    ],
)
def test_conditions_leave_the_trees_that_meet_them(condition, left):
    """Traits, aggregates, the tree and its root."""
    assert steps(("resources", "VCPU:1"), condition)[1] == left


def test_one_tree_is_judged_by_all_constraints():
    """What fails does not hide what else fails, and it is said by how much."""
    assert verdicts("a", ("resources", "VCPU:4,PGPU:1"), ("required", "V"), ("member_of", "y")) == [
        ("VCPU=4: free", "VCPU: 4 asked, 2 free, 2 short"),
        ("has PGPU", "no PGPU"),
        ("PGPU=1: min_unit, max_unit, step_size", "no PGPU"),
        ("PGPU=1: free", "no PGPU"),
        ("required V", "a, s lacks it"),
        ("in aggregate y", "a, s is not in it"),
    ]
    assert verdicts("n", ("resources", "VCPU:9")) == [
        ("VCPU=9: free", "VCPU: 9 asked, 8 free, 1 short on n1, the closest of 2")
    ]
    assert verdicts("b", ("resources", "VCPU:4"), ("in_tree", "n0")) == [("in the tree of n", "another tree")]


def test_a_query_is_read_from_its_parameters():
    """Groups by suffix in order, and lists as single conditions."""
    query = read_query(
        [
            ("resources", "VCPU:1,DISK_GB:2"),
            ("required", "A,!B"),
            ("required", "in:C,D"),
            ("resources_x", "PGPU:1"),
            ("group_policy", "isolate"),
        ]
    )
    assert query == Query(
        [
            Group(
                "",
                {"VCPU": 1, "DISK_GB": 2},
                [Condition(frozenset("A")), Condition(frozenset("B"), True), Condition(frozenset("CD"))],
                [],
            ),
            Group("_x", {"PGPU": 1}, [], []),
        ],
        [],
    )


def test_a_candidate_belongs_to_the_tree_of_the_host():
    """Not to that of the storage it uses too, unless there is nothing else."""
    assert roots_of_candidates(CLOUD, [["a", "s"], ["n0", "n1"]]) == {"a", "n"}
    assert roots_of_candidates(CLOUD, [["s"]]) == {"s"}
