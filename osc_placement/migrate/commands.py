# SPDX-License-Identifier: Apache-2.0
"""The commands of ``placement-migrate``: compare nova with placement, show or change what differs.

A command takes a `Command` and returns its exit status. ``online_data_migrations`` runs the migrations in
order, with nova-manage's table and statuses; it stores no progress:
doc/source/admin/leaving-caching-scheduler.rst says why.
"""

from __future__ import annotations

import argparse
import logging
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, TextIO, TypeVar, cast

from osc_placement.api.concurrency import CONCURRENCY
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
from osc_placement.candidates.nova_filters import NAMES
from osc_placement.commands import base
from osc_placement.commands.watching import WatchedCommand
from osc_placement.errors import ANSWER_LOST, PlacementError, UsageError, one_line
from osc_placement.migrate import exit_statuses, readiness, repair, runner
from osc_placement.migrate.exit_statuses import EXIT_UNKNOWN, exit_status
from osc_placement.migrate.granting import plan_grants, write_grants
from osc_placement.migrate.migrations import decommission
from osc_placement.migrate.migrations.audit import Audit
from osc_placement.migrate.migrations.base import Assessment, Context, Migration
from osc_placement.migrate.migrations.carry_ratios import CarryRatios
from osc_placement.migrate.migrations.flavors import MOST_UNUSED, Flavors
from osc_placement.migrate.migrations.follow import follow
from osc_placement.migrate.migrations.heal_allocations import HealAllocations
from osc_placement.migrate.migrations.mirror_aggregates import MirrorAggregates
from osc_placement.migrate.migrations.move_baremetal import MoveBaremetal
from osc_placement.migrate.migrations.providers import TITLE as PROVIDERS
from osc_placement.migrate.migrations.providers import Providers, Survey
from osc_placement.migrate.nova.facts import STUCK_AFTER
from osc_placement.migrate.nova.notifications import TOPIC, Bell, listening
from osc_placement.migrate.nova.shard import WHOLE, read_shard
from osc_placement.migrate.nova.source import Opening
from osc_placement.migrate.output import (
    LEFT_ALONE,
    Document,
    Sheet,
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
    flavors_to_json,
    outcome_row,
    plan_to_json,
    problem_row,
    run_to_json,
    status_to_json,
    survey_to_json,
)
from osc_placement.migrate.problem import Problem, Reason
from osc_placement.migrate.runner import Execution, Run
from osc_placement.migrate.tool import FAILURES, Tool, explain
from osc_placement.model import canonical_uuid
from osc_placement.report.changes import SEE_ALL
from osc_placement.report.runs import NextCommands, name_next_commands
from osc_placement.report.summary import ask
from osc_placement.terminal.confirmation import ConfirmedCommand
from osc_placement.terminal.escape import printable_lines
from osc_placement.terminal.screen import open_output, say, screen_of, write_lines
from osc_placement.terminal.tables import format_table
from osc_placement.terminal.values import (
    add_concurrency_option,
    read_age,
    read_percent,
    read_positive,
    read_rate,
    read_seconds,
)

EXIT_STATUSES: Final = (
    "Exit status: 0 all is as it should be, or the plan was shown; 1 nothing was done, the reason is on "
    "stderr; 2 the command line is wrong; 3 something failed or was left alone, the output says what and "
    "why; 4 something of nova, glance or Ironic could not be read, and what depends on it was left alone; "
    "130 interrupted."
)
NOVA_EXIT_STATUSES: Final = (
    f"{EXIT_STATUSES} With --nova-exit-codes those of nova-manage, see the documentation."
)
#: the options that need --follow
_OF_FOLLOW: Final = ("interval", "notifications", "notifications_topic")
#: seconds between two comparisons of a mirror that follows
INTERVAL: Final = 60.0
#: the result of a comparison
Compared = TypeVar("Compared")
_MIGRATION_COLUMNS: Final = ("Migration", "Total Needed", "Completed")
#: lines of a terminal for the commands that can follow, and for a sentence about the whole cloud
_KEPT_FOR_COMMANDS: Final = 12
#: lines of a terminal for the sentence of ``status``
_KEPT_FOR_SENTENCE: Final = 6
#: lines of a terminal for the runs of ``online_data_migrations``, the commands that can follow, and the table
_KEPT_FOR_RUNS: Final = 30
#: the statuses of nova-manage's online_data_migrations
_MORE: Final = 1
_SOME_FAILED: Final = 2


class MigrateCommand(Tool, base.ShowOne):
    """The base of commands that compare nova with placement, and may change what differs.

    They print text, or a document in one of the formats for programs. Some of them print more than once.
    """

    auth_required = False
    exit_statuses = EXIT_STATUSES

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        what = parser.add_argument_group("what to compare and change")
        self.add_options(what, parser.add_argument_group("execution"))
        parser.add_argument(
            "--full",
            action="store_true",
            help="Show each change and each problem on a terminal too, where many are otherwise counted; "
            "other formats, and files and pipes, always get all of them",
        )
        return parser

    def add_options(self, what: argparse._ArgumentGroup, execution: argparse._ArgumentGroup) -> None:
        """Add the options of the command."""
        raise NotImplementedError

    def perform(self, options: argparse.Namespace) -> int:
        """Do what the options say, print the result, and return the exit status."""
        raise NotImplementedError

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        raise NotImplementedError("the results of `perform` are printed one by one")

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Read the arguments, act and print; return the exit status."""
        self.app.stdout = open_output(self.app.stdout)
        try:
            self.read_arguments(parsed_args)
        except UsageError as error:
            self.app.LOG.error("%s", error)
            return base.EXIT_USAGE
        status = self.act(parsed_args)
        self.app.stdout.flush()
        return status

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        if getattr(parsed_args, "write_neutron_db", False):
            if not self.app.access.neutron_database:
                raise UsageError(
                    "--write-neutron-db needs --neutron-db, which names the database to write to"
                )
            if getattr(parsed_args, "skip_port_allocations", False):
                raise UsageError(
                    "--write-neutron-db cannot be used with --skip-port-allocations, which leaves ports alone"
                )

    def act(self, parsed_args: argparse.Namespace) -> int:
        self.options, self.settings = parsed_args, self.app.settings
        if getattr(parsed_args, "write_neutron_db", False):
            self.settings = replace(self.settings, is_neutron_database_written=True)
        self.execution = Execution(
            concurrency=getattr(parsed_args, "concurrency", CONCURRENCY),
            rate=getattr(parsed_args, "throttle", 0.0),
            max_count=getattr(parsed_args, "max_count", None),
            max_failures=getattr(parsed_args, "max_failures", None),
            stop=self.app.stop,
            untold=self.app.untold,
            stderr=self.app.stderr,
        )
        return self.perform(parsed_args)

    @property
    def is_text(self) -> bool:
        """Return whether the output is for people."""
        return self.options.formatter == self.formatter_default and not self.options.columns

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

    def open_page(
        self, names: Mapping[str, str] | None = None, kept: int = 0, stream: TextIO | None = None
    ) -> Sheet:
        """Return where text is printed, by default on standard output; names are by UUID."""
        width = screen_of(stream or self.app.stdout).width
        return Sheet.open(width, names, kept, is_full=self.options.full)

    def run_or_show(self, context: Context, assessment: Assessment) -> Run | None:
        """Carry the plan out and print the result; with ``--dry-run`` print the plan and return None."""
        if self.options.dry_run:
            plan, left = runner.limit(assessment.plan, self.execution.max_count)
            self.show(
                lambda: plan_to_json(assessment, plan),
                lambda: describe_plan(assessment, plan, left, self.open_page(assessment.names)),
            )
            return None
        run = runner.carry_out(context.client, assessment, self.execution)
        self.show_result(run, assessment)
        return run

    def heal(self, context: Context, assessment: Assessment, execution: Execution) -> tuple[Run, Assessment]:
        """Carry the plan out, then write the binding profiles of ports that it names."""
        run = runner.carry_out(context.client, assessment, execution)
        return run, write_grants(context, assessment, run, execution)

    def show_result(self, run: Run, assessment: Assessment) -> None:
        """Print the result of a run."""
        following, page = self.name_next(run), self.open_page(assessment.names, _KEPT_FOR_COMMANDS)
        self.show(
            lambda: run_to_json(run, assessment),
            lambda: describe_run(run, assessment, following, page),
        )

    def name_next(self, run: Run, title: str = "") -> NextCommands | None:
        """Return the commands that can follow a run, ready to be pasted; None if nothing was written."""
        if run.id is None:
            return None
        return name_next_commands(run.id, run.report, self.read_runs, self.change_runs, title=title)

    def show(self, document: Callable[[], Document], text: Callable[[], Sequence[str]]) -> None:
        """Print the document, or the text that says the same to people, nothing of which moves a cursor."""
        if self.is_text:
            write_lines(self.app.stdout, map(printable_lines, text()))
        else:
            self.formatter = cast(Any, self._formatter_plugins[self.options.formatter].obj)
            found = document()
            columns = self.options.columns
            if self.app.untold.is_set() and base.list_unknown(columns, found) == columns:
                # what was written is told whatever was asked for
                self.options.columns = []
            self.produce_output(self.options, tuple(found), tuple(found.values()))
        self.app.stdout.flush()
        self.app.untold.clear()


#: options of several commands
_SHARED: Final[Mapping[str, Mapping[str, Any]]] = {
    "--dry-run": {"action": "store_true", "help": "Show what would be done, and do nothing"},
    "--max-count": {"metavar": "<number>", "type": read_positive, "help": "Change at most this many"},
    "--max-failures": {
        "metavar": "<number>",
        "type": read_positive,
        "help": "Stop after more failures than these, not counting what is refused before it is tried",
    },
    "--nova-exit-codes": {"action": "store_true", "help": "End with the exit codes of nova-manage"},
    "--shard": {
        "metavar": "<I/N>",
        "type": read_shard,
        "default": WHOLE,
        "help": "Only part I of N of the hosts, so that N processes share the work",
    },
    "--skip-port-allocations": {
        "action": "store_true",
        "help": "Do not read neutron, and leave out what ports ask for",
    },
    "--throttle": {
        "metavar": "<rate>",
        "type": read_rate,
        "default": 0.0,
        "help": "Writes a second at most",
    },
    "--write-neutron-db": {
        "action": "store_true",
        "help": "With --neutron-db: write the binding profiles of ports to that database, without binding "
        "the ports anew as neutron's API does",
    },
}
_EXECUTION: Final = ("--dry-run", "--max-count", "--max-failures", "--throttle")


def _add(group: argparse._ArgumentGroup, *names: str) -> None:
    for name in names:
        group.add_argument(name, **_SHARED[name])


def _add_repeatable(group: argparse._ArgumentGroup, name: str, metavar: str, text: str) -> None:
    group.add_argument(name, metavar=metavar, action="append", default=[], help=f"{text}; may be repeated")


class MirrorCommand(MigrateCommand):
    """Mirror nova's host aggregates to aggregates of resource providers.

    The resource provider of every compute node is put into the aggregates of its host. A problem of one host
    does not stop the others.
    """

    example = "mirror-aggregates --dry-run"
    exit_statuses = NOVA_EXIT_STATUSES

    def add_options(self, what: argparse._ArgumentGroup, execution: argparse._ArgumentGroup) -> None:
        _add_repeatable(what, "--host", "<host>", "Only this host")
        _add_repeatable(what, "--aggregate", "<aggregate>", "Only this host aggregate, by name or UUID")
        what.add_argument(
            "--prune",
            action="store_true",
            help="Take providers out of nova's aggregates that their hosts are not in",
        )
        what.add_argument(
            "--prune-foreign",
            action="store_true",
            help="Like --prune, and take them out of aggregates that nova does not know, too",
        )
        what.add_argument(
            "--follow",
            action="store_true",
            help="Continue to mirror changes until SIGINT or SIGTERM; then the exit status is 0",
        )
        what.add_argument(
            "--interval",
            metavar="<seconds>",
            type=read_seconds,
            help=f"With --follow: seconds between two comparisons (default: {INTERVAL:g})",
        )
        what.add_argument(
            "--notifications",
            metavar="<url>",
            nargs="?",
            const="",
            help="With --follow: compare also as soon as nova notifies of a change; the URL is that of the "
            "message broker (default: the one in nova.conf)",
        )
        what.add_argument(
            "--notifications-topic",
            metavar="<topic>",
            help=f"With --follow: the topic of nova's versioned notifications (default: {TOPIC})",
        )
        _add(what, "--shard")
        _add(execution, *_EXECUTION, "--nova-exit-codes")
        add_concurrency_option(execution)
        what.set_defaults(nova_failure=255)

    def read_arguments(self, options: argparse.Namespace) -> None:
        stray = [name for name in _OF_FOLLOW if getattr(options, name) is not None]
        if stray and not options.follow:
            raise UsageError(f"--{stray[0].replace('_', '-')} can be used with --follow only")

    def perform(self, options: argparse.Namespace) -> int:
        migration = MirrorAggregates(
            hosts=frozenset(options.host),
            aggregates=frozenset(options.aggregate),
            prune=options.prune or options.prune_foreign,
            prune_foreign=options.prune_foreign,
            shard=options.shard,
        )
        if options.follow:
            return _follow(self, migration)
        context, assessment = self.assess(migration)
        run = self.run_or_show(context, assessment)
        return exit_statuses.of_sync(assessment, run) if options.nova_exit_codes else _status(assessment, run)


def is_progress(outcome: Outcome) -> bool:
    """Return whether the next comparison may differ: a change was made, or placement did not answer."""
    return outcome.result is Result.APPLIED or isinstance(outcome.error, ANSWER_LOST)


def _follow(command: MigrateCommand, migration: Migration) -> int:
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


class HealCommand(MigrateCommand):
    """Give instances without allocations those that nova's scheduler would have made.

    They are made from the embedded flavors of the instances. Then everything is compared again, and one
    sentence says whether that was all.
    """

    example = "heal-allocations --dry-run"
    exit_statuses = NOVA_EXIT_STATUSES

    def add_options(self, what: argparse._ArgumentGroup, execution: argparse._ArgumentGroup) -> None:
        _add_repeatable(what, "--instance", "<uuid>", "Only this instance")
        _add_repeatable(what, "--host", "<host>", "Only on this host")
        _add_repeatable(what, "--cell", "<cell>", "Only in this cell, by UUID or name; not with --instance")
        what.add_argument(
            "--force",
            action="store_true",
            help="Correct wrong amounts too, of instances that are in no task and not moving",
        )
        _add(what, "--skip-port-allocations", "--write-neutron-db", "--shard")
        _add(execution, *_EXECUTION, "--nova-exit-codes")
        add_concurrency_option(execution)
        what.set_defaults(nova_failure=255, nova_invalid=127)

    def perform(self, options: argparse.Namespace) -> int:
        migration = HealAllocations(
            _uuids(options.instance),
            frozenset(options.host),
            options.shard,
            skips_ports=options.skip_port_allocations,
            forces=options.force,
            cells=frozenset(options.cell),
        )
        context, assessment = self.assess(migration)
        run = None
        is_judged = False
        if options.dry_run:
            assessment = plan_grants(context, assessment, self.execution.max_count)
            self.run_or_show(context, assessment)
        else:
            run, assessment = self.heal(context, assessment, self.execution)
            stop = self.execution.stop
            is_judged = bool(run.id or assessment.written) and self.is_text and not stop.is_set()
            # the sentence below says what was skipped
            self.show_result(run, replace(assessment, skipped="") if is_judged else assessment)
            if stop.is_set():
                return EXIT_INTERRUPTED
        judged = EXIT_DONE
        if is_judged:
            again = replace(migration, forces=False)
            judged = _conclude(self, lambda: readiness.describe_healing(self.assess(again)[1]))
        if options.nova_exit_codes:
            return exit_statuses.of_heal(assessment, run)
        return max(_status(assessment, run), judged)


def _conclude(command: MigrateCommand, judge: Callable[[], str]) -> int:
    """Print what the second look says; what was done is done, whether or not that look succeeds."""
    try:
        sentence, status = _judge_whole(command.options, judge), EXIT_DONE
    except FAILURES as error:
        sentence = f"Whether all is ready is unknown, because the second comparison failed: {explain(error)}"
        status = EXIT_UNKNOWN
    write_lines(command.app.stdout, [sentence])
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


class StatusCommand(WatchedCommand, MigrateCommand):
    """Say whether the caching scheduler can be left.

    What every instance holds is compared with what nova's scheduler would claim for it. To leave the caching
    scheduler, run this, then carry-ratios and heal-allocations, each with --dry-run first, and then this
    again.
    """

    example = "status"
    exit_statuses = (
        "Exit status: 0 the caching scheduler can be left, 3 it cannot yet, 4 unknown, as something of nova "
        "could not be read, 1 nothing could be compared, 2 the command line is wrong."
    )

    def add_options(self, what: argparse._ArgumentGroup, execution: argparse._ArgumentGroup) -> None:
        _add(what, "--skip-port-allocations", "--shard")
        add_concurrency_option(execution)

    def perform(self, options: argparse.Namespace) -> int:
        migration = HealAllocations(
            shard=options.shard, skips_ports=options.skip_port_allocations, judges_all=True
        )
        _context, assessment = self.assess(migration)
        sentence = _judge_whole(options, lambda: readiness.describe_readiness(assessment))
        ready = readiness.is_ready(assessment) and _is_whole(options)
        page = self.open_page(kept=_KEPT_FOR_SENTENCE)
        self.show(
            lambda: status_to_json(assessment, sentence, ready=ready),
            lambda: [*describe_status(assessment, page), sentence],
        )
        if any(problem.reason is Reason.UNKNOWN for problem in assessment.problems):
            return EXIT_UNKNOWN
        return EXIT_DONE if readiness.is_ready(assessment) else EXIT_PARTIAL


class AuditCommand(MigrateCommand):
    """Find orphaned allocations, and other differences between nova and placement.

    Orphaned are allocations that belong to no instance and no migration of nova, or are on a host that their
    instance is not on. Nothing is removed unless --delete is given and all of nova can be read.
    """

    example = "audit"
    exit_statuses = NOVA_EXIT_STATUSES

    def add_options(self, what: argparse._ArgumentGroup, execution: argparse._ArgumentGroup) -> None:
        what.add_argument("--delete", action="store_true", help="Remove the orphaned allocations")
        _add_repeatable(
            what,
            "--resource-provider",
            "<provider>",
            "Remove only what is held of this provider, by name or UUID",
        )
        what.add_argument(
            "--max-removals",
            metavar="<number>",
            type=read_positive,
            help="Remove from so many consumers at most, or from none (default: 5, or a tenth of all "
            "consumers if that is more)",
        )
        what.add_argument(
            "--stuck-after",
            metavar="<seconds>",
            type=read_age,
            default=STUCK_AFTER,
            help="Report an instance on no host that nova has been building, or has had in a task, for "
            f"longer than this (default: {STUCK_AFTER:g})",
        )
        _add(what, "--skip-port-allocations", "--shard")
        _add(execution, *_EXECUTION, "--nova-exit-codes")
        add_concurrency_option(execution)
        what.set_defaults(nova_failure=1, nova_invalid=127)

    def perform(self, options: argparse.Namespace) -> int:
        migration = Audit(
            frozenset(options.resource_provider),
            options.shard,
            options.max_removals,
            skips_ports=options.skip_port_allocations,
            stuck_after=options.stuck_after,
        )
        context, assessment = self.assess(migration)
        options.dry_run = options.dry_run or not options.delete
        run = self.run_or_show(context, assessment)
        orphans = len(assessment.plan.changes)
        if options.nova_exit_codes:
            return exit_statuses.of_audit(assessment, run)
        status = _status(assessment, run)
        return EXIT_PARTIAL if status == EXIT_DONE and orphans and not options.delete else status


class ProvidersCommand(MigrateCommand):
    """Replace providers of hosts that have another UUID in nova, and delete stale ones.

    Found are resource providers of hosts that no compute node of nova has: duplicated after a reinstallation,
    stale because the host is gone, or still in use. Nothing is changed unless --repair or --delete is given
    and all of nova can be read.
    """

    example = "providers --repair --dry-run"

    def add_options(self, what: argparse._ArgumentGroup, execution: argparse._ArgumentGroup) -> None:
        what.add_argument(
            "--repair",
            action="store_true",
            help="Replace each duplicated provider by that of the compute node, and move its allocations; "
            "the compute service of its host has to be disabled",
        )
        what.add_argument(
            "--delete", action="store_true", help="Delete stale providers, of which nothing is held"
        )
        _add_repeatable(what, "--resource-provider", "<provider>", "Only this provider, by name or UUID")
        what.add_argument(
            "--max-removals",
            metavar="<number>",
            type=read_positive,
            help="Delete so many stale providers at most, or none (default: 5, or a tenth of those of hosts "
            "if that is more)",
        )
        _add(what, "--shard")
        _add(execution, "--dry-run", "--max-count", "--throttle")
        add_concurrency_option(execution)

    def perform(self, options: argparse.Namespace) -> int:
        is_shown = options.dry_run or not (options.repair or options.delete)
        if not is_shown:
            _require_databases(self, "--repair and --delete")
        comparison = Providers(frozenset(options.resource_provider), options.max_removals, options.shard)
        context, survey = self.compare(comparison.assess)
        if is_shown:
            plan, page = _plan_of(survey), self.open_page(survey.deletions.names)
            self.show(
                lambda: survey_to_json(survey, plan),
                lambda: [
                    *describe_survey(survey, page),
                    *describe_plan(Assessment(plan), plan, 0, page),
                ],
            )
            found = survey.repairs or survey.deletions.plan.changes
            status = _status(survey.deletions, None)
            return EXIT_PARTIAL if status == EXIT_DONE and found and not options.dry_run else status
        if options.delete and survey.deletions.refusal:
            raise PlacementError(f"nothing was done: {survey.deletions.refusal}")
        done = _replace_and_delete(self, context, survey)
        page = self.open_page(survey.deletions.names)
        runs, halted = done.runs, f"stopped: {explain(done.halted)}" if done.halted else ""
        outcomes = [
            each for run in runs for each in run.report.outcomes if each.result is not Result.UNCHANGED
        ]
        self.show(
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
                *describe_runs(runs, list(map(self.name_next, runs)), page),
                *describe_repairs(done, halted),
            ],
        )
        if self.execution.stop.is_set() or any(run.report.interrupted for run in runs):
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


def _replace_and_delete(command: MigrateCommand, context: Context, survey: Survey) -> repair.Repaired:
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


class DecommissionCommand(ConfirmedCommand, MigrateCommand):
    """Show what still holds a host that is to be removed, and delete its providers.

    It is shown in the order in which it is to be removed. --free removes what evacuated, moved and ended
    consumers still hold of the host. If nothing else does, --delete deletes the resource providers that are
    left of it.
    """

    example = "decommission compute7"

    def add_options(self, what: argparse._ArgumentGroup, execution: argparse._ArgumentGroup) -> None:
        what.add_argument("host", metavar="<host>", help="Name of the host, as nova has it")
        what.add_argument(
            "--free",
            action="store_true",
            help="Remove the orphaned allocations of the host, if its nova-compute is not up; with --delete, "
            "its providers are deleted afterwards also if nova still has its service",
        )
        what.add_argument(
            "--delete",
            action="store_true",
            help="Delete the resource providers of the host if nothing holds it",
        )
        _add(execution, "--dry-run")
        execution.add_argument(
            "--yes",
            action="store_true",
            help="Do not ask for confirmation, which is asked for only where there is a terminal",
        )
        _add(execution, "--throttle")
        add_concurrency_option(execution)

    def perform(self, options: argparse.Namespace) -> int:
        is_shown = options.dry_run or not (options.free or options.delete)
        if options.delete and not is_shown:
            _require_databases(self, "--delete")

        def look() -> tuple[Context, decommission.Decommission]:
            return self.compare(
                lambda context: decommission.assess(context, options.host, frees=options.free)
            )

        context, found = look()
        if options.free and found.is_up:
            raise PlacementError(
                f"nothing was done: nova-compute of host {found.host} is up; stop it first, and if nova does "
                "not notice, tell it: openstack compute service set --down "
                f"{shlex.quote(found.host)} nova-compute; placement-migrate audit --delete removes orphans "
                "of a host that is up"
            )
        freeing = found.freeing.steps if options.free or not options.delete else ()
        deleting = found.plan.steps if options.delete or not options.free else ()
        plan = replace(found.plan, steps=(*freeing, *deleting))
        runs, halted = list[Run](), ""
        if plan.changes and not is_shown:
            if not options.yes and self.is_attended():
                shown = self.open_page(found.names, stream=self.app.stderr)
                say(self.app.stderr, shown.warn(plan.warnings) + shown.propose(plan))
                self.confirm(ask(plan))
            runs, found, halted = _free_and_delete(self, context, found, look)
        page = self.open_page(found.names)
        self.show(
            lambda: decommission_to_json(found, plan, runs, halted),
            lambda: [
                *describe_decommission(found, plan, page, is_done=bool(runs)),
                *describe_runs(runs, list(map(self.name_next, runs)), page),
                *filter(None, [halted]),
            ],
        )
        if runs and self.execution.stop.is_set():
            return EXIT_INTERRUPTED
        failed = [run.report for run in runs if run.report.exit_status]
        status = exit_status(found.problems, failed[0] if failed else None)
        left = plan.changes if is_shown else found.plan.changes if not options.delete else ()
        is_left = found.holds or halted or (left and not options.dry_run)
        return EXIT_PARTIAL if status == EXIT_DONE and is_left else status


def _free_and_delete(
    command: MigrateCommand,
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


class FlavorsCommand(MigrateCommand):
    """Find flavors whose instances no host can take, and create the names they lack in placement.

    Found are the traits and resource classes that flavors, images and host aggregates ask for and placement
    does not know, extra specs that nova ignores, flavors that fit on no host, or on none that the request
    filters of nova's scheduler leave, and flavors that leave a large part of a host unused. Nothing is
    changed unless --create is given.
    """

    example = "flavors --max-unused 30"

    def add_options(self, what: argparse._ArgumentGroup, execution: argparse._ArgumentGroup) -> None:
        what.add_argument(
            "--create",
            action="store_true",
            help="Create the custom traits and resource classes that are missing",
        )
        _add_repeatable(what, "--name", "<name>", "Create only this trait or resource class")
        _add_repeatable(
            what,
            "--flavor",
            "<flavor>",
            "Compare only this flavor, by name or ID, and no images and host aggregates",
        )
        what.add_argument(
            "--max-unused",
            metavar="<percent>",
            type=read_percent,
            default=MOST_UNUSED,
            help="Report a flavor that leaves more than this part of a class of a host unused (default: "
            f"{MOST_UNUSED})",
        )
        filters = what.add_mutually_exclusive_group()
        filters.add_argument(
            "--nova-filter",
            choices=NAMES,
            action="append",
            default=[],
            metavar="<filter>",
            help="Apply this filter of nova's scheduler whatever nova.conf says, such as isolate_aggregates; "
            "may be repeated",
        )
        filters.add_argument(
            "--no-nova-filters",
            action="store_true",
            help="Apply no filters of nova's scheduler, so that hosts which they remove count",
        )
        _add(execution, *_EXECUTION)
        add_concurrency_option(execution)

    def perform(self, options: argparse.Namespace) -> int:
        comparison = Flavors(
            frozenset(options.flavor),
            frozenset(options.name),
            options.max_unused,
            applies_filters=not options.no_nova_filters,
            forced_filters=frozenset(options.nova_filter),
        )
        context, survey = self.compare(comparison.assess)
        assessment = survey.assessment
        plan, left = runner.limit(assessment.plan, self.execution.max_count)
        runs = list[Run]()
        if options.create and plan.changes and not options.dry_run:
            runs = [replace(runner.run_job(context.client, Job(plan), self.execution), left=left)]
        page = self.open_page()
        self.show(
            lambda: flavors_to_json(survey, plan, runs),
            lambda: [
                *describe_flavors(survey, plan, left, page, is_created=bool(runs)),
                *describe_runs(runs, list(map(self.name_next, runs)), page),
            ],
        )
        status = _status(assessment, runs[0] if runs else None)
        is_left = left or (plan.changes and not runs and not options.dry_run)
        return EXIT_PARTIAL if status == EXIT_DONE and is_left else status


def _require_databases(command: MigrateCommand, options: str) -> None:
    """Raise UsageError if nova's facts come from its API."""
    if command.settings.source == "api":
        raise UsageError(f"Nova's API does not show deleted compute nodes; use --source db with {options}")


class RatiosCommand(MigrateCommand):
    """Carry allocation ratios from the metadata of host aggregates to the inventories.

    The ratios that host aggregates have in cpu_allocation_ratio, ram_allocation_ratio and
    disk_allocation_ratio are set on the inventories of their hosts.
    """

    example = "carry-ratios --dry-run"

    def add_options(self, what: argparse._ArgumentGroup, execution: argparse._ArgumentGroup) -> None:
        _add_repeatable(what, "--host", "<host>", "Only this host")
        what.add_argument(
            "--conflict",
            choices=("min", "max"),
            help="The ratio to use where the aggregates of a host disagree",
        )
        what.add_argument(
            "--force",
            action="store_true",
            help="Set ratios even if they leave less than is allocated",
        )
        _add(what, "--shard")
        _add(execution, *_EXECUTION)
        add_concurrency_option(execution)

    def perform(self, options: argparse.Namespace) -> int:
        migration = CarryRatios(frozenset(options.host), options.conflict, options.shard, options.force)
        context, assessment = self.assess(migration)
        return _status(assessment, self.run_or_show(context, assessment))


class BareMetalCommand(MigrateCommand):
    """Move bare metal nodes from sizes to their custom resource classes.

    The provider of every node of Ironic gets its resource class, what its instance holds is moved to it, and
    the inventories of VCPU, MEMORY_MB and DISK_GB that no consumer holds are removed. Flavors that still ask
    for sizes are listed with the command that corrects each.
    """

    example = "move-baremetal --dry-run"

    def add_options(self, what: argparse._ArgumentGroup, execution: argparse._ArgumentGroup) -> None:
        _add_repeatable(what, "--host", "<host>", "Only of this host")
        _add_repeatable(what, "--node", "<node>", "Only this node, by its UUID in Ironic")
        _add(what, "--shard")
        _add(execution, *_EXECUTION)
        add_concurrency_option(execution)

    def perform(self, options: argparse.Namespace) -> int:
        migration = MoveBaremetal(frozenset(options.host), _uuids(options.node), options.shard)
        context, assessment = self.assess(migration)
        run = self.run_or_show(context, assessment)
        if self.execution.stop.is_set():
            return EXIT_INTERRUPTED
        judged = EXIT_DONE

        def judge() -> str:
            after = self.assess(migration)[1] if run and run.id else assessment
            return readiness.describe_bare_metal(after)

        if self.is_text:
            judged = _conclude(self, judge)
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

    def describe(self, command: MigrateCommand) -> list[str]:
        """Return the text of the results."""
        page = command.open_page(kept=_KEPT_FOR_RUNS)
        # several migrations leave a host alone for the same reason
        lines = describe_problems(list(dict.fromkeys(self.problems)), page, LEFT_ALONE, SEE_ALL)
        for migration in dict.fromkeys(row["migration"] for row in self.errors):
            failed = [(row["name"], row["error"]) for row in self.errors if row["migration"] == migration]
            lines += page.complain(failed, f"Failed: {migration} of ")
        lines += filter(None, (format_table(_MIGRATION_COLUMNS, self.rows), self.halted))
        for name, run in self.runs:
            lines += describe_next(command.name_next(run, name), page)
        return lines


class OnlineCommand(MigrateCommand):
    """Run mirror-aggregates, carry-ratios, move-baremetal and heal-allocations, in this order.

    It may be stopped and repeated at any time: what is done already is not done again.
    """

    example = "online_data_migrations --max-count 50"
    exit_statuses = (
        "Exit status, as nova-manage's: 0 nothing is left to do; 1 more is left for the next run; 2 some "
        "could not be done, and no more can; 130 interrupted; 255 nothing was done, the reason is on stderr."
    )

    def add_options(self, what: argparse._ArgumentGroup, execution: argparse._ArgumentGroup) -> None:
        _add(what, "--write-neutron-db", "--shard")
        _add(execution, "--max-count", "--throttle")
        add_concurrency_option(execution)
        what.set_defaults(nova_exit_codes=True, nova_failure=255)

    def perform(self, options: argparse.Namespace) -> int:
        tally, left_to_do = Tally(), options.max_count
        try:
            shard = options.shard
            for migration in (
                MirrorAggregates(shard=shard),
                CarryRatios(shard=shard),
                MoveBaremetal(shard=shard),
                HealAllocations(shard=shard),
            ):
                context, assessment = self.assess(migration)
                limited = replace(self.execution, max_count=left_to_do)
                run, assessment = self.heal(context, assessment, limited)
                done = tally.add(migration.name, assessment, run)
                # what was added is printed at the end, also after a signal
                self.execution.untold.clear()
                left_to_do = None if left_to_do is None else left_to_do - done
                if self.execution.stop.is_set() or run.report.interrupted:
                    raise KeyboardInterrupt
                if run.report.halted:
                    break
        except KeyboardInterrupt:
            tally.is_interrupted = True
            # a run that was cut short is not in the tally
            if hint := self.app.hint_at_runs():
                self.app.LOG.error("interrupted%s", hint)
        except FAILURES as error:
            if not tally.runs:
                raise
            tally.halted = f"stopped: {explain(error)}"
            tally.is_broken = True
        if tally.runs:
            self.execution.untold.set()
        self.show(tally.to_json, lambda: tally.describe(self))
        return tally.status


def _uuids(names: Iterable[str]) -> frozenset[str]:
    return frozenset(map(canonical_uuid, names))


def _status(assessment: Assessment, run: Run | None) -> int:
    return exit_status(assessment.problems, run.report if run else None)
