# SPDX-License-Identifier: Apache-2.0
"""Nova's facts from its databases: the API database, and one database for each cell.

Rocky's schema is enough; a column that came later is used where it is there. Flavors of instances come from
the instances, not from the table of flavors: a flavor may have been redefined or deleted since. The
``aggregates`` tables of the cells and the placement tables of both are remnants, and never read.
"""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import RowMapping

from osc_placement.flavor import Flavor
from osc_placement.migrate.nova.database import PAGE, NovaDatabase, resolve_connection
from osc_placement.migrate.nova.facts import (
    CELL0,
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
    ServiceGroup,
    parse_ports,
    parse_time,
)
from osc_placement.migrate.nova.flavors import BadFlavor, parse_flavor
from osc_placement.migrate.nova.source import CHECK_CELL, Unreadable

_IMAGE_PREFIX: Final = "image_"
_TRAIT_OF_IMAGE: Final = f"{_IMAGE_PREFIX}trait:"
_NO_CELL: Final = "no cell"
_NO_PORTS: Final = frozenset[str]()
_NO_PROPERTIES: Final[Mapping[str, str]] = {}
_NODE_COLUMNS: Final = ("id", "uuid", "host", "hypervisor_hostname", "hypervisor_type", "deleted")
#: the version of services of Train, the first whose nova-compute keeps COMPUTE_STATUS_DISABLED
_REPORTS_STATUS: Final = 38
#: deleted compute nodes that nova-manage db archive_deleted_rows has moved
_ARCHIVE: Final = "shadow_compute_nodes"
_RATIOS: Final[Mapping[str, str]] = {
    "VCPU": "cpu_allocation_ratio",
    "MEMORY_MB": "ram_allocation_ratio",
    "DISK_GB": "disk_allocation_ratio",
}


class DatabaseSource:
    """A source that reads the API database at ``api_url``; ``main_url`` fills cells' templates.

    ``service_group`` says which services are up.
    """

    is_exhaustive = True

    def __init__(
        self, api_url: str, main_url: str | None = None, service_group: ServiceGroup | None = None
    ) -> None:
        self._main_url = main_url
        self._service_group = service_group or ServiceGroup()
        self._api = NovaDatabase(api_url, "nova's API database")
        self._cells: dict[str, NovaDatabase] = {}
        self._mapped: Mapping[str, int] | None = None

    def prepare(self) -> None:
        """Connect to the API database."""
        self._api.columns("cell_mappings")

    def close(self) -> None:
        """Close all connections."""
        for database in (self._api, *self._cells.values()):
            database.close()

    # the API database

    def list_aggregates(self) -> list[HostAggregate]:
        """Return all host aggregates."""
        members = self._api.table("aggregate_hosts", ("aggregate_id", "host"))
        hosts: dict[int, list[str]] = defaultdict(list)
        for row in self._api.fetch(sa.select(members)):
            hosts[row["aggregate_id"]].append(row["host"])
        metadata = self._read_pairs("aggregate_metadata", "aggregate_id")
        table = self._api.table("aggregates", ("id", "uuid", "name"))
        return [
            HostAggregate(
                row["uuid"],
                row["name"],
                frozenset(hosts[row["id"]]),
                metadata.get(row["id"], {}),
                row["id"],
            )
            for row in self._api.fetch(sa.select(table).order_by(table.c.name))
        ]

    def _read_pairs(self, table: str, owner: str) -> Mapping[int, dict[str, str]]:
        """Return the values of a table by key, for each value of its column ``owner``."""
        clause = self._api.table(table, (owner, "key", "value"))
        pairs: dict[int, dict[str, str]] = defaultdict(dict)
        for row in self._api.fetch(sa.select(clause)):
            pairs[row[owner]][row["key"]] = row["value"]
        return pairs

    def list_cells(self) -> list[Cell]:
        """Return the cells that have hosts: all but cell0, disabled ones included."""
        table = self._api.table("cell_mappings", ("id", "uuid", "name", "database_connection"), ("disabled",))
        rows = self._api.fetch(sa.select(table).where(table.c.uuid != CELL0).order_by(table.c.id))
        return [
            Cell(row["uuid"], row["name"] or "", row["database_connection"] or "", bool(row.get("disabled")))
            for row in rows
        ]

    def map_hosts(self) -> dict[str, str]:
        """Return the UUID of the cell of each host."""
        hosts = self._api.table("host_mappings", ("host", "cell_id"))
        cells = self._api.table("cell_mappings", ("id", "uuid"))
        joined = hosts.outerjoin(cells, hosts.c.cell_id == cells.c.id)
        statement = sa.select(hosts.c.host, hosts.c.cell_id, cells.c.uuid).select_from(joined)
        return {row["host"]: _name_cell(row) for row in self._api.fetch(statement)}

    def count_instances(self) -> Mapping[str, int]:
        """Return how many instances that are not deleted are mapped to each cell."""
        if self._mapped is None:
            mappings, is_live = self._mappings()
            cells = self._api.table("cell_mappings", ("id", "uuid"))
            joined = mappings.outerjoin(cells, mappings.c.cell_id == cells.c.id)
            columns = (mappings.c.cell_id, cells.c.uuid)
            statement = sa.select(*columns, sa.func.count().label("number")).select_from(joined)
            statement = statement.where(is_live, mappings.c.cell_id.is_not(None)).group_by(*columns)
            self._mapped = {_name_cell(row): row["number"] for row in self._api.fetch(statement)}
        return self._mapped

    def _mappings(self) -> tuple[sa.TableClause, sa.ColumnElement[bool]]:
        """Return the table of mappings, and what is true for those of instances that are not deleted."""
        columns = ("instance_uuid", "cell_id", "created_at", "updated_at")
        table = self._api.table("instance_mappings", columns, ("queued_for_delete",))
        if "queued_for_delete" not in table.c:
            return table, sa.true()
        deleted = table.c.queued_for_delete
        return table, sa.or_(deleted.is_(None), deleted == sa.false())

    def list_requested_builds(self) -> Mapping[str, datetime | None]:
        """Return when instances were requested that are being scheduled and may be in no cell yet."""
        table = self._api.table("build_requests", ("instance_uuid", "created_at"))
        rows = self._api.fetch(sa.select(table))
        return {row["instance_uuid"]: parse_time(row["created_at"]) for row in rows}

    def read_requests(self, cell: Cell, uuids: Collection[str]) -> Mapping[str, BootRequest]:
        """Return what these instances of a cell were requested with."""
        table, database = self._api.table("request_specs", ("instance_uuid", "spec")), self._cell(cell)
        metadata = database.table("instance_system_metadata", ("instance_uuid", "key", "value", "deleted"))
        images: dict[str, dict[str, str]] = {uuid: {} for uuid in uuids}
        found = {uuid: BootRequest(gap="nova has no request of it") for uuid in uuids}
        for chunk in _split(uuids):
            of_images = sa.and_(metadata.c.key.like(f"{_IMAGE_PREFIX}%"), metadata.c.deleted == 0)
            statement = sa.select(metadata).where(metadata.c.instance_uuid.in_(chunk), of_images)
            for row in database.fetch(statement):
                images[row["instance_uuid"]][row["key"].removeprefix(_IMAGE_PREFIX)] = row["value"] or ""
            for row in self._api.fetch(sa.select(table).where(table.c.instance_uuid.in_(chunk))):
                zone, _, gap = _read_request(row["spec"])
                found[row["instance_uuid"]] = BootRequest(zone, gap)
        return {uuid: replace(request, image=images[uuid]) for uuid, request in found.items()}

    def list_unclaimed(self) -> Collection[str]:
        """Return the instances, deleted ones too, whose request has the scheduler hint of a rebuild.

        PERF: the database searches the text of all requests, which takes it seconds in a large cloud.
        """
        table = self._api.table("request_specs", ("instance_uuid", "spec"))
        rows = self._api.fetch(sa.select(table).where(table.c.spec.contains(REBUILD_HINT, autoescape=True)))
        return [row["instance_uuid"] for row in rows if REBUILD_HINT in _read_request(row["spec"])[1]]

    def find_instances(self, uuids: Collection[str]) -> frozenset[str]:
        """Return the instances in any cell now, hidden ones included: rows move between cells."""
        found = (self._find_rows(cell, uuids, deleted=False) for cell in self.list_cells() if uuids)
        return frozenset().union(*found)

    def find_lost(self, uuids: Collection[str]) -> Mapping[str, Lost]:
        """Return the instances that are not deleted, and mapped to no cell or to one without a row of them.

        One that its cell has marked as deleted is deleted, whatever became of its mapping.
        """
        cells = {cell.uuid: cell for cell in self.list_cells()}
        mappings, is_live = self._mappings()
        table = self._api.table("cell_mappings", ("id", "uuid"))
        joined = mappings.outerjoin(table, mappings.c.cell_id == table.c.id)
        statement = sa.select(*mappings.c, table.c.uuid).select_from(joined)
        by_cell: dict[str, dict[str, datetime | None]] = defaultdict(dict)
        for chunk in _split(uuids):
            for row in self._api.fetch(statement.where(is_live, mappings.c.instance_uuid.in_(chunk))):
                since = parse_time(row["updated_at"] or row["created_at"])
                by_cell[_name_cell(row)][row["instance_uuid"]] = since
        lost: dict[str, Lost] = {}
        for name, mapped in by_cell.items():
            if name == CELL0:  # it was never on a host
                continue
            here = self._find_rows(cells[name], mapped) if name in cells else frozenset()
            text = f"nova's API database maps it to {cells[name].label if name in cells else name}"
            text += "" if name == _NO_CELL else ", whose database does not have it"
            lost |= {uuid: Lost(text, since) for uuid, since in mapped.items() if uuid not in here}
        return lost

    def _find_rows(self, cell: Cell, uuids: Collection[str], *, deleted: bool = True) -> frozenset[str]:
        """Return which of the instances a cell has a row of, hidden ones included."""
        database = self._cell(cell)
        table = database.table("instances", ("uuid", "deleted"))
        found: set[str] = set()
        for chunk in _split(uuids):
            statement = sa.select(table.c.uuid).where(table.c.uuid.in_(chunk))
            statement = statement if deleted else statement.where(table.c.deleted == 0)
            found.update(row["uuid"] for row in database.fetch(statement))
        return frozenset(found)

    def list_flavors(self) -> list[Flavor]:
        """Return the flavors that instances may be booted with, disabled ones included."""
        sizes = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap")
        table = self._api.table("flavors", ("id", "name", "flavorid", *sizes))
        specs = self._read_pairs("flavor_extra_specs", "flavor_id")
        return [
            Flavor(
                vcpus=row["vcpus"],
                memory_mb=row["memory_mb"],
                root_gb=row["root_gb"] or 0,
                ephemeral_gb=row["ephemeral_gb"] or 0,
                swap_mb=row["swap"] or 0,
                extra_specs={key: value or "" for key, value in specs.get(row["id"], {}).items()},
                name=row["name"],
                flavorid=row["flavorid"],
            )
            for row in self._api.fetch(sa.select(table).order_by(table.c.name))
        ]

    # cells

    def _cell(self, cell: Cell) -> NovaDatabase:
        if cell.uuid not in self._cells:
            url = resolve_connection(cell.database, self._main_url, cell.label)
            self._cells[cell.uuid] = NovaDatabase(url, cell.label)
        return self._cells[cell.uuid]

    def list_compute_nodes(self, cell: Cell) -> list[ComputeNode]:
        """Return the compute nodes of a cell that are not deleted."""
        database = self._cell(cell)
        table = database.table("compute_nodes", _NODE_COLUMNS, _RATIOS.values())
        return _read_nodes(database, sa.select(table).where(table.c.deleted == 0), table.c.id)

    def list_former_nodes(self, cell: Cell) -> list[ComputeNode]:
        """Return the compute nodes of a cell that are deleted, archived ones included if there are any."""
        database = self._cell(cell)
        table = database.table("compute_nodes", _NODE_COLUMNS)
        found = _read_nodes(database, sa.select(table).where(table.c.deleted != 0), table.c.id)
        if database.columns(_ARCHIVE):
            table = database.table(_ARCHIVE, _NODE_COLUMNS)
            found += _read_nodes(database, sa.select(table), table.c.id)
        return found

    def list_services(self, cell: Cell) -> Mapping[str, ComputeService]:
        """Return by host the nova-compute services of a cell.

        As nova does, take a service for down if it is forced down or was last seen too long ago: before any
        service of any cell was, as the clock here, or all of nova, may have stopped.
        """
        clock = self._clock
        return {
            row["host"]: ComputeService(
                is_disabled=bool(row["disabled"]),
                is_up=self._service_group.is_up(row, clock),
                reports_status=(row["version"] or 0) >= _REPORTS_STATUS,
            )
            for row in self._read_services(cell)
            if row["binary"] == "nova-compute"
        }

    @cached_property
    def _clock(self) -> datetime | None:
        """When a service of any cell that can be read was last seen, not later than now; None if none was."""
        seen = list[datetime | None]()
        for cell in self.list_cells():
            with contextlib.suppress(Unreadable):
                seen += [parse_time(row["last_seen_up"]) for row in self._read_services(cell)]
        latest = max(filter(None, seen), default=None)
        return latest and min(latest, datetime.now(UTC))

    def _read_services(self, cell: Cell) -> Sequence[RowMapping]:
        database = self._cell(cell)
        columns = ("host", "binary", "disabled", "forced_down", "version", "last_seen_up", "created_at")
        table = database.table("services", (*columns, "deleted"))
        return database.fetch(sa.select(table).where(table.c.deleted == 0))

    def iterate_instances(self, cell: Cell) -> Iterator[Instance]:
        """Yield the instances of a cell that are not deleted; raise Unreadable if all are missing."""
        database = self._cell(cell)
        statement, key = _instance_statement(database)
        is_empty = True
        for rows in database.pages(statement, key):
            is_empty = False
            images = _image_properties(database, rows[0]["id"], rows[-1]["id"])
            for row in rows:
                yield _instance(row, images.get(row["uuid"], _NO_PROPERTIES))
        mapped = self.count_instances().get(cell.uuid) if is_empty else 0
        # a row of one that is deleted is enough
        if mapped and not database.fetch(sa.select(database.table("instances", ("uuid",))).limit(1)):
            text = f"{mapped} instances are mapped to it, and its database has none of them; {CHECK_CELL}"
            raise Unreadable(cell.label, text)

    def list_images(self, cell: Cell) -> list[Image]:
        """Return the images of the instances of a cell, with those properties that ask for a trait.

        An image may have been changed or deleted since an instance was made of it.
        """
        database = self._cell(cell)
        instances = database.table("instances", ("uuid", "image_ref", "deleted"))
        table = database.table("instance_system_metadata", ("instance_uuid", "key", "value", "deleted"))
        joined = table.join(instances, instances.c.uuid == table.c.instance_uuid)
        columns = (instances.c.image_ref, table.c.key, table.c.value)
        statement = sa.select(*columns).select_from(joined).distinct()
        # the prefix has a character that stands for any other in a pattern, and the case may not count
        wanted = table.c.key.like(f"{_TRAIT_OF_IMAGE}%")
        statement = statement.where(wanted, table.c.deleted == 0, instances.c.deleted == 0)
        images: dict[str, dict[str, str]] = defaultdict(dict)
        for row in database.fetch(statement):
            if row["key"].startswith(_TRAIT_OF_IMAGE):
                images[row["image_ref"] or ""][row["key"].removeprefix(_IMAGE_PREFIX)] = row["value"] or ""
        return [Image(uuid, properties=properties) for uuid, properties in sorted(images.items())]

    def list_image_uuids(self, cell: Cell) -> list[str]:
        """Return the UUIDs of the images that the instances of a cell were made of."""
        database = self._cell(cell)
        table = database.table("instances", ("image_ref", "deleted"))
        statement = sa.select(table.c.image_ref).where(table.c.deleted == 0).distinct()
        return sorted(row["image_ref"] for row in database.fetch(statement) if row["image_ref"])

    def list_migrations(self, cell: Cell) -> list[MigrationRecord]:
        """Return the migrations of a cell that are not over."""
        database, table = self._migrations(cell)
        live = sa.or_(table.c.status.is_(None), table.c.status.not_in(sorted(ENDED_MIGRATIONS)))
        statement = sa.select(table).where(table.c.deleted == 0, live)
        pages = database.pages(statement, table.c.id)
        return [MigrationRecord.from_fields(row) for rows in pages for row in rows]

    def find_migrations(self, cell: Cell, uuids: Collection[str]) -> list[MigrationRecord]:
        """Return those of a cell's migrations that have one of these UUIDs; none before Queens."""
        database, table = self._migrations(cell)
        chunks = _split(uuids) if "uuid" in table.c else ()
        found = (database.fetch(sa.select(table).where(table.c.uuid.in_(chunk))) for chunk in chunks)
        return [MigrationRecord.from_fields(row) for rows in found for row in rows]

    def _migrations(self, cell: Cell) -> tuple[NovaDatabase, sa.TableClause]:
        database = self._cell(cell)
        columns = (
            "id",
            "instance_uuid",
            "status",
            "source_compute",
            "source_node",
            "dest_compute",
            "dest_node",
            "created_at",
            "updated_at",
        )
        return database, database.table("migrations", (*columns, "deleted"), ("uuid",))


def _read_nodes(database: NovaDatabase, statement: sa.Select[Any], key: Any) -> list[ComputeNode]:
    """Return the compute nodes that a statement selects, ordered by ``key``."""
    return [
        ComputeNode(
            row["uuid"],
            row["host"] or "",
            row["hypervisor_hostname"] or "",
            row["hypervisor_type"] or "",
            {resource: row.get(column) for resource, column in _RATIOS.items()},
        )
        for rows in database.pages(statement, key)
        for row in rows
    ]


def _read_request(text: str) -> tuple[str | None, Mapping[str, Any], str]:
    """Read the zone and the scheduler hints of a request, and why they cannot be read if so."""
    try:
        data = json.loads(text)["nova_object.data"]
        return data.get("availability_zone"), data.get("scheduler_hints") or {}, ""
    except (ValueError, TypeError, KeyError, AttributeError):
        return None, {}, "its request cannot be read"


def _split(uuids: Collection[str]) -> Iterator[Sequence[str]]:
    """Return the UUIDs in pages: a statement may name only so many."""
    ordered = sorted(uuids)
    return (ordered[begin : begin + PAGE] for begin in range(0, len(ordered), PAGE))


def _name_cell(row: RowMapping) -> str:
    """Return the UUID of the cell of a mapping, or what names one that is gone."""
    if row["cell_id"] is None:
        return _NO_CELL
    return row["uuid"] or f"cell {row['cell_id']}"


def _instance_statement(database: NovaDatabase) -> tuple[sa.Select[Any], Any]:
    """Return the statement that reads instances, and the column that orders them.

    ``root`` is the destination type of the root device, NULL if the instance has none; ``ports`` is its
    network information, NULL if no port of it was granted resources.
    """
    columns = [
        *("id", "uuid", "project_id", "user_id", "host", "node", "vm_state", "task_state", "image_ref")
    ]
    columns += ["created_at", "updated_at"]
    instances = database.table("instances", (*columns, "deleted"), ("hidden",))
    extra = database.table("instance_extra", ("instance_uuid", "flavor", "deleted"))
    own = sa.and_(extra.c.instance_uuid == instances.c.uuid, extra.c.deleted == 0)
    selected = [instances.c[column] for column in columns]
    # PERF: as a column of the instance it takes a third of the time of a query for a page of instances
    devices = database.table(
        "block_device_mapping", ("instance_uuid", "boot_index", "destination_type", "deleted")
    )
    is_root = sa.and_(
        devices.c.instance_uuid == instances.c.uuid, devices.c.boot_index == 0, devices.c.deleted == 0
    )
    kind = sa.func.max(sa.func.coalesce(devices.c.destination_type, ""))
    root = sa.select(kind).where(is_root).scalar_subquery().label("root")
    caches = database.table("instance_info_caches", ("instance_uuid", "network_info", "deleted"))
    is_granted = sa.and_(
        caches.c.instance_uuid == instances.c.uuid,
        caches.c.deleted == 0,
        caches.c.network_info.like('%"allocation"%'),
    )
    ports = sa.select(sa.func.max(caches.c.network_info)).where(is_granted).scalar_subquery().label("ports")
    statement = sa.select(*selected, extra.c.flavor, root, ports).select_from(instances.outerjoin(extra, own))
    statement = statement.where(instances.c.deleted == 0)
    if "hidden" in instances.c:
        hidden = instances.c.hidden
        statement = statement.where(sa.or_(hidden.is_(None), hidden == sa.false()))
    return statement, instances.c.id


def _image_properties(database: NovaDatabase, first: int, last: int) -> dict[str, dict[str, str]]:
    """Read by instance, in a range of ids, the properties of its image that decide about resources.

    PERF: a range makes a short query, and a thousand UUIDs a long one.
    """
    instances = database.table("instances", ("id", "uuid"))
    table = database.table("instance_system_metadata", ("instance_uuid", "key", "value", "deleted"))
    keys = [_IMAGE_PREFIX + name for name in IMAGE_PROPERTIES]
    wanted = sa.and_(instances.c.id.between(first, last), table.c.key.in_(keys), table.c.deleted == 0)
    joined = instances.join(table, table.c.instance_uuid == instances.c.uuid)
    statement = sa.select(table.c.instance_uuid, table.c.key, table.c.value).select_from(joined).where(wanted)
    images: dict[str, dict[str, str]] = defaultdict(dict)
    for row in database.fetch(statement):
        images[row["instance_uuid"]][row["key"].removeprefix(_IMAGE_PREFIX)] = row["value"]
    return images


def _instance(row: RowMapping, image: Mapping[str, str]) -> Instance:
    flavor, error, root = None, "it has no flavor", row["root"]
    is_settled = row["host"] and not row["task_state"]
    if row["flavor"]:
        try:
            flavor, error = parse_flavor(row["flavor"]), ""
        except BadFlavor as bad:
            error = str(bad)
    return Instance(
        uuid=row["uuid"],
        project_id=row["project_id"] or "",
        user_id=row["user_id"] or "",
        host=row["host"],
        node=row["node"],
        vm_state=row["vm_state"],
        task_state=row["task_state"],
        flavor=flavor,
        flavor_error=error,
        # without a root device of its own, what was not made from an image was made from a volume
        volume_root=not row["image_ref"] if root is None else root == "volume",
        image=image,
        ports=parse_ports(row["ports"]) if row["ports"] else _NO_PORTS,
        changed_at=None if is_settled else parse_time(row["updated_at"] or row["created_at"]),
    )
