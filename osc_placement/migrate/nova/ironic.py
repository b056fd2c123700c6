# SPDX-License-Identifier: Apache-2.0
"""Ironic's REST API as the source of bare metal nodes.

The version asked for is that of Pike, the first with resource classes, so any Ironic since answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from keystoneauth1 import exceptions as keystone
from keystoneauth1.adapter import Adapter

from osc_placement.errors import one_line
from osc_placement.migrate.nova.facts import IronicNode
from osc_placement.migrate.nova.source import Unreadable

LABEL: Final = "Ironic"
VERSION: Final = "1.21"
PAGE: Final = 1000
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
_OK: Final = 200


class IronicSource:
    """A source that reads Ironic's nodes behind a keystoneauth1 adapter."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    def list_nodes(self) -> list[IronicNode]:
        """Return all nodes; raise Unreadable if they cannot be listed to the end."""
        nodes: list[IronicNode] = []
        is_more = True
        while is_more:
            marker = {"marker": nodes[-1].uuid} if nodes else {}
            document = self._get({"fields": ",".join(_FIELDS), "limit": str(PAGE), **marker})
            try:
                page = [
                    IronicNode(
                        uuid=entry["uuid"],
                        name=entry.get("name") or "",
                        resource_class=entry.get("resource_class") or "",
                        provision_state=entry["provision_state"],
                        power_state=entry["power_state"],
                        maintenance=bool(entry["maintenance"]),
                        instance_uuid=entry["instance_uuid"],
                    )
                    for entry in document["nodes"]
                ]
                # of the link only whether it is there: behind a proxy it leads elsewhere
                is_more = bool(document.get("next")) and bool(page)
            except (KeyError, TypeError, AttributeError) as error:
                raise Unreadable(LABEL, f"its list of nodes cannot be parsed: {error!r}") from error
            nodes += page
        return nodes

    def _get(self, params: Mapping[str, str]) -> Any:
        """Return the document of a page of nodes."""
        headers = {"X-OpenStack-Ironic-API-Version": VERSION, "Accept": "application/json"}
        try:
            endpoint = (self._adapter.get_endpoint() or "").rstrip("/")
            if not endpoint:
                raise Unreadable(LABEL, "the service catalog has no endpoint of it")
            url = f"{endpoint.removesuffix('/v1')}/v1/nodes"
            response = self._adapter.get(url, params=params, headers=headers, raise_exc=False)
        except keystone.ClientException as error:
            raise Unreadable(LABEL, one_line(error)) from error
        if response.status_code == _NOT_ACCEPTABLE:
            raise Unreadable(LABEL, f"{url} does not speak API version {VERSION}, that of Pike")
        if response.status_code != _OK:
            raise Unreadable(LABEL, f"{url} answered with HTTP {response.status_code}")
        try:
            return response.json()
        except ValueError as error:
            raise Unreadable(LABEL, f"{url} answered with something that is not JSON") from error
