# SPDX-License-Identifier: Apache-2.0
"""The forwarding side of comparisons: copies of reads go to another process, and its verdicts to the report.

That process (`judge`) may end, hang or answer slowly. What it is given is limited in number and in bytes;
if a limit is reached, or the process does not run, a request is skipped. A process that has not answered for
`STALL_SECONDS` is killed; one that has ended is started again.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from osc_placement.server.process.opening import Sources
    from osc_placement.server.shadow.exchange import Answer, Request
    from osc_placement.server.shadow.report import Key, Report

#: seconds without a verdict, while some are expected, after which the process is taken to hang
STALL_SECONDS: Final = 60.0
#: the first and the longest pause before the process is started again, in seconds
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 10.0
#: bytes that a job takes beside the body of its answer
_OVERHEAD: Final = 4 << 10


@dataclass(frozen=True, slots=True)
class Job:
    """A read that upstream has answered.

    :ivar seconds: the duration of upstream's answer
    """

    key: Key
    request: Request
    answer: Answer
    seconds: float

    @property
    def size(self) -> int:
        """Return about how many bytes it takes."""
        return len(self.answer.body) + len(self.request.query) + _OVERHEAD


@dataclass(frozen=True, slots=True)
class Setup:
    """What the process that compares has to know.

    :ivar ours: the URL of our service; None for an application in that process
    """

    sources: Sources
    upstream: str
    ours: str | None
    ca_file: str | None
    timeout: float
    threads: int
    verbose: bool


@dataclass
class _Session:
    """One process, from its start to its end."""

    process: subprocess.Popen[bytes]
    connection: Connection
    jobs: queue.SimpleQueue[tuple[int, Job] | None] = field(default_factory=queue.SimpleQueue)
    #: jobs without a verdict
    waiting: dict[int, Job] = field(default_factory=dict)
    heard_at: float = field(default_factory=time.monotonic)
    is_ready: bool = False


class Dispatcher:
    """Gives reads to the process that compares.

    One lock guards the present session and what it has been given. No socket is read or written, and no
    process is started, while it is held.

    :ivar largest: bytes of the longest answer that is compared
    """

    def __init__(
        self,
        setup: Setup,
        report: Report,
        *,
        most: int,
        most_bytes: int,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        self._setup = setup
        self._report = report
        self._most = most
        self._most_bytes = most_bytes
        self.largest = most_bytes // 2
        self._stall_seconds = stall_seconds
        self._lock = threading.Lock()
        self._session: _Session | None = None
        self._bytes = 0
        self._numbers = itertools.count()

    def start(self) -> None:
        """Start the process, and keep it running from now on, in a thread."""

        def keep_running() -> None:
            pause = _FIRST_PAUSE
            while True:
                try:
                    session = self._launch()
                except OSError as error:
                    self._report.note(f"The process that compares cannot be started: {error.strerror}")
                else:
                    if self._attend(session):
                        pause = _FIRST_PAUSE
                    self._end(session)
                self._report.restarted()
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

        threading.Thread(target=keep_running, name="shadow", daemon=True).start()

    def offer(self, job: Job) -> None:
        """Have a read compared, or count it as skipped; return at once."""
        with self._lock:
            session = self._session
            if session is None:
                reason = "our side is not running"
            elif len(session.waiting) >= self._most:
                reason = "too many comparisons are under way"
            elif job.size > self.largest:
                reason = "the answer is too long"
            elif self._bytes + job.size > self._most_bytes:
                reason = "comparisons under way take too much memory"
            else:
                number = next(self._numbers)
                if not session.waiting:
                    session.heard_at = time.monotonic()
                session.waiting[number] = job
                self._bytes += job.size
                session.jobs.put((number, job))
                return
        self._report.skipped(job.key, reason)

    def _launch(self) -> _Session:
        here, there = socket.socketpair()
        with there:
            command = [sys.executable, "-m", "osc_placement.server.shadow.judge", str(there.fileno())]
            try:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[there.fileno()]
                )
            except BaseException:
                here.close()
                raise
        return _Session(process, Connection(here.detach()))

    def _attend(self, session: _Session) -> bool:
        """Take verdicts until the process ends or hangs; return whether it has ever been ready."""

        def send_jobs() -> None:
            while (job := session.jobs.get()) is not None:
                try:
                    session.connection.send(job)
                except (OSError, ValueError):
                    return

        try:
            session.connection.send(self._setup)
            while self._is_alive(session):
                if not session.connection.poll(1.0):
                    continue
                match session.connection.recv():
                    case "ready":
                        session.is_ready = True
                        threading.Thread(target=send_jobs, daemon=True).start()
                        with self._lock:
                            self._session = session
                    case ("note", text):
                        self._report.note(text)
                    case (number, verdict):
                        with self._lock:
                            job = session.waiting.pop(number)
                            self._bytes -= job.size
                            session.heard_at = time.monotonic()
                        self._report.compared(job.key, verdict, job.seconds)
        except (OSError, EOFError):
            pass
        return session.is_ready

    def _is_alive(self, session: _Session) -> bool:
        """Return False if the process is taken to hang."""
        limit = self._stall_seconds if session.is_ready else max(self._stall_seconds, STALL_SECONDS)
        with self._lock:
            expects_something = session.waiting or not session.is_ready
            if not expects_something or time.monotonic() < session.heard_at + limit:
                return True
        self._report.note(
            f"The process that compares gave no verdict for {limit:g} seconds; it is started again"
        )
        return False

    def _end(self, session: _Session) -> None:
        """Kill the process, and count what it has not compared as skipped."""
        with self._lock:
            self._session = None
            left = list(session.waiting.values())
            session.waiting.clear()
            self._bytes = 0
        session.jobs.put(None)
        with contextlib.suppress(OSError):
            session.process.kill()
        session.process.wait()
        session.connection.close()
        for job in left:
            self._report.skipped(job.key, "our side ended before it was compared")
