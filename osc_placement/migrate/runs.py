# SPDX-License-Identifier: Apache-2.0
"""``placement-migrate run list|show|resume|undo|delete``: those of ``openstack resource provider batch run``.

They differ in the access to placement alone.
"""

from __future__ import annotations

from osc_placement.commands import batch_run
from osc_placement.commands.batch_execution import PlanCommand
from osc_placement.migrate.tool import Tool


class ListRun(Tool, batch_run.ListRun):
    """List the runs for this cloud that this user started on this machine, the oldest first."""

    example = "run list --last 10"


class ShowRun(Tool, batch_run.ShowRun):
    """Show a run: what it is about, its state, and the result of each change."""

    example = "run show --last --failed-only"


class _WritingCommand(Tool, PlanCommand):
    """The base of commands that write to placement."""

    def begin_writing(self) -> None:
        """Let the first signal from now on wait until the result is printed."""
        self.app.untold.set()


class ResumeRun(_WritingCommand, batch_run.ResumeRun):
    """Resume a run that was interrupted or had failures: make the changes that are pending."""

    example = "run resume --last"


class UndoRun(_WritingCommand, batch_run.UndoRun):
    """Undo a run: restore what it changed, except where that was changed since."""

    example = "run undo --last --dry-run"


class DeleteRun(Tool, batch_run.DeleteRun):
    """Delete the journals of runs, which can then be neither resumed nor undone."""

    example = "run delete --older-than 90"
