# SPDX-License-Identifier: Apache-2.0
"""Nova's facts from its REST API, for operators who may not read its databases.

The API shows no cells, and leaves out what is in a cell that does not answer. From 2.69 on it names the hosts
of such cells; they stand here for one cell that cannot be read. Before that it is unknown, so there always
is such a cell. Hosts without nova-compute's record of itself have no hypervisor here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import Final

from osc_placement.api.concurrency import CONCURRENCY, map_in_order
from osc_placement.flavor import Flavor, flavor_from_json
from osc_placement.migrate.nova.facts import (
    ENDED_MIGRATIONS,
    IMAGE_PROPERTIES,
    REBUILD_HINT,
    BootRequest,
    Cell,
    ComputeNode,
    ComputeService,
    HostAggregate,
    Image,
    Instance,
    Lost,
    MigrationRecord,
    parse_time,
)
from osc_placement.migrate.nova.rest import SUBJECT, Document, NovaApi, Refused, Version
from osc_placement.migrate.nova.source import Unreadable

_HOST: Final = "OS-EXT-SRV-ATTR:host"
_TASK: Final = "OS-EXT-STS:task_state"
_NODE: Final = "OS-EXT-SRV-ATTR:hypervisor_hostname"
_ROOT: Final = "OS-EXT-SRV-ATTR:root_device_name"
_ZONE: Final = "pinned_availability_zone"
_VOLUMES: Final = "os-extended-volumes:volumes_attached"


def is_undecided(server: Document) -> bool:
    """Return whether only the devices of its volumes tell if the root disk is a volume."""
    return bool(server.get("image") and server.get(_VOLUMES))


def read_instance(server: Document, attachments: list[Document] | None = None) -> Instance:
    """Read an instance; ``attachments`` are those of a server that is undecided."""
    if _HOST not in server:
        raise Unreadable(SUBJECT, "it does not show the hosts of servers, which an administrator may see")
    image, devices = server.get("image") or {}, [each.get("device") for each in attachments or ()]
    is_volume = not image or any(device and device == server.get(_ROOT) for device in devices)
    # nova shows none before 2.98
    properties = image.get("properties")
    if properties is not None:
        properties = {name: str(properties[name]) for name in IMAGE_PROPERTIES if name in properties}
    flavor, error = _read_flavor(server.get("flavor") or {})
    state = server.get("OS-EXT-STS:vm_state")
    # of one that was never changed nova shows the present time, and one that is built may be so
    changed = server.get("created" if state == "building" else "updated")
    return Instance(
        uuid=server["id"],
        project_id=server.get("tenant_id") or "",
        user_id=server.get("user_id") or "",
        host=server[_HOST],
        node=server.get(_NODE),
        vm_state=state,
        task_state=server.get(_TASK),
        flavor=flavor,
        flavor_error=error,
        volume_root=is_volume,
        image=properties,
        changed_at=None if server[_HOST] and not server.get(_TASK) else parse_time(changed),
    )


def read_flavor(document: Document) -> Flavor:
    """Read a flavor from the list of flavors."""
    flavor, error = _read_flavor(document)
    if flavor is None:
        raise Unreadable(SUBJECT, f"flavor {document.get('name')}: {error}")
    return replace(flavor, name=str(document["name"]), flavorid=str(document["id"]))


def _read_flavor(flavor: Document) -> tuple[Flavor | None, str]:
    if "extra_specs" not in flavor:
        reason = "nova does not show its extra specs" if flavor else "it has no flavor"
        return None, reason
    try:
        return flavor_from_json(flavor), ""
    except (KeyError, TypeError, ValueError) as error:
        return None, f"its flavor cannot be read: {error}"


_EXTRA_SPECS: Final[Version] = (2, 61)
_DOWN_CELLS: Final[Version] = (2, 69)
_PINNED_ZONES: Final[Version] = (2, 96)
#: the newest of Train, whose nova-compute keeps COMPUTE_STATUS_DISABLED
_TRAIN: Final[Version] = (2, 79)
_IMAGE_PROPERTIES: Final[Version] = (2, 98)
_HINTS: Final[Version] = (2, 100)
#: all cells that answer, and all that do not
_ANSWERING, _SILENT = Cell("answering", "of nova's API"), Cell("silent", "that does not answer")
#: by UUID, so that what comes or goes between two pages moves nothing to another page
_ALL: Final[Mapping[str, str]] = {
    "all_tenants": "1",
    "soft_deleted": "true",
    "sort_key": "uuid",
    "sort_dir": "asc",
}
_SERVER_ERROR: Final = 500
_NOT_FOUND: Final = 404
_GONE: Final = (400, _NOT_FOUND)


class ApiSource:
    """A source that reads what an administrator sees through nova's API."""

    is_exhaustive = False

    def __init__(self, api: NovaApi) -> None:
        self._api = api

    def prepare(self) -> None:
        """Read the versions that nova speaks."""
        _ = self._api.newest

    def close(self) -> None:
        """Do nothing: there is no connection to close."""

    def list_aggregates(self) -> list[HostAggregate]:
        """Return all host aggregates."""
        found = self._api.get("/os-aggregates", "aggregates")["aggregates"]
        aggregates = [
            HostAggregate(
                each["uuid"], each["name"], frozenset(each["hosts"]), dict(each["metadata"]), each["id"]
            )
            for each in found
        ]
        return sorted(aggregates, key=lambda aggregate: aggregate.name)

    def list_flavors(self) -> list[Flavor]:
        """Return the flavors of new instances; raise Unreadable before 2.61, which hides extra specs."""
        found = self._api.iterate(
            "/flavors/detail", "flavors", params={"is_public": "None"}, version=_EXTRA_SPECS
        )
        return sorted(map(read_flavor, found), key=lambda flavor: flavor.name)

    def list_images(self, _cell: Cell) -> list[Image]:
        """Raise Unreadable: the API does not show what traits an image asks for."""
        raise Unreadable(
            "images", "nova's API does not show their traits; name glance, such as with --glance-endpoint"
        )

    def list_image_uuids(self, _cell: Cell) -> list[str]:
        """Return the UUIDs of the images that the instances were made of."""
        servers = self._api.iterate("/servers/detail", "servers", params=_ALL)
        return sorted({str(each["image"]["id"]) for each in servers if each.get("image")})

    # hosts

    def list_cells(self) -> list[Cell]:
        """Return one cell for those that answer and, if there may be others, one for those."""
        return [_ANSWERING, _SILENT] if self._reason_for_doubt else [_ANSWERING]

    def map_hosts(self) -> dict[str, str]:
        """Return the UUID of the cell of each host."""
        return {host: (_SILENT if is_silent else _ANSWERING).uuid for host, is_silent in self._hosts.items()}

    @cached_property
    def _hosts(self) -> Mapping[str, bool]:
        """Return by host whether its cell does not answer."""
        return self._read_hosts()

    def _read_hosts(self) -> dict[str, bool]:
        return {each["host"]: each["status"] == "UNKNOWN" for each in self._read_services()}

    def _read_services(self) -> list[Document]:
        params = {"binary": "nova-compute"}
        return list(self._api.get("/os-services", "services", params, _DOWN_CELLS)["services"])

    @property
    def _reason_for_doubt(self) -> str:
        if self._api.newest < _DOWN_CELLS:
            return "before 2.69 it does not say whether all cells answer"
        return _describe_silence(self._hosts)

    def list_compute_nodes(self, cell: Cell) -> list[ComputeNode]:
        """Return the compute nodes of the hosts of a cell."""
        if cell == _SILENT:
            raise Unreadable(SUBJECT, self._reason_for_doubt)
        found = [
            ComputeNode(
                each["id"],
                each["service"]["host"],
                each["hypervisor_hostname"] or "",
                each["hypervisor_type"] or "",
            )
            for each in self._api.iterate("/os-hypervisors/detail", "hypervisors")
        ]
        self._confirm()
        return found

    def list_former_nodes(self, _cell: Cell) -> list[ComputeNode]:
        """Return nothing: the API shows no compute node that is deleted."""
        return []

    def list_services(self, _cell: Cell) -> Mapping[str, ComputeService]:
        """Return the nova-compute services by host."""
        reports_status = self._api.newest >= _TRAIN
        return {
            each["host"]: ComputeService(
                each["status"] == "disabled", each.get("state") != "down", reports_status
            )
            for each in self._read_services()
        }

    def _confirm(self) -> None:
        """Raise Unreadable if a cell stopped answering, as the last answer may then lack what is in it."""
        if self._api.newest >= _DOWN_CELLS:
            now = self._read_hosts()
            fallen = {host: now[host] and not self._hosts.get(host) for host in now}
            if any(fallen.values()):
                raise Unreadable(SUBJECT, _describe_silence(fallen))

    # instances

    def iterate_instances(self, _cell: Cell) -> Iterator[Instance]:
        """Yield the instances that are not deleted; raise Unreadable at the end if some fail."""

        def read(server: Document) -> Instance:
            if not is_undecided(server):
                return read_instance(server)
            path = f"/servers/{server['id']}/os-volume_attachments"
            try:
                attachments = self._api.get(path, "volumeAttachments")["volumeAttachments"]
            except Refused as error:
                if error.status not in _GONE:
                    raise
                attachments = []  # it was deleted since it was listed
            return read_instance(server, attachments)

        broken: list[str] = []
        marker: str | None = ""
        while marker is not None:
            servers, marker = self._read_servers(marker, broken)
            yield from map_in_order(read, servers, threads=CONCURRENCY)
        self._confirm()
        if broken:
            raise Unreadable(f"instance {', '.join(broken)}", "nova's API fails to show it")

    def _read_servers(self, marker: str, broken: list[str]) -> tuple[list[Document], str | None]:
        """Read a page and the marker of the next; if one server breaks it, read them one by one."""
        try:
            servers, more = self._api.page("/servers/detail", "servers", _ALL, marker, _IMAGE_PROPERTIES)
            return servers, servers[-1]["id"] if more else None
        except Refused as error:
            if error.status != _SERVER_ERROR:
                raise
        brief, more = self._api.page("/servers", "servers", _ALL, marker, _IMAGE_PROPERTIES)

        def read(uuid: str) -> Document | None:
            try:
                document = self._api.get(f"/servers/{uuid}", "server", None, _IMAGE_PROPERTIES)
            except Refused:
                # nova says 404 to what it cannot load, as to what is gone: who asks again learns which it was
                return None
            return dict(document["server"])

        uuids = [server["id"] for server in brief]
        found = map_in_order(read, uuids, threads=CONCURRENCY)
        broken += [uuid for uuid, server in zip(uuids, found, strict=True) if server is None]
        return [server for server in found if server is not None], uuids[-1] if more else None

    def find_instances(self, uuids: Collection[str]) -> frozenset[str]:
        """Return the instances that nova shows one by one; then it looks up the cell of each."""

        def find(uuid: str) -> str | None:
            try:
                self._api.get(f"/servers/{uuid}", "server", None, _DOWN_CELLS)
            except Refused as error:
                if error.status == _NOT_FOUND:
                    return None
                raise
            return uuid

        found = map_in_order(find, list(uuids), threads=CONCURRENCY)
        return frozenset(uuid for uuid in found if uuid)

    def read_requests(self, _cell: Cell, uuids: Collection[str]) -> Mapping[str, BootRequest]:
        """Return what these instances were requested with; the API hides what traits an image asks for."""
        if self._api.newest < _PINNED_ZONES:
            return dict.fromkeys(uuids, BootRequest(gap="before 2.96 nova's API does not show it"))

        def read(uuid: str) -> BootRequest:
            try:
                document = self._api.get(f"/servers/{uuid}", "server", None, _PINNED_ZONES)["server"]
            except Refused as error:
                return BootRequest(gap=str(error))
            # nova shows only a part of what is in a cell that does not answer
            gap = "" if _ZONE in document else "nova's API does not show it"
            return BootRequest(document.get(_ZONE), gap)

        return dict(zip(uuids, map_in_order(read, list(uuids), threads=CONCURRENCY), strict=True))

    def list_unclaimed(self) -> Collection[str]:
        """Return the instances whose request has the scheduler hint of a rebuild."""
        if self._api.newest < _HINTS:
            raise Unreadable("scheduler hints", "nova's API shows them from 2.100 on, and its databases do")
        servers = self._api.iterate("/servers/detail", "servers", params=_ALL, version=_HINTS)
        return [each["id"] for each in servers if REBUILD_HINT in (each.get("scheduler_hints") or {})]

    def list_migrations(self, _cell: Cell) -> list[MigrationRecord]:
        """Return the migrations that are not over."""
        return [move for move in self._read_migrations() if move.status not in ENDED_MIGRATIONS]

    def find_migrations(self, _cell: Cell, uuids: Collection[str]) -> list[MigrationRecord]:
        """Return the migrations that have one of these UUIDs."""
        return [move for move in self._read_migrations() if move.uuid in uuids] if uuids else []

    def _read_migrations(self) -> list[MigrationRecord]:
        found = self._api.iterate("/os-migrations", "migrations", name="uuid")
        migrations = list(map(MigrationRecord.from_fields, found))
        self._confirm()
        return migrations

    def count_instances(self) -> Mapping[str, int]:
        """Return nothing: the API shows no mappings."""
        return {}

    def find_lost(self, uuids: Collection[str]) -> Mapping[str, Lost]:
        """Return nothing: the API shows no mappings."""
        return {}

    def list_requested_builds(self) -> Mapping[str, datetime | None]:
        """Return nothing: the API lists instances that are being scheduled with the others."""
        return {}


def _describe_silence(hosts: Mapping[str, bool]) -> str:
    silent = sorted(host for host, is_silent in hosts.items() if is_silent)
    return f"the cell of {', '.join(silent)} does not answer" if silent else ""
