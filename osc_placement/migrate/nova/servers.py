# SPDX-License-Identifier: Apache-2.0
"""What nova's API says of servers and flavors, as facts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from osc_placement.flavor import Flavor, flavor_from_json
from osc_placement.migrate.nova.facts import IMAGE_PROPERTIES, Instance
from osc_placement.migrate.nova.rest import SUBJECT, Document
from osc_placement.migrate.nova.source import Unreadable

_HOST: Final = "OS-EXT-SRV-ATTR:host"
_NODE: Final = "OS-EXT-SRV-ATTR:hypervisor_hostname"
_ROOT: Final = "OS-EXT-SRV-ATTR:root_device_name"
_VOLUMES: Final = "os-extended-volumes:volumes_attached"


def is_undecided(server: Document) -> bool:
    """Whether it takes the devices of its volumes to tell if the root disk is one."""
    return bool(server.get("image") and server.get(_VOLUMES))


def read_instance(server: Document, attachments: list[Document] | None = None) -> Instance:
    """The instance; ``attachments`` are those of a server that is undecided."""
    if _HOST not in server:
        raise Unreadable(SUBJECT, "it does not show the hosts of servers, which an administrator may see")
    image = server.get("image") or {}
    flavor, error = _read_flavor(server.get("flavor") or {})
    return Instance(
        uuid=server["id"],
        project_id=server.get("tenant_id") or "",
        user_id=server.get("user_id") or "",
        host=server[_HOST],
        node=server.get(_NODE),
        vm_state=server.get("OS-EXT-STS:vm_state"),
        task_state=server.get("OS-EXT-STS:task_state"),
        flavor=flavor,
        flavor_error=error,
        volume_root=_has_volume_root(server, attachments or []),
        image=_read_image(image),
    )


def read_flavor(document: Document) -> Flavor:
    """A flavor of the list of flavors."""
    flavor, error = _read_flavor(document)
    if flavor is None:
        raise Unreadable(SUBJECT, f"flavor {document.get('name')}: {error}")
    return replace(flavor, name=str(document["name"]), flavorid=str(document["id"]))


def _has_volume_root(server: Document, attachments: list[Document]) -> bool:
    if not server.get("image"):
        return True
    return any(each.get("device") and each["device"] == server.get(_ROOT) for each in attachments)


def _read_image(image: Mapping[str, Any]) -> Mapping[str, str] | None:
    """The properties that count; None before 2.98 and without an image, as nova then shows none."""
    properties = image.get("properties")
    if properties is None:
        return None
    return {name: str(properties[name]) for name in IMAGE_PROPERTIES if name in properties}


def _read_flavor(flavor: Document) -> tuple[Flavor | None, str]:
    if "extra_specs" not in flavor:
        reason = "nova does not show its extra specs" if flavor else "it has no flavor"
        return None, reason
    try:
        return flavor_from_json(flavor), ""
    except (KeyError, TypeError, ValueError) as error:
        return None, f"its flavor cannot be read: {error}"
