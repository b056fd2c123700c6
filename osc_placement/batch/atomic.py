# SPDX-License-Identifier: Apache-2.0
"""Run a plan all or nothing: inventories of many providers in one transaction of the server.

One request to ``/reshaper`` changes everything. Where the server, or a proxy before it, does not take a
request of that size, it goes in parts, and when a later part fails the earlier ones are put back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from osc_placement import microversion
from osc_placement.batch.difference import holds
from osc_placement.batch.execute import (
    MAX_ATTEMPTS,
    NoRecorder,
    Recorder,
    pause_after_conflict,
)
from osc_placement.batch.plan import Change, Outcome, Plan, Report, Result, plan_change
from osc_placement.batch.select import read_states
from osc_placement.batch.workers import CONCURRENCY
from osc_placement.client import Document, PlacementClient
from osc_placement.errors import (
    ANSWER_LOST,
    Conflict,
    Forbidden,
    OverLimit,
    PlacementError,
    UsageError,
)

_NOTE_LOST: Final = "the answer was lost; it was read back"


class NotDone(PlacementError):
    """A provider was left as it was, because the change of another one failed."""

    def __init__(self, reason: Exception) -> None:
        self.reason = reason
        super().__init__(f"all or nothing: {reason}")


class NotRolledBack(PlacementError):
    """A part that was written could not be put back."""

    def __init__(self, reason: Exception) -> None:
        self.reason = reason
        super().__init__(f"was changed, and could not be put back: {reason}")


def check_atomic(plan: Plan, client: PlacementClient) -> None:
    """Raise PlacementError unless the server can do the plan in one transaction."""
    client.require(microversion.RESHAPER, "--atomic")
    if any(facet != "inventories" for change in plan.changes for facet in change.facets):
        raise UsageError("Only inventories can be changed all or nothing; leave --atomic out")
    hopeless = next(iter(plan.hopeless.values()), None)
    if hopeless is not None and plan.changes:
        raise PlacementError(f"Nothing was changed, as all or nothing was asked for: {hopeless}")


def execute_atomically(
    client: PlacementClient,
    plan: Plan,
    *,
    stop: threading.Event | None = None,
    on_outcome: Callable[[Outcome], None] | None = None,
    recorder: Recorder | None = None,
    concurrency: int = CONCURRENCY,
) -> Report:
    """Write the plan whole or not at all; the report has an outcome for every provider."""
    check_atomic(plan, client)
    run = _Run(client, plan, stop or threading.Event(), recorder or NoRecorder(), concurrency)
    by_uuid = {outcome.change.uuid: outcome for outcome in run.change(plan.changes)}
    outcomes = tuple(by_uuid.get(step.uuid) or Outcome(step, Result.UNCHANGED) for step in plan.steps)
    for outcome in outcomes:
        run.recorder.end(outcome)
        if on_outcome:
            on_outcome(outcome)
    interrupted = any(outcome.result is Result.SKIPPED for outcome in outcomes)
    return Report(plan, outcomes, interrupted, run.failure)


class _Run:
    """One atomic run: the size of a part, which shrinks, and what was written so far."""

    def __init__(
        self,
        client: PlacementClient,
        plan: Plan,
        stop: threading.Event,
        recorder: Recorder,
        concurrency: int,
    ) -> None:
        self._client = client
        self._plan = plan
        self._stop = stop
        self.recorder = recorder
        self._concurrency = concurrency
        self._size = max(1, len(plan.changes))
        #: why it was given up, in a line
        self.failure = ""

    def change(self, changes: Sequence[Change]) -> list[Outcome]:
        """Write all parts, or put back those that were written."""
        done: list[Outcome] = []
        while len(done) < len(changes):
            if self._stop.is_set():
                return self._give_up(done, changes, None)
            try:
                done += self._write(changes[len(done) : len(done) + self._size])
            except OverLimit as error:
                if self._size == 1:
                    return self._give_up(done, changes, error)
                self._size = (self._size + 1) // 2
            except Exception as error:  # whatever it is, nothing of it may stay
                return self._give_up(done, changes, error)
        return done

    def _write(self, part: Sequence[Change]) -> list[Outcome]:
        for attempt in range(1, MAX_ATTEMPTS + 1):
            wanted = [change for change in part if change.facets]
            if not wanted:
                break
            try:
                self._client.reshape(reshape_payload(wanted))
                return [_applied(change, attempt) for change in part]
            except Conflict as conflict:
                if not conflict.concurrent_update or attempt == MAX_ATTEMPTS:
                    raise
            except ANSWER_LOST:
                if not self._is_written(wanted):
                    raise
                return [_applied(change, attempt, _NOTE_LOST) for change in part]
            pause_after_conflict(attempt, self._stop)
            part = self._plan_again(part)
        return [_applied(change, attempt) for change in part]

    def _plan_again(self, part: Sequence[Change]) -> list[Change]:
        again = []
        for change, (subject, state) in zip(part, self._read(part), strict=True):
            edit = self._plan.edit_of(change)
            planned = plan_change(edit, subject, state)
            if planned.before != change.before:
                self.recorder.plan_again(planned)
            again.append(planned)
        return again

    def _read(self, part: Sequence[Change]) -> list[tuple]:  # type: ignore[type-arg]
        readings = read_states(
            self._client,
            [change.subject for change in part],
            ["inventories"],
            concurrency=self._concurrency,
        )
        for reading in readings:
            if reading.error is not None:
                raise reading.error
        return [(reading.subject, reading.state) for reading in readings]

    def _is_written(self, part: Sequence[Change]) -> bool:
        """Whether it was done, as a transaction is done whole; raises if nobody can tell."""
        change = part[0]
        subject, state = self._read([change])[0]
        moved = subject.generation != change.subject.generation
        return moved and holds(state, change.after, change.facets)

    def _give_up(
        self, done: Sequence[Outcome], changes: Sequence[Change], error: Exception | None
    ) -> list[Outcome]:
        """Put back what was written; the part that failed tells why, the others that they were not done."""
        failure = self._put_back([outcome.change for outcome in done])
        result = Result.SKIPPED if error is None else Result.FAILED
        reason = _explain(error) if error else PlacementError("stopped")
        self.failure = f"nothing was changed: {reason}" if error and not failure else ""
        written = [
            Outcome(outcome.change, Result.FAILED, error=NotRolledBack(failure))
            if failure
            else Outcome(outcome.change, result, error=NotDone(reason), note="put back")
            for outcome in done
        ]
        rest = [Outcome(change, result, error=NotDone(reason)) for change in changes[len(done) :]]
        return [*written, *rest]

    def _put_back(self, changes: Sequence[Change]) -> Exception | None:
        wanted = [change for change in changes if change.facets]
        try:
            for begin in range(0, len(wanted), self._size):
                self._put_back_part(wanted[begin : begin + self._size])
        except Exception as error:  # the caller tells of it
            return error
        return None

    def _put_back_part(self, part: Sequence[Change]) -> None:
        for attempt in range(1, MAX_ATTEMPTS + 1):
            back = [
                replace(change, subject=subject, before=state, after=change.before)
                for change, (subject, state) in zip(part, self._read(part), strict=True)
            ]
            try:
                self._client.reshape(reshape_payload(back))
                return
            except Conflict as conflict:
                if not conflict.concurrent_update or attempt == MAX_ATTEMPTS:
                    raise
            pause_after_conflict(attempt, threading.Event())


def _explain(error: Exception) -> Exception:
    """The error with what to do about it; placement keeps this one route from administrators."""
    if not isinstance(error, Forbidden):
        return error
    return PlacementError(
        "--atomic needs the right to reshape, which by default only the role 'service' has, and not 'admin': "
        "leave --atomic out, use the credentials of a service such as nova, or set "
        f"placement:reshaper:reshape to rule:admin_or_service_api in placement's policy.yaml ({error})"
    )


def _applied(change: Change, attempt: int, note: str = "") -> Outcome:
    if not change.facets:
        return Outcome(change, Result.UNCHANGED)
    return Outcome(change, Result.APPLIED, attempt, note=note)


def reshape_payload(changes: Sequence[Change]) -> Document:
    """The request that gives providers their inventories, and touches no allocation."""
    return {
        "inventories": {
            change.uuid: {
                "resource_provider_generation": change.subject.generation,
                "inventories": {
                    name: inventory.to_json() for name, inventory in (change.after.inventories or {}).items()
                },
            }
            for change in changes
        },
        "allocations": {},
    }
