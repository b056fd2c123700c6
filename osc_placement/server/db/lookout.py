# SPDX-License-Identifier: Apache-2.0
"""A connection from which one process watches whether anything was committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from osc_placement.server.db import dialects

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.engine import Connection

P = ParamSpec("P")
T = TypeVar("T")


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

    def look(
        self,
        known: object,
        operation: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> tuple[object, T | None]:
        """The mark of now, and what the operation gives; None if that is the known mark.

        The operation has a transaction of its own, which is rolled back.
        """
        before = self._mark()
        if known == (self, before):
            return known, None
        found = operation(self._connection, *args, **kwargs)
        self._connection.rollback()
        return (self, self._mark_after(before)), found

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _mark_after(self, before: object) -> object:
        known, self._own = self._own, self._count_own()
        if not self._own or known is None:
            return before
        after = self._mark()
        # marks that reads are counted in are whole numbers
        is_own_doing = isinstance(before, int) and after == before + self._own - known
        return after if is_own_doing else before

    def _mark(self) -> object:
        try:
            return dialects.read_mark(self._connection)
        finally:
            self._connection.rollback()

    def _count_own(self) -> int:
        try:
            return dialects.count_own_reads(self._connection)
        finally:
            self._connection.rollback()
