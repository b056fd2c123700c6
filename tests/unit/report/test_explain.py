# SPDX-License-Identifier: Apache-2.0
"""Why a tree is no candidate: what each constraint rules out, and what one tree lacks."""

import pytest
from hypothesis import given, settings

from osc_placement.candidates.cloud import CloudView
from osc_placement.candidates.query import Membership, parse_resources, parse_traits
from osc_placement.candidates.request import CandidateRequest, Group
from osc_placement.candidates.search import expand, search
from osc_placement.microversion import MAX
from osc_placement.model import Provider, ProviderRecord
from osc_placement.report.explain import explain_cloud, explain_tree, roots_of_candidates
from tests.unit.candidates.clouds import clouds, requests
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


def ask(resources, required=(), suffix="", root=(), **conditions):
    """A request of one group."""
    traits = parse_traits(required, MAX)
    group = Group(suffix, parse_resources(resources), traits, **conditions)
    return CandidateRequest([group], root=parse_traits(root, MAX))


def members(*required, forbidden=()):
    """A condition on aggregates, each given as letters of which any is meant."""
    return Membership(tuple(map(frozenset, required)), tuple(map(frozenset, forbidden)))


def steps(*args, **conditions):
    """The constraints with what they rule out, those that rule out nothing left out."""
    found, left = explain_cloud(CLOUD, ask(*args, **conditions))
    return [(step.text, step.removed) for step in found if step.removed], sorted(left)


def verdicts(root, *args, **conditions):
    """What a tree does not meet, and how far it is from it."""
    found = explain_tree(CLOUD, ask(*args, **conditions), CLOUD.node(root))
    return [(verdict.text, verdict.detail) for verdict in found if not verdict.met]


def test_each_constraint_counts_what_it_removes():
    """Trees without the class, with units too small, and with too little room, in this order."""
    assert steps("VCPU:4") == (
        [("has VCPU", 1), ("VCPU=4: min_unit, max_unit, step_size", 1), ("VCPU=4: free", 1)],
        ["b", "n"],
    )


def test_classes_may_come_from_different_providers_and_from_those_that_share():
    """The storage serves the hosts of its aggregate; the processors are in other providers."""
    assert steps("VCPU:1,DISK_GB:10")[1] == ["a", "b"]
    assert steps("VCPU:1,PGPU:1")[1] == ["n"]


def test_a_group_with_a_suffix_is_met_by_one_provider():
    """The trait and the amount have to be on the same one."""
    assert steps("VCPU:6", ["T"])[1] == ["b"]
    assert steps("VCPU:4", ["T"], "1")[1] == ["b", "n"]
    assert steps("VCPU:6", ["T"], "1")[0][-1] == ("VCPU=6: free", 2)


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ({"required": ["T"]}, ["a", "b", "n"]),
        ({"required": ["T,U"]}, ["a"]),
        ({"required": ["in:U,V"]}, ["a"]),
        ({"required": ["!U"]}, ["b", "c", "n"]),
        ({"required": ["T,!U"]}, ["b", "n"]),
        ({"membership": members("x")}, ["a", "b"]),
        ({"membership": members("xy")}, ["a", "b", "n"]),
        ({"membership": members(forbidden="x")}, ["c", "n"]),
        ({"membership": members(forbidden=["xy"])}, ["c"]),
        ({"in_tree": "n0"}, ["n"]),
        ({"root": ["ROOT"]}, ["n"]),
        ({"root": ["!ROOT"]}, ["a", "b", "c"]),
    ],
)
def test_conditions_leave_the_trees_that_meet_them(condition, left):
    """Traits, aggregates, the tree and its root."""
    assert steps("VCPU:1", **condition)[1] == left


def test_one_tree_is_judged_by_all_constraints():
    """What fails does not hide what else fails, and it is said by how much."""
    assert verdicts("a", "VCPU:4,PGPU:1", ["V"], membership=members("y")) == [
        ("in aggregate y", "a, s is not in it"),
        ("has PGPU", "no PGPU"),
        ("required V", "missing from a, s"),
        ("VCPU=4: free", "VCPU: 4 asked, 2 free, 2 short"),
        ("PGPU=1: min_unit, max_unit, step_size", "no PGPU"),
        ("PGPU=1: free", "no PGPU"),
    ]
    assert verdicts("n", "VCPU:9") == [
        ("VCPU=9: free", "VCPU: 9 asked, 8 free, 1 short on n1, the closest of 2")
    ]
    assert verdicts("b", "VCPU:4", in_tree="n0") == [("in the tree of n", "another tree")]


def test_places_come_before_traits_and_traits_before_amounts():
    """As nova's scheduler asks: its filters name the hosts that have no room as well."""
    request = CandidateRequest(
        [
            Group("", {"VCPU": 8}, parse_traits(["T"], MAX), members("x"), in_tree="b"),
            Group("1", {"PGPU": 1}, parse_traits(["U"], MAX), members("y")),
        ],
        root=parse_traits(["ROOT"], MAX),
    )
    found, _ = explain_cloud(CLOUD, request)
    assert [(step.group, step.text) for step in found] == [
        ("", "all trees"),
        ("", "in aggregate x"),
        ("", "in the tree of b"),
        ("1", "in aggregate y"),
        ("root", "required ROOT"),
        ("", "has VCPU"),
        ("", "required T"),
        ("1", "has PGPU"),
        ("1", "required U"),
        ("", "VCPU=8: min_unit, max_unit, step_size"),
        ("", "VCPU=8: free"),
        ("1", "PGPU=1: min_unit, max_unit, step_size"),
        ("1", "PGPU=1: free"),
    ]


def test_a_host_is_not_in_an_aggregate_by_what_shares_with_it():
    """Neither by the storage, nor by a provider that has nothing of a class."""
    view = cloud(
        node("a", aggregates=["x"], VCPU=8),
        node("b", aggregates=["x", "y"], VCPU=8),
        node("c", aggregates=["z"], VCPU=8),
        storage("s", ["x", "z"], DISK_GB=100),
    )
    request = ask("VCPU:1,DISK_GB:10", membership=members("yz"))
    found, left = explain_cloud(view, request)
    assert [(step.text, step.removed) for step in found if step.removed] == [
        ("in aggregate y or z", 1),
        ("has VCPU", 1),
    ]
    assert sorted(left) == ["b", "c"]
    (verdict,) = [each for each in explain_tree(view, request, view.node("a")) if not each.met]
    assert (verdict.text, verdict.detail) == ("in aggregate y or z", "a is not in it")


def test_a_trait_of_what_has_too_little_does_not_count():
    """A provider with the trait and one with the amount are not enough for a class."""
    assert verdicts("n", "VCPU:6", ["T"]) == [("VCPU=6: free", "a required trait is missing from n1")]


@settings(max_examples=300)
@given(clouds(), requests())
def test_a_tree_with_a_candidate_meets_every_constraint(nodes, request):
    """The engine finds candidates only in trees that an explanation leaves.

    Candidates of sharing providers alone are left out, as they belong to several trees.
    """
    view = CloudView(map(record_of, nodes))
    snapshot = view.snapshot
    found = [expand(request, each) for each in search(snapshot, request)]
    used = [[snapshot.uuids[line.slot] for line in candidate.lines] for candidate in found]
    roots = roots_of_candidates(view, [of for of in used if not all(view.node(uuid).shares for uuid in of)])
    _, left = explain_cloud(view, request)
    assert roots <= left
    for root in view.roots:
        verdicts = explain_tree(view, request, root)
        assert all(verdict.met or verdict.detail for verdict in verdicts)
        assert all(verdict.met for verdict in verdicts) or root.uuid not in left


def record_of(node):
    """Return a node of the engine as it is read."""
    nodes = "00000000-0000-0000-0000-00000000000{}"
    parent = None if node.parent_id is None else nodes.format(node.parent_id)
    return ProviderRecord(
        Provider(node.uuid, node.uuid, 0, parent, nodes.format(node.root_id)),
        {name: stock.inventory for name, stock in node.stocks.items()},
        {name: stock.used for name, stock in node.stocks.items()},
        frozenset(node.traits),
        frozenset(node.aggregates),
    )


def test_a_candidate_belongs_to_the_tree_of_the_host():
    """Not to that of the storage it uses too, unless there is nothing else."""
    assert roots_of_candidates(CLOUD, [["a", "s"], ["n0", "n1"]]) == {"a", "n"}
    assert roots_of_candidates(CLOUD, [["s"]]) == {"s"}
