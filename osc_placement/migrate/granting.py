# SPDX-License-Identifier: Apache-2.0
"""Write the providers of ports into their binding profiles, after their allocations were made.

nova-manage writes the profile first, and takes it back if placement refuses the allocations. If it is killed
between the two, the profile names a provider of which nothing is allocated, and nova-manage finds nothing to
heal any more. Here the allocations come first: whatever ends the run, the next one compares both, and finds
the profile that is missing. A profile that cannot be written is a problem of its instance; its allocations
stay, as they are right.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from osc_placement.api.concurrency import map_in_order
from osc_placement.batch.gate import Gate
from osc_placement.batch.plan import Result
from osc_placement.migrate.migrations.base import Assessment, Context, Grant
from osc_placement.migrate.migrations.port_claims import describe_grant
from osc_placement.migrate.nova.source import Unreadable
from osc_placement.terminal.progress import ProgressBar

if TYPE_CHECKING:
    from osc_placement.migrate.problem import Problem
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
    plan = assessment.plan
    tried = plan.changes[:max_count]
    chosen = _choose(assessment, {change.uuid: True for change in tried})
    problems = _without(assessment, chosen)
    source, left, written = context.open_neutron(), None, list[str]()
    if max_count is not None:
        left = max_count - len(tried)
    for instance, grant in ((instance, grant) for instance, each in chosen.items() for grant in each):
        reason = source.refuse(grant.port) if source else _NO_ADDRESS
        if not reason and left is not None and len(written) >= left:
            reason = _MAX_COUNT
        if reason:
            problems.append(describe_grant(instance, grant, reason))
        else:
            written.append(grant.port.uuid)
    return replace(assessment, problems=problems, written=written)


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


#: the instance, what was to be written, and why it was not, or nothing
_Written = tuple[str, Grant, str]


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
    problems = _without(assessment, chosen)
    written: list[str] = []
    with execution.ending_in_order():
        for instance, grant, reason in _write_all(context, chosen, execution, run):
            if reason:
                problems.append(describe_grant(instance, grant, reason))
            else:
                written.append(grant.port.uuid)
    return replace(assessment, problems=problems, written=written)


def _write_all(
    context: Context, grants: Mapping[str, Sequence[Grant]], execution: Execution, run: Run
) -> Sequence[_Written]:
    """Write binding profiles; return the instance of each, and why it was not written, or nothing.

    If neutron cannot be reached once, it is not asked again.
    """
    gate = Gate(rate=execution.rate, max_failures=execution.max_failures)
    gate.stop_with(execution.stop)
    for _ in range(run.report.counts[Result.FAILED]):
        gate.count_failure()
    source = None
    try:
        source = context.open_neutron()
        if source is None:
            gate.halt(_NO_ADDRESS)
    except Unreadable as error:
        gate.halt(str(error))

    def write(item: tuple[str, Grant]) -> _Written:
        instance, grant = item
        if reason := gate.wait():
            return instance, grant, gate.halted or "the command was interrupted"
        assert source is not None, "the gate is halted without it"
        try:
            reason = source.grant(grant.port, grant.allocation)
        except Unreadable as error:
            reason = str(error)
            gate.halt(reason)
        if reason:
            gate.count_failure()
        return instance, grant, reason

    every = [(instance, grant) for instance, each in grants.items() for grant in each]
    most = len(every)
    if execution.max_count is not None:
        most = max(0, execution.max_count - len(run.report.outcomes))
    with ProgressBar("binding profiles of ports", len(every[:most]), sys.stderr) as progress:
        written = map_in_order(
            write, every[:most], threads=execution.concurrency, on_result=lambda _written: progress.advance()
        )
    return [*written, *((*item, _MAX_COUNT) for item in every[most:])]
