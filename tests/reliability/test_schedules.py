# SPDX-License-Identifier: Apache-2.0
"""Short runs of `schedules`; its programs run all pairs of operations, or any number at random."""

import secrets
from random import Random

import pytest

from tests import databases
from tests.reliability import scale
from tests.reliability.schedules import explore
from tests.reliability.schedules.cases import OPERATIONS, Case, find_first_problem, make_place
from tests.reliability.schedules.controller import COMMIT, Step
from tests.reliability.schedules.mutations import MUTATIONS

#: those whose races have cost most thought
PAIRS = ("claim+claim", "claim+shrink", "claim-same+claim-same", "move+delete", "claim-both+look")
#: a first claim, a deletion, and a check for changes
WITH_FAULTS = ("claim", "delete", "look")


@pytest.mark.parametrize("pair", PAIRS)
def test_schedules_with_one_preemption_have_the_outcome_of_a_serial_order(backend, pair):
    """Wherever the one operation is interrupted by the other."""
    names = pair.split("+")
    with make_place(backend, len(names)) as place:
        number, wrong = find_first_problem(explore.explore(Case(place, names), 1))
    assert wrong is None, f"--backend {backend} --operations {pair} --replay {wrong.text}: {wrong.problem}"
    assert number > 1


@pytest.mark.parametrize("operations", WITH_FAULTS)
def test_schedules_with_one_fault_have_the_outcome_of_a_serial_order(backend, operations):
    """Wherever a connection dies, a worker is killed or the database restarts."""
    names = operations.split("+")
    with make_place(backend, len(names)) as place:
        number, wrong = find_first_problem(explore.explore(Case(place, names), 0, faults=1))
    assert wrong is None, (
        f"--backend {backend} --operations {operations} --replay {wrong.text}: {wrong.problem}"
    )
    assert number > 1


@pytest.mark.parametrize("letter", ["D", "K"])
def test_statement_that_waits_for_a_lock_is_met_by_a_fault(backend, letter):
    """The transaction is repeated if its connection died, and not if its worker was killed."""
    if backend not in databases.SERVERS:
        pytest.skip("SQLite does not wait for locks")
    with make_place(backend, 2) as place:
        results = explore.explore(Case(place, ["claim", "claim"]), 1, 1, letter)
        found = next(result for result in results if any(step.fault for step in result.choices))
    at, step = next((at, step) for at, step in enumerate(found.choices) if step.fault)
    assert (step.fault, found.problem) == (letter, "")
    assert found.trace[at][1].startswith("(waits) SELECT")
    assert (step.number in [each.number for each in found.choices[at + 1 :]]) == (letter == "D")


def test_server_of_the_database_restarts_in_a_schedule(backend):
    """Before a statement, whose transaction is repeated, and before a commit, whose transaction is not."""
    if backend not in databases.SERVERS:
        pytest.skip("SQLite has no server")
    with make_place(backend, 1, own_server=True) as place:
        case = Case(place, ["claim"])
        steps = explore.run(case, explore.follow(())).choices
        for at in range(1, len(steps)) if scale.is_full() else (3, len(steps) - 1):
            again = explore.run(case, explore.follow((*steps[:at], Step(0, "r"))))
            assert again.problem == ""
            assert again.choices[at].fault == "r"
            assert (len(again.choices) == len(steps)) == (again.trace[at][1] == COMMIT)


@pytest.mark.parametrize("faults", [0, 1])
def test_random_schedules_have_the_outcome_of_a_serial_order(backend, faults):
    """Three or four operations, each time with a new seed; a failure prints what runs it again."""
    with make_place(backend, 4) as place:
        for _ in scale.rounds(1):
            random = Random(seed := secrets.randbelow(10**9))
            names = random.choices(list(OPERATIONS), k=random.choice((3, 4)))
            results = explore.explore_at_random(Case(place, names), random, explore.AT_ONCE, faults)
            _, wrong = find_first_problem(results)
            again = f"--backend {backend} --operations {'+'.join(names)}"
            assert wrong is None, f"seed {seed}: {again} --replay {wrong.text}: {wrong.problem}"


@pytest.mark.parametrize("name", MUTATIONS)
def test_mistake_in_the_server_is_found(backend, name):
    """A server that locks, compares or records less than it must has an outcome that no serial order has."""
    mutation = MUTATIONS[name]
    if backend not in mutation.backends:
        pytest.skip("on this database it is no mistake")
    if backend != "mariadb" and not scale.is_full():
        pytest.skip("the short form searches on MariaDB only")
    number, wrong = mutation.search(backend)
    assert wrong is not None, f"not found by {number} schedules"


@pytest.mark.parametrize("name", [name for name, mutation in MUTATIONS.items() if mutation.faults])
def test_mistake_that_needs_a_fault_is_not_found_without(backend, name):
    """Otherwise it would be no evidence that schedules with faults find anything."""
    if backend != "mariadb" and not scale.is_full():
        pytest.skip("the short form searches on MariaDB only")
    if backend not in MUTATIONS[name].backends:
        pytest.skip("on this database it is no mistake")
    number, wrong = MUTATIONS[name].search(backend, preemptions=1, faults=0)
    assert number
    assert wrong is None


@pytest.mark.parametrize(
    "name", ["the generation of a consumer is not compared", "a claim commits in between"]
)
def test_schedule_that_failed_fails_again_from_its_text(name):
    """The text of a schedule, with its fault, is all that is needed to run it again."""
    mutation = MUTATIONS[name]
    names = mutation.operations.split("+")
    _, wrong = mutation.search("sqlite")
    with make_place("sqlite", len(names)) as place:
        case = Case(place, names)
        choose = explore.follow(explore.parse(wrong.text))
        assert explore.run(case, choose).problem == ""
        with mutation.applied(place):
            again = explore.run(case, choose)
    assert (again.text, bool(again.problem)) == (wrong.text, True)
    assert any(step.fault for step in again.choices) == bool(mutation.faults)


@pytest.mark.parametrize("text", ["00x", "k0", "0kk", "0 1"])
def test_other_text_is_no_schedule(text):
    """A letter stands for a fault, and follows the number of an operation."""
    with pytest.raises(ValueError, match="is not a schedule"):
        explore.parse(text)
