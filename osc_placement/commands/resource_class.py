# SPDX-License-Identifier: Apache-2.0
"""``openstack resource class list|create|set|show|delete``."""

from __future__ import annotations

import argparse
from typing import Any

from osc_placement import microversion
from osc_placement.commands import base

COLUMNS = ("name",)


class _OneClass(base.PlacementCommand):
    """A command on the class that its argument names."""

    minimum = microversion.RESOURCE_CLASSES

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="<name>", help="Name of the resource class")
        return parser


class ListResourceClass(base.Lister):
    """List all resource classes, standard and custom."""

    minimum = microversion.RESOURCE_CLASSES

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        classes = self.client.list_resource_classes()
        return COLUMNS, [base.columns_of(resource_class, COLUMNS) for resource_class in classes]


class CreateResourceClass(_OneClass):
    """Create a custom resource class, which must not exist yet; its name starts with ``CUSTOM_``."""

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.client.create_resource_class(parsed_args.name)


class SetResourceClass(_OneClass):
    """Create a custom resource class unless it exists."""

    minimum = microversion.PUT_RESOURCE_CLASS_WITHOUT_BODY

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.client.ensure_resource_class(parsed_args.name)


class ShowResourceClass(_OneClass, base.ShowOne):
    """Show a resource class."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        return COLUMNS, base.columns_of(self.client.show_resource_class(parsed_args.name), COLUMNS)


class DeleteResourceClass(_OneClass):
    """Delete a custom resource class of which no provider has an inventory."""

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.client.delete_resource_class(parsed_args.name)
