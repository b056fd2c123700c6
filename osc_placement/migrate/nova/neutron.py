# SPDX-License-Identifier: Apache-2.0
"""Neutron's REST API as the source of ports, and as the place of their binding profiles."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from keystoneauth1.adapter import Adapter

from osc_placement.api.concurrency import map_in_order
from osc_placement.errors import one_line
from osc_placement.migrate.nova.ports import (
    KEEPS_CHANGING,
    LABEL,
    Allocation,
    Port,
    describe_change,
    describe_unbound,
    read_host,
    read_port,
)
from osc_placement.migrate.nova.rest import send
from osc_placement.migrate.nova.source import Unreadable

PAGE: Final = 1000
_FIELDS: Final = (
    "id",
    "device_id",
    "device_profile",
    "binding:host_id",
    "binding:profile",
    "binding:vif_type",
    "resource_request",
    "revision_number",
)
#: what neutron leaves out of the ports that it shows to users without the role
_REQUIRED: Final = ("binding:profile", "resource_request")
#: what a neutron has that knows resource requests (Stein and later)
_EXTENSION: Final = "port-resource-request"
_OK: Final = 200
_NOT_FOUND: Final = 404
_CHANGED: Final = 412
#: writes of one binding profile, each after the port was changed by somebody else, and reads of one page,
#: each after the port was deleted behind which it begins
_TRIES: Final = 4


class _Changed(Exception):
    """An error: a port was changed since it was read."""


class _Refused(Unreadable):
    """An error: neutron answered with another status than 200.

    :ivar status: the status
    """

    def __init__(self, status: int, reason: str) -> None:
        self.status = status
        super().__init__(LABEL, reason)


@dataclass
class _End:
    """An end from which the list of ports is read.

    :ivar seen: the ports that were read from it
    :ivar last: the last of these; the next page begins after the last of them that is still there
    """

    direction: str
    seen: set[str] = field(default_factory=set)
    last: list[str] = field(default_factory=list)


class NeutronApi:
    """A source that reads neutron's ports behind a keystoneauth1 adapter."""

    way: Final = "through neutron's API"
    batch: Final = 1

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    def list_ports(self) -> list[Port]:
        """Return the ports of instances.

        Raise Unreadable if they cannot be listed to the end, or if neutron knows no resource requests or does
        not show them to this user.
        """
        extensions = self._list("extensions", {})
        try:
            aliases = {entry["alias"] for entry in extensions}
        except (KeyError, TypeError) as error:
            raise Unreadable(LABEL, f"its list of extensions cannot be parsed: {error!r}") from error
        if _EXTENSION not in aliases:
            reason = f"it has no extension {_EXTENSION}, so it does not show what ports ask placement for"
            raise Unreadable(LABEL, reason)
        return [port for port in map(read_port, self._read_ports()) if port.instance]

    def _read_ports(self) -> Iterable[Mapping[str, Any]]:
        """Return the documents of all ports.

        PERF: beyond a page the list is read from both ends at once, until they meet: neutron takes half a
        millisecond for each port, in the process that has the request.
        """
        ports: dict[str, Mapping[str, Any]] = {}
        ends = [_End("asc")]
        is_more = self._read_page(ends[0], ports)
        if len(ports) >= PAGE:
            ends.append(_End("desc"))

        failed = threading.Event()

        def follow(end: _End) -> None:
            try:
                while not failed.is_set() and self._read_page(end, ports):
                    pass
            except Unreadable:
                # nothing that the other end reads is used any more
                failed.set()
                raise

        if is_more:
            map_in_order(follow, ends, threads=len(ends))
        return ports.values()

    def _read_page(self, end: _End, ports: dict[str, Mapping[str, Any]]) -> bool:
        """Add the next page from an end to the ports that were read; return whether there may be more.

        There is no more once a page has a port that was read from the other end.
        """
        # by id, so that what comes or goes between two pages moves nothing to another page
        params = {"limit": str(PAGE), "sort_key": "id", "sort_dir": end.direction}
        while True:
            marker = {"marker": end.last[-1]} if end.last else {}
            try:
                found = self._list("ports", {**params, **marker, "fields": list(_FIELDS)})
                break
            except _Refused as error:
                # the port was deleted meanwhile
                if error.status != _NOT_FOUND or len(end.last) < 2:
                    raise
                end.last.pop()
        try:
            new = {entry["id"]: entry for entry in found if entry["id"] not in end.seen}
            hidden = sorted({key for entry in new.values() for key in _REQUIRED if key not in entry})
        except (KeyError, TypeError) as error:
            raise Unreadable(LABEL, f"its list of ports cannot be parsed: {error!r}") from error
        if hidden:
            names = " and ".join(hidden)
            reason = f"it does not show {names} of ports to this user; an administrator sees it"
            raise Unreadable(LABEL, reason)
        met = not ports.keys().isdisjoint(new)
        ports.update(new)
        end.seen.update(new)
        end.last = [*new][-_TRIES:]
        # a neutron that does not know pages returns all ports every time
        return bool(new) and not met and len(found) <= PAGE

    def _list(self, name: str, params: Mapping[str, Any]) -> list[Any]:
        """Return the items of a list."""
        response = self._request("GET", name, params=params)
        try:
            found = response.json()[name]
        except (ValueError, KeyError, TypeError) as error:
            raise Unreadable(LABEL, f"its answer to GET {name} has no {name}") from error
        if not isinstance(found, list):
            raise Unreadable(LABEL, f"its answer to GET {name} has no list of {name}")
        return found

    def refuse(self, port: Port) -> str:
        """Return why the binding profile of a port is not written; empty if it may be."""
        return describe_unbound(port)

    def grant_all(self, grants: Iterable[tuple[Port, Allocation]]) -> list[str]:
        """Write the providers of ports into their binding profiles, one after the other."""
        return [self.grant(port, allocation) for port, allocation in grants]

    def grant(self, port: Port, allocation: Allocation) -> str:
        """Write the providers of a port into its binding profile; return why it was not, or nothing.

        A profile is replaced as a whole, so it is written only to the revision that was read; if the port was
        changed since, it is read again. A port that has other providers by then, or another instance or host,
        and one that is bound to no host, is left as it is.

        Neutron binds a bound port anew whenever its profile is written (``plugins/ml2/plugin.py``,
        ``_process_port_binding``); a port for which that failed has a reason, too, although it was written.

        :raises Unreadable: neutron cannot be reached
        """
        if reason := self.refuse(port):
            return reason
        path, revision, profile = f"ports/{port.uuid}", port.revision, port.profile
        try:
            for _ in range(_TRIES):
                if revision is None:
                    found = self._request("GET", path).json()["port"]
                    revision, profile = found.get("revision_number"), found["binding:profile"] or {}
                    known = describe_change(port, allocation, {**found, "binding:profile": profile})
                    if known is not None:
                        return known
                body = {"port": {"binding:profile": {**profile, "allocation": allocation}}}
                headers = {} if revision is None else {"If-Match": f"revision_number={revision}"}
                try:
                    answer = self._request("PUT", path, json=body, headers=headers).json()["port"]
                except _Changed:
                    revision = None
                    continue
                if read_host(answer) == port.host:
                    return ""
                kind = answer.get("binding:vif_type") or "unknown"
                return (
                    f"it was written, and neutron did not bind the port to {port.host} again "
                    f"(binding:vif_type is {kind}): see the logs of neutron-server and of the agent there"
                )
        except _Refused as error:
            return error.reason
        except (AttributeError, ValueError, KeyError, TypeError) as error:
            return f"neutron's answer about {path} cannot be parsed: {error!r}"
        return KEEPS_CHANGING

    def _request(self, method: str, path: str, **arguments: Any) -> Any:
        """Return the response to a request; raise Unreadable unless neutron carried it out.

        Raise _Changed if the port has another revision than the one in the headers.
        """
        url, response = send(self._adapter, LABEL, f"v2.0/{path}", method, **arguments)
        if response.status_code == _CHANGED:
            raise _Changed
        if response.status_code != _OK:
            reason = f"{method} {url} ended with {response.status_code}"
            with suppress(ValueError, KeyError, TypeError):
                reason += f": {one_line(response.json()['NeutronError']['message'])}"
            raise _Refused(response.status_code, reason)
        return response
