# SPDX-License-Identifier: Apache-2.0
"""A connection from which one process watches whether anything was committed."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeVar

from osc_placement.server.db import dialects

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.engine import Connection

P = ParamSpec("P")
T = TypeVar("T")

#: so many looks do without marks where others are busy: they are in vain there, at half a millisecond each
_AFTER_VAIN: Final = 8


class Lookout:
    """Marks, and what is read under them, on one connection. Not for several threads at once.

    A mark is read before the data that is kept under it, so a commit between the two is seen twice rather
    than never. Where a mark counts reads too, one that is made after the reading is as good as the one before
    if all that was counted in between is the reading itself; without that, every look would make the next one
    necessary.
    """

    def __init__(self, connection: Connection) -> None:
        """Take a connection that nobody else uses."""
        self._connection = connection
        # how much of the marks this connection has counted, once that is known
        self._own: int | None = None
        # how many looks do without marks; whether the last mark is of after the reading
        self._vain = 0
        self._has_mark_after = False
        self._made_at = time.monotonic()

    def look(
        self,
        known: object,
        operation: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> tuple[object, T | None]:
        """The mark of now, if it is worth one, and what the operation gives; None if that is the known mark.

        All in one transaction, which is rolled back; what it shows is of the moment of the mark, or later.
        """
        try:
            if self._vain:
                self._vain -= 1
                self._own = None
                return None, operation(self._connection, *args, **kwargs)
            before = dialects.read_mark(self._connection)
            if known == (self, before):
                return known, None
            if self._has_mark_after:
                # nobody was spared a look by it
                self._has_mark_after, self._vain = False, _AFTER_VAIN
            found = operation(self._connection, *args, **kwargs)
            return (self, self._mark_after(before)), found
        finally:
            self._connection.rollback()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def is_older_than(self, seconds: int) -> bool:
        """Whether the connection was made longer ago than that; never if it is negative."""
        return 0 <= seconds < time.monotonic() - self._made_at

    def _mark_after(self, before: object) -> object:
        if self._vain:
            return before
        known, self._own = self._own, dialects.count_own_reads(self._connection)
        if known is None:
            self._distrust_counts()
            return before
        if not self._own:
            return before
        after = dialects.read_mark(self._connection)
        # marks that reads are counted in are whole numbers
        self._has_mark_after = isinstance(before, int) and after == before + self._own - known
        if self._has_mark_after:
            return after
        self._vain = _AFTER_VAIN
        return before

    def _distrust_counts(self) -> None:
        """Do without marks after the reading where to ask for a count is counted: it would hide a commit."""
        self._connection.rollback()
        if dialects.count_own_reads(self._connection) != self._own:
            self._vain = sys.maxsize
