# SPDX-License-Identifier: Apache-2.0
"""Run a case: all sides set up at once, samples taken in turn, so that a slow minute hits every side."""

from __future__ import annotations

import contextlib
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.case import Case, Probe, Reading, Side, Unavailable, Workspace
from benchmarks.figure import Cut

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Measurement:
    """The samples of one side by name of figure, or why there are none."""

    side: Side
    samples: dict[str, list[float]]
    left_out: str | None = None


@dataclass(frozen=True)
class Result:
    """What a case gave."""

    case: Case
    reference: Measurement | None
    ours: tuple[Measurement, ...]


@dataclass
class Track:
    """The readings of one probe, and whether there are to be more."""

    probe: Probe
    budget: float
    readings: list[Reading] = field(default_factory=list)
    spent: float = 0.0
    is_cut: bool = False

    @property
    def is_done(self) -> bool:
        """Whether another round is too much to ask."""
        return self.is_cut or (bool(self.readings) and self.spent >= self.budget)

    def take(self) -> None:
        """One more reading."""
        started = time.monotonic()
        reading = self.probe()
        self.spent += time.monotonic() - started
        self.readings.append(reading)
        self.is_cut = any(isinstance(value, Cut) for values in reading.values() for value in _many(values))

    def counted(self, warm_up: int) -> list[Reading]:
        """The readings without the first ones, if any others were taken."""
        return self.readings[min(warm_up, len(self.readings) - 1) :]


def run_case(case: Case, workspace: Workspace, tell: Tell) -> Result:
    """Run one case in a directory of its own, which is removed afterwards."""
    tracks: dict[str, list[Track]] = {}
    left_out: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as directory, contextlib.ExitStack() as stack:
        for side in case.sides:
            tell(f"{case.name}: setting up {side.name}")
            try:
                probes = stack.enter_context(side.prepare(_own_directory(workspace, Path(directory), side)))
            except Unavailable as reason:
                left_out[side.name] = str(reason)
            else:
                tracks[side.name] = [Track(probe, case.budget) for probe in probes]
        _take_rounds(case, [track for tracks_ in tracks.values() for track in tracks_], tell)

    def measurement(side: Side) -> Measurement:
        samples = _merge(tracks.get(side.name, ()), case.warm_up)
        return Measurement(side, samples, left_out.get(side.name))

    reference = measurement(case.reference) if case.reference else None
    return Result(case, reference, tuple(map(measurement, case.ours)))


def _own_directory(workspace: Workspace, parent: Path, side: Side) -> Workspace:
    directory = parent / re.sub(r"\W+", "-", side.name)
    directory.mkdir()
    return replace(workspace, directory=directory)


def _take_rounds(case: Case, tracks: Sequence[Track], tell: Tell) -> None:
    for number in range(1, case.warm_up + case.samples + 1):
        waiting = [track for track in tracks if not track.is_done]
        if waiting:
            tell(f"{case.name}: round {number} of {case.warm_up + case.samples}")
        for track in waiting:
            track.take()


def _merge(tracks: Sequence[Track], warm_up: int) -> dict[str, list[float]]:
    samples: dict[str, list[float]] = {}
    for track in tracks:
        for reading in track.counted(warm_up):
            for name, values in reading.items():
                samples.setdefault(name, []).extend(_many(values))
    return samples


def _many(values: float | Sequence[float]) -> Sequence[float]:
    return (values,) if isinstance(values, (int, float)) else values
