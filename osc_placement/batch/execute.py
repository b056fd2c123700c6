# SPDX-License-Identifier: Apache-2.0
"""Run a plan: all writes of a batch, many changes in one request where the server takes that.

A provider or consumer that somebody else changed since it was planned is read again, planned again and tried
again, a bounded number of times; one that has left the selection by then, or before its first write, is left
alone. Where the answer to a write was lost, a reading tells whether it was done.
Any other failure is the outcome of one provider and stops no other.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final, Protocol

from osc_placement import microversion
from osc_placement.api.client import PlacementClient
from osc_placement.api.concurrency import CONCURRENCY, map_many
from osc_placement.api.retry import retry
from osc_placement.batch.difference import holds
from osc_placement.batch.gate import Gate
from osc_placement.batch.plan import Change, Edit, Facet, Outcome, Plan, Report, Result, plan_change
from osc_placement.batch.reselect import NotSelected, Reselection
from osc_placement.batch.room import Overtaken, carry_owner, is_half_written, is_overtaken, is_written
from osc_placement.batch.select import read_state, require_capacity
from osc_placement.batch.undo import undo_change
from osc_placement.batch.writers import BulkWriter
from osc_placement.batch.writers.bulk import ProvidersWriter
from osc_placement.batch.writers.consumers import ConsumersWriter, group_steps
from osc_placement.batch.writers.provider import write_change
from osc_placement.errors import ANSWER_LOST, HttpError, PlacementError

LOG = logging.getLogger(__name__)

_NOT_SEEN: Final = "it was changed, but could not be read back"


class Recorder(Protocol):
    """A record of what a run does, such as the journal; called by any thread."""

    def plan_again(self, change: Change) -> None:
        """Record a change that replaces the one planned, before it is written."""

    def end(self, outcome: Outcome) -> None:
        """Record an outcome."""


class NoRecorder:
    """A recorder that records nothing."""

    def plan_again(self, change: Change) -> None:
        """Do nothing."""

    def end(self, outcome: Outcome) -> None:
        """Do nothing."""


def execute_plan(
    client: PlacementClient,
    plan: Plan,
    *,
    concurrency: int = CONCURRENCY,
    on_outcome: Callable[[Outcome], None] | None = None,
    stop: threading.Event | None = None,
    gate: Gate | None = None,
    recorder: Recorder | None = None,
    canary: int = 0,
) -> Report:
    """Write what the plan says; the report has an outcome for every provider in it.

    ``on_outcome`` is called in the caller's thread, in the order in which providers are done. Set ``stop``
    from another thread or a signal handler to finish what is under way and skip the rest. ``gate`` holds
    writes up or stops them; the first ``canary`` changes are made and read back before the others.
    """
    gate = gate or Gate()
    gate.stop_with(stop)
    run = _Run(client, plan, gate, recorder or NoRecorder(), concurrency, on_outcome)
    first, rest = _split_canary(plan, canary)
    outcomes = run.change_providers(first)
    if first:
        outcomes = run.verify(outcomes)
    return run.report(outcomes + run.change_providers(rest))


def execute_together(
    client: PlacementClient,
    plan: Plan,
    *,
    gate: Gate,
    recorder: Recorder,
    concurrency: int = CONCURRENCY,
    on_outcome: Callable[[Outcome], None] | None = None,
) -> Report:
    """Do the same with a plan about consumers alone, many of which are written in one request."""
    client.require(microversion.CONSUMER_GENERATIONS, "a change of allocations")
    run = _Run(client, plan, gate, recorder, concurrency, on_outcome)
    writer = ConsumersWriter(client, gate.max_failures)
    return run.report(run.change_groups(writer, group_steps(plan, writer.size)))


def _split_canary(plan: Plan, canary: int) -> tuple[Sequence[Change], Sequence[Change]]:
    if not canary:
        return (), plan.steps
    first = {step.uuid for step in plan.changes[:canary]}
    return (
        [step for step in plan.steps if step.uuid in first],
        [step for step in plan.steps if step.uuid not in first],
    )


class _Run:
    """One run: the state that its threads share."""

    def __init__(
        self,
        client: PlacementClient,
        plan: Plan,
        gate: Gate,
        recorder: Recorder,
        concurrency: int,
        on_outcome: Callable[[Outcome], None] | None,
    ) -> None:
        client.allow_concurrency(concurrency)
        self._client = client
        self._plan = plan
        self._gate = gate
        self._recorder = recorder
        self._concurrency = concurrency
        self._on_outcome = on_outcome
        self._reselection = Reselection(client, plan.selection)

    def change_providers(self, steps: Sequence[Change]) -> list[Outcome]:
        """Make some changes in groups of the size that the server takes; return an outcome for each."""
        writer = ProvidersWriter(self._client, steps, self._gate.max_failures)
        if any(step.facets for step in steps):
            self._reselection.prepare()
        size = writer.size
        return self.change_groups(writer, [steps[i : i + size] for i in range(0, len(steps), size)])

    def change_groups(self, writer: BulkWriter, groups: Sequence[Sequence[Change]]) -> list[Outcome]:
        """Make groups of changes, side by side; return an outcome for each change."""
        return map_many(
            lambda group: self._change_group(writer, group),
            groups,
            threads=self._concurrency,
            on_result=self._on_outcome,
        )

    def report(self, outcomes: Sequence[Outcome]) -> Report:
        """Return the report, with the outcomes in the order of the plan."""
        by_uuid = {outcome.change.uuid: outcome for outcome in outcomes}
        skipped = any(outcome.result is Result.SKIPPED for outcome in outcomes)
        interrupted = skipped and self._gate.stopped and not self._gate.halted
        ordered = tuple(by_uuid[step.uuid] for step in self._plan.steps)
        return Report(self._plan, ordered, interrupted, self._gate.halted)

    def _change_group(
        self, writer: BulkWriter, group: Sequence[Change], *, one_by_one: bool = False
    ) -> Iterator[Outcome]:
        """Make changes as the gate lets them pass; each outcome is recorded before the next change begins."""
        waiting = []
        for step in group:
            if step.uuid in self._plan.hopeless or not step.facets:
                yield self._end(self._plan.end_untried(step))
            else:
                waiting.append(step)
        while waiting:
            number, refusal = self._gate.take(1 if one_by_one else min(len(waiting), writer.size))
            now, waiting = waiting[:number], waiting[number:]
            if refusal:
                for step in now:
                    yield self._end(Outcome(step, Result.SKIPPED, note=refusal, untouched=True))
                continue
            now, ended = self._select_again(now)
            yield from map(self._end, ended)
            if len(now) == 1:
                yield self._end(self._run_change(now[0]))
            elif now:
                yield from self._change_together(writer, now)

    def _select_again(self, steps: Sequence[Change]) -> tuple[list[Change], list[Outcome]]:
        """Return the steps whose providers are still selected, and the outcomes of the others."""
        try:
            left = self._reselection.find_left(steps)
        except Exception as error:  # whatever it is, nobody knows whether they are to be changed
            # their outcomes have no attempts, so that nothing else counts them
            for _ in steps:
                self._gate.count_failure()
            return [], [Outcome(step, Result.FAILED, error=error, untouched=True) for step in steps]
        ended = [leave(step, left[step.uuid]) for step in steps if step.uuid in left]
        return [step for step in steps if step.uuid not in left], ended

    def _change_together(self, writer: BulkWriter, steps: Sequence[Change]) -> Iterator[Outcome]:
        results = writer.write(steps)
        if results is None:
            yield from self._change_group(writer, steps, one_by_one=True)
            return
        for step in steps:
            result = results[step.uuid]
            if isinstance(result, Exception):
                yield self._end(self._run_change(step, result))
            else:
                yield self._end(Outcome(step, Result.APPLIED, 1, result))

    def _run_change(self, step: Change, refusal: Exception | None = None) -> Outcome:
        return run_change(
            self._client,
            step,
            self._plan.edit_of(step),
            self._gate.stop,
            self._plan_again,
            refusal,
        )

    def _plan_again(self, change: Change) -> None:
        """Check and record a change that replaces the one planned, unless the planned one is to be kept."""
        if not self._plan.replaces_intent(change):
            return
        if change.facets:
            self._reselection.require(change)
        if self._plan.keeps_capacity:
            require_capacity(self._client, change)
        self._recorder.plan_again(change)

    def _end(self, outcome: Outcome) -> Outcome:
        """Record an outcome, and count it if it was tried and failed."""
        self._record(outcome)
        if outcome.result is Result.FAILED and outcome.attempts:
            self._gate.count_failure()
        return outcome

    def _record(self, outcome: Outcome) -> None:
        try:
            self._recorder.end(outcome)
        except PlacementError as error:  # what cannot be recorded any more is not begun
            self._gate.halt(f"stopped: {error}")

    def verify(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Read the canaries back, and stop the run if anything is wrong with one of them."""
        verified = [self._verify(outcome) for outcome in outcomes]
        failed = [outcome for outcome in verified if outcome.result is Result.FAILED]
        if failed:
            self._gate.halt(f"stopped because {len(failed)} of {len(verified)} canaries failed")
        for before, after in zip(outcomes, verified, strict=True):
            if after is not before:  # what was kept as applied is not
                self._record(after)
        return verified

    def _verify(self, outcome: Outcome) -> Outcome:
        if outcome.result is not Result.APPLIED:
            return outcome
        try:
            _, now = read_state(self._client, outcome.change.subject, outcome.change.facets)
        except Exception as error:  # whatever it is, the canary was not seen alive
            return replace(outcome, result=Result.FAILED, error=error, note=_NOT_SEEN)
        if holds(now, outcome.change.after, outcome.change.facets):
            return outcome
        return replace(outcome, result=Result.FAILED, error=NotKept(outcome.change.subject.name))


class NotKept(Exception):
    """A provider, read back, does not have what was written."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"{name} was changed, but read back it is not what was written")


def leave(step: Change, reason: str) -> Outcome:
    """Return the outcome of a change whose provider is not selected any more."""
    return Outcome(replace(step, after=step.before), Result.UNCHANGED, note=reason, untouched=True)


def run_change(
    client: PlacementClient,
    change: Change,
    edit: Edit,
    stop: threading.Event | None = None,
    on_replan: Callable[[Change], None] | None = None,
    refusal: Exception | None = None,
) -> Outcome:
    """Make one change, planning it again with ``edit`` when somebody else was faster; raises nothing.

    ``on_replan`` is called with the new change before it is written; ``refusal`` is what a first attempt was
    answered with, if it was made already.
    """
    attempt = _Attempt(change, refusal)
    try:
        return _run_attempts(client, attempt, edit, stop or threading.Event(), on_replan or _ignore)
    except NotSelected as error:
        return leave(attempt.change, str(error))
    except ANSWER_LOST as error:
        return _find_out(client, attempt, error)
    except Exception as error:  # whatever it is, it is about this provider only
        LOG.debug("%s was not changed", change.uuid, exc_info=True)
        return attempt.end(Result.FAILED, error)


def _ignore(_change: Change) -> None:
    """Keep nothing."""


class _Attempt:
    """The progress of one change; used by one thread."""

    def __init__(self, change: Change, refusal: Exception | None = None) -> None:
        self.change = change
        self.refusal = refusal
        self.number = 0
        self.generation: int | None = None
        self.is_writing = False
        #: what it has written for certain, be it for a plan that somebody overtook since
        self.written: set[Facet] = set()

    def write(self, client: PlacementClient) -> None:
        refusal, self.refusal = self.refusal, None
        if refusal is not None:
            raise refusal
        for number, generation in enumerate(write_change(client, self.change), start=1):
            self.generation = generation
            self.written.update(self.change.facets[:number])

    def end(self, result: Result, error: Exception | None = None, note: str = "") -> Outcome:
        untouched = result in (Result.FAILED, Result.SKIPPED) and self._is_untouched(error)
        return Outcome(self.change, result, self.number, self.generation, error, note, untouched)

    def _is_untouched(self, error: Exception | None) -> bool:
        """Return whether nothing was written: a write was refused, and not a reading between two writes."""
        if self.written:
            return False
        refused = isinstance(error, HttpError) and error.method != "GET"
        return not self.is_writing or (refused and not isinstance(error, ANSWER_LOST))


def _run_attempts(
    client: PlacementClient,
    attempt: _Attempt,
    edit: Edit,
    stop: threading.Event,
    on_replan: Callable[[Change], None],
) -> Outcome:
    def run(number: int) -> Outcome:
        if number > 1:
            attempt.is_writing = False
            subject, now = read_state(client, attempt.change.subject, edit.facets)
            if is_overtaken(attempt.change, now):
                raise Overtaken(subject.name)
            again = plan_change(edit, subject, now)
            attempt.change = keep_before(attempt.change, again, attempt.written)
            on_replan(attempt.change)
        if not attempt.change.facets:
            return attempt.end(Result.UNCHANGED if attempt.generation is None else Result.APPLIED)
        if stop.is_set() and attempt.refusal is None:
            return attempt.end(Result.SKIPPED, note="stopped")
        attempt.number = number
        attempt.is_writing = True
        attempt.write(client)
        return attempt.end(Result.APPLIED)

    return retry(run, stop=stop)


def _find_out(client: PlacementClient, attempt: _Attempt, error: Exception) -> Outcome:
    """Read the provider whose answer was lost: what is there is there."""
    change = attempt.change
    if attempt.is_writing:
        try:
            subject, now = read_state(client, change.subject, change.facets)
        except Exception:
            LOG.debug("%s cannot be read either", change.uuid, exc_info=True)
            return attempt.end(Result.FAILED, error, "it is not known whether it was done")
        if holds(now, change.after, change.facets) and subject.generation != change.subject.generation:
            attempt.generation = subject.generation
            return attempt.end(Result.APPLIED, note="the answer was lost; it was read back")
    return attempt.end(Result.FAILED, error)


def keep_before(change: Change, again: Change, written: Collection[Facet] = ()) -> Change:
    """Return the later plan, with the before-images of the facets that the run has written already.

    A difference in a facet that is known to be ``written`` comes from somebody else, any other from the run.
    """
    now = again.before
    if is_half_written(change, now):
        return replace(change, subject=again.subject)
    back, _ = undo_change(change, now)
    images = {facet: getattr(back, facet) for facet in written}
    images |= {
        facet: getattr(change.before, facet)
        for facet in change.facets
        if len(change.facets) > 1 and is_written(change, facet, now)
    }
    return carry_owner(change, replace(again, before=replace(now, **images)))
