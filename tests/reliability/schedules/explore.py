# SPDX-License-Identifier: Apache-2.0
"""Schedules, one after the other: all with few preemptions and faults, or some at random from a seed.

A schedule is the list of the actors that were told to go on, as digits, with the letter of a fault after the
step that it met. The same text runs the same schedule again, as long as the code sends the same statements.
"""

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tests.reliability.schedules.controller import FAULTS, Controller, Step, Stuck

#: schedules at random of the same operations, before others are chosen
AT_ONCE = 20
#: of so many steps of a schedule at random, one is met by a fault, until there are enough
ONE_FAULT_IN = 12


@dataclass(frozen=True)
class Result:
    """What came of a schedule.

    :ivar choices: the steps
    :ivar ready: at each step, the actors that could have gone on, with the letters of possible faults
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
    letters = "".join(FAULTS)
    if not re.fullmatch(rf"(\d[{letters}]?)*", text):
        raise ValueError(f"{text!r} is not a schedule such as 0001k1")
    return tuple(Step(int(found[0]), found[1:]) for found in re.findall(rf"\d[{letters}]?", text))


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
            if step.fault in ("", *ready.get(step.number, ())) and step.number in ready:
                return step
        if otherwise is not None:
            return otherwise(choices, ready)
        return Step(choices[-1].number if choices and choices[-1].number in ready else min(ready))

    return choose


def explore(case, preemptions, faults=0):
    """Yield the results of all schedules with at most so many preemptions and faults.

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
                    and count(candidate, result.ready) <= preemptions
                    and count_faults(candidate) <= faults
                ):
                    pending.append(candidate)


def _list_steps(ready):
    return [Step(number, fault) for number, possible in ready.items() for fault in ("", *possible)]


def count(choices, ready):
    """Return the number of preemptions of a schedule, or of its beginning."""
    pairs = zip(itertools.pairwise(choices), ready[1:], strict=False)
    return sum(before.number != now.number and before.number in can_go for (before, now), can_go in pairs)


def count_faults(choices):
    """Return the number of faults of a schedule, or of its beginning."""
    return sum(bool(step.fault) for step in choices)


def explore_at_random(case, random, number, faults=0):
    """Yield the results of so many schedules chosen at random, each with at most so many faults."""

    def choose(choices, ready):
        actor = random.choice(list(ready))
        may_fail = ready[actor] and count_faults(choices) < faults
        if may_fail and not random.randrange(ONE_FAULT_IN):
            return Step(actor, random.choice(ready[actor]))
        return Step(actor)

    for _ in range(number):
        yield run(case, follow((), choose))
