# SPDX-License-Identifier: Apache-2.0
"""Run a plan all or nothing: inventories of many providers in one transaction of the server.

One request to ``/reshaper`` changes everything. Where the server, or a proxy before it, does not take a
request of that size, it goes in parts, and when a later part fails the earlier ones are put back. A provider
that has left the selection before it is written is left alone, which is no failure.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from osc_placement import microversion
from osc_placement.api.client import PlacementClient
from osc_placement.api.concurrency import CONCURRENCY
from osc_placement.api.retry import is_conflict, retry
from osc_placement.batch.difference import holds
from osc_placement.batch.execute import NoRecorder, Recorder, leave
from osc_placement.batch.plan import Change, Outcome, Plan, Report, Result, count_providers, plan_change
from osc_placement.batch.reselect import Reselection
from osc_placement.batch.select import read_states, require_capacity
from osc_placement.batch.undo import undo_change
from osc_placement.batch.writers.reshape import MayNotReshape, write_inventories
from osc_placement.errors import (
    ANSWER_LOST,
    Forbidden,
    OutcomeUnknown,
    OverLimit,
    PlacementError,
    TimedOut,
    Unconfirmed,
    UsageError,
    is_outcome_unknown,
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


class ChangedMeanwhile(PlacementError):
    """Somebody else changed what was to be put back."""

    def __init__(self) -> None:
        super().__init__("somebody changed the same since, which stays")


class NotKnown(PlacementError):
    """The answer to a part was lost, and then it could not be read either."""

    def __init__(self, reason: Exception, part: Sequence[Change]) -> None:
        self.reason = reason
        self.part = part
        super().__init__(f"it is not known whether it was done, as it cannot be read back: {reason}")


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
    outcomes = tuple(by_uuid.get(step.uuid) or plan.end_untried(step) for step in plan.steps)
    for outcome in outcomes:
        run.end(outcome)
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
        self._recorder = recorder
        self._concurrency = concurrency
        self._reselection = Reselection(client, plan.selection)
        self._size = max(1, len(plan.changes))
        #: why providers are not selected any more, by UUID
        self._left: dict[str, str] = {}
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

    def end(self, outcome: Outcome) -> None:
        """Keep how it ended; what is done is done, whether that can be kept or not."""
        try:
            self._recorder.end(outcome)
        except PlacementError as error:
            self.failure = self.failure or str(error)

    def _write(self, part: Sequence[Change]) -> list[Outcome]:
        part = self._drop_left(part)

        def write(attempt: int) -> list[Outcome]:
            nonlocal part
            if attempt > 1:
                part = self._plan_again(part)
            wanted = [change for change in part if change.facets]
            note = ""
            try:
                if wanted:
                    write_inventories(self._client, wanted)
            except ANSWER_LOST as error:
                if not self._is_written(wanted, part, error):
                    raise
                note = _NOTE_LOST
            return [self._end_of(change, attempt, note) for change in part]

        return retry(write, stop=self._stop)

    def _end_of(self, change: Change, attempt: int, note: str = "") -> Outcome:
        if change.uuid in self._left:
            return leave(change, self._left[change.uuid])
        return (
            Outcome(change, Result.APPLIED, attempt, note=note)
            if change.facets
            else Outcome(change, Result.UNCHANGED)
        )

    def _drop_left(self, part: Sequence[Change], *, anew: bool = False) -> list[Change]:
        """The part, with nothing to change where a provider is not selected any more."""
        asked = [change for change in part if change.facets]
        reasons = self._reselection.find_left(asked, anew=anew)
        for change in asked:  # one that came back is written
            self._left.pop(change.uuid, None)
        self._left |= reasons
        return [replace(change, after=change.before) if change.uuid in reasons else change for change in part]

    def _plan_again(self, part: Sequence[Change]) -> list[Change]:
        again = []
        states = zip(part, self._read(part), strict=True)
        planned_again = [plan_change(self._plan.edit_of(change), *now) for change, now in states]
        for change, planned in zip(part, self._drop_left(planned_again, anew=True), strict=True):
            if planned.uuid in self._left:
                again.append(planned)
                continue
            if self._plan.keeps_capacity:
                require_capacity(self._client, planned)
            if planned.before != change.before and self._plan.replaces_intent(planned):
                self._recorder.plan_again(planned)
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

    def _is_written(self, wanted: Sequence[Change], part: Sequence[Change], error: Exception) -> bool:
        """Return whether the transaction was committed; raise NotKnown if that cannot be read back."""
        change = wanted[0]
        try:
            subject, state = self._read([change])[0]
        except Exception as unread:  # whatever it is, the answer stays lost
            raise NotKnown(error, part) from unread
        moved = subject.generation != change.subject.generation
        return moved and holds(state, change.after, change.facets)

    def _give_up(
        self, done: Sequence[Outcome], changes: Sequence[Change], error: Exception | None
    ) -> list[Outcome]:
        """Put back what was written; the part that failed tells why, the others that they were not done.

        Those that had left the selection were not to be written, and end as they do in a run that succeeds.
        """
        doubtful = [change for change in error.part if change.facets] if isinstance(error, NotKnown) else []
        begun = [*(outcome.change for outcome in done), *doubtful]
        # what stands alone is better found out later than put back
        left = self._put_back(begun) if done else {change.uuid: error for change in doubtful}
        reason = _explain(error) if error else PlacementError("stopped")
        unknown = {change.uuid for change in doubtful} & left.keys()
        stuck = {uuid: failure or reason for uuid, failure in left.items() if uuid not in unknown}
        if error or left:
            self.failure = _summarize(list(stuck.values()), len(unknown), reason)
        result = Result.SKIPPED if error is None else Result.FAILED
        errors: dict[str, Exception] = {uuid: NotRolledBack(failure) for uuid, failure in stuck.items()}
        errors |= dict.fromkeys(unknown, reason)
        # a request whose answer was lost may yet be carried out
        refused = isinstance(error, PlacementError) and not isinstance(error, (*ANSWER_LOST, NotKnown))
        certain = refused or error is None
        outcomes = {
            change.uuid: Outcome(change, result, error=NotDone(reason), untouched=certain)
            for change in changes
        }
        outcomes |= {
            change.uuid: Outcome(change, Result.FAILED, error=errors[change.uuid])
            if change.uuid in errors
            else Outcome(change, result, error=NotDone(reason), note="put back", untouched=certain)
            for change in begun
        }
        outcomes |= {
            uuid: leave(outcomes[uuid].change, reason)
            for uuid, reason in self._left.items()
            if uuid in outcomes
        }
        return list(outcomes.values())

    def _put_back(self, changes: Sequence[Change]) -> dict[str, Exception | None]:
        """Undo changes; by UUID what is left of them, and why, with what others overtook first."""
        left = [change for change in changes if change.facets]
        overtaken: dict[str, Exception | None] = {}
        try:
            while left:
                overtaken |= dict.fromkeys(self._put_back_part(left[: self._size]), ChangedMeanwhile())
                left = left[self._size :]
        except Exception as error:  # the caller tells of it
            return overtaken | {change.uuid: error for change in left}
        return overtaken

    def _put_back_part(self, part: Sequence[Change]) -> Sequence[str]:
        """Undo a part; the UUIDs of those that others changed since, which stay so."""

        def put_back(_attempt: int) -> Sequence[str]:
            back, overtaken = self._plan_undo(part)
            if back:
                write_inventories(self._client, back)
            return overtaken

        return retry(put_back, after=_is_worth_another)

    def _plan_undo(self, part: Sequence[Change]) -> tuple[list[Change], list[str]]:
        """Plan the undo of a part; return with it the UUIDs of those of which something of others stays."""
        planned, overtaken = [], []
        for change, (subject, state) in zip(part, self._read(part), strict=True):
            back, whole = undo_change(change, state)
            planned.append(Change(subject, state, back))
            overtaken += [] if whole else [change.uuid]
        return [change for change in planned if change.facets], overtaken


def _is_worth_another(error: Exception) -> bool:
    # the next reading tells what became of a lost answer
    is_lost = is_outcome_unknown(error) and not isinstance(error, TimedOut)
    return is_lost or is_conflict(error)


def _summarize(stuck: Sequence[Exception], unknown: int, reason: Exception) -> str:
    """Return in one line why the run was aborted, what was not put back, and what is not known."""
    if not (stuck or unknown):
        return str(OutcomeUnknown(reason)) if is_outcome_unknown(reason) else f"nothing was changed: {reason}"
    told = [f"{count_providers(len(stuck))} changed and not put back: {stuck[-1]}"] if stuck else []
    if unknown:
        told.append(f"for {count_providers(unknown)} {reason}")
    return "; ".join(told)


def _explain(error: Exception) -> Exception:
    """The error with what to do about it."""
    if isinstance(error, Unconfirmed) or not isinstance(error, Forbidden):
        return error
    return PlacementError(
        f"--atomic needs the right to reshape: {MayNotReshape(error)}, or leave --atomic out"
    )
