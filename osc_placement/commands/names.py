# SPDX-License-Identifier: Apache-2.0
"""Names beside UUIDs (``--names``): those of providers in placement, and of instances in the compute API."""

from __future__ import annotations

import argparse
import time
from collections.abc import Collection
from typing import Any, Final, TextIO
from urllib.parse import quote

from osc_placement import microversion
from osc_placement.api.client import PlacementClient
from osc_placement.commands.compute import BAD_ANSWER, NoAnswer, read_compute
from osc_placement.terminal.screen import tell

#: up to so many trees are asked for one by one rather than all providers
_FEW_TREES: Final = 8
#: seconds that names of instances may take
_PATIENCE: Final = 10.0
_NOT_FOUND: Final = 404


def add_names_option(parser: argparse.ArgumentParser, help: str) -> None:
    """Add the option that shows names."""
    parser.add_argument("--names", action="store_true", help=help)


def read_provider_names(client: PlacementClient, uuids: Collection[str]) -> dict[str, str]:
    """Return the names of providers by UUID: a request for each tree if they are few, else one for all."""
    names: dict[str, str] = {}
    for _ in range(_FEW_TREES if client.version >= microversion.NESTED_PROVIDERS else 0):
        missing = next((uuid for uuid in uuids if uuid not in names), None)
        if missing is None:
            return names
        # a provider that was deleted meanwhile has no name
        names[missing] = ""
        names |= {each["uuid"]: each["name"] for each in client.list_providers(in_tree=missing)}
    if any(uuid not in names for uuid in uuids):
        names |= {each["uuid"]: each["name"] for each in client.list_providers()}
    return names


def read_instance_names(
    client_manager: Any, consumers: Collection[str], node: str = ""
) -> tuple[dict[str, str], str]:
    """Return the names of those consumers that are instances, and why some are missing ("" if none is).

    One consumer is asked for itself. Of several, the instances on the ``node`` are listed, up to 1000 in a
    request, or all instances if none of the consumers is on it. It ends after ten seconds.
    """
    names: dict[str, str] = {}
    due = time.monotonic() + _PATIENCE
    try:
        if len(consumers) == 1:
            (uuid,) = consumers
            path = f"/servers/{quote(uuid, safe='')}"
            names[uuid] = str(read_compute(client_manager, path, timeout=_PATIENCE)["server"]["name"])
        elif consumers:
            _list_instances(client_manager, f"&node={quote(node, safe='')}", consumers, due, names)
            if names.keys().isdisjoint(consumers):
                _list_instances(client_manager, "", consumers, due, names)
    except NoAnswer as error:
        # this is how the compute API says that the one consumer is no instance
        is_none = len(consumers) == 1 and error.status == _NOT_FOUND and "itemNotFound" in error.text
        problem = "" if is_none else str(error)
    except (LookupError, TypeError):
        problem = str(NoAnswer(BAD_ANSWER))
    else:
        problem = ""
    return {uuid: names[uuid] for uuid in consumers if uuid in names}, problem


def tell_problem(stream: TextIO | None, problem: str) -> None:
    """Say why names of instances are missing, if there is a reason."""
    if problem:
        tell(stream, f"Names of instances are missing: {problem}")


def _list_instances(
    client_manager: Any, condition: str, consumers: Collection[str], due: float, names: dict[str, str]
) -> None:
    """Add the names of instances, page by page until all consumers have one."""
    marker = ""
    seen: set[str] = set()
    while not names.keys() >= set(consumers):
        left = due - time.monotonic()
        if left <= 0:
            raise NoAnswer(f"its list of instances takes more than {_PATIENCE:g} seconds")
        path = f"/servers?all_tenants=True&limit=1000{condition}{marker}"
        document = read_compute(client_manager, path, timeout=left)
        page = {server["id"]: server["name"] for server in document["servers"]}
        names |= page
        # only the last page has no link; a server that ignores markers sends the same page again and again
        if not document.get("servers_links") or page.keys() <= seen:
            return
        seen |= page.keys()
        marker = f"&marker={quote(next(reversed(page)), safe='')}"
