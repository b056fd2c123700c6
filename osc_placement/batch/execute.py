# SPDX-License-Identifier: Apache-2.0
"""The executor: everything that writes for a batch, a reshape, a state file or a migration goes through here.

It lets each write pass the gate, makes the canaries first and reads them back, leaves alone what is not
selected any more, chooses how changes are sent (``batch.writers``), and records and reports every outcome.
A change that is made by itself is tried in ``batch.attempt``, one that is made with others or not at all in
``batch.transaction``. Both plan again what somebody else changed meanwhile, and read back what was done where
the answer was lost. A failure is the outcome of one provider and stops no other, except in a transaction.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from osc_placement import microversion
from osc_placement.api.concurrency import CONCURRENCY, map_many
from osc_placement.api.consumer import Consumer
from osc_placement.api.retry import is_permanent
from osc_placement.batch.attempt import leave, run_change
from osc_placement.batch.facets import holds, read_identity
from osc_placement.batch.gate import Gate
from osc_placement.batch.guards import guard_again
from osc_placement.batch.merge import merge
from osc_placement.batch.plan import Change, Outcome, Plan, Report, Result, temporary_name
from osc_placement.batch.recorder import NoRecorder, Recorder
from osc_placement.batch.repeat import Repeat, Replace
from osc_placement.batch.reselect import Reselection
from osc_placement.batch.reshape_run import ReshapeTransaction
from osc_placement.batch.select import read_state
from osc_placement.batch.stages import Write, choose_canaries, note_halves, schedule
from osc_placement.batch.transaction import (
    NotKnown,
    ProvidersTransaction,
    Send,
    Transaction,
    check_atomic,
    commit,
    put_back,
)
from osc_placement.batch.writers.bulk import ProvidersWriter, read_refusals
from osc_placement.batch.writers.consumers import ConsumersWriter, are_consumers, consumer_after, group_steps
from osc_placement.errors import (
    ANSWER_LOST,
    NotFound,
    OutcomeUnknown,
    OverLimit,
    PlacementError,
    is_outcome_unknown,
)
from osc_placement.model import Provider
from osc_placement.terminal.lines import count_providers

if TYPE_CHECKING:
    from osc_placement.api.client import PlacementClient
    from osc_placement.batch.writers import BulkWriter

LOG = logging.getLogger(__name__)

_NOT_SEEN: Final = "it was changed, but could not be read back"
_NOTE_LOST: Final = "the answer was lost; it was read back"


class NotDone(PlacementError):
    """A provider was left as it was, because the change of another one failed."""

    def __init__(self, reason: Exception) -> None:
        self.reason = self.__cause__ = reason
        super().__init__(f"all or nothing: {reason}")


class NotRolledBack(PlacementError):
    """A part that was written could not be put back."""

    def __init__(self, reason: Exception) -> None:
        self.reason = reason
        super().__init__(f"was changed, and could not be put back: {reason}")


class NameNotGivenBack(PlacementError):
    """A provider was not changed and still has its temporary name.

    :param failure: why the provider was not changed, if that failed
    """

    def __init__(self, uuid: str, name: str, reason: Exception, failure: Exception | None = None) -> None:
        self.reason = reason
        why = f"{failure}; " if failure else ""
        super().__init__(
            f"{why}it is still named {temporary_name(uuid)}, as it could not be given back its name {name}: "
            f"{reason}; resume or undo the run"
        )


class ChangedMeanwhile(PlacementError):
    """Somebody else changed what was to be put back."""

    def __init__(self) -> None:
        super().__init__("somebody else changed it since; that change stays")


class NotKept(Exception):
    """A provider, read back, does not have what was written."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"{name} was changed, but read back it is not what was written")


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
    writes up or stops them. The first ``canary`` changes are made and read back before the others; both go in
    bulk requests where the server takes these.
    """
    run = _Run(client, note_halves(plan), recorder, gate, stop, concurrency, on_outcome)
    require_versions(client, plan)
    return run.report(run.give_names_back(run.change(canary)))


def require_versions(client: PlacementClient, plan: Plan) -> None:
    """Raise VersionTooLow unless the version in use can write all that a plan changes."""
    if not plan.is_staged and any(isinstance(step.subject, Consumer) for step in plan.changes):
        client.require(microversion.CONSUMER_GENERATIONS, "a change of allocations")
    for step in plan.changes if plan.is_staged else ():
        if isinstance(step.subject, Consumer):
            if step.after.allocations and not consumer_after(step, None).is_untyped:
                client.require(microversion.CONSUMER_TYPES, "type")
        elif step.before.identity and step.after.identity:
            before, after = read_identity(step.before.identity)[1], read_identity(step.after.identity)[1]
            if before and before != after:
                client.require(microversion.REPARENTING, "parent")


def execute_atomically(
    client: PlacementClient,
    plan: Plan,
    *,
    stop: threading.Event | None = None,
    on_outcome: Callable[[Outcome], None] | None = None,
    recorder: Recorder | None = None,
    concurrency: int = CONCURRENCY,
) -> Report:
    """Write the plan whole or not at all; the report has an outcome for every provider.

    One request changes everything. Where the server, or a proxy before it, does not take a request of that
    size, it goes in parts, and when a later part fails the earlier ones are put back. A provider that has
    left the selection before it is written is left alone, which is no failure.
    """
    write = check_atomic(plan, client)
    run = _Run(client, plan, recorder, None, stop, concurrency, on_outcome)
    return run.report(run.end_together(run.change_all_or_none(write)))


def execute_reshape(
    client: PlacementClient, transaction: ReshapeTransaction, plan: Plan, recorder: Recorder | None = None
) -> Report:
    """Carry a reshape out; the report has an outcome for each provider and consumer."""
    run = _Run(client, plan, recorder)
    try:
        outcomes = run.commit(transaction, {})
    except Exception as error:  # the report tells of it
        rejected = is_permanent(error)
        run.halted = describe_failure(error)
        failed = Outcome(plan.steps[0], Result.FAILED, 1, error=error, untouched=rejected, rejected=rejected)
        outcomes = [
            replace(failed, change=change) if change.facets else Outcome(change, Result.UNCHANGED)
            for change in transaction.changes
        ]
    return run.report(run.end_together(outcomes), replace(plan, steps=tuple(transaction.changes)))


def describe_failure(error: Exception) -> str:
    """Return in a line why a transaction failed, and that nothing was changed if that is certain."""
    if is_outcome_unknown(error):
        return str(OutcomeUnknown(error))
    return str(error) if isinstance(error, NotKnown) else f"nothing was changed: {error}"


class _Begun(NamedTuple):
    """A change of which the first of two writes was made.

    :ivar change: as it is recorded now
    :ivar rest: what is left of the creation of a provider; None: the change is made whole
    """

    change: Change
    rest: Change | None


class _Run:
    """One run: the state that its threads share.

    :ivar halted: why a transaction was aborted, in a line; for runs that are no transaction, see
        `gate.halted`
    """

    def __init__(
        self,
        client: PlacementClient,
        plan: Plan,
        recorder: Recorder | None = None,
        gate: Gate | None = None,
        stop: threading.Event | None = None,
        concurrency: int = CONCURRENCY,
        on_outcome: Callable[[Outcome], None] | None = None,
    ) -> None:
        self.gate = gate or Gate()
        self.gate.stop_with(stop)
        self._recorder = recorder or NoRecorder()
        self.halted = ""
        self._client = client
        self._plan = plan
        self._concurrency = concurrency
        self._on_outcome = on_outcome
        self._reselection = Reselection(client, plan.selection)
        #: judges changes that were planned again
        self._guard = partial(guard_again, client, plan, concurrency=concurrency)
        #: of the changes that have an outcome
        self._ended: set[str] = set()
        #: by UUID, the changes of providers that were given a temporary name
        self._set_aside: dict[str, Change] = {}
        #: by UUID, the other changes of which the first of two writes was made
        self._begun: dict[str, _Begun] = {}

    # outcomes

    def report(self, outcomes: Sequence[Outcome], plan: Plan | None = None) -> Report:
        """Return the report, with the outcomes in the order of the plan."""
        plan = plan or self._plan
        by_uuid = {outcome.change.uuid: outcome for outcome in outcomes}
        skipped = any(outcome.result is Result.SKIPPED for outcome in outcomes)
        interrupted = skipped and self.gate.stopped and not self.gate.halted
        ordered = tuple(by_uuid[step.uuid] for step in plan.steps)
        return Report(plan, ordered, interrupted, self.halted or self.gate.halted)

    def end_together(self, outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
        """Record the outcomes of a transaction; what is done is done, whether it can be recorded or not."""
        for outcome in outcomes:
            try:
                self._recorder.end(outcome)
            except PlacementError as error:
                self.halted = self.halted or str(error)
            if self._on_outcome:
                self._on_outcome(outcome)
        return outcomes

    def _end(self, outcome: Outcome) -> Outcome:
        """Record an outcome, and count it if it was tried and failed.

        Of a provider that was given a temporary name the journal does not say that nothing was written:
        `give_names_back` records it once more if that is true in the end.
        """
        uuid = outcome.change.uuid
        if begun := self._begun.get(uuid):
            change = begun.change if begun.rest else outcome.change
            outcome = replace(outcome, change=change, untouched=False)
        self._ended.add(uuid)
        self._record(replace(outcome, untouched=False) if uuid in self._set_aside else outcome)
        if outcome.result is Result.FAILED and outcome.attempts:
            self.gate.count_failure()
        return outcome

    def _record(self, outcome: Outcome) -> None:
        try:
            self._recorder.end(outcome)
        except PlacementError as error:  # what cannot be recorded any more is not begun
            self.gate.halt(f"stopped: {error}")

    # changes that are made each by itself

    def change(self, canary: int) -> list[Outcome]:
        """Make the changes of the plan; first so many of those that are written once, which are read back."""
        stages = schedule(self._plan)
        if not canary:
            return self._change_in_stages(stages)
        chosen = choose_canaries(self._plan, stages)[:canary]
        canaries = self.verify(self._change_in_stages(schedule(self._plan, chosen)))
        return canaries + self._change_in_stages(stages)

    def _change_in_stages(self, stages: Sequence[Sequence[Write]]) -> list[Outcome]:
        """Make those writes of stages that were not made, none after a stage in which something failed.

        What the plan refuses stops nothing: what depends on it was refused too, or the server refuses it.
        """
        outcomes: list[Outcome] = []
        for stage in stages:
            refused = self._plan.refused
            if any(each.result is Result.FAILED and each.change.uuid not in refused for each in outcomes):
                self.gate.halt("stopped because what is left depends on what failed")
            writes = [write for write in stage if write.step.uuid not in self._ended]
            first = [write for write in writes if write.half is not None]
            outcomes += map_many(self._begin, first, threads=self._concurrency, on_result=self._on_outcome)
            outcomes += self._change(
                [
                    begun.rest or begun.change if (begun := self._begun.get(write.step.uuid)) else write.step
                    for write in writes
                    if write.half is None and write.step.uuid not in self._ended
                ]
            )
        return outcomes

    def _begin(self, write: Write) -> Iterator[Outcome]:
        """Make the first of two writes of a change; yield its outcome if that failed.

        If the run ends before the second, a resume and an undo find that it was made, see `merge.settle`.
        What others set before it is recorded, as an undo gives it back.
        """
        step = write.step
        if (write.is_name and step.uuid in self._set_aside) or self.gate.wait():
            return
        # one that is planned again may find the provider there
        is_new = step.is_new

        def plan_again(again: Change) -> None:
            nonlocal step
            if is_new:
                # a late request of a run that died may have made the second write
                before = merge(step.back, again.before).target if self._plan.goes_on else again.before
                step = Change(
                    again.subject,
                    replace(again.before, inventories=before.inventories),
                    replace(again.after, inventories=step.after.inventories),
                    halves=step.halves,
                )
                self._plan_again(step)
                return
            found = again.before.known
            if self._plan.goes_on:  # it may have been written before the run died
                back = merge(step.back, replace(step.after, **found)).target
                found = {facet: getattr(back, facet) for facet in found}
            step = replace(step, before=replace(step.before, **found))
            self._recorder.plan_again(step)

        edit = (Replace if is_new else Repeat)("", write.change)
        outcome = run_change(
            self._client, write.change, edit, self.gate.stop, plan_again, goes_on=self._plan.goes_on
        )
        rest = None
        if write.is_name:
            self._set_aside |= {} if outcome.untouched else {step.uuid: step}
        elif is_new and outcome.result in (Result.APPLIED, Result.UNCHANGED):
            subject, found = outcome.change.subject, outcome.change.after
            assert isinstance(subject, Provider)
            if outcome.generation is not None:
                subject = replace(subject, generation=outcome.generation)
            rest = Change(subject, found, replace(found, inventories=step.after.inventories))
        if rest or not (outcome.untouched or write.is_name):
            self._begun[step.uuid] = _Begun(step, rest)
        if outcome.result is Result.FAILED:
            yield self._end(replace(outcome, change=step))

    def _change(self, steps: Sequence[Change]) -> list[Outcome]:
        """Make changes that do not depend on each other; return an outcome for each."""
        # no bulk request renames, moves or deletes, or creates names
        alone = {step.uuid for step in steps if "identity" in step.facets and not step.is_creation}
        by_itself = ProvidersWriter(self._client, (), None)
        outcomes = self._change_groups(by_itself, [[step] for step in steps if step.uuid in alone])
        others = [step for step in steps if step.uuid not in alone]
        return outcomes + (self._change_in_bulk(others) if others else [])

    def _change_in_bulk(self, steps: Sequence[Change]) -> list[Outcome]:
        """Make changes in groups of the size that the server takes; return an outcome for each."""
        has_generations = self._client.version >= microversion.CONSUMER_GENERATIONS
        if are_consumers(steps) and has_generations:
            consumers = ConsumersWriter(self._client, self.gate.max_failures)
            return self._change_groups(consumers, group_steps(steps, self._plan.untried, consumers.size))
        writer = ProvidersWriter(self._client, steps, self.gate.max_failures)
        if any(step.facets for step in steps):
            self._reselection.prepare()
        size = writer.size
        return self._change_groups(writer, [steps[i : i + size] for i in range(0, len(steps), size)])

    def give_names_back(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Give providers their names back that have temporary ones and were not changed.

        Return all outcomes; one whose name cannot be given back, such as one that is taken by now, fails.
        """
        ended = []
        for outcome in outcomes:
            uuid = outcome.change.uuid
            if uuid in self._set_aside and outcome.result is not Result.APPLIED:
                name, _ = read_identity(self._set_aside[uuid].before.identity)
                assert name is not None
                try:
                    if self._client.show_provider(uuid)["name"] == temporary_name(uuid):
                        self._client.update_provider(uuid, name)
                except NotFound:  # the change was its deletion, and was made
                    pass
                except Exception as error:  # whatever it is, it is about this provider only
                    failure = NameNotGivenBack(uuid, name, error, outcome.error)
                    outcome = replace(outcome, result=Result.FAILED, error=failure, untouched=False)
                self._record(outcome)
            ended.append(outcome)
        return ended

    def _change_groups(self, writer: BulkWriter, groups: Sequence[Sequence[Change]]) -> list[Outcome]:
        """Make groups of changes, side by side; return an outcome for each change."""
        self._client.allow_concurrency(self._concurrency)
        return map_many(
            lambda group: self._change_group(writer, group),
            groups,
            threads=self._concurrency,
            on_result=self._on_outcome,
        )

    def _change_group(
        self, writer: BulkWriter, group: Sequence[Change], *, one_by_one: bool = False
    ) -> Iterator[Outcome]:
        """Make changes as the gate lets them pass; each outcome is recorded before the next change begins."""
        waiting = []
        for step in group:
            if step.uuid in self._plan.untried or not step.facets:
                yield self._end(self._plan.end_untried(step))
            else:
                waiting.append(step)
        while waiting:
            number, refusal = self.gate.take(1 if one_by_one else min(len(waiting), writer.size))
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
                self.gate.count_failure()
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
        begun = self._begun.get(step.uuid)
        edit = Repeat("", step) if begun and begun.rest else self._plan.edit_of(step)
        written = set(self._plan.written.get(step.uuid, ()))
        written |= {"inventories"} if begun else set()
        return run_change(
            self._client,
            step,
            edit,
            self.gate.stop,
            self._plan_again,
            refusal,
            written,
            goes_on=self._plan.goes_on,
        )

    def _plan_again(self, change: Change) -> None:
        """Check and record a change that replaces the one planned, unless the planned one is to be kept."""
        begun = self._begun.get(change.uuid)
        if (begun and begun.rest) or not self._plan.replaces_intent(change):
            return
        if change.facets:
            self._reselection.require(change)
        for error in self._guard([change]).untried.values():
            raise error
        self._recorder.plan_again(change)

    def verify(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Read the canaries back, and stop the run if anything is wrong with one of them."""
        verified = []
        for outcome in outcomes:
            if outcome.result is Result.APPLIED:
                change = outcome.change
                try:
                    _, now = read_state(self._client, change.subject, change.facets)
                except Exception as error:  # whatever it is, the canary was not seen alive
                    outcome = replace(outcome, result=Result.FAILED, error=error, note=_NOT_SEEN)
                else:
                    if not holds(now, change.after, change.facets):
                        wrong = NotKept(change.subject.name)
                        outcome = replace(outcome, result=Result.FAILED, error=wrong)
            verified.append(outcome)
        failed = [outcome for outcome in verified if outcome.result is Result.FAILED]
        if failed:
            self.gate.halt(f"stopped because {len(failed)} of {len(verified)} canaries failed")
        applied = sum(outcome.result is Result.APPLIED for outcome in verified)
        if applied and not self.gate.stopped:
            rest = "; going on" if len(self._plan.changes) > len(verified) else ""
            self.gate.on_event(f"Canary: {applied:,} changed and read back as planned{rest}")
        for before, after in zip(outcomes, verified, strict=True):
            if after is not before:  # record again only canaries that turned out wrong
                self._record(after)
        return verified

    # changes that are made all or none

    def change_all_or_none(self, write: Send) -> list[Outcome]:
        """Make all changes of the plan in one request, or in parts; put these back if a later one fails."""
        changes = self._plan.changes
        size = max(1, len(changes))
        done: list[Outcome] = []
        left: dict[str, str] = {}
        while len(done) < len(changes):
            planned = changes[len(done) : len(done) + size]
            part = ProvidersTransaction(
                *(self._client, write, self._plan, planned, self._reselection, left),
                *(self._guard, self._concurrency),
            )
            try:
                if self.gate.stop.is_set():
                    done = self._abort(write, done, left, size, None)
                else:
                    part.drop_left()
                    done += self.commit(part, left)
            except OverLimit as error:
                if size == 1:
                    done = self._abort(write, done, left, size, error)
                size = (size + 1) // 2
            except Exception as error:  # whatever it is, nothing of it may stay
                doubtful = part.changes if isinstance(error, NotKnown) else ()
                done = self._abort(write, done, left, size, error, doubtful)
        by_uuid = {outcome.change.uuid: outcome for outcome in done}
        return [by_uuid.get(step.uuid) or self._plan.end_untried(step) for step in self._plan.steps]

    def commit(self, part: Transaction, left: Mapping[str, str]) -> list[Outcome]:
        """Write a part, or all; return the outcomes of its changes.

        :param left: by UUID, why providers are not selected any more
        """
        attempts, is_read_back = commit(part, self._recorder, self.gate.stop)
        note = _NOTE_LOST if is_read_back else ""
        return [
            leave(change, left[change.uuid])
            if change.uuid in left
            else Outcome(change, Result.APPLIED, attempts, note=note)
            if change.facets
            else Outcome(change, Result.UNCHANGED)
            for change in part.changes
        ]

    def _abort(
        self,
        write: Send,
        done: Sequence[Outcome],
        left: Mapping[str, str],
        size: int,
        error: Exception | None,
        doubtful: Sequence[Change] = (),
    ) -> list[Outcome]:
        """Put back what was written; return outcomes for all changes, each with the reason.

        Those that had left the selection, and those of a part that was written which had nothing to write
        any more, end as they do in a run that succeeds.

        :param error: why the run is aborted; None if somebody stopped it
        :param doubtful: changes of which it is not known whether they were written
        """
        doubtful = [change for change in doubtful if change.facets]
        unchanged = {outcome.change.uuid: outcome for outcome in done if outcome.result is Result.UNCHANGED}
        written = [*(outcome.change for outcome in done if outcome.change.uuid not in unchanged), *doubtful]
        reason = error or PlacementError("stopped")
        stuck: dict[str, Exception] = {}
        overtaken: Sequence[str] = ()
        if done:
            stuck, overtaken = put_back(self._client, write, written, size, self._concurrency)
        elif error:  # no part was committed: an unknown part is left to a resume, which reads it
            stuck = {change.uuid: error for change in doubtful}
        unknown = {change.uuid for change in doubtful} & {*stuck, *overtaken}
        stuck |= {uuid: ChangedMeanwhile() for uuid in overtaken}
        stuck = {uuid: failure for uuid, failure in stuck.items() if uuid not in unknown}
        if error or stuck or unknown:
            self.halted = _summarize(list(stuck.values()), len(unknown), reason)
        # a request whose answer was lost may yet be carried out
        refused = isinstance(error, PlacementError) and not isinstance(error, (*ANSWER_LOST, NotKnown))
        template = Outcome(
            self._plan.changes[0],
            Result.FAILED if error else Result.SKIPPED,
            error=NotDone(reason),
            untouched=refused or error is None,
            rejected=is_permanent(error),
        )
        ends = {change.uuid: replace(template, change=change) for change in self._plan.changes} | unchanged
        refusals = read_refusals(error)
        for uuid in ends.keys() & refusals.keys():
            ends[uuid] = replace(ends[uuid], error=PlacementError(refusals[uuid]))
        for change in written:
            if change.uuid in unknown:
                ends[change.uuid] = Outcome(change, Result.FAILED, error=reason)
            elif change.uuid in stuck:
                ends[change.uuid] = Outcome(change, Result.FAILED, error=NotRolledBack(stuck[change.uuid]))
            else:
                ends[change.uuid] = replace(template, change=change, note="put back")
        return [
            leave(outcome.change, left[uuid]) if uuid in left else outcome for uuid, outcome in ends.items()
        ]


def _summarize(stuck: Sequence[Exception], unknown: int, reason: Exception) -> str:
    """Return in one line why the run was aborted, what was not put back, and what is not known."""
    if not (stuck or unknown):
        return describe_failure(reason)
    told = [f"{count_providers(len(stuck))} changed and not put back: {stuck[-1]}"] if stuck else []
    if unknown:
        told.append(f"for {count_providers(unknown)} {reason}")
    return "; ".join(told)
