# SPDX-License-Identifier: Apache-2.0
"""A time limit for drivers without one, which otherwise wait forever for a database that hangs.

libpq, which every driver for PostgreSQL uses, notices a server that is gone, but waits forever for one whose
host still acknowledges packets, such as a stopped process or a proxy that forwards nothing.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.engine import Engine

#: seconds between two checks for calls that take too long
_TICK: Final = 1.0
#: the events of calls that wait for the database, by the object that has the connection
_ON_CURSORS: Final = ("do_execute", "do_execute_no_params", "do_executemany")
_ON_CONNECTIONS: Final = ("do_commit", "do_rollback", "do_ping")


class Limit:
    """A watcher that shuts the socket of a connection down when a call on it has waited for too long.

    The lock guards the calls in progress and the thread that watches them. A call is removed before the
    driver can close its connection, so the socket that is shut down still belongs to the call.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._calls: dict[object, tuple[float, Any]] = {}
        self._watcher: threading.Thread | None = None
        self._pid = os.getpid()

    def apply(self, engine: Engine) -> None:
        """Limit every later call on connections of an engine."""
        dialect: Any = engine.dialect
        for name in _ON_CURSORS:
            setattr(dialect, name, self._limited(getattr(dialect, name), lambda cursor: cursor.connection))
        for name in _ON_CONNECTIONS:
            setattr(dialect, name, self._limited(getattr(dialect, name), lambda connection: connection))

    def _limited(self, call: Callable[..., Any], find: Callable[[Any], Any]) -> Callable[..., Any]:
        def limited(subject: Any, *arguments: Any, **named: Any) -> Any:
            key = object()
            with self._lock:
                if self._pid != os.getpid():
                    # after a fork, the calls of the parent do not belong to this process
                    self._pid, self._watcher = os.getpid(), None
                    self._calls.clear()
                self._calls[key] = time.monotonic() + self._seconds, find(subject)
                if self._watcher is None:
                    self._watcher = threading.Thread(target=self._watch, daemon=True)
                    self._watcher.start()
            try:
                return call(subject, *arguments, **named)
            finally:
                with self._lock:
                    self._calls.pop(key, None)

        return limited

    def _watch(self) -> None:
        """End overdue calls, until there are no calls to watch."""
        while True:
            time.sleep(min(_TICK, self._seconds))
            with self._lock:
                if not self._calls:
                    self._watcher = None
                    return
                now = time.monotonic()
                for call, (end, connection) in list(self._calls.items()):
                    if end < now:
                        del self._calls[call]
                        _shut_down(connection)


def _shut_down(connection: Any) -> None:
    """Shut the socket of a connection down, so that a thread that waits for an answer gets an error."""
    try:
        descriptor = os.dup(getattr(connection, "driver_connection", connection).fileno())
    except Exception:  # each driver has its own error for a closed connection
        return
    with contextlib.closing(socket.socket(fileno=descriptor)) as sock, contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
