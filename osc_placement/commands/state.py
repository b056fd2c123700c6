# SPDX-License-Identifier: Apache-2.0
"""``openstack resource provider export|apply``: the state of a placement service as a file."""

from __future__ import annotations

import argparse
import contextlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from osc_placement import batch, microversion
from osc_placement.batch import EXIT_DONE, EXIT_PARTIAL, Job, Kind, Plan, guard
from osc_placement.commands import base
from osc_placement.commands.batch_execution import carry_out
from osc_placement.commands.batch_options import (
    add_aggregate_option,
    add_force,
    read_policy,
)
from osc_placement.commands.input_file import STANDARD_STREAM, name_source, read_file
from osc_placement.commands.reading import show_reading
from osc_placement.errors import PlacementError
from osc_placement.report.changes import SEE_ALL, Page
from osc_placement.report.runs import NextCommands
from osc_placement.report.summary import count_removed, refuse_removal
from osc_placement.state import read
from osc_placement.state.description import describe_leftover, describe_plan
from osc_placement.state.plan import ApplyPlan, Leftover, explain_left_out, plan_apply, plan_run
from osc_placement.state.results import ApplyReport, list_refusals, list_results
from osc_placement.state.selection import NoTreeSelected, Selection
from osc_placement.state.text import format_document, parse_text
from osc_placement.terminal.confirmation import ConfirmedCommand
from osc_placement.terminal.lines import count_each, count_providers, count_things, fit, pluralize
from osc_placement.terminal.progress import nothing_changed_on_interrupt
from osc_placement.terminal.screen import say, screen_of, tell
from osc_placement.terminal.values import add_concurrency_option
from osc_placement.whole_file import replace_file

#: how many lines of a plan are shown on a terminal: before it is confirmed, by --dry-run, and of refusals,
#: warnings, failures and deletions each
_LINES_TO_CONFIRM: Final = 24
_LINES_TO_SHOW: Final = 40
_LINES_TO_TELL: Final = 8


class _StateCommand(base.PlacementCommand):
    """The base of commands about all trees, or about some of them."""

    minimum = microversion.NESTED_PROVIDERS

    def add_selectors(self, parser: argparse.ArgumentParser) -> None:
        """Add the options that select trees."""
        parser.add_argument(
            "--name",
            type=base.read_text,
            metavar="<pattern>",
            action="append",
            default=[],
            help="Only trees whose root has a name that matches this pattern, such as ``compute-r3-*``. "
            "May be repeated.",
        )
        add_aggregate_option(parser, "Only trees with a provider in {aggregate}. May be repeated.")

    def select(self, parsed_args: argparse.Namespace) -> Selection:
        """Return the selection of trees; names of host aggregates cost a request."""
        return Selection(tuple(parsed_args.name), frozenset(self.aggregates.resolve(parsed_args.aggregate)))


class ExportState(_StateCommand):
    """Write the state of the placement service to a file that ``resource provider apply`` reads.

    The file has all resource providers with their inventories, traits and aggregates, all allocations, and
    the custom resource classes and traits. A change that is made during the export may be in the file or not.
    With ``--name`` or ``--aggregate`` the file has some trees only, and no consumer that has allocations
    elsewhere too.
    """

    example = "resource provider export -o cloud.yaml"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "-o",
            "--output",
            metavar="<file>",
            default=STANDARD_STREAM,
            help="File to write, which is replaced if it exists; - for standard output (default: -)",
        )
        self.add_selectors(parser)
        add_concurrency_option(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        selection = self.select(parsed_args)
        with show_reading(self.app.stderr, parsed_args.concurrency) as reading:
            document = read.read_document(self.client, selection, reading)
        text = format_document(document)
        if parsed_args.output == STANDARD_STREAM:
            self.app.stdout.writelines(text)
        else:
            replace_file(parsed_args.output, text)
            written = count_providers(len(document.providers))
            tell(self.app.stderr, f"Wrote {written} to {parsed_args.output}")


class ApplyState(ConfirmedCommand, _StateCommand):
    """Change the state of the placement service to that of a file.

    It creates and changes what differs, parents before children. A resource provider or consumer that the
    file does not name is not changed, and neither are the parts of a resource provider that the file leaves
    out. The whole file is checked before anything is written. What is already as in the file is not written
    again, so after an interruption the same command can be repeated. With ``--prune`` what the file does not
    name is deleted. With ``--name`` or ``--aggregate`` the command is restricted to these trees, selected as
    they are in the file or on the server: a resource provider that was added to the aggregate since the
    export is removed from it, and not deleted. A consumer that ``--prune`` would delete keeps its allocations
    if somebody changed them since they were read.

    What the server would refuse is told before anything is written, and not tried; the rest is done. Examples
    are the deletion of what is in use and an allocation that does not fit into an existing resource provider.
    One that is created gets all its consumers, even if they hold more than its capacity by now. On a
    terminal, the command shows what it would change and asks for confirmation. Elsewhere it asks nothing, so
    that scripts can use it, but needs ``--yes`` to remove something of what stays, and for ``--prune``.

    It is a run like those of batch commands, with a journal: openstack resource provider batch run list,
    show, resume and undo take it.
    """

    example = "resource provider apply -f cloud.yaml --dry-run"
    exit_statuses = (
        "Exit status: 0 the server matches the file, or the plan was shown; 1 nothing was changed, "
        "the reason is on stderr; 2 the command line is wrong; 3 something was refused or failed, and what "
        "depends on it was not done, or the journal cannot be written; 130 interrupted."
    )

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "-f",
            "--file",
            metavar="<file>",
            required=True,
            help="File in the format that ``resource provider export`` writes; - for standard input",
        )
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="Write nothing; show what would be created, changed, deleted and refused",
        )
        parser.add_argument(
            "--full",
            action="store_true",
            help="With --dry-run, describe each change on a terminal too, where equal changes of many "
            "resource providers or consumers are otherwise described once",
        )
        parser.add_argument(
            "--prune",
            action="store_true",
            help="Delete what the file does not name, for each section that the file has: resource "
            "providers, allocations of consumers, and without --name and --aggregate custom "
            "resource classes and traits",
        )
        parser.add_argument(
            "--yes",
            action="store_true",
            help="Do not ask for confirmation; without a terminal, --prune needs it, and a file that leaves "
            "out inventories, traits, aggregates or allocations of what it names",
        )
        add_force(
            parser,
            "Change resource providers even if less capacity is left than is allocated, and remove traits "
            "that nova-compute reports (OWNER_NOVA, COMPUTE_*, HW_*) and the file does not name; without "
            "this option nothing is changed if there are any such traits",
        )
        self.add_selectors(parser)
        add_concurrency_option(parser)
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        if parsed_args.prune:
            self.require_somebody(parsed_args)
        parsed_args.source = name_source(parsed_args.file)
        with nothing_changed_on_interrupt(self.app.stderr):
            text = read_file(parsed_args.file, parsed_args.source)
            path = "FILE" if parsed_args.file == STANDARD_STREAM else parsed_args.file
            parsed_args.document = parse_text(text, parsed_args.source, path)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with nothing_changed_on_interrupt(self.app.stderr):
            plan, run = self._make_plan(parsed_args)
            if not parsed_args.dry_run:
                self._agree(plan.without(run.untried), run, parsed_args)
        unchanged = count_each(plan.unchanged) or "nothing"
        if plan.size == 0:
            lines = [f"Nothing to do: the server matches {parsed_args.source} ({unchanged})"]
        elif parsed_args.dry_run:
            self._tell((f"Warning: {warning}" for warning in run.warnings), "more warnings")
            lines = [*self._describe(plan.without(run.untried), run, parsed_args), f"unchanged: {unchanged}"]
            self.exit_status = EXIT_PARTIAL if run.untried or run.objection else EXIT_DONE
        else:
            report, commands = self._execute(run, parsed_args)
            self.exit_status = report.exit_status
            self._conclude(plan, report, commands)
            return
        for line in lines:
            tell(self.app.stdout, line)

    def _make_plan(self, parsed_args: argparse.Namespace) -> tuple[ApplyPlan, Plan]:
        """Return what has to be changed, and the plan of the run that does it, with refusals and warnings."""
        selection = self.select(parsed_args)
        with show_reading(self.app.stderr, parsed_args.concurrency) as reading:
            document, current = read.read_current(
                self.client,
                parsed_args.document,
                prune=parsed_args.prune,
                selection=selection,
                reading=reading,
            )
            if selection and not (document.providers or current.leftover.providers):
                where = "of the file or the server" if parsed_args.prune else "of the file"
                raise NoTreeSelected(selection, where)
            plan = plan_apply(document, current)
            # told only to an operator who looks at a plan before it is carried out
            is_shown = self.is_attended() and plan.size and not (parsed_args.yes or parsed_args.prune)
            parsed_args.unnamed = 0
            if is_shown and "allocations" in parsed_args.document.sections:
                known = {*plan.uuids.values()}
                # no more than a hint: an apply does not fail for it
                with contextlib.suppress(PlacementError):
                    parsed_args.unnamed = read.count_unnamed(
                        self.client, parsed_args.document, known, reading
                    )
        run = guard(
            self.client,
            plan_run(plan, f"apply {parsed_args.source}"),
            read_policy(parsed_args),
            current.readings,
            concurrency=parsed_args.concurrency,
        )
        return plan, explain_left_out(run)

    def _agree(self, plan: ApplyPlan, run: Plan, parsed_args: argparse.Namespace) -> None:
        """Tell refusals and warnings; on a terminal, show the plan and ask for confirmation.

        Raise PlacementError if something would be removed, and there is nobody to ask.
        """
        run.require_allowed()
        if not (parsed_args.yes or self.is_attended()):
            refuse_removal(run.changes, parsed_args.source, "; --dry-run shows the plan")
        is_asking = bool(plan.size) and self.is_attended() and not parsed_args.yes
        if is_asking:
            self._tell(describe_leftover(plan.leftover), "more to delete; --dry-run | less shows all")
            others = replace(plan, leftover=Leftover())
            self._tell(
                describe_briefly(others, _LINES_TO_CONFIRM, "(--dry-run --full shows each of them)"),
                "more lines (equal changes once); --dry-run | less shows each",
                most=_LINES_TO_CONFIRM,
            )
            self._tell(describe_unnamed(parsed_args.unnamed), "")
        stream = self.app.stderr
        is_narrow = stream is not None and screen_of(stream).width is not None
        self._tell(
            (f"Refused: {text}" for text in describe_refusals(run, is_grouped=is_narrow)),
            "more reasons; --dry-run | less shows all",
        )
        self._tell((f"Warning: {warning}" for warning in run.warnings), "more warnings")
        if is_asking:
            self.confirm(f"{count_changes(plan)}?")

    def _describe(self, plan: ApplyPlan, run: Plan, parsed_args: argparse.Namespace) -> list[str]:
        """Return a line for each change, each refusal and the number of refusals; on a terminal, not all."""
        width = screen_of(self.app.stdout).width if self.app.stdout is not None else None
        most = None if width is None or parsed_args.full else _LINES_TO_SHOW
        refusals = [f"! {text}" for text in describe_refusals(run, is_grouped=most is not None)]
        lines = describe_briefly(plan, most, SEE_ALL)
        if most is not None and width is not None:
            lines = fit(
                lines, _LINES_TO_SHOW, width, "more lines (equal changes once); --dry-run | less shows each"
            )
            refusals = fit(refusals, _LINES_TO_TELL, width, "more reasons; --dry-run | less shows all")
        if width is not None and plan.size:
            lines.append(f"to do: {count_changes(plan).lower()}")
        lines += describe_unnamed(parsed_args.unnamed)
        numbers = Counter(result.kind for result in list_refusals(run))
        return [*lines, *refusals, *([f"refused: {count_each(numbers)}"] if numbers else ())]

    def _tell(self, lines: Iterable[str], more: str, most: int = _LINES_TO_TELL) -> None:
        """Print lines to standard error; on a terminal, so many at most."""
        stream = self.app.stderr
        if stream is None:
            return
        width = screen_of(stream).width
        say(stream, lines if width is None else fit(list(lines), most, width, more))

    def _execute(
        self, plan: Plan, parsed_args: argparse.Namespace
    ) -> tuple[ApplyReport, NextCommands | None]:
        """Carry a plan out as a run, if there is anything to do; return its results and what can follow."""
        words = [*parsed_args.name, *parsed_args.aggregate]
        job = Job(plan, " ".join(words))
        if not job.is_needed:
            return list_results(plan.end()), None
        report, commands = carry_out(
            self.client,
            job,
            self.app.stderr,
            batch.Pace(parsed_args.concurrency),
            title="Writing",
            is_told=self.is_attended(),
        )
        return list_results(report), commands

    def _conclude(self, plan: ApplyPlan, report: ApplyReport, commands: NextCommands | None) -> None:
        """Tell the failures, the numbers, the run with the commands that can follow, and the remedy."""
        failures = (f"{result.kind} {result.name}: {result.error}" for result in report.failures)
        see = f"; see: {commands.commands['show']}" if commands else ""
        self._tell(failures, f"more failures{see}")
        if report.halted:
            tell(self.app.stderr, report.halted)
        for line in summarize(plan, report):
            tell(self.app.stdout, line)
        self.app.stdout.flush()
        if commands and self.is_attended():
            say(self.app.stderr, Page(screen_of(self.app.stderr).width).name_commands(commands))
        elif commands:
            tell(self.app.stderr, str(commands))
        if not report.is_repeatable:
            return
        # what is unknown may have been made
        is_certain = any(result.done in ("failed", "skipped") for result in report.results)
        text = "Some changes were not made" if is_certain else "It is not known whether all changes were made"
        remedy = f"run the same command again to make {'them' if is_certain else 'what is missing'}"
        if self.is_attended():  # the remedies that need the ID of the run were told above
            remedy = "instead of resuming the run, you may run the same command again"
        tell(self.app.stderr, f"{text}; {remedy}.")


def describe_briefly(plan: ApplyPlan, most: int | None, more: str) -> list[str]:
    """Return the lines of a plan, with a last one if equal changes are described once.

    :param most: how many lines are few, as `describe_plan` takes it
    :param more: what shows each of the changes
    """
    lines = list(describe_plan(plan))
    if most is None or len(lines) <= most:
        return lines
    lines = list(describe_plan(plan, most))
    return [*lines, more] if len(lines) < most else lines


def describe_unnamed(number: int) -> list[str]:
    """Return a line about consumers that a file does not name and that hold something of its providers."""
    if not number:
        return []
    told = count_things(number, "consumer")
    where = "with allocations of its resource providers"
    return [f"Not in the file: {told} {where}, which stay (--prune deletes them)"]


def describe_refusals(run: Plan, *, is_grouped: bool = False) -> list[str]:
    """Return a line for each thing that is refused, with the reason.

    :param is_grouped: return one line for all things of a kind that have the same reason, the most frequent
        first
    """
    groups: dict[tuple[str, str, str], list[str]] = {}
    for result in list_refusals(run):
        key = (result.kind, str(result.error), "" if is_grouped else result.name)
        groups.setdefault(key, []).append(result.name)
    ordered = sorted(groups.items(), key=lambda group: len(group[1]), reverse=True)
    return [
        f"{kind} {min(names)}{f' and {len(names) - 1:,} more' if len(names) > 1 else ''}: {reason}"
        for (kind, reason, _), names in ordered
    ]


def count_changes(plan: ApplyPlan) -> str:
    """Return in words how much is created, changed, removed of what stays, and deleted."""
    steps = [step for level in plan.levels for step in level]
    new = sum(step.existing is None for step in steps)
    claiming = sum(not step.existing.allocations for step in plan.consumers)
    numbers: dict[str, dict[Kind, int]] = {
        "create": {
            "resource class": len(plan.resource_classes),
            "trait": len(plan.traits),
            "resource provider": new,
            "consumer": claiming,
        },
        "change": {"resource provider": len(steps) - new, "consumer": len(plan.consumers) - claiming},
        "delete": {
            "consumer": len(plan.leftover.consumers),
            "resource provider": len(plan.leftover.providers),
            "resource class": len(plan.leftover.resource_classes),
            "trait": len(plan.leftover.traits),
        },
    }
    removed = count_removed(plan_run(plan, "").changes)
    told = [
        f"{verb} {count_each(counts)}{f', removing {removed}' if removed and verb == 'change' else ''}"
        for verb, counts in numbers.items()
        if any(counts.values())
    ]
    return "; ".join(told).capitalize()


def summarize(plan: ApplyPlan, report: ApplyReport) -> Iterable[str]:
    """Yield a line for each kind of thing that the file has."""
    for kind, unchanged in plan.unchanged.items():
        numbers = dict(report.count(kind))
        unchanged += numbers.pop("unchanged", 0)
        counts = [f"{number} {done}" for done, number in sorted(numbers.items())]
        if unchanged:
            counts.append(f"{unchanged} unchanged")
        if counts:
            yield f"{pluralize(kind)}: {', '.join(counts)}"
