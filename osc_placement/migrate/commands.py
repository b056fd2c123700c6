# SPDX-License-Identifier: Apache-2.0
"""The commands of ``placement-migrate``: each runs a migration and prints the result."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Final

from osc_placement.batch import journal
from osc_placement.batch.plan import EXIT_DONE, EXIT_PARTIAL, Outcome, Result
from osc_placement.errors import ANSWER_LOST
from osc_placement.migrate import exit_statuses, readiness, runner
from osc_placement.migrate.command import Command
from osc_placement.migrate.exit_statuses import EXIT_UNKNOWN, exit_status
from osc_placement.migrate.migrations.audit import Audit
from osc_placement.migrate.migrations.base import Assessment, Context, Migration
from osc_placement.migrate.migrations.carry_ratios import CarryRatios
from osc_placement.migrate.migrations.follow import follow
from osc_placement.migrate.migrations.heal_allocations import HealAllocations
from osc_placement.migrate.migrations.mirror_aggregates import MirrorAggregates
from osc_placement.migrate.migrations.move_baremetal import MoveBaremetal
from osc_placement.migrate.nova.notifications import TOPIC, Bell, listening
from osc_placement.migrate.nova.shard import WHOLE
from osc_placement.migrate.output import (
    FAILURES,
    MOST_ROWS,
    REPORT_COLUMNS,
    change_row,
    describe_problems,
    explain,
    problem_row,
    run_or_show,
    show_result,
)
from osc_placement.migrate.problem import Reason
from osc_placement.migrate.runner import Run
from osc_placement.model import canonical_uuid
from osc_placement.terminal.escape import printable
from osc_placement.terminal.tables import format_table

#: seconds between two comparisons of a mirror that follows
INTERVAL: Final = 60.0
_RUN_COLUMNS: Final = ("id", "started", "what", "state", "applied", "failed")


def mirror_aggregates(command: Command) -> int:
    """Run ``placement-migrate aggregates``."""
    options = command.options
    migration = MirrorAggregates(
        hosts=frozenset(options.host),
        aggregates=frozenset(options.aggregate),
        prune=options.prune or options.prune_foreign,
        prune_foreign=options.prune_foreign,
        shard=options.shard,
    )
    if options.follow:
        return _follow(command, migration)
    context, assessment = command.assess(migration)
    run = run_or_show(command, context, assessment)
    return exit_statuses.of_sync(assessment, run) if options.nova_exit_codes else _status(assessment, run)


def _is_progress(outcome: Outcome) -> bool:
    """Return whether the next comparison may differ: a change was made, or placement did not answer."""
    return outcome.result is Result.APPLIED or isinstance(outcome.error, ANSWER_LOST)


def _follow(command: Command, migration: Migration) -> int:
    """Keep on until a signal comes, which is how it is meant to end, or a run stops by itself."""
    contexts: list[Context] = []
    statuses: list[int] = []
    stop, interval = command.execution.stop, command.options.interval or INTERVAL

    def look() -> Assessment:
        context, assessment = command.assess(migration)
        contexts[:] = [context]
        return assessment

    def act(assessment: Assessment) -> int:
        run = run_or_show(command, contexts[0], assessment)
        sys.stdout.flush()
        if run and (run.report.halted or run.report.interrupted) and not stop.is_set():
            statuses.append(run.report.exit_status)
            stop.set()
        return sum(map(_is_progress, run.report.outcomes)) if run else 0

    bell = Bell(stop)
    with suppress(KeyboardInterrupt), _hearing(command, bell):
        follow(look, act, interval=interval, stop=stop, wait=bell.wait)
    return statuses[0] if statuses else EXIT_DONE


def _hearing(command: Command, bell: Bell) -> AbstractContextManager[None]:
    """Let nova's notifications ring the bell, if that is wanted; an empty URL is that of nova.conf."""
    options = command.options
    if options.notifications is None:
        return nullcontext()
    # what the libraries of the message broker have to say, as when it does not answer
    logging.basicConfig(format="placement-migrate: notifications: %(message)s", level=logging.WARNING)
    url = options.notifications or None
    files = () if url else command.settings.find_config_files()
    return listening(bell.ring, url=url, topic=options.notifications_topic or TOPIC, config_files=files)


def heal_allocations(command: Command) -> int:
    """Run ``placement-migrate allocations``: heal, compare again, and say whether that was all."""
    options = command.options
    migration = HealAllocations(_uuids(options.instance), frozenset(options.host), options.shard)
    context, assessment = command.assess(migration)
    run = run_or_show(command, context, assessment)
    judged = EXIT_DONE
    if run and run.id and options.format == "table":
        judged = _conclude(options, lambda: readiness.describe_readiness(command.assess(migration)[1]))
    if options.nova_exit_codes:
        return exit_statuses.of_heal(assessment, run)
    return max(_status(assessment, run), judged)


def _conclude(options: argparse.Namespace, judge: Callable[[], str]) -> int:
    """Print what the second look says; what was done is done, whether or not that look succeeds."""
    try:
        sentence, status = _judge_whole(options, judge), EXIT_DONE
    except FAILURES as error:
        sentence = f"Whether all is ready is unknown, because the second comparison failed: {explain(error)}"
        status = EXIT_UNKNOWN
    print(sentence)
    return status


def _is_whole(options: argparse.Namespace) -> bool:
    narrowing = (getattr(options, name, None) for name in ("host", "instance", "node"))
    return options.shard == WHOLE and not any(narrowing)


def _judge_whole(options: argparse.Namespace, judge: Callable[[], str]) -> str:
    """Return the sentence on the cloud, or that only a part of it was compared."""
    if _is_whole(options):
        return judge()
    return (
        "Only a part was compared: without options that narrow it, such as --host and --shard, this says "
        "whether all is ready."
    )


def show_status(command: Command) -> int:
    """Run ``placement-migrate status``: say whether the caching scheduler can be left."""
    _context, assessment = command.assess(HealAllocations(shard=command.options.shard))
    changes = assessment.plan.changes
    missing = [change.uuid for change in changes if "allocations" in change.facets]
    foreign = [change.uuid for change in changes if "allocations" not in change.facets]
    sentence = _judge_whole(command.options, lambda: readiness.describe_readiness(assessment))
    problems = [problem_row(each) for each in assessment.problems]
    document = {
        "ready": readiness.is_ready(assessment) and _is_whole(command.options),
        "sentence": sentence,
        "missing": missing,
        "foreign": foreign,
        "findings": problems,
        "notes": list(assessment.notes),
    }
    lines = _shorten([f"instance {uuid}: it holds nothing" for uuid in missing])
    lines += _shorten([f"instance {uuid}: what it holds is of another project or user" for uuid in foreign])
    command.show(document, [*lines, *describe_problems(assessment.problems), *assessment.notes, sentence])
    if any(problem.reason is Reason.UNKNOWN for problem in assessment.problems):
        return EXIT_UNKNOWN
    return EXIT_DONE if readiness.is_ready(assessment) else EXIT_PARTIAL


def _shorten(lines: list[str]) -> list[str]:
    """Return the first lines and a count of the rest: with the caching scheduler they are thousands."""
    hidden = len(lines) - MOST_ROWS
    return [*lines[:MOST_ROWS], f"... and {hidden} more, which -f json has"] if hidden > 0 else lines


def audit(command: Command) -> int:
    """Run ``placement-migrate audit``."""
    options = command.options
    context, assessment = command.assess(
        Audit(frozenset(options.resource_provider), options.shard, max_removals=options.max_removals)
    )
    options.dry_run = options.dry_run or not options.delete
    run = run_or_show(command, context, assessment)
    orphans = len(assessment.plan.changes)
    if options.nova_exit_codes:
        return exit_statuses.of_audit(assessment, run)
    status = _status(assessment, run)
    return EXIT_PARTIAL if status == EXIT_DONE and orphans and not options.delete else status


def carry_ratios(command: Command) -> int:
    """Run ``placement-migrate ratios``."""
    options = command.options
    migration = CarryRatios(
        frozenset(options.host), options.conflict, options.shard, options.allow_overcommitted
    )
    context, assessment = command.assess(migration)
    return _status(assessment, run_or_show(command, context, assessment))


def move_baremetal(command: Command) -> int:
    """Run ``placement-migrate baremetal``: move, compare again, and say whether that was all."""
    options = command.options
    migration = MoveBaremetal(frozenset(options.host), _uuids(options.node), options.shard)
    context, assessment = command.assess(migration)
    run = run_or_show(command, context, assessment)
    judged = EXIT_DONE

    def judge() -> str:
        after = command.assess(migration)[1] if run and run.id else assessment
        return readiness.describe_bare_metal(after)

    if options.format == "table":
        judged = _conclude(options, judge)
    return max(_status(assessment, run), judged)


def list_runs(command: Command) -> int:
    """Run ``placement-migrate runs list``."""
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


def show_run(command: Command) -> int:
    """Run ``placement-migrate runs show``."""
    run = journal.read(command.options.run_id, command.execution.directory)
    rows = []
    for uuid, change in run.intents.items():
        ending = run.endings.get(uuid)
        result, error = (str(ending.result), ending.error or ending.note) if ending else ("unknown", "")
        rows.append({**change_row(change), "result": result, "error": error})
    summary = f"Run {run.header.id}, {run.header.edit.title}: {run.state}"
    table = format_table(REPORT_COLUMNS, rows)
    command.show({"id": run.header.id, "state": run.state, "rows": rows}, [table, summary])
    return EXIT_DONE


def resume_run(command: Command) -> int:
    """Run ``placement-migrate runs resume``."""
    run = runner.resume(command.settings.open_client(), command.options.run_id, command.execution)
    show_result(command, run)
    return run.report.exit_status


def undo_run(command: Command) -> int:
    """Run ``placement-migrate runs undo``."""
    options = command.options
    client = command.settings.open_client()
    run = runner.undo(client, options.run_id, command.execution, force=options.force)
    show_result(command, run)
    return run.report.exit_status


def _uuids(names: Iterable[str]) -> frozenset[str]:
    return frozenset(map(canonical_uuid, names))


def _status(assessment: Assessment, run: Run | None) -> int:
    return exit_status(assessment.problems, run.report if run else None)
