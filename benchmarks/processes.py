# SPDX-License-Identifier: Apache-2.0
"""Processes of this machine: their children, memory and processor time, and free ports for them."""

from __future__ import annotations

import contextlib
import os
import pathlib
import secrets
import signal
import socket
import time
from collections.abc import Iterable, Iterator, Mapping


def find_children(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that these have."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [found for child in map(int, children) for found in (child, *find_children(child))]
    return []


def kill(pids: Iterable[int]) -> None:
    """Kill processes, if they are still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def is_running(pid: int) -> bool:
    """Return whether there is a process that has not ended, unlike one whose parent has not asked for it."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def read_resident(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    kilobytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(kilobytes) / 1024


def read_processor_time(pid: int) -> float:
    """Return the seconds that a process has computed, all its threads, also those that have ended.

    The clock that clock_getcpuclockid(3) names counts what /proc/PID/stat shows in nanoseconds instead of
    hundredths of a second. Raise OSError if there is no such process.
    """
    return time.clock_gettime((~pid << 3) | 2)


class ProcessorMeter:
    """The processor time of groups of processes, such as a server with its workers, by name of the group.

    Use it as a context, as often as you like: `spent` has the seconds of all that was done within.
    """

    def __init__(self, roots: Mapping[str, int]) -> None:
        """Measure each of these processes with all that it has started."""
        self._roots = roots
        self.spent = dict.fromkeys(roots, 0.0)

    def __enter__(self) -> ProcessorMeter:
        self._before = self._read()
        return self

    def __exit__(self, *error: object) -> None:
        after = self._read()
        for name, before in self._before.items():
            if missing := before.keys() - after[name].keys():
                # its time went with it
                raise RuntimeError(f"process {min(missing)} of the {name} ended while it was measured")
            self.spent[name] += sum(after[name].values()) - sum(before.values())

    def _read(self) -> dict[str, dict[int, float]]:
        return {name: dict(_read_tree(root)) for name, root in self._roots.items()}


def _read_tree(root: int) -> Iterator[tuple[int, float]]:
    for pid in (root, *find_children(root)):
        # one that has ended is missed by who compares
        with contextlib.suppress(OSError):
            yield pid, read_processor_time(pid)


def find_free_port() -> int:
    """A port that nobody listens on now, of those that the system gives to nobody who asks for any."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
