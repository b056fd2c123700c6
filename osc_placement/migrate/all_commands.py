# SPDX-License-Identifier: Apache-2.0
"""``placement-migrate online_data_migrations``: all in order, with nova-manage's table and statuses.

Nothing keeps how far it came: doc/source/admin/leaving-caching-scheduler.rst says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from osc_placement.batch.plan import EXIT_DONE, EXIT_INTERRUPTED, Result
from osc_placement.migrate import registry, tables
from osc_placement.migrate.base import Assessment, Finding
from osc_placement.migrate.command import Command
from osc_placement.migrate.runner import Run
from osc_placement.migrate.showing import carry_out

#: as those of nova-manage
_MORE: Final = 1
_SOME_FAILED: Final = 2
_COLUMNS: Final = ("Migration", "Total Needed", "Completed")


@dataclass
class Tally:
    """What came of the migrations so far."""

    rows: list[tables.Row] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    is_more: bool = False
    is_failed: bool = False
    is_interrupted: bool = False

    def add(self, name: str, assessment: Assessment, run: Run) -> int:
        """Note what came of one; the number of its changes that were made."""
        done = run.report.counts[Result.APPLIED]
        needed = len(assessment.plan.changes) + len(assessment.findings)
        self.rows.append(dict(zip(_COLUMNS, (name, needed, done), strict=True)))
        self.findings += assessment.findings
        self.is_more = self.is_more or bool(run.left)
        self.is_failed = self.is_failed or bool(run.report.counts[Result.FAILED] or assessment.findings)
        return done

    @property
    def status(self) -> int:
        """What the command ends with."""
        if self.is_interrupted:
            return EXIT_INTERRUPTED
        return _MORE if self.is_more else _SOME_FAILED if self.is_failed else EXIT_DONE


def run_all(command: Command) -> int:
    """Run the migrations one after the other, until all are through or somebody stops it."""
    tally = Tally()
    try:
        _run(command, tally)
    except KeyboardInterrupt:
        tally.is_interrupted = True
    _show(command, tally.rows, tally.findings)
    return tally.status


def _run(command: Command, tally: Tally) -> None:
    left_to_do = command.options.max_count
    for migration in registry.make_all(command.options.shard):
        context, assessment = command.assess(migration)
        run = carry_out(context, assessment, replace(command.execution, max_count=left_to_do))
        done = tally.add(migration.name, assessment, run)
        left_to_do = None if left_to_do is None else left_to_do - done
        if command.execution.stop.is_set():
            raise KeyboardInterrupt


def _show(command: Command, rows: Sequence[tables.Row], findings: Sequence[Finding]) -> None:
    lines = [f"Left alone: {line}" for line in tables.describe_findings(findings)]
    document = {"migrations": rows, "findings": [tables.finding_row(each) for each in findings]}
    command.show(document, [*lines, tables.format_table(_COLUMNS, rows)])
