# SPDX-License-Identifier: Apache-2.0
"""gunicorn's threaded worker, for clients that never end what they began, and signals at any time."""

from __future__ import annotations

import contextlib
import math
import signal
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from gunicorn.workers.gthread import ThreadWorker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

#: what a worker handles otherwise than the process it is forked from
SIGNALS = frozenset(ThreadWorker.SIGNALS)
#: seconds a request may take to arrive as a whole, while a thread waits for it
READ_SECONDS = 10
#: the same while others wait for a thread: there are few, and to keep them all busy it takes no more than a
#: connection for each
PRESSED_READ_SECONDS = 1


@contextlib.contextmanager
def until_handled() -> Iterator[None]:
    """Keep signals back while a worker is forked, and in it until it handles them itself.

    Until then it has the handlers of the arbiter, which remember a signal for a loop that the worker does not
    run. gunicorn tells a worker only once to stop: one that was just being started lost that, and was killed
    when all its grace was over.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Worker(ThreadWorker):  # type: ignore[misc]  # it has no annotations
    """Answers what it has begun to, whatever it is told to stop with, and waits for nobody without end."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # when a thread began to read from them: connections whose request has not arrived yet
        self._arriving: dict[socket.socket, float] = {}
        self._waiting = 0
        self._lock = threading.Lock()

    def init_signals(self) -> None:
        """Take over the signals, beginning with those that came since :func:`until_handled` let none pass."""
        super().init_signals()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def handle_quit(self, sig: int, frame: FrameType | None) -> None:
        """Stop as gracefully as for SIGTERM.

        gunicorn stops its threads here, for which it needs a lock that what this signal has interrupted may
        hold; the worker then hangs until it is killed.
        """
        self.handle_exit(sig, frame)

    def enqueue_req(self, conn: Any) -> None:
        """Have a connection served as soon as there is a thread."""
        with self._lock:
            self._waiting += 1
        super().enqueue_req(conn)

    def handle(self, conn: Any) -> Any:
        """Serve a connection, in a thread."""
        with self._lock:
            self._waiting -= 1
            self._arriving[conn.sock] = time.monotonic()
        try:
            return super().handle(conn)
        finally:
            self._has_arrived(conn.sock)

    def handle_request(self, req: Any, conn: Any) -> Any:
        """Answer a request whose headers have arrived."""
        length = _measure_body(req)
        if length:
            req.body = _Body(req.body, length, lambda: self._has_arrived(conn.sock))
        else:
            self._has_arrived(conn.sock)
        return super().handle_request(req, conn)

    def _has_arrived(self, sock: socket.socket) -> None:
        with self._lock:
            self._arriving.pop(sock, None)

    def notify(self) -> None:
        """Say that the worker is alive, and look after those who are slow; called every second."""
        super().notify()
        with self._lock:
            patience = PRESSED_READ_SECONDS if self._waiting else READ_SECONDS
            latest = time.monotonic() - patience
            for sock in [sock for sock, begun in self._arriving.items() if begun < latest]:
                del self._arriving[sock]
                # to the thread that reads the client seems to have gone
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RD)


def _measure_body(req: Any) -> float:
    """How many bytes follow the headers; infinitely many if only their end will tell."""
    headers = {name.upper(): value for name, value in req.headers}
    if "TRANSFER-ENCODING" in headers:
        return math.inf
    return int(headers.get("CONTENT-LENGTH") or 0)


class _Body:
    """The body of a request, which tells when it has been read to its end."""

    def __init__(self, body: Any, length: float, tell: Callable[[], None]) -> None:
        self._body = body
        self._left = length
        self._tell = tell

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)

    def read(self, size: int | None = None) -> bytes:
        """Read as gunicorn's body does."""
        data: bytes = self._body.read(size)
        self._left -= len(data)
        if not data or self._left <= 0:
            self._tell()
        return data
