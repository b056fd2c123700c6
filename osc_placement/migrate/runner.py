# SPDX-License-Identifier: Apache-2.0
"""Runs of migrations: write a plan with journal, throttle and limits, resume it, undo it."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from osc_placement import batch
from osc_placement.api.concurrency import CONCURRENCY
from osc_placement.batch import RUN, Job, Pace, for_changes
from osc_placement.errors import PlacementError

if TYPE_CHECKING:
    from osc_placement.api.client import PlacementClient
    from osc_placement.batch import Outcome, Plan, Report
    from osc_placement.migrate.migrations.base import Assessment


@dataclass(frozen=True)
class Execution:
    """Concurrency, rate and limits of a run; ``directory`` is where journals are."""

    concurrency: int = CONCURRENCY
    rate: float = 0.0
    max_count: int | None = None
    max_failures: int | None = None
    directory: pathlib.Path | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    #: set while something was written that was not printed: the first signal then only sets `stop`
    untold: threading.Event = field(default_factory=threading.Event)

    @property
    def pace(self) -> Pace:
        """Return the pace of a run."""
        return Pace(self.concurrency, self.rate, self.max_failures)

    def keep_pace(self, settings: Mapping[str, Any]) -> Execution:
        """Return the execution with the pace that the journal of a run keeps."""
        pace = Pace.from_settings(settings)
        return replace(self, concurrency=pace.concurrency, rate=pace.rate, max_failures=pace.max_failures)


@dataclass(frozen=True, slots=True)
class Run:
    """The result of a plan; no id if nothing was to be written. ``left`` counts changes not tried.

    ``undoes`` is the run that this one undoes.
    ``can_be_undone``: it was resumed, and may have made changes before.
    """

    report: Report
    id: str | None = None
    left: int = 0
    can_be_undone: bool = False
    undoes: str | None = None


def carry_out(
    client: PlacementClient,
    assessment: Assessment,
    execution: Execution,
    on_change: Callable[[Outcome], None] = lambda _outcome: None,
) -> Run:
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
    return replace(run_job(client, job, execution, on_change), left=left)


def limit(plan: Plan, max_count: int | None) -> tuple[Plan, int]:
    """Return a plan of the first changes, and how many are left."""
    changes = plan.changes
    if max_count is None or len(changes) <= max_count:
        return plan, 0
    return replace(plan, steps=changes[:max_count]), len(changes) - max_count


def resume(client: PlacementClient, run_id: str, execution: Execution, *, command: str = RUN) -> Run:
    """Resume a run that was stopped, in its own journal.

    If it was started to leave no less than is allocated, the present allocations are read and decide.

    :param command: the words before the verb of a command on runs
    """
    with batch.Runs(execution.directory).resume(
        client, run_id, concurrency=execution.concurrency, command=command
    ) as job:
        return run_job(client, job, execution)


def undo(
    client: PlacementClient,
    run_id: str,
    execution: Execution,
    *,
    force: bool = False,
    agree: Callable[[Plan], None] = lambda _plan: None,
    command: str = RUN,
) -> Run:
    """Undo a run, in a run of its own, which is not started if there is nothing to write.

    :param agree: called with the plan before anything is written; what it raises ends the undo
    :param command: the words before the verb of a command on runs
    """
    job = batch.Runs(execution.directory).undo(
        client, run_id, force=force, concurrency=execution.concurrency, command=command
    )
    agree(job.plan)
    if not job.is_needed:
        return Run(job.plan.end(), undoes=job.undoes)
    return run_job(client, job, execution)


def run_job(
    client: PlacementClient,
    job: Job,
    execution: Execution,
    on_change: Callable[[Outcome], None] = lambda _outcome: None,
) -> Run:
    """Record a job in a journal, and carry it out; write nothing to that of a run with nothing left to do."""
    if job.resumed is not None and not job.is_needed:
        return Run(job.plan.end(), job.resumed.id, can_be_undone=job.can_be_undone)
    recorder = batch.Runs(execution.directory).start(client, job, execution.pace)
    execution.untold.set()
    on_outcome = for_changes(job.plan, on_change)
    report = batch.carry_out(
        client, job, recorder, execution.pace, stop=execution.stop, on_outcome=on_outcome
    )
    return Run(report, recorder.id, can_be_undone=job.can_be_undone, undoes=job.undoes)
