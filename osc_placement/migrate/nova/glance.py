# SPDX-License-Identifier: Apache-2.0
"""Glance's REST API as the source of images.

Glance shows an administrator the images of everybody, but those that are hidden and those of communities only
if it is asked for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from keystoneauth1 import exceptions as keystone
from keystoneauth1.adapter import Adapter
from keystoneauth1.identity.base import BaseIdentityPlugin

from osc_placement.errors import one_line
from osc_placement.migrate.nova.facts import Image
from osc_placement.migrate.nova.source import Unreadable

LABEL: Final = "glance"
PAGE: Final = 1000
_COMMUNITY: Final = {"visibility": "community"}
_HIDDEN: Final = {"os_hidden": "true"}
_LISTS: Final[tuple[Mapping[str, str], ...]] = ({}, _COMMUNITY, _HIDDEN, _COMMUNITY | _HIDDEN)
#: the role that glance's default policy takes for an administrator
_ADMIN: Final = "admin"
_OK: Final = 200


class GlanceSource:
    """A source that reads glance's images behind a keystoneauth1 adapter."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    def list_images(self) -> list[Image]:
        """Return all images; raise Unreadable if they cannot be listed to the end."""
        images = {image.uuid: image for conditions in _LISTS for image in self._iterate(conditions)}
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

    def _iterate(self, conditions: Mapping[str, str]) -> Iterator[Image]:
        # by id, so that what comes or goes between two pages moves nothing to another page
        params = {"limit": str(PAGE), "sort_key": "id", "sort_dir": "asc", **conditions}
        marker = ""
        is_more = True
        while is_more:
            document = self._get(params | ({"marker": marker} if marker else {}))
            try:
                # the properties of an image are among its other fields
                page = [
                    Image(
                        entry["id"],
                        entry.get("name") or "",
                        {key: value for key, value in entry.items() if isinstance(value, str)},
                    )
                    for entry in document["images"]
                ]
                # of the link only whether it is there: behind a proxy it leads elsewhere
                is_more = bool(document.get("next")) and bool(page)
            except (KeyError, TypeError, AttributeError) as error:
                raise Unreadable(LABEL, f"its list of images cannot be parsed: {error!r}") from error
            if is_more:
                marker = page[-1].uuid
            yield from page

    def _get(self, params: Mapping[str, str]) -> Any:
        """Return the document of a page of images."""
        try:
            endpoint = (self._adapter.get_endpoint() or "").rstrip("/")
            if not endpoint:
                raise Unreadable(LABEL, "the service catalog has no endpoint of it")
            url = f"{endpoint.removesuffix('/v2')}/v2/images"
            response = self._adapter.get(url, params=params, raise_exc=False)
        except keystone.ClientException as error:
            raise Unreadable(LABEL, one_line(error)) from error
        if response.status_code != _OK:
            raise Unreadable(LABEL, f"{url} answered with HTTP {response.status_code}")
        try:
            return response.json()
        except ValueError as error:
            raise Unreadable(LABEL, f"{url} answered with something that is not JSON") from error
