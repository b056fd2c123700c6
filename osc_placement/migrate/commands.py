# SPDX-License-Identifier: Apache-2.0
"""The commands of ``placement-migrate``: a migration made of options, run, and its result printed."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from osc_placement.batch import journal
from osc_placement.batch.plan import EXIT_DONE, EXIT_PARTIAL, Plan, Result
from osc_placement.errors import Conflict
from osc_placement.migrate import readiness, registry, runner, tables
from osc_placement.migrate.audit import Audit
from osc_placement.migrate.base import (
    EXIT_UNKNOWN,
    Assessment,
    Context,
    Finding,
    Migration,
    Trouble,
    exit_status,
)
from osc_placement.migrate.carry_ratios import CarryRatios
from osc_placement.migrate.follow import follow
from osc_placement.migrate.heal_allocations import HealAllocations
from osc_placement.migrate.mirror_aggregates import MirrorAggregates
from osc_placement.migrate.move_baremetal import MoveBaremetal
from osc_placement.migrate.notifications import Bell, listening
from osc_placement.migrate.progress import Progress
from osc_placement.migrate.runner import Execution, Run
from osc_placement.migrate.settings import Settings
from osc_placement.migrate.shard import WHOLE

Item = TypeVar("Item")
EXIT_NOTHING_DONE: Final = 1
_MOST_ROWS: Final = 1000
#: of `nova-manage placement sync_aggregates`, in the order in which it prefers them
_NOVA_SYNC: Final[Mapping[Trouble, int]] = {
    Trouble.NO_PROVIDER: 6,
    Trouble.NO_COMPUTE_NODE: 5,
    Trouble.UNMAPPED_HOST: 4,
    Trouble.UNKNOWN: 255,
}
_NOVA_CONFLICT: Final = 2
_NOVA_REFUSED: Final = 3


@dataclass(frozen=True)
class Command:
    """What a command needs to run: whom to ask, how to write, and its options."""

    settings: Settings
    execution: Execution
    options: argparse.Namespace

    def assess(self, migration: Migration) -> tuple[Context, Assessment]:
        """Compare nova with placement."""
        client = self.settings.open_client()
        source = self.settings.open_source()
        try:
            concurrency = self.execution.concurrency
            context = Context(source, client, concurrency, self.settings.open_ironic)
            return context, migration.assess(context)
        finally:
            source.close()

    def show(self, document: Mapping[str, Any], text: Sequence[str]) -> None:
        """Print the document, or the text that says the same to people."""
        if self.options.format == "json":
            print(tables.format_json(document))
            return
        for line in filter(None, text):
            print(line)


def failure_status(options: argparse.Namespace) -> int:
    """What a command ends with that did nothing, because it could not begin."""
    if getattr(options, "nova_exit_codes", False):
        return int(options.nova_failure)
    return EXIT_NOTHING_DONE


def mirror_aggregates(command: Command) -> int:
    """``placement-migrate aggregates``."""
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
    return _nova_sync_status(assessment, run) if options.nova_exit_codes else _status(assessment, run)


def _follow(command: Command, migration: Migration) -> int:
    """Keep on until a signal comes, which is how it is meant to end."""
    contexts: list[Context] = []

    def look() -> Assessment:
        context, assessment = command.assess(migration)
        contexts[:] = [context]
        return assessment

    def act(assessment: Assessment) -> None:
        run_or_show(command, contexts[0], assessment)
        sys.stdout.flush()

    stop, interval = command.execution.stop, command.options.interval
    bell = Bell(stop)
    with _hearing(command, bell):
        follow(look, act, interval=interval, stop=stop, wait=bell.wait)
    return EXIT_DONE


def _hearing(command: Command, bell: Bell) -> AbstractContextManager[None]:
    """Let nova's notifications ring the bell, if that is wanted; an empty URL is that of nova.conf."""
    options = command.options
    if options.notifications is None:
        return nullcontext()
    # what the libraries of the message broker have to say, as when it does not answer
    logging.basicConfig(format="placement-migrate: notifications: %(message)s", level=logging.WARNING)
    url = options.notifications or None
    files = () if url else command.settings.find_config_files()
    return listening(bell.ring, url=url, topic=options.notifications_topic, config_files=files)


def heal_allocations(command: Command) -> int:
    """``placement-migrate allocations``: heal, look again, and say whether it is enough."""
    options = command.options
    migration = HealAllocations(frozenset(options.instance), frozenset(options.host), options.shard)
    context, assessment = command.assess(migration)
    run = run_or_show(command, context, assessment)
    if run is None:
        return _status(assessment, run)
    if run.id and options.format == "table":
        print(_judge_whole(options, lambda: readiness.describe_readiness(command.assess(migration)[1])))
    return _nova_heal_status(assessment, run) if options.nova_exit_codes else _status(assessment, run)


def _is_whole(options: argparse.Namespace) -> bool:
    narrowing = (getattr(options, name, None) for name in ("host", "instance", "node"))
    return options.shard == WHOLE and not any(narrowing)


def _judge_whole(options: argparse.Namespace, judge: Callable[[], str]) -> str:
    """What is to be said of the cloud; of a part of it, nobody may conclude anything for the rest."""
    if _is_whole(options):
        return judge()
    return "Only a part was looked at: without --host, --shard and the like, this says whether all is ready."


def show_status(command: Command) -> int:
    """``placement-migrate status``: whether the caching scheduler can be left."""
    _context, assessment = command.assess(HealAllocations(shard=command.options.shard))
    changes = assessment.plan.changes
    missing = [change.uuid for change in changes if "allocations" in change.facets]
    foreign = [change.uuid for change in changes if "allocations" not in change.facets]
    sentence = _judge_whole(command.options, lambda: readiness.describe_readiness(assessment))
    findings = [tables.finding_row(each) for each in assessment.findings]
    document = {
        "ready": readiness.is_ready(assessment) and _is_whole(command.options),
        "sentence": sentence,
        "missing": missing,
        "foreign": foreign,
        "findings": findings,
        "notes": list(assessment.notes),
    }
    lines = [f"instance {uuid}: it holds nothing" for uuid in missing]
    lines += [f"instance {uuid}: what it holds is of another project or user" for uuid in foreign]
    command.show(document, [*lines, *map(str, assessment.findings), *assessment.notes, sentence])
    if any(finding.trouble is Trouble.UNKNOWN for finding in assessment.findings):
        return EXIT_UNKNOWN
    return EXIT_DONE if readiness.is_ready(assessment) else EXIT_PARTIAL


def audit(command: Command) -> int:
    """``placement-migrate audit``."""
    options = command.options
    context, assessment = command.assess(Audit(frozenset(options.resource_provider)))
    options.dry_run = options.dry_run or not options.delete
    run = run_or_show(command, context, assessment)
    orphans = len(assessment.plan.changes)
    if options.nova_exit_codes:
        return _nova_audit_status(orphans, run)
    status = _status(assessment, run)
    return EXIT_PARTIAL if status == EXIT_DONE and orphans and not options.delete else status


def _nova_audit_status(orphans: int, run: Run | None) -> int:
    """Of `nova-manage placement audit`: 0 no orphans, 3 found, 4 all deleted, 1 failed."""
    if not orphans:
        return EXIT_DONE
    if run is None:
        return 3
    return 1 if run.report.counts[Result.FAILED] or run.left else 4


def carry_ratios(command: Command) -> int:
    """``placement-migrate ratios``."""
    options = command.options
    migration = CarryRatios(frozenset(options.host), options.conflict, options.shard)
    context, assessment = command.assess(migration)
    return _status(assessment, run_or_show(command, context, assessment))


def move_baremetal(command: Command) -> int:
    """``placement-migrate baremetal``: move, look again, and say whether it is enough."""
    options = command.options
    migration = MoveBaremetal(frozenset(options.host), frozenset(options.node), options.shard)
    context, assessment = command.assess(migration)
    run = run_or_show(command, context, assessment)
    if options.format == "table":
        after = command.assess(migration)[1] if run and run.id else assessment
        print(_judge_whole(options, lambda: readiness.describe_bare_metal(after)))
    return _status(assessment, run)


def run_all(command: Command) -> int:
    """``placement-migrate online_data_migrations``: all of them in order, with nova-manage's table."""
    left_to_do = command.options.max_count
    rows, findings, is_more, is_failed = [], [], False, False
    for migration in registry.ALL:
        context, assessment = command.assess(migration)
        execution = replace(command.execution, max_count=left_to_do)
        run = _carry_out(context, assessment, execution)
        done = run.report.counts[Result.APPLIED]
        left_to_do = None if left_to_do is None else left_to_do - done
        is_more = is_more or bool(run.left) or run.report.interrupted
        is_failed = is_failed or bool(run.report.counts[Result.FAILED] or assessment.findings)
        findings += [tables.finding_row(each) for each in assessment.findings]
        needed = len(assessment.plan.changes) + len(assessment.findings)
        rows.append({"Migration": migration.name, "Total Needed": needed, "Completed": done})
    lines = [f"Left alone: {row['subject']}: {row['text']}" for row in findings]
    command.show(
        {"migrations": rows, "findings": findings},
        [*lines, tables.format_table(("Migration", "Total Needed", "Completed"), rows)],
    )
    return _MORE if is_more else _SOME_FAILED if is_failed else EXIT_DONE


#: of online_data_migrations, as those of nova-manage
_MORE: Final = 1
_SOME_FAILED: Final = 2


def run_or_show(command: Command, context: Context, assessment: Assessment) -> Run | None:
    """Carry the plan out, or show it; None if it was only shown."""
    if command.options.dry_run:
        plan, left = runner.limit(assessment.plan, command.execution.max_count)
        rows, hidden = _make_rows(command, plan.changes, tables.change_row)
        facts = [f"{len(plan.changes)} to change", *_count_rest(plan, assessment.findings, left)]
        summary = [*hidden, f"{plan.edit.title}: {', '.join(facts)}"]
        _show(command, tables.PLAN_COLUMNS, rows, assessment, summary)
        return None
    run = _carry_out(context, assessment, command.execution)
    _show_run(command, run, assessment)
    return run


def _carry_out(context: Context, assessment: Assessment, execution: Execution) -> Run:
    plan, _ = runner.limit(assessment.plan, execution.max_count)
    with Progress(plan.edit.title, len(plan.changes), sys.stderr) as progress:
        return runner.carry_out(context.client, assessment, execution, progress.advance)


def _show_run(command: Command, run: Run, assessment: Assessment | None = None) -> None:
    assessment = assessment or Assessment(run.report.plan)
    outcomes = [each for each in run.report.outcomes if each.result is not Result.UNCHANGED]
    rows, hidden = _make_rows(command, outcomes, tables.outcome_row)
    counts = run.report.counts
    facts = [f"{counts[each]} {each}" for each in Result if counts[each] and each is not Result.UNCHANGED]
    facts += _count_rest(run.report.plan, assessment.findings, run.left)
    told = f"{run.report.plan.edit.title}: {', '.join(facts) or 'nothing to do'}"
    summary = [*hidden, told, run.report.halted]
    if run.id:
        summary.append(f"Run {run.id}; undo it with: placement-migrate runs undo {run.id}")
    _show(command, tables.REPORT_COLUMNS, rows, assessment, summary, run=run.id, left=run.left)


def _make_rows(
    command: Command, items: Sequence[Item], make: Callable[[Item], tables.Row]
) -> tuple[list[tables.Row], list[str]]:
    """The rows to print, and a line on those that are too many for a table.

    PERF: a table of 100,000 rows takes 100 MiB and seconds, and nobody reads it.
    """
    shown = items if command.options.format == "json" else items[:_MOST_ROWS]
    hidden = len(items) - len(shown)
    more = [f"... and {hidden} more rows, which -f json has"] if hidden else []
    return [make(item) for item in shown], more


def _count_rest(plan: Plan, findings: Sequence[Finding], left: int) -> list[str]:
    """What is neither changed nor to be changed, in words."""
    facts = (
        (len(plan.unchanged), "as wanted already"),
        (len(findings), "left alone"),
        (left, "for later runs"),
    )
    return [f"{number} {words}" for number, words in facts if number]


def _show(
    command: Command,
    columns: Sequence[str],
    rows: Sequence[tables.Row],
    assessment: Assessment,
    summary: Sequence[str],
    **more: object,
) -> None:
    findings = assessment.findings
    document = {"rows": rows, "findings": [tables.finding_row(each) for each in findings], **more}
    lines = [f"Left alone: {finding}" for finding in findings]
    command.show(document, [tables.format_table(columns, rows, assessment.names), *lines, *summary])


def _status(assessment: Assessment, run: Run | None) -> int:
    return exit_status(assessment.findings, run.report if run else None)


def _nova_sync_status(assessment: Assessment, run: Run | None) -> int:
    errors = [outcome.error for outcome in run.report.outcomes if outcome.error] if run else []
    if errors:
        return _NOVA_CONFLICT if isinstance(errors[0], Conflict) else _NOVA_REFUSED
    troubles = {finding.trouble for finding in assessment.findings}
    return next((code for trouble, code in _NOVA_SYNC.items() if trouble in troubles), EXIT_DONE)


def _nova_heal_status(assessment: Assessment, run: Run) -> int:
    """Of `nova-manage placement heal_allocations`."""
    if run.report.counts[Result.FAILED]:
        return 3
    if any(finding.trouble is Trouble.NO_COMPUTE_NODE for finding in assessment.findings):
        return 2
    if any(finding.trouble in _NOVA_HEAL_FAILS for finding in assessment.findings):
        return 3
    if run.left:
        return 1
    return EXIT_DONE if run.id else 4


#: what is left alone here, and ends a run of nova-manage
_NOVA_HEAL_FAILS: Final = (
    Trouble.UNKNOWN,
    Trouble.NO_PROVIDER,
    Trouble.NO_INVENTORY,
    Trouble.NO_CLAIM,
    Trouble.OVER_CAPACITY,
    Trouble.AMBIGUOUS,
)


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
    command.show({"runs": rows}, [tables.format_table(_RUN_COLUMNS, rows) or "There are no runs."])
    for line in damaged:
        print(f"placement-migrate: {line}", file=sys.stderr)
    return EXIT_DONE


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
    table = tables.format_table(tables.REPORT_COLUMNS, rows)
    command.show({"id": run.header.id, "state": run.state, "rows": rows}, [table, summary])
    return EXIT_DONE


def resume_run(command: Command) -> int:
    """``placement-migrate runs resume``."""
    run = runner.resume(command.settings.open_client(), command.options.run_id, command.execution)
    _show_run(command, run)
    return run.report.exit_status


def undo_run(command: Command) -> int:
    """``placement-migrate runs undo``."""
    options = command.options
    client = command.settings.open_client()
    run = runner.undo(client, options.run_id, command.execution, force=options.force)
    _show_run(command, run)
    return run.report.exit_status
