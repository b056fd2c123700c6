# SPDX-License-Identifier: Apache-2.0
"""Flavors from the compute API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from osc_placement.errors import PlacementError

#: from this microversion on, extra specs are part of a flavor's detail
_MICROVERSION: Final = "2.61"


class NoFlavor(PlacementError):
    """The flavor cannot be read."""

    def __init__(self, name: str, reason: str, remedy: str) -> None:
        super().__init__(f"Flavor {name!r} cannot be read: {reason}; {remedy}")


def find_flavor(client_manager: Any, name: str) -> Mapping[str, Any]:
    """Return the flavor with this name or ID, with its extra specs."""
    from keystoneauth1 import exceptions

    try:
        flavors = _list_flavors(client_manager, name)
    except exceptions.ClientException as failure:
        reason = str(failure).partition(" (Request-ID")[0].partition("\n")[0] or type(failure).__name__
        raise NoFlavor(
            name, f"the compute API gave no answer ({reason})", "give the amounts with --fit instead"
        ) from failure
    found = [flavor for flavor in flavors if name in (flavor.get("name"), flavor.get("id"))]
    if not found:
        raise NoFlavor(name, "there is none of that name or ID", "see: openstack flavor list --all")
    return found[0]


def _list_flavors(client_manager: Any, name: str) -> list[Mapping[str, Any]]:
    """Read flavors page by page, until the wanted one is found."""
    flavors: dict[str, Mapping[str, Any]] = {}
    marker = ""
    while True:
        page = _get(client_manager, f"/flavors/detail?is_public=None&limit=1000{marker}").get("flavors", [])
        new = {str(flavor.get("id")): flavor for flavor in page} if isinstance(page, list) else {}
        # a server that ignores markers sends the same page again and again
        if new.keys() <= flavors.keys():
            return list(flavors.values())
        flavors |= new
        if any(name in (flavor.get("name"), flavor.get("id")) for flavor in page):
            return list(flavors.values())
        marker = f"&marker={quote(str(page[-1].get('id')), safe='')}"


def _get(client_manager: Any, path: str) -> Mapping[str, Any]:
    response = client_manager.session.get(
        path,
        endpoint_filter={
            "service_type": "compute",
            "interface": client_manager.interface,
            "region_name": client_manager.region_name,
        },
        endpoint_override=client_manager._cli_options.get_endpoint("compute"),
        headers={"Accept": "application/json"},
        microversion=_MICROVERSION,
    )
    try:
        document = response.json()
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise PlacementError("The compute API answered with something that is no JSON object")
    return document
