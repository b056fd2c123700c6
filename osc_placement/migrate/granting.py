# SPDX-License-Identifier: Apache-2.0
"""Write the providers of ports into their binding profiles, after their allocations were made.

nova-manage writes the profile first, and takes it back if placement refuses the allocations. If it is killed
between the two, the profile names a provider of which nothing is allocated, and nova-manage finds nothing to
heal any more. Here the allocations come first: whatever ends the run, the next one compares both, and finds
the profile that is missing. A profile that cannot be written is a problem of its instance; its allocations
stay, as they are right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from osc_placement.batch.plan import Result
from osc_placement.migrate.migrations.base import Assessment, Context, Grant
from osc_placement.migrate.migrations.port_claims import describe_grant
from osc_placement.migrate.nova.source import Unreadable

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


def write_grants(context: Context, assessment: Assessment, run: Run, execution: Execution) -> Assessment:
    """Write the binding profiles of the instances that hold what they should after a run.

    Return the assessment with the ports that were written, and a problem for each that was not. Profiles
    are written one after the other, as nova-manage does, at the rate of the run; each counts as one of its
    ``max_count`` changes, and as one of its ``max_failures`` if it fails.
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
    execution.writing.set()
    try:
        for instance, grant, reason in _write_each(context, chosen, execution, run):
            if reason:
                problems.append(describe_grant(instance, grant, reason))
            else:
                written.append(grant.port.uuid)
    finally:
        execution.writing.clear()
    return replace(assessment, problems=problems, written=written)


def _write_each(
    context: Context, grants: Mapping[str, Sequence[Grant]], execution: Execution, run: Run
) -> Iterator[tuple[str, Grant, str]]:
    """Write binding profiles; yield the instance of each, and why it was not written, or nothing.

    If neutron cannot be reached once, it is not asked again.
    """
    lost, source = "", None
    changes, failures = len(run.report.outcomes), run.report.counts[Result.FAILED]
    try:
        source = context.open_neutron()
    except Unreadable as error:
        lost = str(error)
    for instance, grant in ((instance, grant) for instance, each in grants.items() for grant in each):
        reason = lost
        if execution.stop.is_set():
            reason = "the command was interrupted"
        elif execution.max_count is not None and changes >= execution.max_count:
            reason = _MAX_COUNT
        elif execution.max_failures is not None and failures > execution.max_failures:
            reason = f"stopped after more than {execution.max_failures} failures"
        elif source is not None and not lost:
            try:
                reason = source.grant(grant.port, grant.allocation)
            except Unreadable as error:
                lost = reason = str(error)
            changes += 1
            failures += bool(reason)
            execution.stop.wait(1 / execution.rate if execution.rate else 0)
        yield instance, grant, reason if source is not None or reason else _NO_ADDRESS
