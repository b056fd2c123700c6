# SPDX-License-Identifier: Apache-2.0
"""Flavors from the compute API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from osc_placement.api.names import suggest
from osc_placement.commands.compute import NoAnswer, read_compute
from osc_placement.errors import PlacementError

#: from this microversion on, extra specs are part of a flavor's detail
_MICROVERSION: Final = "2.61"
_NOT_FOUND: Final = 404


class NoFlavor(PlacementError):
    """The flavor cannot be read."""

    def __init__(self, name: str, reason: str, remedy: str) -> None:
        super().__init__(f"Flavor {name!r} cannot be read: {reason}; {remedy}")


def find_flavor(client_manager: Any, name: str) -> Mapping[str, Any]:
    """Return the flavor with this name or ID, with its extra specs."""
    try:
        flavors = _list_flavors(client_manager, name)
    except NoAnswer as failure:
        question = " (is there one in this cloud?)" if failure.status == _NOT_FOUND else ""
        reason = f"the compute service {failure.told}{question}"
        raise NoFlavor(name, reason, "give the amounts in place of the flavor") from failure
    found = [flavor for flavor in flavors if name in (flavor.get("name"), flavor.get("id"))]
    if not found:
        guess = suggest([name], (str(flavor.get("name")) for flavor in flavors))
        raise NoFlavor(name, f"there is none of that name or ID{guess}", "see: openstack flavor list --all")
    return found[0]


def _list_flavors(client_manager: Any, name: str) -> list[Mapping[str, Any]]:
    """Read flavors page by page, until the wanted one is found."""
    flavors: dict[str, Mapping[str, Any]] = {}
    marker = ""
    while True:
        path = f"/flavors/detail?is_public=None&limit=1000{marker}"
        page = read_compute(client_manager, path, microversion=_MICROVERSION).get("flavors", [])
        new = {str(flavor.get("id")): flavor for flavor in page} if isinstance(page, list) else {}
        # a server that ignores markers sends the same page again and again
        if new.keys() <= flavors.keys():
            return list(flavors.values())
        flavors |= new
        if any(name in (flavor.get("name"), flavor.get("id")) for flavor in page):
            return list(flavors.values())
        marker = f"&marker={quote(str(page[-1].get('id')), safe='')}"
