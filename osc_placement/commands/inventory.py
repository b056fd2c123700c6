# SPDX-License-Identifier: Apache-2.0
"""``openstack resource provider inventory set|class set|list|show|delete``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from osc_placement import batch, microversion, syntax
from osc_placement.api.client import Document, PlacementClient
from osc_placement.batch import (
    InventoryEdit,
    Plan,
    Policy,
    Reading,
    Report,
    Result,
    guard,
    make_plan,
)
from osc_placement.commands import base
from osc_placement.commands.batch_execution import carry_out
from osc_placement.commands.fitted import FittedLister
from osc_placement.errors import OutcomeUnknown, PlacementError, UsageError, is_outcome_unknown
from osc_placement.model import Percent, settle_shares
from osc_placement.report.summary import sum_up
from osc_placement.terminal.progress import nothing_changed_on_interrupt
from osc_placement.terminal.screen import is_terminal, say, tell

FIELDS = tuple(syntax.INVENTORY_FIELDS)
ROW_COLUMNS = ("resource_class", *FIELDS)
#: the columns that a table on a narrow terminal leaves out, the first one first
DROPPABLE: Final = ("step_size", "min_unit", "max_unit", "reserved", "allocation_ratio")
CLASS_HELP = "Resource class, standard or custom: VCPU, MEMORY_MB, CUSTOM_LICENSE."
FIELD_HELP = {
    "allocation_ratio": "The factor of overcommitment: 8 VCPU with a ratio of 16.0 give a capacity of 128.",
    "min_unit": "The smallest amount of one allocation.",
    "max_unit": "The largest amount of one allocation.",
    "reserved": "The part of the total that cannot be allocated.",
    "step_size": "The amount of an allocation must be a multiple of this.",
    "total": "The amount of the resource.",
}
#: requests at once for an aggregate: openstack-placement on SQLite answers some with 500 if there are more
_CONCURRENCY: Final = 1


@dataclass(frozen=True)
class Outcome:
    """The outcome for one provider: the inventories it has (or would have), or why it kept the old ones.

    :ivar note: why it was left alone, if it is not in the aggregate any more; it then has no inventories here
    """

    uuid: str
    inventories: Mapping[str, Document] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    error: Exception | None = None
    note: str = ""


def merge_inventories(current: Mapping[str, Document], wanted: syntax.Inventories) -> dict[str, Document]:
    """Return the current inventories with the wanted fields changed.

    :raises UsageError: there is no total of which something is reserved as a share
    """
    merged = {resource_class: dict(fields) for resource_class, fields in current.items()}
    for resource_class, fields in wanted.items():
        known = merged.setdefault(resource_class, {})
        known.update(fields)
        if any(isinstance(value, Percent) for value in fields.values()):
            if "total" not in known:
                raise UsageError(
                    f"reserved of {resource_class} is a share of its total, so give the total too: "
                    f"{resource_class}:total=<number>"
                )
            merged[resource_class] = settle_shares(known)
    return merged


def amend_inventories(current: Mapping[str, Document], wanted: syntax.Inventories) -> dict[str, Document]:
    """Return the current inventories with the wanted fields changed.

    :raises UsageError: of a class that is not there, only other fields than the total are given; the server
        would answer with the schema of its requests
    """
    merged = merge_inventories(current, wanted)
    for resource_class, fields in merged.items():
        if "total" not in fields:
            raise UsageError(
                f"There is no inventory of {resource_class} to amend, only of: "
                f"{', '.join(current) or 'nothing'}; to add it, give its total: --resource "
                f"{resource_class}:total=<number>"
            )
    return merged


def inventory_rows(inventories: Mapping[str, Document], columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """Return a row for each inventory."""
    return [
        base.columns_of({"resource_class": resource_class, **fields}, columns)
        for resource_class, fields in inventories.items()
    ]


class SetInventory(FittedLister):
    """Replace the inventories of a resource provider, or of all providers of an aggregate.

    An inventory that is not named is removed, unless ``--amend`` is given.
    ``--resource VCPU=16`` is short for ``--resource VCPU:total=16``.
    Amounts of memory and disk may have a unit, as in MEMORY_MB:reserved=16GB, where a GB has 1024 MB; what is
    reserved may be a share of the total, as in VCPU:reserved=10%, which is rounded up.

    For example: openstack resource provider inventory set <uuid> --resource VCPU=16
    --resource MEMORY_MB=2048 --resource MEMORY_MB:step_size=128
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "uuid",
            metavar="<uuid>",
            help="Name or UUID of the resource provider; with --aggregate, UUID of the aggregate, "
            "or name of the host aggregate",
        )
        parser.add_argument(
            "--resource",
            metavar="<resource_class>:<inventory_field>=<value>",
            help=f"A field of an inventory; may be repeated.\n{CLASS_HELP}\n<inventory_field> is one of:\n"
            + "\n".join(f"{name} - {text}" for name, text in FIELD_HELP.items()),
            default=[],
            action="append",
        )
        self.add_option(
            parser,
            "--aggregate",
            action="store_true",
            since=microversion.LIST_BY_AGGREGATE,
            help="Set the inventories of every provider that is a member of the aggregate.",
        )
        parser.add_argument(
            "--amend",
            action="store_true",
            help="Change the named fields only, and keep all others and all other inventories",
        )
        parser.add_argument("--dry-run", action="store_true", help="Show what would be set; write nothing")
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        parsed_args.resource = syntax.parse_inventories(parsed_args.resource)
        if not parsed_args.amend:
            merge_inventories({}, parsed_args.resource)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        written = {name for fields in parsed_args.resource.values() for name in fields}
        self.droppable = tuple(name for name in DROPPABLE if name not in written)
        if parsed_args.aggregate:
            return self._set_in_aggregate(parsed_args)
        outcome = change_inventories(
            self.client,
            base.resolve_provider(self.client, parsed_args.uuid),
            wanted=parsed_args.resource,
            amend=parsed_args.amend,
            dry_run=parsed_args.dry_run,
            report_dropped=is_terminal(self.app.stderr),
        )
        self._warn_of_dropped(outcome.dropped, f"resource provider {outcome.uuid}")
        return ROW_COLUMNS, inventory_rows(outcome.inventories, ROW_COLUMNS)

    def _set_in_aggregate(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        (aggregate,) = self.aggregates.resolve([parsed_args.uuid])
        selection = batch.Selection(aggregates=(aggregate,))
        with nothing_changed_on_interrupt(self.app.stderr):
            readings = batch.read_selected(
                self.client, selection, ("inventories",), allow_empty=True, concurrency=_CONCURRENCY
            )
        if not readings:
            raise PlacementError(f"No resource providers found in aggregate with uuid {aggregate}.")
        outcomes = change_many(
            self.client,
            readings,
            selection,
            lambda plan: self._execute(plan, aggregate),
            wanted=parsed_args.resource,
            amend=parsed_args.amend,
            dry_run=parsed_args.dry_run,
        )
        self._report(outcomes)
        rows = [
            (outcome.uuid, *row)
            for outcome in outcomes
            for row in inventory_rows(outcome.inventories, ROW_COLUMNS)
        ]
        return ("resource_provider", *ROW_COLUMNS), rows

    def _execute(self, plan: Plan, aggregate: str) -> Report:
        """Carry a plan out; as a run with a journal, if there is anything to write.

        At an interruption, and on a terminal also at a failure, tell the run and the commands for it.
        """
        plan = guard(self.client, plan, Policy(), concurrency=_CONCURRENCY)
        if not plan.changes:
            return plan.end()
        stream = self.app.stderr
        job = batch.Job(plan, f"aggregate {aggregate}")
        # a script finds nothing on stderr that is not about an interruption or a failure
        pace = batch.Pace(_CONCURRENCY)
        report, commands = carry_out(self.client, job, stream, pace, is_quiet=True, keeps_pace=False)
        if report.interrupted or (is_terminal(stream) and report.is_failed):
            say(stream, [sum_up(report).line, str(commands)])
        if report.interrupted:
            raise KeyboardInterrupt
        return report

    def _report(self, outcomes: list[Outcome]) -> None:
        """Print what failed, was dropped or was not changed; on a terminal, a line for each reason.

        :raises PlacementError: something failed
        """
        failed = [outcome for outcome in outcomes if outcome.error]
        if not is_terminal(self.app.stderr):
            for outcome in failed:
                self.log.error(
                    "Failed to set inventory for resource provider %s: %s.", outcome.uuid, outcome.error
                )
        else:
            reasons: dict[str, list[str]] = {}
            dropped: dict[tuple[str, ...], list[str]] = {}
            for outcome in failed:
                reasons.setdefault(str(outcome.error), []).append(outcome.uuid)
            for reason, uuids in reasons.items():
                tell(self.app.stderr, f"Failed to set inventory for {_name_some(uuids)}: {reason}.")
            for outcome in outcomes:
                dropped.setdefault(outcome.dropped, []).append(outcome.uuid)
                if outcome.note:
                    tell(
                        self.app.stderr,
                        f"Resource provider {outcome.uuid} was not changed: it {outcome.note}.",
                    )
            for classes, uuids in dropped.items():
                self._warn_of_dropped(classes, _name_some(uuids))
        if failed:
            raise PlacementError(
                f"Failed to set inventory for {len(failed)} of {len(outcomes)} resource providers."
            )

    def _warn_of_dropped(self, classes: Sequence[str], providers: str) -> None:
        if classes:
            tell(
                self.app.stderr,
                f"Removed the inventories of {', '.join(classes)} from {providers}; --amend keeps what is "
                "not named.",
            )


def _name_some(uuids: Sequence[str]) -> str:
    """Return the provider, or the number of the providers and one of them."""
    if len(uuids) == 1:
        return f"resource provider {uuids[0]}"
    return f"{len(uuids):,} resource providers, such as {uuids[0]}"


def change_inventories(
    client: PlacementClient,
    uuid: str,
    *,
    wanted: syntax.Inventories,
    amend: bool,
    dry_run: bool,
    report_dropped: bool,
) -> Outcome:
    """Read and set the inventories of one provider."""
    document = client.list_inventories(uuid)
    current, generation = document["inventories"], document["resource_provider_generation"]
    inventories = amend_inventories(current, wanted) if amend else merge_inventories({}, wanted)
    dropped = tuple(resource_class for resource_class in current if resource_class not in inventories)
    if dry_run:
        return Outcome(uuid, inventories)
    answer = client.set_inventories(uuid, inventories, generation)
    return Outcome(uuid, answer["inventories"], dropped if report_dropped else ())


def change_many(
    client: PlacementClient,
    readings: Sequence[Reading],
    selection: batch.Selection,
    execute: Callable[[Plan], Report],
    *,
    wanted: syntax.Inventories,
    amend: bool,
    dry_run: bool,
) -> list[Outcome]:
    """Set the inventories of several providers as a run; return outcomes in the order of the providers.

    :param selection: judged again before a provider is written
    :param execute: carries the plan of the run out
    """
    outcomes: dict[str, Outcome] = {}
    changeable = []
    for reading in readings:
        uuid = reading.subject.uuid
        if reading.state is None:
            outcomes[uuid] = Outcome(uuid, error=reading.error)
            continue
        current = {name: each.to_json() for name, each in (reading.state.inventories or {}).items()}
        try:
            merged = amend_inventories(current, wanted) if amend else merge_inventories({}, wanted)
        except UsageError as error:
            outcomes[uuid] = Outcome(uuid, error=error)
            continue
        if dry_run:
            outcomes[uuid] = Outcome(uuid, merged)
        elif all("total" in fields for fields in merged.values()):
            changeable.append(reading)
        else:
            # without a total, so that the server says what is wrong
            try:
                answer = client.set_inventories(uuid, merged, reading.subject.generation or 0)
            except PlacementError as error:
                outcomes[uuid] = Outcome(uuid, error=error)
            else:
                outcomes[uuid] = Outcome(uuid, answer["inventories"])
    if changeable:
        report = execute(make_plan(InventoryEdit(wanted, not amend), changeable, selection))
        outcomes |= {outcome.uuid: outcome for outcome in _outcomes_of(report)}
    return [outcomes[reading.subject.uuid] for reading in readings]


def _outcomes_of(report: Report) -> list[Outcome]:
    outcomes = []
    for outcome in report.outcomes:
        change, error = outcome.change, outcome.error
        before, after = change.before.inventories or {}, change.after.inventories or {}
        if error is None and outcome.result is Result.SKIPPED:
            error = PlacementError(outcome.note)
        if error is not None:
            told = OutcomeUnknown(error) if is_outcome_unknown(error) else error
            outcomes.append(Outcome(change.uuid, error=told))
            continue
        if outcome.untouched:
            outcomes.append(Outcome(change.uuid, note=outcome.note))
            continue
        inventories = {name: inventory.to_json() for name, inventory in after.items()}
        dropped = tuple(name for name in before if name not in after)
        outcomes.append(Outcome(change.uuid, inventories, dropped))
    return outcomes


class SetClassInventory(base.ProviderCommand, base.ShowOne):
    """Replace one inventory of a resource provider; a field that is not given gets its default.

    For example: openstack resource provider inventory class set <uuid> VCPU --total 16 --max_unit 4
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("resource_class", metavar="<class>", help=CLASS_HELP)
        for name, kind in syntax.INVENTORY_FIELDS.items():
            parser.add_argument(
                f"--{name}", metavar=f"<{name}>", required=name == "total", type=kind, help=FIELD_HELP[name]
            )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        given = {name: getattr(parsed_args, name) for name in FIELDS}
        fields = {name: value for name, value in given.items() if value is not None}
        uuid = base.resolve_provider(self.client, parsed_args.uuid)
        generation = self.client.show_provider(uuid)["generation"]
        inventory = self.client.set_inventory(uuid, parsed_args.resource_class, fields, generation)
        return FIELDS, base.columns_of(inventory, FIELDS)


class DeleteInventory(base.ProviderCommand):
    """Delete one inventory of a resource provider, or all of them."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        since = microversion.DELETE_INVENTORIES
        parser.add_argument(
            "--resource-class",
            metavar="<resource_class>",
            required=base.required_when(self, lambda version: version < since),
            help=f"{CLASS_HELP}\nWithout it all inventories of the provider are deleted, which requires at "
            f"least ``--os-placement-api-version {since}``.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        uuid = base.resolve_provider(self.client, parsed_args.uuid)
        if parsed_args.resource_class is None:
            self.client.delete_inventories(uuid)
        else:
            self.client.delete_inventory(uuid, parsed_args.resource_class)


class ShowInventory(base.ProviderCommand, base.ShowOne):
    """Show one inventory of a resource provider, and how much of it is used."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("resource_class", metavar="<resource_class>", help=CLASS_HELP)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        uuid = base.resolve_provider(self.client, parsed_args.uuid)
        inventory = self.client.show_inventory(uuid, parsed_args.resource_class)
        used = self.client.provider_usages(uuid)[parsed_args.resource_class]
        columns = (*FIELDS, "used")
        return columns, base.columns_of({**inventory, "used": used}, columns)


class ListInventory(base.ProviderCommand, FittedLister):
    """List the inventories of a resource provider, and how much of each is used."""

    droppable = DROPPABLE

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        uuid = base.resolve_provider(self.client, parsed_args.uuid)
        inventories = self.client.list_inventories(uuid)["inventories"]
        usages = self.client.provider_usages(uuid)
        columns = (*ROW_COLUMNS, "used")
        with_usage = {name: {**fields, "used": usages.get(name, 0)} for name, fields in inventories.items()}
        return columns, inventory_rows(with_usage, columns)
