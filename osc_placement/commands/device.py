# SPDX-License-Identifier: Apache-2.0
"""``openstack resource provider device list``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from osc_placement import microversion
from osc_placement.batch import DeviceState
from osc_placement.commands.reading import show_reading
from osc_placement.commands.report import ReportCommand
from osc_placement.model import ONE_TIME_USE, Inventory
from osc_placement.report.read import STOCKS
from osc_placement.terminal.screen import is_terminal, tell

_COLUMNS = ("host", "device", "uuid", "resource_class", "total", "reserved", "used", "state")


class ListDevice(ReportCommand):
    """List one-time-use devices: the resource providers with the trait HW_PCI_ONE_TIME_USE.

    A device is free, in use, or burned: its total is reserved, and nothing of it is allocated. nova-compute
    reserves a device when an instance gets it, and never releases it: clean it, and release it with
    ``openstack resource provider batch device release``.
    """

    example = "resource provider device list --burned"
    minimum = microversion.LIST_BY_TRAITS
    only_with = ONE_TIME_USE
    droppable: Sequence[str] = ("uuid", "resource_class", "total", "host", "reserved", "used")

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--burned", action="store_true", help="List only those that are burned")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        with show_reading(self.app.stderr, parsed_args.concurrency) as reading:
            selected = self.read_cloud(parsed_args, STOCKS, reading)
        wanted = [DeviceState.BURNED] if parsed_args.burned else list(DeviceState)
        cloud = selected.cloud
        records = [(cloud.root_of(uuid).name, cloud.records[uuid]) for uuid in selected.uuids or ()]
        rows: list[tuple[Any, ...]] = []
        for host, record in sorted(records, key=lambda each: (each[0], each[1].provider.name)):
            name, uuid, usages = record.provider.name, record.provider.uuid, record.usages or {}
            inventories: Mapping[str, Inventory | None] = record.inventories or {"": None}
            for resource_class, inventory in sorted(inventories.items()):
                state = DeviceState.of(inventory, usages)
                if state in wanted:
                    total, reserved = (inventory.total, inventory.reserved) if inventory else (0, 0)
                    used = usages.get(resource_class, 0)
                    rows.append((host, name, uuid, resource_class, total, reserved, used, str(state)))
        if not rows and is_terminal(self.app.stderr):
            tell(
                self.app.stderr, f"There is no {'burned ' if parsed_args.burned else ''}one-time-use device."
            )
        return _COLUMNS, rows
