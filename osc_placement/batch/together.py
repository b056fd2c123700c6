# SPDX-License-Identifier: Apache-2.0
"""Run a plan about consumers, many of them in one request: all of its writes.

PERF: a server commits once for a request, so 2,000 first allocations take a tenth of the time. A request that
is refused changes nothing; its consumers are then written one by one, so that each has its own outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from osc_placement import microversion
from osc_placement.api.client import PlacementClient
from osc_placement.api.concurrency import CONCURRENCY, map_many
from osc_placement.batch.execute import Recorder, end, run_change, skip
from osc_placement.batch.gate import Gate
from osc_placement.batch.plan import Change, Outcome, Plan, Report, Result
from osc_placement.batch.writers.consumers import group_steps, write_consumers


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
    groups = group_steps(plan, gate.max_failures)
    outcomes = map_many(writer.write, groups, threads=concurrency, on_result=on_outcome)
    by_uuid = {outcome.change.uuid: outcome for outcome in outcomes}
    skipped = any(outcome.result is Result.SKIPPED for outcome in outcomes)
    interrupted = skipped and gate.stopped and not gate.halted
    return Report(plan, tuple(by_uuid[step.uuid] for step in plan.steps), interrupted, gate.halted)


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
        results = write_consumers(self._client, changes) if len(changes) > 1 else None
        for change in changes:
            # what was asked for has to be found out; what was refused may be left
            refusal = "" if results or len(changes) == 1 else self._gate.wait()
            if refusal:
                yield skip(change, refusal)
                continue
            error = results[change.uuid] if results else None
            if results and error is None:
                yield Outcome(change, Result.APPLIED, 1)
                continue
            assert not isinstance(error, int)
            edit = self._plan.edit_of(change)
            yield run_change(self._client, change, edit, self._gate.stop, self._plan_again, error)

    def _plan_again(self, change: Change) -> None:
        if self._plan.replaces_intent(change):
            self._recorder.plan_again(change)

    def _end(self, outcome: Outcome) -> Outcome:
        return end(outcome, self._recorder, self._gate)
