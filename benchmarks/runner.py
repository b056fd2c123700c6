# SPDX-License-Identifier: Apache-2.0
"""Run a case: all sides set up at once, samples taken in turn, so that a slow minute hits every side."""

from __future__ import annotations

import contextlib
import pathlib
import re
import statistics
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from benchmarks.case import Case, Sample, Side, Unavailable, Workspace


@dataclass(frozen=True)
class Measurement:
    """The samples of one side in seconds, or why there are none."""

    side: str
    seconds: tuple[float, ...] = ()
    left_out: str | None = None

    @property
    def median(self) -> float | None:
        """The figure that is reported."""
        return statistics.median(self.seconds) if self.seconds else None


@dataclass(frozen=True)
class Result:
    """What a case gave."""

    case: Case
    reference: Measurement
    ours: tuple[Measurement, ...] = ()

    def ratio(self, measurement: Measurement) -> float | None:
        """How many times faster than the reference a side is."""
        if not (self.reference.median and measurement.median):
            return None
        return self.reference.median / measurement.median


def run_case(
    case: Case, *, ours: pathlib.Path, reference: pathlib.Path, tell: Callable[[str], None]
) -> Result:
    """Run one case in a directory of its own, which is removed afterwards."""
    samples: dict[str, Sample] = {}
    left_out: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as directory, contextlib.ExitStack() as stack:
        workspace = Workspace(pathlib.Path(directory), ours, reference)
        for side in (case.reference, *case.ours):
            tell(f"{case.name}: setting up {side.name}")
            try:
                samples[side.name] = stack.enter_context(side.prepare(_own_directory(workspace, side)))
            except Unavailable as reason:
                left_out[side.name] = str(reason)
        rounds = _take_rounds(case, samples, tell)

    def measurement(side: Side) -> Measurement:
        seconds = tuple(taken[side.name] for taken in rounds if side.name in taken)
        return Measurement(side.name, seconds, left_out.get(side.name))

    return Result(case, measurement(case.reference), tuple(map(measurement, case.ours)))


def _own_directory(workspace: Workspace, side: Side) -> Workspace:
    directory = workspace.directory / re.sub(r"\W+", "-", side.name)
    directory.mkdir()
    return replace(workspace, directory=directory)


def _take_rounds(
    case: Case, samples: Mapping[str, Sample], tell: Callable[[str], None]
) -> list[dict[str, float]]:
    """The seconds of each side in each round that counts."""
    rounds = []
    for number in range(1, case.warm_up + case.samples + 1):
        tell(f"{case.name}: round {number} of {case.warm_up + case.samples}")
        rounds.append({side: sample() for side, sample in samples.items()})
    return rounds[case.warm_up :]
