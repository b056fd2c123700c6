# SPDX-License-Identifier: Apache-2.0
"""Run a plan about consumers, many of them in one request: all of its writes.

PERF: a server commits once for a request, so 2,000 first allocations take a tenth of the time. A request that
is refused changes nothing; its consumers are then written one by one, so that each has its own outcome.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from osc_placement import microversion
from osc_placement.api.client import PlacementClient
from osc_placement.api.concurrency import CONCURRENCY, map_many
from osc_placement.api.consumer import Consumer, describe_consumers
from osc_placement.batch.execute import Recorder, end, run_change, skip
from osc_placement.batch.gate import Gate
from osc_placement.batch.plan import Change, Outcome, Plan, Report, Result
from osc_placement.batch.write import consumer_after
from osc_placement.errors import ANSWER_LOST

LOG = logging.getLogger(__name__)

#: consumers of one request; no more than the failures that are allowed, and one, where these are limited
SIZE: Final = 50


def execute_together(
    client: PlacementClient,
    plan: Plan,
    *,
    gate: Gate,
    recorder: Recorder,
    concurrency: int = CONCURRENCY,
    on_outcome: Callable[[Outcome], None] | None = None,
) -> Report:
    """Write what the plan says; the report has an outcome for every consumer, in the order of the plan."""
    client.require(microversion.CONSUMER_GENERATIONS, "a change of allocations")
    client.allow_concurrency(concurrency)
    size = SIZE if gate.max_failures is None else min(SIZE, gate.max_failures + 1)
    writer = _Writer(client, plan, gate, recorder)
    groups = _group(plan, size)
    outcomes = map_many(writer.write, groups, threads=concurrency, on_result=on_outcome)
    by_uuid = {outcome.change.uuid: outcome for outcome in outcomes}
    skipped = any(outcome.result is Result.SKIPPED for outcome in outcomes)
    interrupted = skipped and gate.stopped and not gate.halted
    return Report(plan, tuple(by_uuid[step.uuid] for step in plan.steps), interrupted, gate.halted)


def is_for(plan: Plan) -> bool:
    """Whether a plan is about consumers alone."""
    return bool(plan.steps) and all(isinstance(step.subject, Consumer) for step in plan.steps)


def _group(plan: Plan, size: int) -> list[Sequence[Change]]:
    """Neighbours on the same providers together, or requests side by side would hinder each other.

    First come those of which nothing is written.
    """
    writable = {change.uuid for change in plan.changes} - plan.hopeless.keys()
    others = [step for step in plan.steps if step.uuid not in writable]
    changes = (step for step in plan.steps if step.uuid in writable)
    ordered = sorted(changes, key=lambda change: sorted(change.after.allocations or ()))
    # a request has one version, and consumers without a type need an older one
    kinds: tuple[list[Change], list[Change]] = ([], [])
    for change in ordered:
        kinds[consumer_after(change, None).is_untyped].append(change)
    groups = [kind[first : first + size] for kind in kinds for first in range(0, len(kind), size)]
    return [group for group in (others, *groups) if group]


class _Writer:
    """Writes one group; used by several threads."""

    def __init__(self, client: PlacementClient, plan: Plan, gate: Gate, recorder: Recorder) -> None:
        self._client = client
        self._plan = plan
        self._gate = gate
        self._recorder = recorder

    def write(self, group: Sequence[Change]) -> Iterator[Outcome]:
        """Make the changes of a group; each outcome is kept before the next change is begun."""
        waiting = []
        for step in group:
            if step.uuid in self._plan.hopeless or not step.facets:
                yield self._end(self._plan.end_untried(step))
            else:
                waiting.append(step)
        while waiting:
            number, refusal = self._gate.take(len(waiting))
            now, waiting = waiting[:number], waiting[number:]
            if refusal:
                yield from (self._end(skip(step, refusal)) for step in now)
            else:
                yield from map(self._end, self._run(now))

    def _run(self, changes: Sequence[Change]) -> Iterator[Outcome]:
        lost = None
        try:
            if self._is_written(changes):
                yield from (Outcome(change, Result.APPLIED, attempts=1) for change in changes)
                return
        except ANSWER_LOST as error:
            # whether it was done, each is asked by itself: writing again would meet what we wrote
            lost = error
        for change in changes:
            # what was asked for has to be found out; what was refused may be left
            refusal = "" if lost or len(changes) == 1 else self._gate.wait()
            if refusal:
                yield skip(change, refusal)
                continue
            edit = self._plan.edit_of(change)
            yield run_change(self._client, change, edit, self._gate.stop, self._plan_again, lost)

    def _plan_again(self, change: Change) -> None:
        if self._plan.replaces_intent(change):
            self._recorder.plan_again(change)

    def _is_written(self, changes: Sequence[Change]) -> bool:
        """Whether all are written; one of ANSWER_LOST, if that is not known."""
        if len(changes) < 2:
            return False
        consumers = [consumer_after(change, change.subject.generation) for change in changes]
        try:
            self._client.set_many_allocations(*describe_consumers(consumers, self._client.version))
        except ANSWER_LOST:
            raise
        except Exception as error:  # whatever it is, each has an outcome of its own
            LOG.debug("%s consumers are written one by one: %s", len(changes), error)
            return False
        return True

    def _end(self, outcome: Outcome) -> Outcome:
        return end(outcome, self._recorder, self._gate)
