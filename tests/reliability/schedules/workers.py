# SPDX-License-Identifier: Apache-2.0
"""Processes that share the schedules of many choices of operations, each with a database of its own."""

import functools
import itertools
import logging
import multiprocessing
import queue
import random
import signal
from dataclasses import dataclass

from tests.reliability.schedules import explore
from tests.reliability.schedules.cases import OPERATIONS, Case, make_place
from tests.reliability.schedules.controller import LETTERS

#: seconds between two looks at the processes
_PAUSE = 1


@dataclass(frozen=True)
class Systematic:
    """Each pair of operations, or those that are named, with all schedules.

    A choice is known by its number.
    """

    operations: list[str] | None
    preemptions: int
    faults: int
    letters: str = LETTERS

    @functools.cached_property
    def _all(self):
        pairs = itertools.combinations_with_replacement(OPERATIONS, 2)
        return [tuple(self.operations)] if self.operations else list(pairs)

    def __len__(self):
        return len(self._all)

    @property
    def most(self):
        """The largest number of operations."""
        return max(map(len, self._all))

    def run(self, place, number):
        """Return the names of the operations, and an iterator over the results of their schedules."""
        case = Case(place, self._all[number])
        return self._all[number], explore.explore(case, self.preemptions, self.faults, self.letters)


@dataclass(frozen=True)
class AtRandom:
    """Three or four operations at random, or those that are named, with a few schedules at random.

    Each choice has a seed of its own, so that the number of processes makes no difference.
    """

    operations: list[str] | None
    number: int
    seed: int
    faults: int
    letters: str = LETTERS

    def __len__(self):
        return -(-self.number // explore.AT_ONCE)

    @property
    def most(self):
        """The largest number of operations."""
        return len(self.operations) if self.operations else 4

    def run(self, place, number):
        """Return the names of the operations, and an iterator over the results of their schedules."""
        generator = random.Random(f"{self.seed}/{number}")
        names = self.operations or generator.choices(list(OPERATIONS), k=generator.choice((3, 4)))
        due = min(explore.AT_ONCE, self.number - number * explore.AT_ONCE)
        return names, explore.explore_at_random(Case(place, names), generator, due, self.faults, self.letters)


class Team:
    """So many processes that run the schedules of some choices.

    :ivar has_failed: whether a process ended in another way than by being done
    """

    def __init__(self, choices, backend, jobs, *, own_server=False):
        context = multiprocessing.get_context("fork")
        self._choices, self._backend, self._own_server = choices, backend, own_server
        self._next, self._finished = context.Value("q"), context.Value("q")
        self._run, self._wrong = context.Value("q"), context.Value("q")
        self._problems, self._stopped = context.Queue(), context.Event()
        self._processes = [context.Process(target=self._work) for _ in range(jobs)]
        self.has_failed = False

    @property
    def schedules(self):
        """The number of schedules so far."""
        return self._run.value

    @property
    def choices(self):
        """The number of choices of operations all of whose schedules have been run."""
        return self._finished.value

    @property
    def wrong(self):
        """The number of choices of operations of which a schedule had a wrong outcome."""
        return self._wrong.value

    def stop(self):
        """Let each process end after its schedule."""
        self._stopped.set()

    def run(self):
        """Yield each problem as text when it is found, and None from time to time, until all is done."""
        for process in self._processes:
            process.start()
        while True:
            is_over = not any(process.is_alive() for process in self._processes)
            try:
                yield self._problems.get(timeout=0 if is_over else _PAUSE)
            except queue.Empty:
                if is_over:
                    break
                yield None
        self.has_failed = any(process.exitcode for process in self._processes)

    def _work(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        logging.disable()
        with make_place(self._backend, self._choices.most, own_server=self._own_server) as place:
            while not self._stopped.is_set() and (number := _increment(self._next)) < len(self._choices):
                self._work_on(place, number)

    def _work_on(self, place, number):
        """Run the schedules of one choice until one is wrong."""
        names, results = self._choices.run(place, number)
        for result in results:
            _increment(self._run)
            if result.problem:
                _increment(self._wrong)
                self._problems.put(f"--operations {'+'.join(names)} --replay {result.text}: {result.problem}")
                break
            if self._stopped.is_set():
                return
        _increment(self._finished)


def _increment(value):
    """Increment a number that processes share, and return what it was."""
    with value.get_lock():
        value.value += 1
        return value.value - 1
