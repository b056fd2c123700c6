# SPDX-License-Identifier: Apache-2.0
"""Schedules, one after the other: all with a bounded number of preemptions, or at random from a seed.

A schedule is the list of the actors that were told to go on, as digits. The same text runs the same schedule
again, as long as the code sends the same statements.
"""

import itertools
from dataclasses import dataclass

from tests.reliability.schedules.controller import Controller

#: schedules at random of the same operations, before others are chosen
AT_ONCE = 20


@dataclass(frozen=True)
class Result:
    """What came of a schedule.

    :ivar choices: the actor of each step
    :ivar ready: the actors that could have gone on at each step
    :ivar problem: why this outcome is wrong, empty if it is right
    """

    choices: tuple[int, ...]
    ready: tuple[tuple[int, ...], ...]
    trace: tuple[tuple[int, str], ...]
    problem: str

    @property
    def text(self):
        """Return the schedule as text."""
        return "".join(map(str, self.choices))


def run(case, choose):
    """Run the operations of a case, and judge the outcome.

    :param choose: a function of the choices so far and of the actors that are ready; returns one of these
    """
    setting = case.prepare()
    controller = Controller(case.monitor, case.seats, case.operations(setting))
    choices, ready = [], []
    try:
        controller.start()
        while can_go := controller.find_ready():
            choices.append(choose(choices, can_go))
            ready.append(tuple(can_go))
            controller.step(choices[-1])
    finally:
        controller.end()
    for actor in controller.actors:
        if actor.failure is not None:
            problem = f"operation {actor.number} raised {actor.failure!r}"
            return Result(tuple(choices), tuple(ready), tuple(controller.trace), problem)
    outcomes = [actor.outcome for actor in controller.actors]
    problem = case.judge(setting, outcomes, controller.spans)
    return Result(tuple(choices), tuple(ready), tuple(controller.trace), problem)


def follow(prefix, otherwise=None):
    """Return a function for `run` that makes these choices, and then lets each actor go on while it can.

    :param otherwise: chooses after the prefix
    """

    def choose(choices, ready):
        if len(choices) < len(prefix) and prefix[len(choices)] in ready:
            return prefix[len(choices)]
        if otherwise is not None:
            return otherwise(ready)
        return choices[-1] if choices and choices[-1] in ready else ready[0]

    return choose


def explore(case, preemptions):
    """Yield the results of all schedules with at most so many preemptions.

    A preemption is a step of another actor while the one before could have gone on.
    """
    pending = [()]
    while pending:
        prefix = pending.pop()
        result = run(case, follow(prefix))
        yield result
        for place in range(len(prefix), len(result.choices)):
            for other in result.ready[place]:
                candidate = (*result.choices[:place], other)
                if other != result.choices[place] and count(candidate, result.ready) <= preemptions:
                    pending.append(candidate)


def count(choices, ready):
    """Return the number of preemptions of a schedule, or of its beginning."""
    pairs = zip(itertools.pairwise(choices), ready[1:], strict=False)
    return sum(before != now and before in can_go for (before, now), can_go in pairs)


def explore_at_random(case, random, number):
    """Yield the results of so many schedules chosen at random."""
    for _ in range(number):
        yield run(case, follow((), random.choice))
