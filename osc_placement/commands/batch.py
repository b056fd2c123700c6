# SPDX-License-Identifier: Apache-2.0
"""``openstack resource provider batch trait|ratio|inventory|aggregate|device ...``: change many providers."""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from osc_placement import batch, microversion, syntax
from osc_placement.api.names import require_traits, suggest
from osc_placement.batch import (
    FACETS,
    AggregateEdit,
    DeviceRelease,
    Edit,
    InventoryDeletion,
    InventoryEdit,
    Job,
    RatioEdit,
    Reading,
    TraitEdit,
    Verb,
    guard,
    make_plan,
    save_plan,
)
from osc_placement.commands import base
from osc_placement.commands.batch_execution import PlanCommand, refuse_steering
from osc_placement.commands.batch_options import (
    add_execution,
    add_force,
    add_selectors,
    read_policy,
    read_selection,
    select_aggregates,
)
from osc_placement.commands.host_aggregate import AGGREGATE_HELP
from osc_placement.errors import UsageError
from osc_placement.model import INVENTORY_FIELDS
from osc_placement.terminal.progress import ProgressBar


class BatchCommand(PlanCommand):
    """The base of commands that plan a change of all selected resource providers and carry it out."""

    #: what --force does; empty for a change that takes nothing away that is kept without it
    forced: ClassVar[str] = "Change resource providers even if less capacity is left than is allocated"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        self.add_edit_arguments(parser)
        add_selectors(self, parser)
        add_execution(parser)
        parser.add_argument(
            "--plan-out",
            type=base.read_text,
            metavar="<file>",
            help="Write nothing to the server; save the plan in this file for: openstack resource "
            "provider batch apply. No file is overwritten.",
        )
        if self.forced:
            add_force(parser, self.forced)
        return parser

    def add_edit_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments that describe the change."""
        raise NotImplementedError

    def read_edit(self, parsed_args: argparse.Namespace) -> Edit:
        """Make the edit of the arguments; this sends no request."""
        raise NotImplementedError

    def check_names(self, parsed_args: argparse.Namespace) -> None:
        """Resolve names in the arguments of the edit; raise an error if the cloud does not know one."""

    def name_classes(self, parsed_args: argparse.Namespace) -> Iterable[str]:
        """Return the resource classes that the arguments name."""
        return ()

    def name_providers(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        """Return the providers that the arguments name, which are a condition of the selection."""
        return ()

    def is_harmless(self, parsed_args: argparse.Namespace) -> bool:
        return bool(parsed_args.dry_run or parsed_args.plan_out)

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        parsed_args.edit = self.read_edit(parsed_args)
        if parsed_args.plan_out:
            if parsed_args.yes:
                raise UsageError(
                    "--yes cannot be used with --plan-out, which changes nothing; give it to: openstack "
                    "resource provider batch apply"
                )
            if pathlib.Path(parsed_args.plan_out).exists():
                raise UsageError(f"The file {parsed_args.plan_out} exists; remove it, or give another one")
            refuse_steering(
                parsed_args,
                "--plan-out, which changes nothing; give the option to: openstack resource provider "
                "batch apply",
            )
        if parsed_args.providers_file == "-" and not (self.is_harmless(parsed_args) or parsed_args.yes):
            raise UsageError(
                "Nothing was changed: with --providers-file - the plan cannot be confirmed on standard "
                "input; give --yes"
            )
        named = self.name_providers(parsed_args)
        parsed_args.selection = read_selection(parsed_args, self.app.stdin, None, named)
        super().read_arguments(parsed_args)

    def check_versions(self, given: Mapping[str, Any]) -> None:
        super().check_versions(given)
        base.require_any_traits(self.client, given["required"])

    def prepare(self, parsed_args: argparse.Namespace) -> Job:
        self.check_names(parsed_args)
        aggregates = self.aggregates.resolve(parsed_args.aggregate)
        parsed_args.selection = select_aggregates(parsed_args.selection, parsed_args, aggregates)
        edit: Edit = parsed_args.edit
        readings = self._read(parsed_args, edit)
        plan = make_plan(edit, readings, parsed_args.selection)
        batch.require_resource_classes(self.client, readings, self.name_classes(parsed_args))
        plan = guard(
            self.client, plan, read_policy(parsed_args), readings, concurrency=parsed_args.concurrency
        )
        told = str(parsed_args.selection)
        for name, uuid in zip(parsed_args.aggregate, aggregates, strict=True):
            told = told if name == uuid else told.replace(uuid, f"{name} ({uuid})")
        if parsed_args.plan_out:
            save_plan(
                pathlib.Path(parsed_args.plan_out),
                plan,
                readings,
                server=self.client.endpoint,
                selection=told,
                atomic=parsed_args.atomic,
            )
            self.saved_plan = parsed_args.plan_out
        return Job(plan, told, is_atomic=parsed_args.atomic)

    def _read(self, parsed_args: argparse.Namespace, edit: Edit) -> list[Reading]:
        selection = parsed_args.selection
        if selection.in_tree:
            uuid = base.resolve_provider(self.client, selection.in_tree)
            selection = parsed_args.selection = replace(selection, in_tree=uuid)
        facets = edit.facets
        if parsed_args.plan_out:
            facets = FACETS
        elif len(selection.aggregates) > 1 and "inventories" in facets:
            facets += ("aggregates",)
        with ProgressBar("Reading", None, self.app.stderr) as progress:
            readings = batch.read_selected(
                self.client,
                selection,
                facets,
                with_usages="inventories" in edit.facets or bool(parsed_args.plan_out),
                allow_empty=parsed_args.allow_empty,
                concurrency=parsed_args.concurrency,
                on_selected=progress.expect,
                on_reading=progress.advance,
            )
        # rows, canaries and journals are in this order
        readings.sort(key=lambda reading: (reading.subject.name, reading.subject.uuid))
        if parsed_args.plan_out:
            return batch.read_usages(self.client, readings, concurrency=parsed_args.concurrency)
        return readings


class BatchTrait(BatchCommand):
    """The base of commands that change the traits of all selected resource providers."""

    minimum = microversion.TRAITS
    forced = ""
    verb: Verb

    def add_edit_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("trait", metavar="<trait>", nargs="+", help="Name of a trait")

    def read_edit(self, parsed_args: argparse.Namespace) -> Edit:
        return TraitEdit(self.verb, syntax.parse_traits(parsed_args.trait))

    def check_names(self, parsed_args: argparse.Namespace) -> None:
        # a trait that is to be removed need not be created first
        require_traits(self.client, parsed_args.trait, in_query=self.verb == "remove")


class AddTrait(BatchTrait):
    """Add traits to all selected resource providers, which keep the traits they have."""

    example = "resource provider batch trait add CUSTOM_GOLD --aggregate rack1 --dry-run"
    verb = "add"


class RemoveTrait(BatchTrait):
    """Remove traits from all selected resource providers, which keep their other traits."""

    example = "resource provider batch trait remove CUSTOM_GOLD --aggregate rack1 --dry-run"
    verb = "remove"


class SetTrait(BatchTrait):
    """Replace the traits of all selected resource providers; traits that are not named are removed.

    If these are traits that nova-compute reports (OWNER_NOVA, COMPUTE_*, HW_*), nothing is changed without
    ``--force``. ``batch trait add`` and ``remove`` keep what is not named.
    """

    example = "resource provider batch trait set CUSTOM_GOLD --aggregate rack1 --dry-run"
    verb = "set"
    forced = (
        "Remove also traits that nova-compute reports: OWNER_NOVA, COMPUTE_* and HW_*; a plan that "
        "--plan-out saves has this option"
    )


class BatchAggregate(BatchCommand):
    """The base of commands that change the aggregates of all selected resource providers."""

    forced = ""
    verb: Verb

    def add_edit_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("member_of", metavar="<aggregate>", nargs="+", help=AGGREGATE_HELP)

    def read_edit(self, parsed_args: argparse.Namespace) -> Edit:
        return AggregateEdit(self.verb, frozenset(parsed_args.member_of))

    def check_names(self, parsed_args: argparse.Namespace) -> None:
        uuids = syntax.parse_aggregates(self.aggregates.resolve(parsed_args.member_of))
        parsed_args.edit = AggregateEdit(self.verb, uuids)


class AddAggregate(BatchAggregate):
    """Add all selected resource providers to aggregates; they stay in the aggregates they are in."""

    example = "resource provider batch aggregate add rack1 --name 'compute-r1-0?' --dry-run"
    verb = "add"


class RemoveAggregate(BatchAggregate):
    """Remove all selected resource providers from aggregates; they stay in their other aggregates."""

    example = "resource provider batch aggregate remove rack1 --name 'compute-r1-0?' --dry-run"
    verb = "remove"


class SetAggregate(BatchAggregate):
    """Replace the aggregates of all selected resource providers; they leave aggregates that are not named."""

    example = "resource provider batch aggregate set rack1 --name 'compute-r1-0?' --dry-run"
    verb = "set"


class SetRatio(BatchCommand):
    """Set allocation ratios in the inventories of all selected resource providers.

    A resource provider without an inventory of a class is not changed for that class. It is an error if no
    selected provider has an inventory of it.
    """

    example = "resource provider batch ratio set VCPU=4 --aggregate rack1 --dry-run"

    def add_edit_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "ratio",
            metavar="<resource_class>=<ratio>",
            nargs="+",
            help="Resource class and its allocation ratio, as in VCPU=4.0",
        )

    def read_edit(self, parsed_args: argparse.Namespace) -> Edit:
        return RatioEdit(syntax.parse_ratios(parsed_args.ratio))


class SetInventory(BatchCommand):
    """Set fields of the inventories of all selected resource providers, which keep other fields and classes.

    A resource provider that has no inventory of a class gets one if the total is given; otherwise it is not
    changed for that class.

    Amounts of memory and disk may have a unit, as in MEMORY_MB:reserved=16GB or DISK_GB:total=2TB; as in
    nova, a GB has 1024 MB. What is reserved may be a share of the total of each resource provider, as in
    VCPU:reserved=10%; it is rounded up.
    """

    example = "resource provider batch inventory set MEMORY_MB:reserved=8GB --aggregate rack1 --dry-run"

    def add_edit_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "field",
            metavar="<resource_class>:<field>=<value>",
            nargs="+",
            help="A field of an inventory and its value, as in VCPU:reserved=2; VCPU=8 is the total",
        )
        parser.add_argument(
            "--replace",
            action="store_true",
            help="Remove all classes that are not given, and reset all fields that are not given",
        )

    def read_edit(self, parsed_args: argparse.Namespace) -> Edit:
        try:
            fields = syntax.parse_inventories(parsed_args.field)
        except syntax.UnknownField as error:
            guess = suggest([error.field], INVENTORY_FIELDS)
            raise UsageError(f"{error}{guess}; there are {', '.join(INVENTORY_FIELDS)}") from error
        return InventoryEdit(syntax.check_inventories(fields), parsed_args.replace)

    def name_classes(self, parsed_args: argparse.Namespace) -> Iterable[str]:
        return tuple(parsed_args.edit.fields)


class DeleteInventory(BatchCommand):
    """Delete the inventories of resource classes from all selected resource providers."""

    example = "resource provider batch inventory delete CUSTOM_FPGA --aggregate rack1 --dry-run"

    def add_edit_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "resource_class", metavar="<resource_class>", nargs="+", help="Name of a resource class"
        )

    def read_edit(self, parsed_args: argparse.Namespace) -> Edit:
        return InventoryDeletion(tuple(dict.fromkeys(parsed_args.resource_class)))

    def name_classes(self, parsed_args: argparse.Namespace) -> Iterable[str]:
        return tuple(parsed_args.edit.classes)


class ReleaseDevice(BatchCommand):
    """Release one-time-use devices that are burned: set what is reserved of them to 0.

    Clean the devices first. A device is burned if it has the trait HW_PCI_ONE_TIME_USE, its total is reserved
    and nothing of it is allocated. One that is in use is refused, also if it was claimed after the plan was
    made. Selected resource providers that are no such devices, or are not burned, are not changed. A host
    does not stand for the devices below it, so that only devices that were cleaned are released.
    """

    example = "resource provider batch device release compute-1_0000:41:00.0 --dry-run"
    minimum = microversion.TRAITS
    forced = ""

    def add_edit_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "resource_provider",
            metavar="<provider>",
            nargs="*",
            help="Name or UUID of a device; without one, the conditions below select the devices",
        )

    def read_edit(self, parsed_args: argparse.Namespace) -> Edit:
        return DeviceRelease()

    def name_providers(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        if parsed_args.resource_provider and parsed_args.providers_file:
            raise UsageError("--providers-file cannot be used with devices that are named")
        return tuple(dict.fromkeys(parsed_args.resource_provider))
