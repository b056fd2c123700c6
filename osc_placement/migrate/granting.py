# SPDX-License-Identifier: Apache-2.0
"""Write the providers of ports into their binding profiles, after their allocations were made.

nova-manage writes the profile first, and takes it back if placement refuses the allocations. If it is killed
between the two, the profile names a provider of which nothing is allocated, and nova-manage finds nothing to
heal any more. Here the allocations come first: whatever ends the run, the next one compares both, and finds
the profile that is missing. A profile that cannot be written is a problem of its instance; its allocations
stay, as they are right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from osc_placement.api.concurrency import map_many
from osc_placement.batch import Gate, Result
from osc_placement.migrate.migrations.base import Assessment, Context, Grant
from osc_placement.migrate.migrations.port_claims import describe_grant
from osc_placement.migrate.nova.source import Unreadable
from osc_placement.migrate.problem import Problem, Reason
from osc_placement.terminal.progress import ProgressBar

if TYPE_CHECKING:
    from osc_placement.migrate.nova.source import NetworkSource
    from osc_placement.migrate.runner import Execution, Run

#: reasons why a binding profile is not written
_MAX_COUNT: Final = "--max-count was reached"
_NO_ADDRESS: Final = "neutron has no address"


def plan_grants(context: Context, assessment: Assessment, max_count: int | None) -> Assessment:
    """Return the assessment with the ports that `write_grants` would write, and no problem of these.

    What is found out only by the write is not known here, such as a port that somebody else changes first.
    """
    if not assessment.grants:
        return assessment
    tried = assessment.plan.changes[:max_count]
    chosen = _choose(assessment, {change.uuid: True for change in tried})
    source, items, refused = _divide(context, chosen, None if max_count is None else max_count - len(tried))
    return replace(
        assessment,
        problems=[*_without(assessment, chosen), *refused],
        written=[grant.port.uuid for _, grant in items],
        way=source.way if source else "",
    )


def _choose(assessment: Assessment, done: Mapping[str, bool]) -> dict[str, Sequence[Grant]]:
    """Return the grants of instances that hold what they should; ``done`` tells this of those changed."""
    planned = {change.uuid for change in assessment.plan.changes}
    return {
        instance: grants
        for instance, grants in assessment.grants.items()
        if done.get(instance, instance not in planned)
    }


def _without(assessment: Assessment, chosen: Mapping[str, Sequence[Grant]]) -> list[Problem]:
    """Return the problems of an assessment but that these binding profiles are not written."""
    known = {str(describe_grant(instance, grant)) for instance, each in chosen.items() for grant in each}
    return [each for each in assessment.problems if str(each) not in known]


#: an instance, and what is to be written of a port of it
_Item = tuple[str, Grant]


def _divide(
    context: Context, grants: Mapping[str, Sequence[Grant]], most: int | None
) -> tuple[NetworkSource | None, list[_Item], list[Problem]]:
    """Return neutron, what is to be written to it, and a problem for each port that is not tried.

    :param most: the number of ports to write, which does not count those that neutron's source refuses
    """
    source, reason = None, _NO_ADDRESS
    try:
        source = context.open_neutron()
    except Unreadable as error:
        reason = str(error)
    items: list[_Item] = []
    refused: list[Problem] = []
    for instance, grant in ((instance, grant) for instance, each in grants.items() for grant in each):
        refusal = source.refuse(grant.port) if source else reason
        if not refusal and most is not None and len(items) >= most:
            refusal = _MAX_COUNT
        if refusal:
            problem = describe_grant(instance, grant, refusal)
            refused.append(replace(problem, reason=Reason.LATER) if refusal == _MAX_COUNT else problem)
        else:
            items.append((instance, grant))
    return source, items, refused


def write_grants(context: Context, assessment: Assessment, run: Run, execution: Execution) -> Assessment:
    """Write the binding profiles of the instances that hold what they should after a run.

    Return the assessment with the ports that were written, and a problem for each that was not. Profiles
    are written at the rate and concurrency of the run, each compared with the revision of its port; each
    counts as one of the ``max_count`` changes of the run, and as one of its ``max_failures`` if it fails.

    PERF: neutron binds a port again when its profile is written, which takes it longer than all else here
    takes; several at once keep all of its processes busy.
    """
    done = {
        outcome.change.uuid: outcome.result in (Result.APPLIED, Result.UNCHANGED)
        for outcome in run.report.outcomes
    }
    chosen = _choose(assessment, done)
    if not chosen or run.report.interrupted or run.report.halted:
        return assessment
    most = execution.max_count
    if most is not None:
        most = max(0, most - len(run.report.outcomes))
    source, items, refused = _divide(context, chosen, most)
    problems, written = [*_without(assessment, chosen), *refused], list[str]()
    results = _write_all(source, items, execution, run) if source else []
    for (_, grant), problem in zip(items, results, strict=True):
        if problem:
            problems.append(problem)
        else:
            written.append(grant.port.uuid)
    return replace(assessment, problems=problems, written=written, way=source.way if source else "")


def _write_all(
    source: NetworkSource, items: Sequence[_Item], execution: Execution, run: Run
) -> Sequence[Problem | None]:
    """Write binding profiles; return for each a problem if it was not written.

    If neutron cannot be reached once, it is not asked again. Those that neutron writes together are written
    one by one under a rate or a limit of failures, which count each.
    """
    execution.untold.set()
    gate = Gate(rate=execution.rate, max_failures=execution.max_failures)
    gate.stop_with(execution.stop)
    for _ in range(run.report.counts[Result.FAILED]):
        gate.count_failure()

    def write(batch: Sequence[_Item]) -> list[Problem | None]:
        if gate.wait():
            reason = gate.halted or "the command was interrupted"
            return [describe_grant(instance, grant, reason) for instance, grant in batch]
        reasons: Sequence[str]
        try:
            reasons = source.grant_all([(grant.port, grant.allocation) for _, grant in batch])
        except Unreadable as error:
            reasons = [str(error)] * len(batch)
            gate.halt(reasons[0])
        for _ in filter(None, reasons):
            gate.count_failure()
        return [
            describe_grant(instance, grant, reason, is_tried=True) if reason else None
            for (instance, grant), reason in zip(batch, reasons, strict=True)
        ]

    is_limited = bool(execution.rate) or execution.max_failures is not None
    size = 1 if is_limited else source.batch
    batches = [items[start : start + size] for start in range(0, len(items), size)]
    with ProgressBar("binding profiles of ports", len(items), execution.stderr) as progress:
        return map_many(
            write, batches, threads=execution.concurrency, on_result=lambda _written: progress.advance()
        )
