# SPDX-License-Identifier: Apache-2.0
"""``openstack resource usage show`` and ``openstack resource provider usage show``."""

from __future__ import annotations

import argparse
from typing import Any

from osc_placement import microversion
from osc_placement.commands import base

COLUMNS = ("resource_class", "usage")
TYPE_COLUMNS = ("consumer_type", "consumers", "resource_class", "usage")
#: the key that stands among the resource classes of a type in the API's answer
_COUNT = "consumer_count"


class ResourceShowUsage(base.Lister):
    """Show how much of each resource class a project uses, in all or for one of its users.

    Where {CONSUMER_TYPES} or higher is asked for, there is a row for each type of consumer instead, as that
    version answers; ``--by-consumer-type`` and ``--consumer-type`` give rows that are easier to read.
    """

    minimum = microversion.TOTAL_USAGES

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("project_id", metavar="<project-uuid>", help="ID of the project")
        parser.add_argument("--user-id", metavar="<user-uuid>", help="ID of a user of the project")
        types = parser.add_mutually_exclusive_group()
        self.add_option(
            types,
            "--consumer-type",
            metavar="<consumer-type>",
            since=microversion.CONSUMER_TYPES,
            help="Only consumers of this type, such as INSTANCE; ``unknown`` for those without a type, "
            "``all`` for all of them together.",
        )
        self.add_option(
            types,
            "--by-consumer-type",
            action="store_true",
            since=microversion.CONSUMER_TYPES,
            help="Show rows for each type of consumer, with the number of consumers.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        if parsed_args.consumer_type or parsed_args.by_consumer_type:
            usages = self.client.total_usages(
                parsed_args.project_id,
                user_id=parsed_args.user_id or None,
                consumer_type=parsed_args.consumer_type,
            )
            return TYPE_COLUMNS, [
                (kind, amounts[_COUNT], resource_class, amount)
                for kind, amounts in sorted(usages.items())
                for resource_class, amount in sorted(amounts.items())
                if resource_class != _COUNT
            ]
        usages = self.client.total_usages(
            parsed_args.project_id,
            user_id=parsed_args.user_id or None,
            version=base.version_before_consumer_types(self.client),
        )
        return COLUMNS, list(usages.items())


class ShowUsage(base.ProviderCommand, base.Lister):
    """Show how much of each resource class is allocated from a resource provider."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        uuid = base.resolve_provider(self.client, parsed_args.uuid)
        return COLUMNS, list(self.client.provider_usages(uuid).items())
