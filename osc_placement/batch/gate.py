# SPDX-License-Identifier: Apache-2.0
"""The gate before each write of a run: its rate, pauses, stop and limit of failures. No requests.

A control file steers a run while it goes; it is read again whenever it changed. Its lines are obeyed in
their order: ``rate 5`` (writes a second), ``rate none``, ``pause``, ``go``, ``stop``. What they do not say
stays as it is, whether they are appended or written over others: only ``go`` ends a pause, and a rate lasts
until the next.
"""

from __future__ import annotations

import math
import pathlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from osc_placement.terminal.screen import name_path

#: seconds between two looks at the control file
_LOOK: Final = 0.2
#: characters of a line of the control file in a message
_SHOWN: Final = 40
#: seconds whose writes may pass together under a rate
_BURST: Final = 0.1


@dataclass(frozen=True, slots=True)
class Order:
    """What a control file has brought about.

    :ivar rate: writes a second; 0 is as fast as possible, None is the rate with which the run was started
    :ivar unknown: the lines of the file that say nothing of this, and are ignored
    """

    rate: float | None = None
    is_paused: bool = False
    is_stopped: bool = False
    unknown: tuple[str, ...] = ()


def parse_order(text: str, before: Order = Order()) -> Order:
    """Read a control file: return what it makes of an order that held before.

    A last line without a line end may be half written, and is not counted as unknown. Empty lines and those
    that begin with ``#`` are comments.
    """
    order = replace(before, unknown=())
    for line in text.splitlines(keepends=True):
        word, _, value = line.strip().lower().partition(" ")
        if word == "rate" and (rate := _parse_rate(value.strip())) is not None:
            order = replace(order, rate=rate)
        elif word in ("pause", "go", "stop"):
            order = replace(order, is_paused=word == "pause", is_stopped=word == "stop")
        elif word and not word.startswith("#") and line.endswith("\n"):
            order = replace(order, unknown=(*order.unknown, line.strip()))
    return order


def _parse_rate(text: str) -> float | None:
    if text == "none":
        return 0.0
    try:
        rate = float(text)
    except ValueError:
        return None
    return rate if math.isfinite(rate) and rate > 0 else None


class Gate:
    """Lets writes pass, for any number of threads.

    ``on_event`` is told what the control file brought about, in one line, by whichever thread saw it;
    ``on_pause``, whether the run is paused by it, when that changes.
    """

    def __init__(
        self,
        *,
        rate: float = 0.0,
        control: pathlib.Path | None = None,
        max_failures: int | None = None,
        on_event: Callable[[str], None] | None = None,
        on_pause: Callable[[bool], None] | None = None,
    ) -> None:
        #: whoever gave it may ask of it whether somebody stopped the run, so that nothing here sets it
        self.stop = threading.Event()
        self._closed = threading.Event()
        self.halted = ""
        self._given_rate = rate
        self._order = Order()
        self._control = control
        self.max_failures = max_failures
        self.on_event = on_event or (lambda _text: None)
        self._on_pause = on_pause or (lambda _is_paused: None)
        self._lock = threading.Lock()
        self._failures = 0
        self._next_pass = 0.0
        self._next_look = 0.0
        self._seen: tuple[int, int] | None = None

    def stop_with(self, stop: threading.Event | None) -> None:
        """Let this event stop the run as well."""
        if stop is not None:
            self.stop = stop

    @property
    def stopped(self) -> bool:
        """Return whether no further change may start."""
        return self.stop.is_set() or self._closed.is_set()

    def halt(self, reason: str) -> None:
        """Let nothing more pass, for a reason that the run itself found."""
        with self._lock:
            self.halted = self.halted or reason
        self._closed.set()

    def count_failure(self) -> None:
        """Stop the run when there were more failures than are allowed."""
        with self._lock:
            self._failures += 1
            too_many = self.max_failures is not None and self._failures > self.max_failures
        if too_many:
            self.halt(f"stopped after more than {self.max_failures} failures")

    def wait(self) -> str:
        """Wait until one write may pass; why it may not, or nothing."""
        return self.take(1)[1]

    def take(self, most: int) -> tuple[int, str]:
        """Wait until writes may pass; how many, at most so many, and why they may not, or nothing.

        Under a rate it is as many as the rate lets pass in a tenth of a second, but one at least.
        """
        if self._control is None and not self._given_rate:
            return most, self._refusal()
        while not self.stopped:
            with self._lock:
                now = time.monotonic()
                self._look(now)
                rate = self._given_rate if self._order.rate is None else self._order.rate
                if self._order.is_paused or self._order.is_stopped:
                    pause = _LOOK
                elif not rate:
                    return most, ""
                elif now < self._next_pass:
                    pause = min(self._next_pass - now, _LOOK)
                else:
                    number = max(1, min(most, int(rate * _BURST)))
                    self._next_pass = now + number / rate
                    return number, ""
            self.stop.wait(pause)
        return most, self._refusal()

    def _refusal(self) -> str:
        return (self.halted or "stopped") if self.stopped else ""

    def _look(self, now: float) -> None:
        """Read the control file if it is time and it changed, and do what it says."""
        if self._control is None or now < self._next_look:
            return
        self._next_look = now + _LOOK
        try:
            found = self._control.stat()
            seen = (found.st_mtime_ns, found.st_size)
            if seen == self._seen:
                return
            text = self._control.read_text(errors="replace")
        except FileNotFoundError:
            return
        except OSError as error:
            unread = (-1, error.errno or 0)
            if self._seen != unread:
                self._seen = unread
                self.on_event(
                    f"{name_path(self._control)} is not obeyed, as it cannot be read: {error.strerror}."
                )
            return
        self._seen = seen
        before = self._order
        self._order = order = parse_order(text, before)
        for line in order.unknown:
            if line not in before.unknown:
                self.on_event(
                    f"{name_path(self._control)} has a line that is ignored: {line[:_SHOWN]!r}. "
                    "A line is one of: rate NUMBER (of changes a second), rate none, pause, go, stop."
                )
        if order.is_paused != before.is_paused:
            self._on_pause(order.is_paused)
        if order.is_stopped:
            self.on_event(f"Stopped by {name_path(self._control)}.")
            self._closed.set()
        elif order.is_paused and not before.is_paused:
            self.on_event(f"Paused by {name_path(self._control)}; write 'go' there to go on.")
        elif before.is_paused and not order.is_paused:
            self.on_event("Going on.")
        if order.rate != before.rate and order.rate is not None:
            self.on_event(f"Rate: {f'{order.rate:g} a second' if order.rate else 'unlimited'}.")
