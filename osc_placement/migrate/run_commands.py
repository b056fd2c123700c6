# SPDX-License-Identifier: Apache-2.0
"""``placement-migrate runs``: what was done, from its journals."""

from __future__ import annotations

import sys
from typing import Any, Final

from osc_placement.batch import journal
from osc_placement.batch.plan import EXIT_DONE, EXIT_PARTIAL
from osc_placement.migrate import runner, tables
from osc_placement.migrate.command import Command
from osc_placement.migrate.showing import show_run as show_what_was_done
from osc_placement.terminal.escape import printable
from osc_placement.terminal.tables import format_table


def list_runs(command: Command) -> int:
    """``placement-migrate runs list``."""
    rows: list[dict[str, Any]] = []
    damaged = []
    for run in journal.read_all(command.execution.directory):
        if isinstance(run, journal.JournalError):
            damaged.append(str(run))
            continue
        facts = (run.header.id, run.header.started, run.header.edit.title, run.state, run.applied, run.failed)
        rows.append(dict(zip(_RUN_COLUMNS, facts, strict=True)))
    command.show({"runs": rows}, [format_table(_RUN_COLUMNS, rows) or "There are no runs."])
    for line in damaged:
        print(printable(f"placement-migrate: {line}"), file=sys.stderr)
    return EXIT_PARTIAL if damaged else EXIT_DONE


_RUN_COLUMNS: Final = ("id", "started", "what", "state", "applied", "failed")


def show_run(command: Command) -> int:
    """``placement-migrate runs show``."""
    run = journal.read(command.options.run_id, command.execution.directory)
    rows = []
    for uuid, change in run.intents.items():
        ending = run.endings.get(uuid)
        result, error = (str(ending.result), ending.error or ending.note) if ending else ("unknown", "")
        rows.append({**tables.change_row(change), "result": result, "error": error})
    summary = f"Run {run.header.id}, {run.header.edit.title}: {run.state}"
    table = format_table(tables.REPORT_COLUMNS, rows)
    command.show({"id": run.header.id, "state": run.state, "rows": rows}, [table, summary])
    return EXIT_DONE


def resume_run(command: Command) -> int:
    """``placement-migrate runs resume``."""
    run = runner.resume(command.settings.open_client(), command.options.run_id, command.execution)
    show_what_was_done(command, run)
    return run.report.exit_status


def undo_run(command: Command) -> int:
    """``placement-migrate runs undo``."""
    options = command.options
    client = command.settings.open_client()
    run = runner.undo(client, options.run_id, command.execution, force=options.force)
    show_what_was_done(command, run)
    return run.report.exit_status
