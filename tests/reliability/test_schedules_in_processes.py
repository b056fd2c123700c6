# SPDX-License-Identifier: Apache-2.0
"""Processes share the schedules of the program, tell what is wrong, and can be stopped."""

import pytest

from tests.reliability.schedules import workers
from tests.reliability.schedules.cases import make_place
from tests.reliability.schedules.mutations import MUTATIONS


@pytest.mark.parametrize("jobs", [1, 2])
def test_processes_run_all_schedules_of_all_choices(jobs):
    """There are two orders of two operations without a preemption."""
    choices = workers.Systematic(["look", "look"], preemptions=0, faults=0)
    team = workers.Team(choices, "sqlite", jobs)
    assert [each for each in team.run() if each is not None] == []
    assert (team.schedules, team.choices, team.wrong, team.has_failed) == (2, 1, 0, False)


def test_processes_tell_of_a_wrong_outcome():
    """With the options that run the schedule again."""
    choices = workers.Systematic(["claim", "look"], preemptions=1, faults=0)
    with MUTATIONS["nothing is recorded"].applied(None):
        team = workers.Team(choices, "sqlite", 2)
        (problem,) = [each for each in team.run() if each is not None]
    assert problem.startswith("--operations claim+look --replay 0")
    assert (team.choices, team.wrong, team.has_failed) == (1, 1, False)


def test_processes_that_are_stopped_say_what_they_have_run():
    """A signal ends a long run, not its count."""
    team = workers.Team(workers.AtRandom(None, 1_000_000, 1, 0), "sqlite", 1)
    told = team.run()
    while team.schedules < 3:
        assert next(told) is None
    team.stop()
    assert not any(told)
    assert 3 <= team.schedules < 1_000_000
    assert (team.wrong, team.has_failed) == (0, False)


def test_process_that_cannot_work_is_no_success():
    """Such as one whose operation is not there."""
    team = workers.Team(workers.Systematic(["unknown"], preemptions=0, faults=0), "sqlite", 1)
    assert [each for each in team.run() if each is not None] == []
    assert team.has_failed


def test_seed_chooses_the_same_schedules_for_any_number_of_processes():
    """The operations and steps of a choice depend on its number alone."""

    def run(numbers):
        choices = workers.AtRandom(None, 21, 3, 0)
        with make_place("sqlite", choices.most) as place:
            found = {}
            for number in numbers:
                names, results = choices.run(place, number)
                found[number] = names, [result.text for result in results]
        return found

    together = run([0, 1])
    assert [len(texts) for _, texts in together.values()] == [20, 1]
    assert run([1]) == {1: together[1]}
