# SPDX-License-Identifier: Apache-2.0
"""Runs of migrations: write a plan with journal, throttle and limits, resume it, undo it."""

from __future__ import annotations

import contextlib
import pathlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from osc_placement.api.concurrency import CONCURRENCY
from osc_placement.batch import select, service
from osc_placement.batch.execute import execute_plan
from osc_placement.batch.service import Job, Pace
from osc_placement.batch.undo import RUN
from osc_placement.errors import PlacementError

if TYPE_CHECKING:
    from osc_placement.api.client import PlacementClient
    from osc_placement.batch.plan import Outcome, Plan, Report
    from osc_placement.batch.undo import ReadStates
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
    #: set while something is being written, which `stop` ends in good order
    writing: threading.Event = field(default_factory=threading.Event)
    #: set from the first run on
    begun: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def ending_in_order(self) -> Iterator[None]:
        """Let the first signal only set `stop` meanwhile; may be nested."""
        was_writing = self.writing.is_set()
        self.writing.set()
        try:
            yield
        finally:
            if not was_writing:
                self.writing.clear()


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
    on_outcome: Callable[[Outcome], None] | None = None,
) -> Run:
    """Write the plan of an assessment, at most ``max_count`` changes of it.

    Creates the classes that it needs first; an undo leaves them. Raises PlacementError if the assessment
    refuses to have its plan carried out.
    """
    if assessment.refusal:
        raise PlacementError(f"nothing was done: {assessment.refusal}")
    plan, left = limit(assessment.plan, execution.max_count)
    if not plan.changes:
        return Run(execute_plan(client, plan, on_outcome=on_outcome), left=left)
    job = Job(plan, kind="migration", classes=frozenset(assessment.classes))
    return replace(run_job(client, job, execution, on_outcome), left=left)


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
    read = _reader(client, execution)
    with service.resume(
        client,
        run_id,
        read,
        concurrency=execution.concurrency,
        directory=execution.directory,
        command=command,
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
    read = _reader(client, execution)
    job = service.undo(
        client,
        run_id,
        read,
        force=force,
        concurrency=execution.concurrency,
        directory=execution.directory,
        command=command,
    )
    agree(job.plan)
    if not job.is_needed:
        return Run(execute_plan(client, job.plan), undoes=job.undoes)
    return run_job(client, job, execution)


def run_job(
    client: PlacementClient,
    job: Job,
    execution: Execution,
    on_outcome: Callable[[Outcome], None] | None = None,
) -> Run:
    """Record a job in a journal, and carry it out; write nothing to that of a run with nothing left to do."""
    if job.resumed is not None and not job.is_needed:
        return Run(execute_plan(client, job.plan), job.resumed.id, can_be_undone=job.can_be_undone)
    pace = Pace(execution.concurrency, execution.rate, execution.max_failures)
    recorder = service.start(client, job, execution.directory, pace)
    execution.begun.set()
    with execution.ending_in_order():
        result = service.carry_out(client, job, recorder, pace, stop=execution.stop, on_outcome=on_outcome)
    return Run(result.report, recorder.id, can_be_undone=job.can_be_undone, undoes=job.undoes)


def _reader(client: PlacementClient, execution: Execution) -> ReadStates:
    return lambda subjects, facets: select.read_again(
        client, subjects, facets, concurrency=execution.concurrency
    )
