# SPDX-License-Identifier: Apache-2.0
"""Schedules, one after the other: all with few preemptions and faults, or some at random from a seed.

A schedule is the list of the actors that were told to go on, as digits, with the letter of a fault after the
step that it met. The same text runs the same schedule again, as long as the code sends the same statements.
"""

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tests.reliability.schedules.controller import LETTERS, Controller, Step, Stuck

#: schedules at random of the same operations, before others are chosen
AT_ONCE = 20
#: of so many steps of a schedule at random, one is met by a fault, until there are enough
ONE_FAULT_IN = 12


@dataclass(frozen=True)
class Result:
    """What came of a schedule.

    :ivar choices: the steps
    :ivar ready: at each step, the letters of the faults that could have met each actor; an actor with nothing
        but capital letters could not have gone on, as it waited for a lock
    :ivar trace: the steps with their statements
    :ivar problem: why this outcome is wrong, empty if it is right
    """

    choices: tuple[Step, ...]
    ready: tuple[Mapping[int, str], ...]
    trace: tuple[tuple[Step, str], ...]
    problem: str

    @property
    def text(self):
        """Return the schedule as text."""
        return "".join(map(str, self.choices))


def parse(text):
    """Return the steps of a schedule that is given as text.

    :raises ValueError: it is no schedule
    """
    if not re.fullmatch(rf"(\d[{LETTERS}]?)*", text):
        raise ValueError(f"{text!r} is not a schedule such as 0001k1")
    return tuple(Step(int(found[0]), found[1:]) for found in re.findall(rf"\d[{LETTERS}]?", text))


def run(case, choose):
    """Run the operations of a case, and judge the outcome.

    :param choose: a function of the steps so far and of the actors that are ready, each with the letters of
        the faults that can meet it; returns the next step
    """
    setting = case.prepare()
    controller = Controller(case.monitor, case.seats, case.operations(setting))
    choices, ready, problem = [], [], ""
    try:
        controller.start()
        while can_go := controller.find_ready():
            choices.append(choose(choices, can_go))
            ready.append(can_go)
            controller.step(choices[-1])
    except Stuck as error:
        problem = str(error)
    finally:
        controller.end()
    problem = problem or case.judge(setting, controller)
    if problem:
        case.renew_workers()
    return Result(tuple(choices), tuple(ready), tuple(controller.trace), problem)


def follow(prefix, otherwise=None):
    """Return a function for `run` that takes these steps, and then lets each actor go on while it can.

    :param otherwise: chooses after the prefix
    """

    def choose(choices, ready):
        if len(choices) < len(prefix):
            step = prefix[len(choices)]
            if step in _list_steps(ready):
                return step
        if otherwise is not None:
            return otherwise(choices, ready)
        able = _find_able(ready)
        last = next((step.number for step in reversed(choices) if _is_turn(step)), None)
        return Step(last if last in able else min(able))

    return choose


def _find_able(ready):
    """Return the actors that can go on, from the faults that can meet each."""
    return [number for number, possible in ready.items() if not possible.isupper()]


def _is_turn(step):
    """Return whether an actor goes on with this step; no turn is a fault that meets it while it waits."""
    return not step.fault.isupper()


def explore(case, preemptions, faults=0, letters=LETTERS):
    """Yield the results of all schedules with at most so many preemptions and of these faults.

    A preemption is a step of another actor while the one before could have gone on.
    """
    pending = [()]
    while pending:
        prefix = pending.pop()
        result = run(case, follow(prefix))
        yield result
        for place in range(len(prefix), len(result.choices)):
            for other in _list_steps(result.ready[place]):
                candidate = (*result.choices[:place], other)
                if (
                    other != result.choices[place]
                    and other.fault in ("", *letters)
                    and count(candidate, result.ready) <= preemptions
                    and count_faults(candidate) <= faults
                ):
                    pending.append(candidate)


def _list_steps(ready):
    turns = [Step(number) for number in _find_able(ready)]
    return turns + [Step(number, fault) for number, possible in ready.items() for fault in possible]


def count(choices, ready):
    """Return the number of preemptions of a schedule, or of its beginning."""
    turns = [(step, can_go) for step, can_go in zip(choices, ready, strict=False) if _is_turn(step)]
    return sum(
        before.number != now.number and before.number in _find_able(can_go)
        for (before, _), (now, can_go) in itertools.pairwise(turns)
    )


def count_faults(choices):
    """Return the number of faults of a schedule, or of its beginning."""
    return sum(bool(step.fault) for step in choices)


def explore_at_random(case, random, number, faults=0, letters=LETTERS):
    """Yield the results of so many schedules chosen at random, each with at most so many of these faults."""

    def choose(choices, ready):
        able = _find_able(ready)
        # those that wait for a lock can be met by faults alone
        possible = count_faults(choices) < faults
        actor = random.choice(list(ready) if possible else able)
        found = [letter for letter in ready[actor] if letter in letters]
        if possible and found and not random.randrange(ONE_FAULT_IN):
            return Step(actor, random.choice(found))
        return Step(actor if actor in able else random.choice(able))

    for _ in range(number):
        yield run(case, follow((), choose))
