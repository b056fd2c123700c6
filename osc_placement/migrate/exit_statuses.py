# SPDX-License-Identifier: Apache-2.0
"""Exit statuses: those of ``placement-migrate``, and for ``--nova-exit-codes`` those of nova-manage. Pure.

An interrupted command ends with 130, as nova-manage does at SIGINT: none of its own statuses says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from osc_placement.batch import EXIT_DONE, EXIT_INTERRUPTED, EXIT_PARTIAL, Report
from osc_placement.errors import Conflict
from osc_placement.migrate.migrations.base import Assessment
from osc_placement.migrate.nova.ports import LABEL as NEUTRON
from osc_placement.migrate.problem import Problem, Reason

if TYPE_CHECKING:
    from osc_placement.migrate.runner import Run

#: something could not be read, and what depends on it was left unchanged
EXIT_UNKNOWN: Final = 4

#: of `nova-manage placement sync_aggregates`, in the order in which it prefers them
_SYNC: Final[Mapping[Reason, int]] = {
    Reason.NO_PROVIDER: 6,
    Reason.NO_COMPUTE_NODE: 5,
    Reason.UNMAPPED_HOST: 4,
    Reason.UNKNOWN: 255,
}
_CONFLICT: Final = 2
_REFUSED: Final = 3
#: problems that end a run of `nova-manage placement heal_allocations`
_HEAL_FAILS: Final = (
    Reason.UNKNOWN,
    Reason.NO_PROVIDER,
    Reason.NO_INVENTORY,
    Reason.NO_CLAIM,
    Reason.PORT,
    Reason.OVER_CAPACITY,
    Reason.AMBIGUOUS,
    Reason.MISSING,
    Reason.UNRECORDED,
    Reason.CONFLICT,
)


def exit_status(problems: Sequence[Problem], report: Report | None) -> int:
    """Return the status of the gravest thing that happened; hints do not count."""
    if report is not None and report.interrupted:
        return EXIT_INTERRUPTED
    if any(problem.reason is Reason.UNKNOWN for problem in problems):
        return EXIT_UNKNOWN
    if any(not problem.reason.is_hint for problem in problems):
        return EXIT_PARTIAL
    return report.exit_status if report else EXIT_DONE


def of_sync(assessment: Assessment, run: Run | None) -> int:
    """Return the status of `nova-manage placement sync_aggregates`."""
    if run is not None and run.report.interrupted:
        return EXIT_INTERRUPTED
    errors = [outcome.error for outcome in run.report.outcomes if outcome.error] if run else []
    if errors:
        return _CONFLICT if isinstance(errors[0], Conflict) else _REFUSED
    if run is not None and run.report.is_failed:
        return _REFUSED
    reasons = {problem.reason for problem in assessment.problems}
    return next((code for reason, code in _SYNC.items() if reason in reasons), EXIT_DONE)


def of_heal(assessment: Assessment, run: Run | None) -> int:
    """Return the status of `nova-manage placement heal_allocations`."""
    if run is not None and run.report.interrupted:
        return EXIT_INTERRUPTED
    if run is not None and run.report.is_failed:
        return 3
    reasons = {problem.reason for problem in assessment.problems if problem.subject != NEUTRON}
    if Reason.NO_COMPUTE_NODE in reasons:
        return 2
    if reasons.intersection(_HEAL_FAILS) or assessment.is_uncorrected:
        return 3
    if any(problem.subject == NEUTRON for problem in assessment.problems):
        return 5
    if Reason.DEVICE in reasons:
        return 8
    if run is None:
        # nova-manage says that a dry run did nothing
        return 4
    if run.left or Reason.LATER in reasons:
        return 1
    return EXIT_DONE if assessment.plan.changes or assessment.written else 4


def of_audit(assessment: Assessment, run: Run | None) -> int:
    """Return the status of `nova-manage placement audit`: 0 no orphans, 3 found, 4 all deleted, 1 failed."""
    if any(problem.reason is Reason.UNKNOWN for problem in assessment.problems):
        return 1
    if not assessment.plan.changes:
        return EXIT_DONE
    if run is None:
        return 3
    if run.report.interrupted:
        return EXIT_INTERRUPTED
    return 1 if run.report.is_failed or run.left else 4
