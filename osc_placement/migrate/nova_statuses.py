# SPDX-License-Identifier: Apache-2.0
"""The exit statuses of nova-manage, for ``--nova-exit-codes``. Pure.

An interrupted command ends with 130, as nova-manage does at SIGINT: none of its own statuses says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from osc_placement.batch.plan import EXIT_DONE, EXIT_INTERRUPTED
from osc_placement.errors import Conflict
from osc_placement.migrate.migrations.base import Assessment, Trouble
from osc_placement.migrate.runner import Run

#: of `nova-manage placement sync_aggregates`, in the order in which it prefers them
_SYNC: Final[Mapping[Trouble, int]] = {
    Trouble.NO_PROVIDER: 6,
    Trouble.NO_COMPUTE_NODE: 5,
    Trouble.UNMAPPED_HOST: 4,
    Trouble.UNKNOWN: 255,
}
_CONFLICT: Final = 2
_REFUSED: Final = 3
#: what is left alone here, and ends a run of nova-manage
_HEAL_FAILS: Final = (
    Trouble.UNKNOWN,
    Trouble.NO_PROVIDER,
    Trouble.NO_INVENTORY,
    Trouble.NO_CLAIM,
    Trouble.DEVICE,
    Trouble.PORT,
    Trouble.OVER_CAPACITY,
    Trouble.AMBIGUOUS,
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
    troubles = {finding.trouble for finding in assessment.findings}
    return next((code for trouble, code in _SYNC.items() if trouble in troubles), EXIT_DONE)


def of_heal(assessment: Assessment, run: Run | None) -> int:
    """Of `nova-manage placement heal_allocations`."""
    if run is not None and run.report.interrupted:
        return EXIT_INTERRUPTED
    if run is not None and run.report.is_failed:
        return 3
    troubles = {finding.trouble for finding in assessment.findings}
    if Trouble.NO_COMPUTE_NODE in troubles:
        return 2
    if troubles.intersection(_HEAL_FAILS):
        return 3
    if run is not None and run.left:
        return 1
    return EXIT_DONE if assessment.plan.changes else 4


def of_audit(assessment: Assessment, run: Run | None) -> int:
    """Of `nova-manage placement audit`: 0 no orphans, 3 found, 4 all deleted, 1 failed."""
    if any(finding.trouble is Trouble.UNKNOWN for finding in assessment.findings):
        return 1
    if not assessment.plan.changes:
        return EXIT_DONE
    if run is None:
        return 3
    if run.report.interrupted:
        return EXIT_INTERRUPTED
    return 1 if run.report.is_failed or run.left else 4
