# SPDX-License-Identifier: Apache-2.0
"""Short runs of `schedules`; its programs run all pairs of operations, or any number at random."""

import secrets
from random import Random

import pytest

from tests.reliability import scale
from tests.reliability.schedules import explore
from tests.reliability.schedules.cases import OPERATIONS, Case, find_first_problem, make_place
from tests.reliability.schedules.mutations import MUTATIONS

pytestmark = pytest.mark.usefixtures("database_url")

#: those whose races have cost most thought
PAIRS = ("claim+claim", "claim+shrink", "claim-same+claim-same", "move+delete", "claim-both+look")


@pytest.mark.parametrize("pair", PAIRS)
def test_schedules_with_one_preemption_have_the_outcome_of_a_serial_order(backend, pair):
    """Wherever the one operation is interrupted by the other."""
    names = pair.split("+")
    with make_place(backend, len(names)) as place:
        number, wrong = find_first_problem(explore.explore(Case(place, names), 1))
    assert wrong is None, f"--backend {backend} --operations {pair} --replay {wrong.text}: {wrong.problem}"
    assert number > 1


def test_random_schedules_have_the_outcome_of_a_serial_order(backend):
    """Three or four operations, each time with a new seed; a failure prints what runs it again."""
    with make_place(backend, 4) as place:
        for _ in scale.rounds(1):
            random = Random(seed := secrets.randbelow(10**9))
            names = random.choices(list(OPERATIONS), k=random.choice((3, 4)))
            results = explore.explore_at_random(Case(place, names), random, explore.AT_ONCE)
            _, wrong = find_first_problem(results)
            again = f"--backend {backend} --operations {'+'.join(names)}"
            assert wrong is None, f"seed {seed}: {again} --replay {wrong.text}: {wrong.problem}"


@pytest.mark.parametrize("name", MUTATIONS)
def test_mistake_in_the_server_is_found(backend, name):
    """A server that locks, compares or records less than it must has an outcome that no serial order has."""
    mutation = MUTATIONS[name]
    if backend not in mutation.backends:
        pytest.skip("on this database it is no mistake")
    if backend != "mariadb" and not scale.is_long():
        pytest.skip("the short form searches on MariaDB only")
    number, wrong = mutation.search(backend)
    assert wrong is not None, f"not found by {number} schedules"


def test_schedule_that_failed_fails_again_from_its_text():
    """The text of a schedule is all that is needed to run it again."""
    mutation = MUTATIONS["the generation of a consumer is not compared"]
    names = mutation.operations.split("+")
    _, wrong = mutation.search("sqlite")
    with make_place("sqlite", len(names)) as place:
        case = Case(place, names)
        choose = explore.follow(tuple(map(int, wrong.text)))
        assert explore.run(case, choose).problem == ""
        with mutation.applied(place):
            again = explore.run(case, choose)
    assert (again.text, bool(again.problem)) == (wrong.text, True)
