# SPDX-License-Identifier: Apache-2.0
"""The commands of ``placement-migrate``: compare nova with placement, show or change what differs.

A command takes a `Command` and returns its exit status. ``online_data_migrations`` runs the migrations in
order, with nova-manage's table and statuses; it stores no progress:
doc/source/admin/leaving-caching-scheduler.rst says why.
"""

from __future__ import annotations

import argparse
import json
import logging
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout, suppress
from dataclasses import dataclass, field, replace
from typing import Final, TextIO, TypeVar

from osc_placement import batch
from osc_placement.batch import (
    ALL_FACETS,
    EXIT_DONE,
    EXIT_INTERRUPTED,
    EXIT_PARTIAL,
    Job,
    Outcome,
    Plan,
    Recorded,
    Result,
)
from osc_placement.errors import ANSWER_LOST, PlacementError, UsageError, one_line
from osc_placement.migrate import exit_statuses, readiness, repair, runner
from osc_placement.migrate.exit_statuses import EXIT_UNKNOWN, exit_status
from osc_placement.migrate.granting import plan_grants, write_grants
from osc_placement.migrate.migrations import decommission
from osc_placement.migrate.migrations.audit import Audit
from osc_placement.migrate.migrations.base import Assessment, Context, Migration
from osc_placement.migrate.migrations.carry_ratios import CarryRatios
from osc_placement.migrate.migrations.flavors import Flavors
from osc_placement.migrate.migrations.follow import follow
from osc_placement.migrate.migrations.heal_allocations import HealAllocations
from osc_placement.migrate.migrations.mirror_aggregates import MirrorAggregates
from osc_placement.migrate.migrations.move_baremetal import MoveBaremetal
from osc_placement.migrate.migrations.providers import TITLE as PROVIDERS
from osc_placement.migrate.migrations.providers import Providers, Survey
from osc_placement.migrate.nova.notifications import TOPIC, Bell, listening
from osc_placement.migrate.nova.settings import Settings
from osc_placement.migrate.nova.shard import WHOLE
from osc_placement.migrate.nova.source import Opening
from osc_placement.migrate.output import (
    FAILURES,
    LEFT_ALONE,
    REPORT_COLUMNS,
    Document,
    Medium,
    decommission_to_json,
    describe_decommission,
    describe_failure,
    describe_flavors,
    describe_next,
    describe_plan,
    describe_problems,
    describe_repairs,
    describe_run,
    describe_runs,
    describe_status,
    describe_survey,
    explain,
    flavors_to_json,
    outcome_row,
    plan_to_json,
    problem_row,
    recorded_row,
    run_to_json,
    status_to_json,
    survey_to_json,
)
from osc_placement.migrate.problem import Problem, Reason
from osc_placement.migrate.runner import Execution, Run
from osc_placement.model import canonical_uuid
from osc_placement.report.changes import SEE_ALL, Page, rows_of_run
from osc_placement.report.runs import (
    LIST_COLUMNS,
    NO_FAILURES,
    NextCommands,
    describe_left,
    describe_no_runs,
    describe_resume,
    hint_at_other_clouds,
    name_next_commands,
    read_chosen,
    read_list,
    tell_redo,
    telling_list,
)
from osc_placement.report.runs import delete_runs as delete_journals
from osc_placement.report.runs import describe_run as describe_journal
from osc_placement.report.summary import ask
from osc_placement.terminal.confirmation import confirm, is_attended, name_cloud
from osc_placement.terminal.escape import printable, printable_lines
from osc_placement.terminal.lines import capitalize
from osc_placement.terminal.live import watch_command
from osc_placement.terminal.progress import ProgressBar
from osc_placement.terminal.screen import screen_of, tell, wrap_for
from osc_placement.terminal.tables import format_table

#: seconds between two comparisons of a mirror that follows
INTERVAL: Final = 60.0
_RUN: Final = "placement-migrate run"
#: the result of a comparison
Compared = TypeVar("Compared")
_MIGRATION_COLUMNS: Final = ("Migration", "Total Needed", "Completed")
#: lines of a terminal for the sentence of ``status``
_KEPT_FOR_SENTENCE: Final = 6
#: lines of a terminal for the runs of ``online_data_migrations``, the commands that can follow, and the table
_KEPT_FOR_RUNS: Final = 30
#: the statuses of nova-manage's online_data_migrations
_MORE: Final = 1
_SOME_FAILED: Final = 2


@dataclass(frozen=True)
class Command:
    """One command with its settings, execution and options."""

    settings: Settings
    execution: Execution
    options: argparse.Namespace

    @property
    def is_json(self) -> bool:
        """Return whether the output is for programs."""
        return bool(self.options.format == "json")

    def assess(self, migration: Migration) -> tuple[Context, Assessment]:
        """Compare nova with placement."""
        return self.compare(migration.assess)

    def compare(self, assess: Callable[[Context], Compared]) -> tuple[Context, Compared]:
        """Call a comparison with the services that it reads, and close these."""
        client = self.settings.open_client()
        opening = Opening(self.settings.open_source)
        try:
            settings = self.settings
            context = Context(
                opening,
                client,
                self.execution.concurrency,
                settings.open_ironic,
                settings.open_neutron,
                settings.open_glance,
                settings.read_scheduler_options,
                settings.names_neutron,
            )
            return context, assess(context)
        finally:
            opening.close()

    @property
    def medium(self) -> Medium:
        """Return where text is printed."""
        width = screen_of(sys.stdout).width if sys.stdout is not None else None
        return Medium(width, self.options.long)

    def identify_cloud(self) -> str:
        """Return the address of placement, as journals have it."""
        return batch.identify_server(self.settings.open_client().endpoint)

    def run_or_show(self, context: Context, assessment: Assessment) -> Run | None:
        """Carry the plan out and print the result; with ``--dry-run`` print the plan and return None."""
        if self.options.dry_run:
            plan, left = runner.limit(assessment.plan, self.execution.max_count)
            self.show(
                lambda: plan_to_json(assessment, plan),
                lambda: describe_plan(assessment, plan, left, self.medium),
            )
            return None
        run = self.carry_out(context, assessment, self.execution)
        self.show_result(run, assessment)
        return run

    def carry_out(self, context: Context, assessment: Assessment, execution: Execution) -> Run:
        """Carry the plan out, with its progress on standard error."""
        plan, _ = runner.limit(assessment.plan, execution.max_count)
        with ProgressBar(plan.edit.title, len(plan.changes), sys.stderr) as progress:
            return runner.carry_out(context.client, assessment, execution, progress.advance)

    def heal(self, context: Context, assessment: Assessment, execution: Execution) -> tuple[Run, Assessment]:
        """Carry the plan out, then write the binding profiles of ports that it names."""
        run = self.carry_out(context, assessment, execution)
        return run, write_grants(context, assessment, run, execution)

    def show_result(self, run: Run, assessment: Assessment | None = None, page: Page | None = None) -> None:
        """Print the result of a run; ``page`` has its plan already."""
        known = assessment or Assessment(run.report.plan)
        following = self.name_next(run)
        left = "" if following else describe_left(run.report, run.undoes, self.run_with_access)

        def describe() -> list[str]:
            lines = describe_run(run, known, following, self.medium, page)
            return lines + (wrap_for(sys.stdout, capitalize(left)) if left else [])

        self.show(lambda: run_to_json(run, known), describe)

    def name_next(self, run: Run, title: str = "") -> NextCommands | None:
        """Return the commands that can follow a run, ready to be pasted; None if nothing was written."""
        if run.id is None:
            return None
        return name_next_commands(
            run.id,
            run.report,
            _RUN,
            self.run_with_access,
            can_be_undone=run.can_be_undone,
            title=title,
            undoes=run.undoes,
        )

    @property
    def run_with_access(self) -> str:
        """Return the words before the verb of a command on runs that writes to placement."""
        return shlex.join(["placement-migrate", *self.settings.placement_options, "run"])

    def show(self, document: Callable[[], Document], text: Callable[[], Sequence[str]]) -> None:
        """Print the document, or the text that says the same to people, nothing of which moves a cursor."""
        if self.is_json:
            print(json.dumps(document(), indent=2))
        else:
            for line in text():
                print(printable_lines(line))
        print(end="", flush=True)
        self.execution.untold.clear()


def watch(command: Command) -> int:
    """Show what a command prints on the whole terminal, again and again until Ctrl-C."""
    options, stdout = command.options, sys.stdout
    title = " ".join(filter(None, (options.title, getattr(options, "run", ""))))

    def act(shown: TextIO, _height: int) -> None:
        with redirect_stdout(shown):
            options.act(command)

    watch_command(stdout, options.watch, title, act, FAILURES)
    return EXIT_DONE


def mirror_aggregates(command: Command) -> int:
    """Run ``placement-migrate mirror-aggregates``."""
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
    run = command.run_or_show(context, assessment)
    return exit_statuses.of_sync(assessment, run) if options.nova_exit_codes else _status(assessment, run)


def is_progress(outcome: Outcome) -> bool:
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
        try:
            run = command.run_or_show(contexts[0], assessment)
        except FAILURES:
            # follow() prints it, and goes on
            command.execution.untold.clear()
            raise
        if run and (run.report.halted or run.report.interrupted) and not stop.is_set():
            statuses.append(run.report.exit_status)
            stop.set()
        return sum(map(is_progress, run.report.outcomes)) if run else 0

    bell, options = Bell(stop), command.options
    hearing: AbstractContextManager[None] = nullcontext()
    if options.notifications is not None:
        # print what the libraries of the message broker report, such as that it does not answer
        logging.basicConfig(format="placement-migrate: notifications: %(message)s", level=logging.WARNING)
        # an empty URL stands for that of nova.conf
        url = options.notifications or None
        files = () if url else command.settings.find_config_files()
        topic = options.notifications_topic or TOPIC
        hearing = listening(bell.ring, url=url, topic=topic, config_files=files)
    with suppress(KeyboardInterrupt), hearing:
        follow(look, act, interval=interval, stop=stop, wait=bell.wait)
    return statuses[0] if statuses else EXIT_DONE


def heal_allocations(command: Command) -> int:
    """Run ``placement-migrate heal-allocations``: heal, compare again, and say whether that was all."""
    options = command.options
    migration = HealAllocations(
        _uuids(options.instance),
        frozenset(options.host),
        options.shard,
        skips_ports=options.skip_port_allocations,
        forces=options.force,
        cells=frozenset(options.cell),
    )
    context, assessment = command.assess(migration)
    run = None
    is_judged = False
    if options.dry_run:
        assessment = plan_grants(context, assessment, command.execution.max_count)
        command.run_or_show(context, assessment)
    else:
        run, assessment = command.heal(context, assessment, command.execution)
        stop = command.execution.stop
        is_judged = bool(run.id or assessment.written) and options.format == "table" and not stop.is_set()
        # the sentence below says what was skipped
        command.show_result(run, replace(assessment, skipped="") if is_judged else assessment)
        if stop.is_set():
            return EXIT_INTERRUPTED
    judged = EXIT_DONE
    if is_judged:
        again = replace(migration, forces=False)
        judged = _conclude(options, lambda: readiness.describe_healing(command.assess(again)[1]))
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
    narrowing = (getattr(options, name, None) for name in ("host", "instance", "cell", "node"))
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
    options = command.options
    migration = HealAllocations(
        shard=options.shard, skips_ports=options.skip_port_allocations, judges_all=True
    )
    _context, assessment = command.assess(migration)
    sentence = _judge_whole(options, lambda: readiness.describe_readiness(assessment))
    ready = readiness.is_ready(assessment) and _is_whole(options)
    page = command.medium.open_page(kept=_KEPT_FOR_SENTENCE)
    command.show(
        lambda: status_to_json(assessment, sentence, ready=ready),
        lambda: [*describe_status(assessment, page), sentence],
    )
    if any(problem.reason is Reason.UNKNOWN for problem in assessment.problems):
        return EXIT_UNKNOWN
    return EXIT_DONE if readiness.is_ready(assessment) else EXIT_PARTIAL


def audit(command: Command) -> int:
    """Run ``placement-migrate audit``."""
    options = command.options
    migration = Audit(
        frozenset(options.resource_provider),
        options.shard,
        options.max_removals,
        skips_ports=options.skip_port_allocations,
        stuck_after=options.stuck_after,
    )
    context, assessment = command.assess(migration)
    options.dry_run = options.dry_run or not options.delete
    run = command.run_or_show(context, assessment)
    orphans = len(assessment.plan.changes)
    if options.nova_exit_codes:
        return exit_statuses.of_audit(assessment, run)
    status = _status(assessment, run)
    return EXIT_PARTIAL if status == EXIT_DONE and orphans and not options.delete else status


def providers(command: Command) -> int:
    """Run ``placement-migrate providers``: show, replace and delete providers without a compute node."""
    options = command.options
    is_shown = options.dry_run or not (options.repair or options.delete)
    if not is_shown:
        _require_databases(command, "--repair and --delete")
    comparison = Providers(frozenset(options.resource_provider), options.max_removals, options.shard)
    context, survey = command.compare(comparison.assess)
    if is_shown:
        plan, medium = _plan_of(survey), command.medium
        page = medium.open_page(survey.deletions.names)
        command.show(
            lambda: survey_to_json(survey, plan),
            lambda: [
                *describe_survey(survey, page),
                *describe_plan(Assessment(plan), plan, 0, medium, page),
            ],
        )
        found = survey.repairs or survey.deletions.plan.changes
        status = _status(survey.deletions, None)
        return EXIT_PARTIAL if status == EXIT_DONE and found and not options.dry_run else status
    if options.delete and survey.deletions.refusal:
        raise PlacementError(f"nothing was done: {survey.deletions.refusal}")
    done = _replace_and_delete(command, context, survey)
    page = command.medium.open_page(survey.deletions.names)
    runs, halted = done.runs, f"stopped: {explain(done.halted)}" if done.halted else ""
    outcomes = [each for run in runs for each in run.report.outcomes if each.result is not Result.UNCHANGED]
    command.show(
        lambda: {
            **survey_to_json(survey, _plan_of(survey)),
            "rows": [outcome_row(each) for each in outcomes],
            "runs": [run.id for run in runs],
            "failures": [
                {"provider": name, "text": describe_failure(each)} for name, each in done.failures.items()
            ],
            "not_tried": done.not_tried,
            "halted": halted,
        },
        lambda: [
            *describe_survey(survey, page),
            *describe_runs(runs, list(map(command.name_next, runs)), command.medium, page),
            *describe_repairs(done, halted),
        ],
    )
    if command.execution.stop.is_set() or any(run.report.interrupted for run in runs):
        return EXIT_INTERRUPTED
    left = (
        done.not_tried
        or (survey.repairs and not options.repair)
        or (survey.deletions.plan.changes and not options.delete)
    )
    is_whole = not (halted or done.failures or left or any(run.report.is_failed for run in runs))
    status = _status(survey.deletions, None)
    return status if status != EXIT_DONE or is_whole else EXIT_PARTIAL


def _plan_of(survey: Survey) -> Plan:
    """Return all that would be changed, as a plan to be shown."""
    changes = tuple(change for each in survey.repairs for change in each.changes)
    deletions = survey.deletions.plan
    return replace(deletions, edit=Recorded(PROVIDERS, ALL_FACETS), steps=(*changes, *deletions.steps))


def _replace_and_delete(command: Command, context: Context, survey: Survey) -> repair.Repaired:
    """Write what is planned, one provider after the other.

    An error that concerns all is raised if nothing was done before it.
    """
    client, execution, deletions = context.client, command.execution, survey.deletions.plan
    repairs = survey.repairs if command.options.repair else ()
    chosen = repairs[: execution.max_count]

    access = repair.Access(
        client,
        command.settings.open_source,
        lambda job: runner.run_job(client, job, execution),
        lambda: _pause(execution),
        execution.stop,
        FAILURES,
    )
    done = repair.carry_out(access, chosen, execution.max_failures)
    if done.halted and not (done.runs or done.failures):
        raise done.halted
    done.not_tried += len(repairs) - len(chosen)
    if not (command.options.delete and deletions.changes):
        return done
    if done.runs and not done.halted:
        _pause(execution)
    if done.halted or execution.stop.is_set():
        done.not_tried += len(deletions.changes)
        return done
    try:
        done.runs.append(runner.run_job(client, Job(deletions), execution))
    except FAILURES as error:
        if not (done.runs or done.failures):
            raise
        done.halted = error
    return done


def decommission_host(command: Command) -> int:
    """Run ``placement-migrate decommission``: show what holds a host, free it, or delete its providers."""
    options = command.options
    is_shown = options.dry_run or not (options.free or options.delete)
    if options.delete and not is_shown:
        _require_databases(command, "--delete")

    def look() -> tuple[Context, decommission.Decommission]:
        return command.compare(lambda context: decommission.assess(context, options.host, frees=options.free))

    context, found = look()
    if options.free and found.is_up:
        raise PlacementError(
            f"nothing was done: nova-compute of host {found.host} is up; stop it first, and if nova does not "
            f"notice, tell it: openstack compute service set --down {shlex.quote(found.host)} nova-compute; "
            "placement-migrate audit --delete removes orphans of a host that is up"
        )
    freeing = found.freeing.steps if options.free or not options.delete else ()
    deleting = found.plan.steps if options.delete or not options.free else ()
    plan = replace(found.plan, steps=(*freeing, *deleting))
    runs, halted = list[Run](), ""
    if plan.changes and not is_shown:
        _confirm_plan(command, plan, found.names)
        runs, found, halted = _free_and_delete(command, context, found, look)
    page = command.medium.open_page(found.names)
    command.show(
        lambda: decommission_to_json(found, plan, runs, halted),
        lambda: [
            *describe_decommission(found, plan, command.medium, page, is_done=bool(runs)),
            *describe_runs(runs, list(map(command.name_next, runs)), command.medium, page),
            *filter(None, [halted]),
        ],
    )
    if runs and command.execution.stop.is_set():
        return EXIT_INTERRUPTED
    failed = [run.report for run in runs if run.report.exit_status]
    status = exit_status(found.problems, failed[0] if failed else None)
    left = plan.changes if is_shown else found.plan.changes if not options.delete else ()
    is_left = found.holds or halted or (left and not options.dry_run)
    return EXIT_PARTIAL if status == EXIT_DONE and is_left else status


def _free_and_delete(
    command: Command,
    context: Context,
    found: decommission.Decommission,
    look: Callable[[], tuple[Context, decommission.Decommission]],
) -> tuple[list[Run], decommission.Decommission, str]:
    """Remove the orphaned allocations of a host, look again, and delete its providers, as the options say.

    Return the runs, the host as it was before the last, and why what follows was not tried; empty if it was.
    No provider is deleted that was not shown.
    """
    client, execution, options = context.client, command.execution, command.options
    runs = list[Run]()
    if options.free and found.freeing.changes:
        shown = {change.uuid for change in found.plan.changes}
        runs = [runner.run_job(client, Job(found.freeing), execution)]
        try:
            _, found = look()
        except FAILURES as error:
            return runs, found, f"stopped: {explain(error)}"
        if runs[0].report.exit_status or not shown.issuperset(each.uuid for each in found.plan.changes):
            return runs, found, ""
        _pause(execution)
    if options.delete and found.plan.changes and not execution.stop.is_set():
        runs.append(runner.run_job(client, Job(found.plan), execution))
    return runs, found, ""


def _pause(execution: Execution) -> None:
    """Wait between two runs: each has a rate of its own, which its first write need not wait for."""
    execution.stop.wait(1 / execution.rate if execution.rate else 0)


def flavors(command: Command) -> int:
    """Run ``placement-migrate flavors``: show what flavors ask for in vain, or create the names they lack."""
    options = command.options
    if options.no_nova_filters and options.nova_filter:
        raise UsageError("--no-nova-filters cannot be used with --nova-filter")
    comparison = Flavors(
        frozenset(options.flavor),
        frozenset(options.name),
        options.max_unused,
        applies_filters=not options.no_nova_filters,
        forced_filters=frozenset(options.nova_filter),
    )
    context, survey = command.compare(comparison.assess)
    assessment = survey.assessment
    plan, left = runner.limit(assessment.plan, command.execution.max_count)
    runs = list[Run]()
    if options.create and plan.changes and not options.dry_run:
        with ProgressBar(plan.edit.title, len(plan.changes), sys.stderr) as progress:
            job, advance = Job(plan), progress.advance
            runs = [replace(runner.run_job(context.client, job, command.execution, advance), left=left)]
    page = command.medium.open_page()
    command.show(
        lambda: flavors_to_json(survey, plan, runs),
        lambda: [
            *describe_flavors(survey, plan, left, command.medium, page, is_created=bool(runs)),
            *describe_runs(runs, list(map(command.name_next, runs)), command.medium, page),
        ],
    )
    status = _status(assessment, runs[0] if runs else None)
    is_left = left or (plan.changes and not runs and not options.dry_run)
    return EXIT_PARTIAL if status == EXIT_DONE and is_left else status


def _require_databases(command: Command, options: str) -> None:
    """Raise UsageError if nova's facts come from its API."""
    if command.settings.source == "api":
        raise UsageError(f"Nova's API does not show deleted compute nodes; use --source db with {options}")


def carry_ratios(command: Command) -> int:
    """Run ``placement-migrate carry-ratios``."""
    options = command.options
    migration = CarryRatios(
        frozenset(options.host), options.conflict, options.shard, options.allow_overcommitted
    )
    context, assessment = command.assess(migration)
    return _status(assessment, command.run_or_show(context, assessment))


def move_baremetal(command: Command) -> int:
    """Run ``placement-migrate move-baremetal``: move, compare again, and say whether that was all."""
    options = command.options
    migration = MoveBaremetal(frozenset(options.host), _uuids(options.node), options.shard)
    context, assessment = command.assess(migration)
    run = command.run_or_show(context, assessment)
    if command.execution.stop.is_set():
        return EXIT_INTERRUPTED
    judged = EXIT_DONE

    def judge() -> str:
        after = command.assess(migration)[1] if run and run.id else assessment
        return readiness.describe_bare_metal(after)

    if options.format == "table":
        judged = _conclude(options, judge)
    return max(_status(assessment, run), judged)


@dataclass
class Tally:
    """The results of the migrations so far."""

    rows: list[Document] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    errors: list[Document] = field(default_factory=list)
    runs: list[tuple[str, Run]] = field(default_factory=list)
    halted: str = ""
    is_more: bool = False
    is_failed: bool = False
    is_interrupted: bool = False
    is_broken: bool = False

    def add(self, name: str, assessment: Assessment, run: Run) -> int:
        """Add the result of a migration; return the number of changes that were made."""
        done = run.report.counts[Result.APPLIED]
        needed = len(assessment.plan.changes) + len(assessment.problems)
        self.rows.append(dict(zip(_MIGRATION_COLUMNS, (name, needed, done), strict=True)))
        self.problems += assessment.problems
        for outcome in run.report.outcomes:
            if outcome.error:
                subject, error = outcome.change.subject, one_line(outcome.error)
                self.errors.append(
                    {"migration": name, "uuid": subject.uuid, "name": subject.name, "error": error}
                )
        self.halted = self.halted or run.report.halted
        if run.id:
            self.runs.append((name, run))
        later = [each for each in assessment.problems if each.reason is Reason.LATER]
        self.is_more = self.is_more or bool(run.left or later)
        self.is_failed = self.is_failed or run.report.is_failed or bool(assessment.problems)
        return done

    @property
    def status(self) -> int:
        """Return the exit status of the command."""
        if self.is_interrupted:
            return EXIT_INTERRUPTED
        if self.is_broken:
            return _SOME_FAILED
        return _MORE if self.is_more else _SOME_FAILED if self.is_failed else EXIT_DONE

    def to_json(self) -> Document:
        """Return the document of the results."""
        return {
            "migrations": self.rows,
            "findings": [problem_row(each) for each in self.problems],
            "errors": self.errors,
            "runs": [{"migration": name, "run": run.id} for name, run in self.runs],
            "halted": self.halted,
        }

    def describe(self, command: Command) -> list[str]:
        """Return the text of the results."""
        medium = command.medium
        page = medium.open_page(kept=_KEPT_FOR_RUNS)
        # several migrations leave a host alone for the same reason
        lines = describe_problems(list(dict.fromkeys(self.problems)), page, LEFT_ALONE, SEE_ALL)
        for migration in dict.fromkeys(row["migration"] for row in self.errors):
            failed = [(row["name"], row["error"]) for row in self.errors if row["migration"] == migration]
            lines += page.complain(failed, f"Failed: {migration} of ")
        lines += filter(None, (format_table(_MIGRATION_COLUMNS, self.rows), self.halted))
        for name, run in self.runs:
            lines += describe_next(command.name_next(run, name), medium)
        return lines


def run_all(command: Command) -> int:
    """Run the migrations one after the other, until all are done or the command is stopped."""
    tally, left_to_do = Tally(), command.options.max_count
    try:
        shard = command.options.shard
        for migration in (
            MirrorAggregates(shard=shard),
            CarryRatios(shard=shard),
            MoveBaremetal(shard=shard),
            HealAllocations(shard=shard),
        ):
            context, assessment = command.assess(migration)
            limited = replace(command.execution, max_count=left_to_do)
            run, assessment = command.heal(context, assessment, limited)
            done = tally.add(migration.name, assessment, run)
            # what was added is printed at the end, also after a signal
            command.execution.untold.clear()
            left_to_do = None if left_to_do is None else left_to_do - done
            if command.execution.stop.is_set() or run.report.interrupted:
                raise KeyboardInterrupt
            if run.report.halted:
                break
    except KeyboardInterrupt:
        tally.is_interrupted = True
    except FAILURES as error:
        if not tally.runs:
            raise
        tally.halted = f"stopped: {explain(error)}"
        tally.is_broken = True
    if tally.runs:
        command.execution.untold.set()
    command.show(tally.to_json, lambda: tally.describe(command))
    return tally.status


def _complain(error: Exception) -> None:
    """Say on standard error what cannot be read or done."""
    print(printable(f"placement-migrate: {error}"), file=sys.stderr)


def list_runs(command: Command) -> int:
    """Run ``placement-migrate run list``."""
    options, medium, errors = command.options, command.medium, list[Exception]()
    try:
        server = None if options.all_clouds else command.identify_cloud()
    except PlacementError:
        if hint := hint_at_other_clouds():
            print(f"placement-migrate: {hint}", file=sys.stderr)
        raise
    found = read_list(server, options.last, errors.append)
    rows = [dict(zip(LIST_COLUMNS, row, strict=True)) for row in found.rows]

    def describe() -> list[str]:
        if not rows:
            return describe_no_runs(server)
        if medium.width is None:
            return [format_table(LIST_COLUMNS, rows)]
        if medium.is_long:
            return found.describe(medium.width)
        return found.draw(medium.width, with_clouds=options.all_clouds)

    command.show(lambda: {"runs": rows}, describe)
    for error in errors:
        _complain(error)
    return EXIT_PARTIAL if errors else EXIT_DONE


def show_run(command: Command) -> int:
    """Run ``placement-migrate run show``."""
    options, medium = command.options, command.medium
    if options.last:
        # the screen of --watch shows the same run, whatever is started meanwhile
        options.run, options.last = read_chosen(options, command.identify_cloud, None, _RUN).id, False
    with telling_list(_RUN):
        run = batch.Journals(command.execution.directory).read(options.run)
    rows = [row for row in rows_of_run(run) if row.is_incomplete or not options.failed_only]

    def make_rows() -> list[Document]:
        return [recorded_row(row) for row in rows]

    def describe() -> list[str]:
        page = medium.open_page()
        facts = describe_journal(run)
        if options.failed_only and not rows:
            return page.tell([*facts, NO_FAILURES])
        told = page.tell(facts)
        told += [""] if medium.width is not None and rows else []
        return told + medium.list_rows(
            page, rows, lambda: format_table(REPORT_COLUMNS, make_rows()), more=SEE_ALL
        )

    command.show(lambda: {"id": run.header.id, "state": run.state, "rows": make_rows()}, describe)
    return EXIT_DONE


def resume_run(command: Command) -> int:
    """Run ``placement-migrate run resume``."""
    client = command.settings.open_client()
    header = read_chosen(command.options, lambda: batch.identify_server(client.endpoint), sys.stderr, _RUN)
    execution = command.execution.keep_pace(header.settings)
    if told := describe_resume(execution.pace, execution.pace):
        tell(sys.stderr, told)
    run = runner.resume(client, header.id, execution, command=command.run_with_access)
    command.show_result(run)
    return run.report.exit_status


def undo_run(command: Command) -> int:
    """Run ``placement-migrate run undo``: on a terminal ask first, unless ``--yes`` is given."""
    options, client = command.options, command.settings.open_client()
    header = read_chosen(options, lambda: batch.identify_server(client.endpoint), sys.stderr, _RUN)
    if options.last:
        tell_redo(header, sys.stderr, command.run_with_access)
    #: what is on the terminal before the result
    page: Page | None = None

    def agree(plan: Plan) -> None:
        nonlocal page
        page = _confirm_plan(command, plan)

    run = runner.undo(
        client,
        header.id,
        command.execution,
        force=options.force,
        agree=agree,
        command=command.run_with_access,
    )
    command.show_result(run, page=page if command.medium.width is not None else None)
    return run.report.exit_status


def _confirm_plan(command: Command, plan: Plan, names: Mapping[str, str] | None = None) -> Page | None:
    """Show a plan on a terminal and ask for confirmation, unless ``--yes`` is given; return its page.

    Without a terminal it is not asked for, so that scripts need no --yes.

    :param names: of providers and aggregates, by UUID
    """
    if command.options.yes or not plan.changes or not is_attended(sys.stdin, sys.stderr):
        return None
    page = replace(command.medium, width=screen_of(sys.stderr).width).open_page(names)
    for line in page.warn(plan.warnings) + page.propose(plan):
        print(printable_lines(line), file=sys.stderr)
    settings = command.settings
    chosen = None if settings.placement_endpoint else settings.cloud
    cloud = name_cloud(chosen, None, lambda: settings.open_client().endpoint)
    confirm(ask(plan), sys.stdin, sys.stderr, cloud=cloud)
    return page


def delete_runs(command: Command) -> int:
    """Run ``placement-migrate run delete``: on a terminal ask first, unless ``--yes`` is given."""
    errors = list[Exception]()

    def agree(question: str) -> None:
        if is_attended(sys.stdin, sys.stderr) and not command.options.yes:
            confirm(question, sys.stdin, sys.stderr)

    status = delete_journals(
        command.options, command.identify_cloud, errors.append, agree, sys.stdout, sys.stderr, _RUN
    )
    for error in errors:
        _complain(error)
    return status or (EXIT_PARTIAL if errors else EXIT_DONE)


def _uuids(names: Iterable[str]) -> frozenset[str]:
    return frozenset(map(canonical_uuid, names))


def _status(assessment: Assessment, run: Run | None) -> int:
    return exit_status(assessment.problems, run.report if run else None)
