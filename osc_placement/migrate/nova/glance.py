# SPDX-License-Identifier: Apache-2.0
"""Glance's REST API as the source of images.

Glance shows an administrator the images of everybody, but those that are hidden and those of communities only
if it is asked for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from keystoneauth1 import exceptions as keystone
from keystoneauth1.adapter import Adapter
from keystoneauth1.identity.base import BaseIdentityPlugin

from osc_placement.errors import one_line
from osc_placement.migrate.nova.facts import Image
from osc_placement.migrate.nova.rest import Document, read_pages
from osc_placement.migrate.nova.source import Unreadable

LABEL: Final = "glance"
#: by id, so that what comes or goes between two pages moves nothing to another page
_IN_ORDER: Final = {"sort_key": "id", "sort_dir": "asc"}
_COMMUNITY: Final = {"visibility": "community"}
_HIDDEN: Final = {"os_hidden": "true"}
_LISTS: Final[tuple[Mapping[str, str], ...]] = ({}, _COMMUNITY, _HIDDEN, _COMMUNITY | _HIDDEN)
#: the role that glance's default policy takes for an administrator
_ADMIN: Final = "admin"


class GlanceSource:
    """A source that reads glance's images behind a keystoneauth1 adapter."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    def list_images(self) -> list[Image]:
        """Return all images; raise Unreadable if they cannot be listed to the end."""

        def read(entry: Document) -> Image:
            # the properties of an image are among its other fields
            texts = {key: value for key, value in entry.items() if isinstance(value, str)}
            return Image(entry["id"], entry.get("name") or "", texts)

        lists = [
            read_pages(self._adapter, LABEL, "v2/images", read, {**_IN_ORDER, **conditions})
            for conditions in _LISTS
        ]
        images = {image.uuid: image for each in lists for image in each}
        return sorted(images.values(), key=lambda image: (image.name, image.uuid))

    def sees_all(self) -> bool:
        """Return whether the user is an administrator, or none; raise Unreadable if it cannot log in."""
        auth = self._adapter.auth or self._adapter.session.auth
        if not isinstance(auth, BaseIdentityPlugin):
            return True
        try:
            return _ADMIN in (auth.get_access(self._adapter.session).role_names or ())
        except keystone.ClientException as error:
            raise Unreadable(LABEL, one_line(error)) from error
