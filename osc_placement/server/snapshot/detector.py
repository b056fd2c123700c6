# SPDX-License-Identifier: Apache-2.0
"""The check whether anything was committed since the snapshot was read.

A *change marker* is a value that changes with every commit, and is read in a fraction of a millisecond at any
size of the database. It is read before the data it belongs to, and compared with markers of the same
connection only. If it is *stable*, and the same marker is found later, the data include everything that was
acknowledged until then. The class of each database (`db.dialects`) documents its marker and when it is
stable.

A connection that always executes something, such as that of a replica or of the event scheduler, leaves no
marker of MariaDB stable: each check then reads the fingerprint, as it does while other clients are busy. The
markers of PostgreSQL and MariaDB also change when another database of the same server is written to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeVar

from osc_placement.server.db import dialects

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.engine import Connection

    from osc_placement.server.db.engine import Database

P = ParamSpec("P")
T = TypeVar("T")

#: the largest number of checks in a row that do not read a marker, after markers that saved nothing
_LONGEST_PAUSE: Final = 32


class ChangeDetector:
    """A checker for changes of one database, with the state that it keeps between checks.

    Only one thread may use it at a time.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: Connection | None = None
        # whether the database has markers; None until the first check on the connection
        self._has_markers: bool | None = None
        # the length of the current pause, and how many checks of it are left
        self._pause = 0
        self._left = 0

    def check(
        self,
        known: object,
        operation: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> tuple[object, T | None]:
        """Run ``operation(connection, ...)`` as `Database.read` does, unless nothing was committed meanwhile.

        :param known: the marker that an earlier check returned, or None
        :return: the marker to keep with the result, or None if it is not stable; and the result of the
            operation, or None if the marker is still the known one. The marker may also change when nothing
            was committed, and always differs on a new connection.
        :raises errors.DatabaseUnavailable: no connection can be opened
        """

        def check(connection: Connection) -> tuple[object, T | None]:
            if connection is not self._connection:
                self._connection, self._has_markers, self._pause, self._left = connection, None, 0, 0
            present = self._read_marker(connection)
            if present is not None and known == (connection, present):
                self._pause = 0
                return known, None
            stable = present is not None and dialects.of(connection).is_change_marker_stable(connection)
            if present is not None and (known is not None or not stable):
                # PERF: under constant writes by other clients, markers took a twentieth of the time of a
                # claim
                self._pause = self._left = min(2 * self._pause or 1, _LONGEST_PAUSE)
            return (connection, present) if stable else None, operation(connection, *args, **kwargs)

        return self._database.read_on_kept_connection(check)

    def _read_marker(self, connection: Connection) -> object:
        """Return the marker, or None during a pause and on a database that has none."""
        if self._left:
            self._left -= 1
            return None
        dialect = dialects.of(connection)
        if self._has_markers is None:
            self._has_markers = dialect.has_change_markers(connection)
            # the transaction that reads the data has to begin after the marker is read
            connection.rollback()
        return dialect.read_change_marker(connection) if self._has_markers else None
