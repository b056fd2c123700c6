# SPDX-License-Identifier: Apache-2.0
"""Reading REST APIs, with one kind of error: nova's with its versions, and the lists of other services."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol, TypeVar

import requests
from keystoneauth1 import exceptions as keystone
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session

from osc_placement.errors import one_line
from osc_placement.migrate.nova.source import Unreadable

SUBJECT: Final = "nova's API"
#: items of one page; nova gives fewer if its [api]/max_limit says so
PAGE: Final = 1000
Document = dict[str, Any]
Version = tuple[int, int]
Value = TypeVar("Value")


class HasUuid(Protocol):
    """An item of a list in pages, whose UUID is the marker of the next page."""

    @property
    def uuid(self) -> str:
        """Return the UUID."""


Item = TypeVar("Item", bound=HasUuid)
#: migrations have a UUID from here on; hypervisors have had one since 2.53
OLDEST: Final[Version] = (2, 59)


class Refused(Unreadable):
    """An error: nova answered with another status than 200."""

    def __init__(self, path: str, status: int, reason: str) -> None:
        self.status = status
        super().__init__(SUBJECT, f"GET {path} ended with {status}: {reason}")


class NovaApi:
    """Nova's compute API, safe for any number of threads; sends nothing before the first read."""

    def __init__(
        self,
        session: Session,
        *,
        endpoint: str | None = None,
        region_name: str | None = None,
        interface: str | list[str] | None = None,
        timeout: float | None = None,
    ) -> None:
        self._adapter = Adapter(
            limit_waiting(session, timeout),
            service_type="compute",
            endpoint_override=endpoint,
            region_name=region_name,
            interface=interface,
        )
        self._newest: Version | None = None

    @property
    def newest(self) -> Version:
        """Return the highest microversion that nova speaks; raise Unreadable if it is below `OLDEST`."""
        if self._newest is None:
            found = _translate(self._adapter.get_endpoint_data)
            if found is None or not found.max_microversion:
                raise Unreadable(SUBJECT, "there is no endpoint of it that says which versions it speaks")
            self._newest = (int(found.max_microversion[0]), int(found.max_microversion[1]))
        if self._newest < OLDEST:
            reason = f"it speaks up to {_format(self._newest)}, and {_format(OLDEST)} is needed"
            raise Unreadable(SUBJECT, reason)
        return self._newest

    def get(
        self, path: str, key: str, params: Mapping[str, str] | None = None, version: Version = OLDEST
    ) -> Document:
        """Read a document that has ``key``, in ``version`` or the highest below that nova speaks."""
        microversion = _format(min(version, self.newest))
        response = _translate(
            lambda: self._adapter.get(
                path, params=dict(params or {}), microversion=microversion, raise_exc=False
            )
        )
        if response.status_code != requests.codes.ok:
            try:
                (fault,) = response.json().values()
                reason = one_line(fault["message"])
            except (ValueError, TypeError, KeyError, AttributeError):
                reason = response.reason or "no reason is given"
            raise Refused(path, response.status_code, reason)
        try:
            document = response.json()
        except ValueError:
            document = None
        if not isinstance(document, dict) or key not in document:
            raise Unreadable(SUBJECT, f"its answer to {path} has no {key}")
        return document

    def page(
        self, path: str, key: str, params: Mapping[str, str], marker: str, version: Version
    ) -> tuple[list[Document], bool]:
        """Read the items after a marker; return them, and whether there are more."""
        after = {"marker": marker} if marker else {}
        document = self.get(path, key, {**params, "limit": str(PAGE), **after}, version)
        return document[key], bool(document[key] and document.get(f"{key}_links"))

    def iterate(
        self,
        path: str,
        key: str,
        *,
        params: Mapping[str, str] | None = None,
        name: str = "id",
        version: Version = OLDEST,
    ) -> Iterator[Document]:
        """Yield all items; ``name`` is the field that is the marker."""
        marker, more = "", True
        while more:
            items, more = self.page(path, key, params or {}, marker, version)
            yield from items
            marker = items[-1][name] if items else ""


def _format(version: Version) -> str:
    return ".".join(map(str, version))


def _translate(ask: Callable[[], Value]) -> Value:
    """Return the answer; raise Unreadable if there is none, or access is denied."""
    try:
        return ask()
    except keystone.ClientException as error:
        raise Unreadable(SUBJECT, one_line(error)) from error


#: seconds, where nobody says otherwise: as long as for an answer of placement, and more than proxies wait
PATIENCE: Final = 600.0


def limit_waiting(session: Session, seconds: float | None = None) -> Session:
    """Return a copy of a session with this timeout, its own, or `PATIENCE`; connections are shared."""
    same = copy.copy(session)
    same.timeout = seconds or session.timeout or PATIENCE
    return same


def send(adapter: Adapter, label: str, path: str, method: str = "GET", **arguments: Any) -> tuple[str, Any]:
    """Send a request to the service of an adapter; return its URL and the response, whatever the status.

    :param label: the name of the service in messages
    :param path: begins with the version of the API, with which the endpoint may end
    :raises Unreadable: there is no endpoint of the service, or no answer
    """
    try:
        endpoint = (adapter.get_endpoint() or "").rstrip("/")
        if not endpoint:
            raise Unreadable(label, "the service catalog has no endpoint of it")
        version, _, _ = path.partition("/")
        url = f"{endpoint.removesuffix(f'/{version}')}/{path}"
        return url, adapter.request(url, method, raise_exc=False, **arguments)
    except keystone.ClientException as error:
        raise Unreadable(label, one_line(error)) from error


def read_pages(
    adapter: Adapter,
    label: str,
    path: str,
    read: Callable[[Document], Item],
    params: Mapping[str, str],
    *,
    headers: Mapping[str, str] | None = None,
    refusals: Mapping[int, str] | None = None,
) -> list[Item]:
    """Return what ``read`` makes of each item of a list; raise Unreadable if it cannot be read to the end.

    :param path: its last part is the key of the list in the answers
    :param refusals: what a status says, where that is more than its number
    """
    name = path.rpartition("/")[2]
    items: list[Item] = []
    is_more = True
    while is_more:
        marker = {"marker": items[-1].uuid} if items else {}
        asked = {**params, "limit": str(PAGE), **marker}
        url, response = send(adapter, label, path, params=asked, headers=dict(headers or {}))
        if response.status_code != requests.codes.ok:
            told = (refusals or {}).get(response.status_code, f"answered with HTTP {response.status_code}")
            raise Unreadable(label, f"{url} {told}")
        try:
            document = response.json()
        except ValueError as error:
            raise Unreadable(label, f"{url} answered with something that is not JSON") from error
        try:
            page = [read(entry) for entry in document[name]]
            # of the link only whether it is there: behind a proxy it leads elsewhere
            is_more = bool(document.get("next")) and bool(page)
        except (KeyError, TypeError, AttributeError) as error:
            raise Unreadable(label, f"its list of {name} cannot be parsed: {error!r}") from error
        items += page
    return items
