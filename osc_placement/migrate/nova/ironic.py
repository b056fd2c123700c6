# SPDX-License-Identifier: Apache-2.0
"""Ironic's REST API as the source of bare metal nodes.

The version asked for is that of Pike, the first with resource classes, so any Ironic since answers.
"""

from __future__ import annotations

from typing import Final

from keystoneauth1.adapter import Adapter

from osc_placement.migrate.nova.facts import IronicNode
from osc_placement.migrate.nova.rest import Document, read_pages

LABEL: Final = "Ironic"
VERSION: Final = "1.21"
_FIELDS: Final = (
    "uuid",
    "name",
    "resource_class",
    "provision_state",
    "power_state",
    "maintenance",
    "instance_uuid",
)
_NOT_ACCEPTABLE: Final = 406


class IronicSource:
    """A source that reads Ironic's nodes behind a keystoneauth1 adapter."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    def list_nodes(self) -> list[IronicNode]:
        """Return all nodes; raise Unreadable if they cannot be listed to the end."""

        def read(entry: Document) -> IronicNode:
            return IronicNode(
                uuid=entry["uuid"],
                name=entry.get("name") or "",
                resource_class=entry.get("resource_class") or "",
                provision_state=entry["provision_state"],
                power_state=entry["power_state"],
                maintenance=bool(entry["maintenance"]),
                instance_uuid=entry["instance_uuid"],
            )

        return read_pages(
            self._adapter,
            LABEL,
            "v1/nodes",
            read,
            {"fields": ",".join(_FIELDS)},
            headers={"X-OpenStack-Ironic-API-Version": VERSION, "Accept": "application/json"},
            refusals={_NOT_ACCEPTABLE: f"does not speak API version {VERSION}, that of Pike"},
        )
