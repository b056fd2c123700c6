# SPDX-License-Identifier: Apache-2.0
"""``openstack resource provider batch trait add|remove|set`` and ``batch ratio set``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any, Final

from cliff.columns import FormattableColumn

from osc_placement import microversion, syntax
from osc_placement.batch import execute, select
from osc_placement.batch.difference import describe_difference
from osc_placement.batch.inventory import RatioEdit
from osc_placement.batch.membership import TraitEdit, Verb
from osc_placement.batch.plan import (
    EXIT_DONE,
    EXIT_PARTIAL,
    Change,
    Edit,
    Facet,
    Plan,
    ProviderState,
    Report,
    count_providers,
    make_plan,
)
from osc_placement.commands import base
from osc_placement.commands.concurrency import add_concurrency_option
from osc_placement.commands.progress import ProgressBar, nothing_changed_on_interrupt, stop_on_interrupt
from osc_placement.errors import PlacementError, UsageError

PLAN_COLUMNS: Final = ("uuid", "name", "before", "after", "reason")
REPORT_COLUMNS: Final = (*PLAN_COLUMNS, "result", "error")
#: formats whose cells are text: they get the difference in one line
FLAT_FORMATS: Final = ("value", "csv")
#: how much of a plan is shown before the question whether to go on
_ROWS_TO_CONFIRM: Final = 40


class BatchCommand(base.Lister):
    """A change of all resource providers selected, planned and then carried out."""

    minimum = microversion.LIST_BY_AGGREGATE
    exit_statuses = (
        "Exit status: 0 every provider is as asked, or the plan was shown; 1 nothing was changed, the reason "
        "is on stderr; 2 the command line is wrong; 3 some providers failed, the rows say which and why; "
        "130 interrupted, the rows say what was done."
    )

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        self.add_edit_arguments(parser)
        _add_selectors(parser)
        _add_execution(parser)
        return parser

    def add_edit_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments that say what to change."""
        raise NotImplementedError

    def read_edit(self, parsed_args: argparse.Namespace) -> Edit:
        """Make the edit of the arguments; no request."""
        raise NotImplementedError

    def check_names(self, parsed_args: argparse.Namespace) -> None:
        """Ask the server whether it knows what the arguments name."""

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        parsed_args.edit = self.read_edit(parsed_args)
        parsed_args.selection = select.Selection(aggregates=tuple(parsed_args.aggregate))
        if not (parsed_args.dry_run or parsed_args.yes or self._is_attended()):
            raise UsageError(
                "Nothing was changed: without a terminal to confirm on, give --yes to change "
                "or --dry-run to see the plan"
            )

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Print the rows, then the summary where a person reads it, or something went wrong."""
        self._summary = ""
        status = super().run(parsed_args)
        if self._summary and status:
            print(self._summary, file=self.app.stderr)
        elif self._summary and parsed_args.formatter == self.formatter_default:
            print(self._summary, file=self.app.stdout)
        return status

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        show = _flat_cells if parsed_args.formatter in FLAT_FORMATS else _cells
        plan = self._agree_on_plan(parsed_args)
        if parsed_args.dry_run:
            self._summary = plan.summary
            self.exit_status = EXIT_PARTIAL if plan.unreadable else EXIT_DONE
            return PLAN_COLUMNS, [show(plan, step) for step in plan.steps if _is_worth_showing(plan, step)]
        report = self._execute(plan, parsed_args.concurrency)
        self._summary = report.summary if plan.changes else plan.summary
        self.exit_status = report.exit_status
        return REPORT_COLUMNS, _report_rows(report, show)

    def _agree_on_plan(self, parsed_args: argparse.Namespace) -> Plan:
        with nothing_changed_on_interrupt(self.app.stderr):
            self.check_names(parsed_args)
            plan = self._make_plan(parsed_args)
            if plan.changes and not (parsed_args.dry_run or parsed_args.yes):
                self._confirm(plan)
        return plan

    def _make_plan(self, parsed_args: argparse.Namespace) -> Plan:
        providers = select.select_providers(self.client, parsed_args.selection)
        with ProgressBar("Reading", len(providers), self.app.stderr) as progress:
            readings = select.read_states(
                self.client,
                providers,
                parsed_args.edit.facets,
                concurrency=parsed_args.concurrency,
                on_reading=progress.advance,
            )
        return make_plan(parsed_args.edit, readings)

    def _execute(self, plan: Plan, concurrency: int) -> Report:
        with (
            stop_on_interrupt(self.app.stderr) as stop,
            ProgressBar("Changing", len(plan.steps), self.app.stderr) as progress,
        ):
            return execute.execute_plan(
                self.client, plan, concurrency=concurrency, on_outcome=progress.advance, stop=stop
            )

    def _is_attended(self) -> bool:
        return bool(self.app.stdin.isatty() and self.app.stderr.isatty())

    def _confirm(self, plan: Plan) -> None:
        print(format_plan(plan, _ROWS_TO_CONFIRM), file=self.app.stderr)
        question = f"Change {count_providers(len(plan.changes))}? [y/N] "
        print(question, end="", file=self.app.stderr, flush=True)
        if self.app.stdin.readline().strip().lower() not in ("y", "yes"):
            raise PlacementError("Nothing was changed: not confirmed")


class BatchTrait(BatchCommand):
    """A change of the traits of all resource providers selected."""

    minimum = microversion.TRAITS
    verb: Verb

    def add_edit_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("trait", metavar="<trait>", nargs="+", help="Name of a trait")

    def read_edit(self, parsed_args: argparse.Namespace) -> Edit:
        return TraitEdit(self.verb, syntax.parse_traits(parsed_args.trait))

    def check_names(self, parsed_args: argparse.Namespace) -> None:
        select.require_traits(self.client, parsed_args.trait)


class AddTrait(BatchTrait):
    """Add traits to all resource providers selected; the traits they have stay."""

    verb = "add"


class RemoveTrait(BatchTrait):
    """Remove traits from all resource providers selected; their other traits stay."""

    verb = "remove"


class SetTrait(BatchTrait):
    """Replace the traits of all resource providers selected; traits that are not named are taken away."""

    verb = "set"


class SetRatio(BatchCommand):
    """Set allocation ratios in the inventories of all resource providers selected.

    A provider without inventory of a class is left as it is; a class that none of them has is an error.
    """

    def add_edit_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "ratio",
            metavar="<resource_class>=<ratio>",
            nargs="+",
            help="Resource class and its allocation ratio, as in VCPU=4.0",
        )

    def read_edit(self, parsed_args: argparse.Namespace) -> Edit:
        return RatioEdit(syntax.parse_ratios(parsed_args.ratio))


def _add_selectors(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("selection", "which resource providers to change")
    group.add_argument(
        "--aggregate",
        metavar="<aggregate_uuid>",
        action="append",
        required=True,
        help="Those in the aggregate with this UUID. May be repeated for those in any of several.",
    )


def _add_execution(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("execution")
    group.add_argument(
        "--dry-run",
        action="store_true",
        help="Write nothing; show for each resource provider that would change what it has before and after",
    )
    add_concurrency_option(group)
    group.add_argument(
        "--yes",
        action="store_true",
        help="Do not ask; without it the plan is shown and has to be confirmed on the terminal",
    )


class StateColumn(FormattableColumn[Any]):
    """A state of one provider: whole to machines; to people only where it differs from its counterpart."""

    def __init__(self, value: Any, difference: Iterable[str]) -> None:
        super().__init__(value)
        self._difference = "\n".join(difference)

    def human_readable(self) -> str:
        """Only what differs, one item a line."""
        return self._difference


def _is_worth_showing(plan: Plan, step: Change) -> bool:
    return bool(step.facets) or step.provider.uuid in plan.unreadable


def _cells(plan: Plan, step: Change) -> tuple[Any, ...]:
    gone, come = describe_difference(step.before, step.after)
    facet = plan.edit.facets[0]
    before = StateColumn(state_to_json(step.before, facet), gone)
    after = StateColumn(state_to_json(step.after, facet), come)
    return step.provider.uuid, step.provider.name, before, after, step.reason


def _flat_cells(plan: Plan, step: Change) -> tuple[Any, ...]:
    gone, come = describe_difference(step.before, step.after)
    return step.provider.uuid, step.provider.name, ",".join(gone), ",".join(come), step.reason


def _report_rows(report: Report, show: Any) -> list[tuple[Any, ...]]:
    return [
        (*show(report.plan, outcome.change), str(outcome.result), str(outcome.error or ""))
        for outcome in report.outcomes
    ]


def state_to_json(state: ProviderState, facet: Facet) -> Any:
    """One facet of a state as the API has it; names in alphabetical order."""
    value = getattr(state, facet)
    if value is None:
        return None
    if facet == "inventories":
        return {name: inventory.to_json() for name, inventory in value.items()}
    return sorted(value)


def format_plan(plan: Plan, limit: int) -> str:
    """Write a plan for a person to agree to: at most so many providers, and the summary."""
    from prettytable import PrettyTable

    table = PrettyTable(PLAN_COLUMNS[1:], align="l")
    for step in plan.changes[:limit]:
        table.add_row([str(cell) for cell in _cells(plan, step)[1:]])
    hidden = len(plan.changes) - limit
    more = [f"... and {hidden} more; --dry-run shows all"] if hidden > 0 else []
    return "\n".join([table.get_string(), *more, plan.summary])
