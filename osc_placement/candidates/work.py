# SPDX-License-Identifier: Apache-2.0
"""The work that a search may still do, and its division into turns. Pure."""

from __future__ import annotations

from typing import Final


class Work:
    """The steps that a search may still do, of some microseconds each."""

    #: the largest number of steps of a turn, after which other anchors have theirs
    TURN: Final = 500
    #: number of parts in a step, the unit of `charge`
    PARTS: Final = 4

    def __init__(self, steps: int) -> None:
        """Allow this number of steps."""
        self.left = steps
        self._end_of_turn = steps - self.TURN
        self._parts = 0

    @property
    def is_over(self) -> bool:
        """Return whether no step is left."""
        return self.left <= 0

    def begin_turn(self, steps: int) -> None:
        """Begin a turn of this number of steps."""
        self._end_of_turn = self.left - steps

    @property
    def is_turn_over(self) -> bool:
        """Return whether the turn has no step left."""
        return self.left <= self._end_of_turn

    def step(self) -> None:
        """Do one step."""
        self.left -= 1

    def charge(self, parts: int) -> None:
        """Count other work than steps, in parts of a step."""
        steps, self._parts = divmod(self._parts + parts, self.PARTS)
        self.left -= steps
