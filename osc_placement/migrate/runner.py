# SPDX-License-Identifier: Apache-2.0
"""Runs of migrations: write a plan with journal, throttle and limits."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TextIO

from osc_placement import batch
from osc_placement.api.concurrency import CONCURRENCY
from osc_placement.batch import Job, Pace, for_changes
from osc_placement.errors import PlacementError
from osc_placement.terminal.progress import ProgressBar

if TYPE_CHECKING:
    from osc_placement.api.client import PlacementClient
    from osc_placement.batch import Plan, Report
    from osc_placement.migrate.migrations.base import Assessment


@dataclass(frozen=True)
class Execution:
    """Concurrency, rate and limits of a run."""

    concurrency: int = CONCURRENCY
    rate: float = 0.0
    max_count: int | None = None
    max_failures: int | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    #: set while something was written that was not printed: the first signal then only sets `stop`
    untold: threading.Event = field(default_factory=threading.Event)
    #: where progress is shown
    stderr: TextIO | None = None

    @property
    def pace(self) -> Pace:
        """Return the pace of a run."""
        return Pace(self.concurrency, self.rate, self.max_failures)


@dataclass(frozen=True, slots=True)
class Run:
    """The result of a plan; no id if nothing was to be written. ``left`` counts changes not tried."""

    report: Report
    id: str | None = None
    left: int = 0


def carry_out(client: PlacementClient, assessment: Assessment, execution: Execution) -> Run:
    """Write the plan of an assessment, at most ``max_count`` changes of it.

    Creates the classes that it needs first; an undo leaves them. Raises PlacementError if the assessment
    refuses to have its plan carried out.
    """
    if assessment.refusal:
        raise PlacementError(f"nothing was done: {assessment.refusal}")
    plan, left = limit(assessment.plan, execution.max_count)
    if not plan.changes:
        return Run(plan.end(), left=left)
    job = Job(plan, classes=frozenset(assessment.classes))
    return replace(run_job(client, job, execution), left=left)


def limit(plan: Plan, max_count: int | None) -> tuple[Plan, int]:
    """Return a plan of the first changes, and how many are left."""
    changes = plan.changes
    if max_count is None or len(changes) <= max_count:
        return plan, 0
    return replace(plan, steps=changes[:max_count]), len(changes) - max_count


def run_job(client: PlacementClient, job: Job, execution: Execution) -> Run:
    """Record a job in a journal, and carry it out."""
    plan, pace = job.plan, execution.pace
    recorder = batch.Runs().start(client, job, pace)
    execution.untold.set()
    with ProgressBar(plan.edit.title, len(plan.changes), execution.stderr) as progress:
        on_outcome = for_changes(plan, progress.advance)
        report = batch.carry_out(client, job, recorder, pace, stop=execution.stop, on_outcome=on_outcome)
    return Run(report, recorder.id)
