# SPDX-License-Identifier: Apache-2.0
"""Schedules of operations on two nodes of a Galera cluster."""

import pytest

from tests import databases
from tests.reliability import galera, scale
from tests.reliability.schedules import explore
from tests.reliability.schedules.cases import Case, find_first_problem, make_place
from tests.reliability.schedules.mutations import MUTATIONS


@pytest.fixture(scope="module")
def place():
    """A cluster, whose nodes the operations use in turns."""
    if not scale.is_full():
        pytest.skip("the short form needs no cluster: see test_cluster")
    if "mariadb" not in scale.databases(("mariadb",)):
        pytest.skip("another kind of database was asked for")
    if obstacle := galera.find_obstacle():
        databases.skip_or_fail(f"no Galera cluster: {obstacle}")
    with make_place(galera.BACKEND, 2) as made:
        yield made


@pytest.mark.parametrize(
    ("pair", "faults"),
    [
        ("claim+claim", 1),
        ("claim-same+claim-same", 0),
        ("move-below-first+move-below-second", 0),
        ("set-aggregates+set-aggregates", 0),
        ("set-aggregates+set-aggregates-at-generation", 0),
    ],
)
def test_schedules_on_two_nodes_have_the_outcome_of_a_serial_order(place, pair, faults):
    """Where one operation is interrupted by the other, and where a commit is still under way."""
    number, wrong = find_first_problem(explore.explore(Case(place, pair.split("+")), 1, faults, "e"))
    assert wrong is None, f"--backend galera --operations {pair} --replay {wrong.text}: {wrong.problem}"
    assert number > 1


def test_moves_in_a_tree_on_two_nodes_need_a_common_row(place):
    """Without it, two commits that meet put each provider below the other."""
    mutation = MUTATIONS["trees are moved without a common row"]
    case = Case(place, mutation.operations.split("+"))
    case.carry_out_all()
    with mutation.applied(place):
        number, wrong = find_first_problem(explore.explore(case, 2, 1, mutation.letters))
    assert wrong is not None, f"not found by {number} schedules"
    assert "e" in [step.fault for step in wrong.choices]
