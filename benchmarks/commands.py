# SPDX-License-Identifier: Apache-2.0
"""``openstack`` commands as whole processes: how long they take, and how much memory."""

from __future__ import annotations

import contextlib
import os
import pathlib
import statistics
import subprocess
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

#: seconds between two looks at the memory of a process
_LOOK = 0.05
#: what every command costs: its start and one request
ONE_REQUEST = ("resource", "class", "show", "VCPU")


@dataclass(frozen=True)
class Run:
    """One process, from its start to its end.

    :ivar seconds: how long it took
    :ivar processor: how long it computed, in seconds
    :ivar memory: how much it had resident at most, in MiB
    """

    seconds: float
    processor: float
    memory: float
    output: str
    errors: str


@dataclass(frozen=True)
class Shell:
    """The command of one environment, speaking to one server.

    :ivar directory: where the command keeps files of its own, and writes its output
    """

    binaries: pathlib.Path
    directory: pathlib.Path
    endpoint: str = "http://127.0.0.1:1"

    def openstack(self, *words: str, interpreter: Sequence[str] = ()) -> Run:
        """Run it; :raises RuntimeError: it ends with another status than 0."""
        cloud = ("--os-auth-type", "admin_token", "--os-token", "admin", "--os-endpoint", self.endpoint)
        program = (str(self.binaries / "python"), *interpreter, str(self.binaries / "openstack"))
        return self._run((*program, *cloud, *words))

    def has_option(self, option: str, *words: str) -> bool:
        """Whether a command is there and its help names an option."""
        try:
            return option in self.openstack(*words, "--help").output
        except RuntimeError:
            return False

    def cost_of_one_request(self) -> float:
        """The seconds of a command that makes a single request: what is beyond is the work itself."""
        return statistics.median(self.openstack(*ONE_REQUEST).seconds for _ in range(3))

    def _run(self, command: Sequence[str]) -> Run:
        return run(command, self.directory)


def run(command: Sequence[str], directory: pathlib.Path, statuses: Collection[int] = (0,)) -> Run:
    """Run a program that writes to files of a directory; :raises RuntimeError: it ends otherwise."""
    output, errors = directory / "stdout", directory / "stderr"
    with output.open("w") as stdout, errors.open("w") as stderr:
        started = time.monotonic()
        process = subprocess.Popen(
            command, env=_environment(directory), stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr
        )
        with _watching_memory(process.pid) as memory:
            # the way to what this one child used
            _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in statuses:
        words = " ".join(command)
        raise RuntimeError(
            f"{words} ends with {process.returncode}: {errors.read_text() or output.read_text()}"
        )
    processor = usage.ru_utime + usage.ru_stime
    return Run(seconds, processor, max(memory, default=0.0), output.read_text(), errors.read_text())


@contextlib.contextmanager
def _watching_memory(pid: int) -> Iterator[list[float]]:
    """The most that a process has had resident, in MiB, read again and again while it runs.

    What wait4 tells begins with the memory of the process that started it, which is ours.
    """
    seen: list[float] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_LOOK):
            with contextlib.suppress(OSError):
                seen.extend(_peak(pathlib.Path(f"/proc/{pid}/status").read_text()))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def _peak(status: str) -> list[float]:
    lines = (line.split() for line in status.splitlines() if line.startswith("VmHWM:"))
    return [int(kilobytes) / 1024 for _, kilobytes, *_ in lines]


def _environment(directory: pathlib.Path) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    return {**inherited, "XDG_STATE_HOME": str(directory), "XDG_CACHE_HOME": str(directory)}
