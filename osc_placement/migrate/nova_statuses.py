# SPDX-License-Identifier: Apache-2.0
"""The exit statuses of nova-manage, for ``--nova-exit-codes``. Pure.

An interrupted command ends with 130, as nova-manage does at SIGINT: none of its own statuses says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from osc_placement.batch.plan import EXIT_DONE, EXIT_INTERRUPTED
from osc_placement.errors import Conflict
from osc_placement.migrate.migrations.base import Assessment
from osc_placement.migrate.problem import Reason
from osc_placement.migrate.runner import Run

#: of `nova-manage placement sync_aggregates`, in the order in which it prefers them
_SYNC: Final[Mapping[Reason, int]] = {
    Reason.NO_PROVIDER: 6,
    Reason.NO_COMPUTE_NODE: 5,
    Reason.UNMAPPED_HOST: 4,
    Reason.UNKNOWN: 255,
}
_CONFLICT: Final = 2
_REFUSED: Final = 3
#: what is left alone here, and ends a run of nova-manage
_HEAL_FAILS: Final = (
    Reason.UNKNOWN,
    Reason.NO_PROVIDER,
    Reason.NO_INVENTORY,
    Reason.NO_CLAIM,
    Reason.DEVICE,
    Reason.PORT,
    Reason.OVER_CAPACITY,
    Reason.AMBIGUOUS,
)


def of_sync(assessment: Assessment, run: Run | None) -> int:
    """Of `nova-manage placement sync_aggregates`."""
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
    """Of `nova-manage placement heal_allocations`."""
    if run is not None and run.report.interrupted:
        return EXIT_INTERRUPTED
    if run is not None and run.report.is_failed:
        return 3
    reasons = {problem.reason for problem in assessment.problems}
    if Reason.NO_COMPUTE_NODE in reasons:
        return 2
    if reasons.intersection(_HEAL_FAILS):
        return 3
    if run is not None and run.left:
        return 1
    return EXIT_DONE if assessment.plan.changes else 4


def of_audit(assessment: Assessment, run: Run | None) -> int:
    """Of `nova-manage placement audit`: 0 no orphans, 3 found, 4 all deleted, 1 failed."""
    if any(problem.reason is Reason.UNKNOWN for problem in assessment.problems):
        return 1
    if not assessment.plan.changes:
        return EXIT_DONE
    if run is None:
        return 3
    if run.report.interrupted:
        return EXIT_INTERRUPTED
    return 1 if run.report.is_failed or run.left else 4
