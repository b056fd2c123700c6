# SPDX-License-Identifier: Apache-2.0
"""Runs of migrations: write a plan with journal, throttle and limits, resume it, undo it."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from osc_placement.api.client import PlacementClient
from osc_placement.api.concurrency import CONCURRENCY
from osc_placement.batch import journal, recovery, select
from osc_placement.batch.execute import execute_plan, execute_together
from osc_placement.batch.gate import Gate
from osc_placement.batch.plan import Outcome, Plan, Report
from osc_placement.batch.undo import ReadStates, plan_undo
from osc_placement.batch.writers import consumers
from osc_placement.errors import PlacementError
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


@dataclass(frozen=True, slots=True)
class Run:
    """The result of a plan; no id if nothing was to be written. ``left`` counts changes not tried."""

    report: Report
    id: str | None = None
    left: int = 0


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
    for name in sorted(assessment.classes):
        client.ensure_resource_class(name)
    settings = {"kind": "migration", "keeps_capacity": plan.keeps_capacity}
    record = journal.create(client.endpoint, plan, directory=execution.directory, settings=settings)
    return Run(_write(client, plan, execution, record, on_outcome), record.id, left)


def limit(plan: Plan, max_count: int | None) -> tuple[Plan, int]:
    """Return a plan of the first changes, and how many are left."""
    changes = plan.changes
    if max_count is None or len(changes) <= max_count:
        return plan, 0
    return replace(plan, steps=changes[:max_count]), len(changes) - max_count


def resume(client: PlacementClient, run_id: str, execution: Execution) -> Run:
    """Resume a run that was stopped, in its own journal.

    If it was started to leave no less than is allocated, the present allocations are read and decide.
    """
    run, record = journal.reopen(run_id, execution.directory)
    try:
        recovery.check_server(run.header.server, client.endpoint)
        _require_not_atomic(run)
        plan = recovery.plan_resume(run, _reader(client, execution))
        if run.header.settings.get("keeps_capacity"):
            plan = select.judge_capacity(client, plan, concurrency=execution.concurrency)
        record.begin(plan)
    except BaseException:
        record.close()
        raise
    return Run(_write(client, plan, execution, record), run_id)


def _require_not_atomic(run: journal.Run) -> None:
    """Raise PlacementError for an atomic batch run, whose journal is in the same directory."""
    if run.header.settings.get("atomic"):
        raise PlacementError(
            f"Run {run.header.id} is atomic, and would be resumed one change after the other here; "
            f"resume it with: openstack resource provider batch run resume {run.header.id}"
        )


def undo(client: PlacementClient, run_id: str, execution: Execution, *, force: bool = False) -> Run:
    """Undo a run, in a run of its own."""
    run = journal.read(run_id, execution.directory)
    if run.is_running:
        raise journal.JournalError(f"Run {run_id} is under way in another process")
    recovery.check_server(run.header.server, client.endpoint)
    plan = plan_undo(run, _reader(client, execution), force=force)
    record = journal.create(client.endpoint, plan, undoes=run_id, directory=execution.directory)
    return Run(_write(client, plan, execution, record), record.id)


def _write(
    client: PlacementClient,
    plan: Plan,
    execution: Execution,
    record: journal.Journal,
    on_outcome: Callable[[Outcome], None] | None = None,
) -> Report:
    gate = Gate(rate=execution.rate, control=record.control, max_failures=execution.max_failures)
    execution.begun.set()
    execution.writing.set()
    try:
        gate.stop_with(execution.stop)
        execute = execute_together if consumers.takes(plan) else execute_plan
        report = execute(
            client,
            plan,
            concurrency=execution.concurrency,
            on_outcome=on_outcome,
            gate=gate,
            recorder=record,
        )
        return record.end_sitting(report)
    finally:
        execution.writing.clear()
        record.close()


def _reader(client: PlacementClient, execution: Execution) -> ReadStates:
    return lambda subjects, facets: select.read_states(
        client, subjects, facets, concurrency=execution.concurrency
    )
