# SPDX-License-Identifier: Apache-2.0
"""Images and projects by name, from the image API and the identity API, with OpenStackClient's connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from osc_placement.errors import PlacementError, one_line
from osc_placement.model import is_uuid

#: seconds
_PATIENCE: Final = 60


class NotReadable(PlacementError):
    """An image or a project cannot be read."""

    def __init__(self, noun: str, name: str, reason: str) -> None:
        super().__init__(f"{noun} {name!r} cannot be read: {reason}")


def find_image(client_manager: Any, name: str) -> Mapping[str, str]:
    """Return the properties of the image with this name or ID, with its ``disk_format``."""
    found = _find(client_manager, "image", "images", name)
    return {key: value for key, value in found.items() if isinstance(value, str)}


def find_project(client_manager: Any, name: str) -> str:
    """Return the ID of the project with this name or ID; an ID is not looked up."""
    if is_uuid(name):
        return name
    return str(_find(client_manager, "identity", "projects", name)["id"])


def _find(client_manager: Any, service: str, kind: str, name: str) -> Mapping[str, Any]:
    """Return what has this name or ID at a service."""
    noun = kind[:-1].capitalize()
    if is_uuid(name):
        found = _read(client_manager, service, f"/{kind}/{name}", noun, name)
        if found is not None:
            return found
    listed = _read(client_manager, service, f"/{kind}?name={quote(name, safe='')}", noun, name) or {}
    documents: Sequence[Mapping[str, Any]] = listed.get(kind) or ()
    if len(documents) > 1:
        raise NotReadable(noun, name, f"there are {len(documents)} of that name; give an ID")
    if not documents:
        raise NotReadable(noun, name, f"there is none of that name or ID, see: openstack {kind[:-1]} list")
    return documents[0]


def _read(client_manager: Any, service: str, path: str, noun: str, name: str) -> Mapping[str, Any] | None:
    """Return the JSON object at a path of a service; None if there is nothing."""
    try:
        response = getattr(client_manager.sdk_connection, service).get(path, timeout=_PATIENCE)
    except Exception as failure:  # openstacksdk's own kinds, which come with osc-lib
        raise NotReadable(noun, name, f"the {service} API gave no answer ({one_line(failure)})") from failure
    if response.status_code == 404:
        return None
    if not response.ok:
        raise NotReadable(noun, name, f"the {service} API refused to answer (HTTP {response.status_code})")
    try:
        document = response.json()
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise NotReadable(noun, name, f"its answer is not that of the {service} API")
    return document
