# SPDX-License-Identifier: Apache-2.0
"""A connection from which one process watches whether anything was committed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeVar

from osc_placement.server.db import mark

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.engine import Connection

P = ParamSpec("P")
T = TypeVar("T")

#: how many looks at most do without a mark, at half a millisecond each, after marks that were in vain
_LONGEST_PAUSE: Final = 32


class Lookout:
    """Marks, and what is read under them, on one connection. Not for several threads at once."""

    def __init__(self, connection: Connection) -> None:
        """Take a connection that nobody else uses."""
        self._connection = connection
        # whether there are marks, once that is known
        self._has_marks: bool | None = None
        # how many looks do without after the last that were in vain, and how many still will
        self._pause = 0
        self._without = 0
        self._made_at = time.monotonic()

    def look(
        self,
        known: object,
        operation: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> tuple[object, T | None]:
        """The mark of now, if it is worth one, and what the operation gives; None if that is the known mark.

        All in one transaction, which is rolled back; what it shows is of a moment after that of the mark.
        """
        try:
            present = self._read_mark()
            if present is not None and known == (self, present):
                self._pause = 0
                return known, None
            kept = (self, present) if self._is_settled(present) else None
            if present is not None and (known is not None or kept is None):
                self._do_without()
            return kept, operation(self._connection, *args, **kwargs)
        finally:
            self._connection.rollback()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def is_older_than(self, seconds: int) -> bool:
        """Whether the connection was made longer ago than that; never if it is negative."""
        return 0 <= seconds < time.monotonic() - self._made_at

    def _read_mark(self) -> object:
        if self._without:
            self._without -= 1
            return None
        if self._has_marks is None:
            self._has_marks = mark.can_be_read(self._connection)
            # what is read now must be of after the mark
            self._connection.rollback()
        return mark.read(self._connection) if self._has_marks else None

    def _is_settled(self, present: object) -> bool:
        return present is not None and mark.is_settled(self._connection)

    def _do_without(self) -> None:
        """PERF: where others write all the time, marks were a twentieth of the time of a claim."""
        self._pause = self._without = min(2 * self._pause or 1, _LONGEST_PAUSE)
