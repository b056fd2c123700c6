# SPDX-License-Identifier: Apache-2.0
"""A migration that is repeated as nova changes; each time is a full comparison, so that nothing is missed."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from keystoneauth1 import exceptions as keystone

from osc_placement.batch import ProviderState
from osc_placement.errors import PlacementError, UsageError
from osc_placement.migrate.migrations.base import Assessment
from osc_placement.migrate.nova.settings import Misconfigured
from osc_placement.terminal.escape import printable

#: compares nova with placement
Look = Callable[[], Assessment]
#: carries an assessment out and prints the result; returns how many changes were made, or not answered
Act = Callable[[Assessment], int]
#: seconds after which changes that were refused are tried again, as the cause may be gone
_LONGEST_PAUSE: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Sight:
    """The changes and problems of one comparison, for comparison with the next.

    It leaves out the generations of providers, which grow with every instance that comes or goes.
    """

    changes: tuple[tuple[str, ProviderState, ProviderState], ...]
    problems: tuple[str, ...]

    @classmethod
    def of(cls, assessment: Assessment) -> Sight:
        """Return the sight of an assessment."""
        changes = ((each.uuid, each.before, each.after) for each in assessment.plan.changes)
        return cls(tuple(changes), tuple(map(str, assessment.problems)))


@dataclass(frozen=True, slots=True)
class Memory:
    """The sight of the last comparison, None if out of date, and the pause since a failed run."""

    sight: Sight | None = None
    pause: float = 0.0
    since: float = 0.0

    def is_due(self, sight: Sight, now: float) -> bool:
        """Return whether to act: there are new problems to print, or changes that may succeed now."""
        if self.sight is None or sight.problems != self.sight.problems:
            return True
        is_same = sight.changes == self.sight.changes
        return bool(sight.changes) and (not is_same or now >= self.since + self.pause)

    def note_run(self, sight: Sight, applied: int, now: float, interval: float) -> Memory:
        """Return the memory after a run; each run without success doubles the pause for the same changes."""
        if applied or not sight.changes:
            return Memory(sight)
        is_again = self.sight is not None and sight.changes == self.sight.changes
        pause = min(2 * self.pause, _LONGEST_PAUSE) if is_again else interval
        return Memory(sight, max(pause, interval), now)


def follow(
    look: Look, act: Act, *, interval: float, stop: threading.Event, wait: Callable[[float], object]
) -> None:
    """Compare again after each wait of ``interval`` seconds or less, until ``stop`` is set.

    Acts when there is something to change or to print. If placement or a database does not answer, prints the
    error and tries again. Raises errors of the configuration or the command line, unless a comparison has
    succeeded with it before.
    """
    memory, told, has_looked = Memory(), "", False
    while not stop.is_set():
        try:
            assessment = look()
            has_looked = True
            sight = Sight.of(assessment)
            if memory.is_due(sight, time.monotonic()):
                memory = memory.note_run(sight, act(assessment), time.monotonic(), interval)
            memory, told = replace(memory, sight=sight), ""
        except (PlacementError, keystone.ClientException) as error:
            if not has_looked and isinstance(error, UsageError | Misconfigured):
                raise
            if str(error) != told:
                print(f"placement-migrate: {printable(str(error))}", file=sys.stderr, flush=True)
            memory, told = Memory(), str(error)
        wait(interval)
