# SPDX-License-Identifier: Apache-2.0
"""Run a plan about consumers, many of them in one request: all of its writes.

PERF: a server commits once for a request, so 2,000 first allocations take a tenth of the time. A request that
is refused changes nothing; its consumers are then written one by one, so that each has its own outcome.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from osc_placement import microversion
from osc_placement.batch.execute import Recorder, run_change
from osc_placement.batch.gate import Gate
from osc_placement.batch.plan import Change, Consumer, Outcome, Plan, Report, Result
from osc_placement.batch.workers import CONCURRENCY, map_in_order
from osc_placement.batch.write import describe_allocations, is_untyped, version_for
from osc_placement.client import PlacementClient
from osc_placement.errors import ANSWER_LOST, PlacementError

LOG = logging.getLogger(__name__)

#: consumers of one request
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
    writer = _Writer(client, plan, gate, recorder)

    def tell(outcomes: Iterable[Outcome]) -> None:
        for outcome in outcomes:
            if on_outcome:
                on_outcome(outcome)

    changes = [change for change in plan.changes if change.uuid not in plan.hopeless]
    groups = map_in_order(writer.write, _group(changes), threads=concurrency, on_result=tell)
    by_uuid = {outcome.change.uuid: outcome for outcomes in groups for outcome in outcomes}
    skipped = any(outcome.result is Result.SKIPPED for outcome in by_uuid.values())
    interrupted = skipped and gate.stopped and not gate.halted
    ordered = (by_uuid.get(step.uuid) or _untouched(plan, step) for step in plan.steps)
    return Report(plan, tuple(ordered), interrupted, gate.halted)


def is_for(plan: Plan) -> bool:
    """Whether a plan is about consumers alone."""
    return all(isinstance(step.subject, Consumer) for step in plan.steps)


def _group(changes: Sequence[Change]) -> list[Sequence[Change]]:
    """Neighbours on the same providers together, or requests side by side would hinder each other."""
    ordered = sorted(changes, key=lambda change: sorted(change.after.allocations or ()))
    # a request has one version, and consumers without a type need an older one
    kinds = [[change for change in ordered if is_untyped(change) is untyped] for untyped in (False, True)]
    return [kind[first : first + SIZE] for kind in kinds for first in range(0, len(kind), SIZE)]


def _untouched(plan: Plan, step: Change) -> Outcome:
    error = plan.hopeless.get(step.uuid)
    return Outcome(step, Result.FAILED if error else Result.UNCHANGED, error=error)


class _Writer:
    """Writes one group; used by several threads."""

    def __init__(self, client: PlacementClient, plan: Plan, gate: Gate, recorder: Recorder) -> None:
        self._client = client
        self._plan = plan
        self._gate = gate
        self._recorder = recorder

    def write(self, group: Sequence[Change]) -> list[Outcome]:
        outcomes = list(self._run(group))
        for outcome in outcomes:
            self._record(outcome)
        return outcomes

    def _run(self, group: Sequence[Change]) -> Iterator[Outcome]:
        passed, refused = [], []
        for change in group:
            reason = self._gate.wait()
            if reason:
                refused.append(Outcome(change, Result.SKIPPED, note=reason))
            else:
                passed.append(change)
        yield from refused
        refusal = None
        try:
            if self._is_written(passed):
                yield from (Outcome(change, Result.APPLIED, attempts=1) for change in passed)
                return
        except ANSWER_LOST as error:
            # whether it was done, each is asked by itself: writing again would meet what we wrote
            refusal = error
        for change in passed:
            edit, again = self._plan.edit_of(change), self._recorder.plan_again
            yield run_change(self._client, change, edit, self._gate.stop, again, refusal)

    def _is_written(self, changes: Sequence[Change]) -> bool:
        """Whether all are written; one of ANSWER_LOST, if that is not known."""
        if len(changes) < 2:
            return not changes
        payloads = {
            change.uuid: describe_allocations(self._client, change, change.subject.generation)
            for change in changes
        }
        try:
            self._client.set_many_allocations(payloads, version_for(self._client, changes))
        except ANSWER_LOST:
            raise
        except Exception as error:  # whatever it is, each has an outcome of its own
            LOG.debug("%s consumers are written one by one: %s", len(changes), error)
            return False
        return True

    def _record(self, outcome: Outcome) -> None:
        try:
            self._recorder.end(outcome)
        except PlacementError as error:  # what cannot be recorded any more is not begun
            self._gate.halt(f"stopped: {error}")
        if outcome.result is Result.FAILED:
            self._gate.count_failure()
