# SPDX-License-Identifier: Apache-2.0
"""Nova's facts from its databases: the API database, and one database for each cell.

Rocky's schema is enough; a column that came later is used where it is there. Flavors of instances come from
the instances, not from the table of flavors: a flavor may have been redefined or deleted since. The
``aggregates`` tables of the cells and the placement tables of both are remnants, and never read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import RowMapping

from osc_placement.flavor import Flavor
from osc_placement.migrate.facts import (
    CELL0,
    ENDED_MIGRATIONS,
    IMAGE_PROPERTIES,
    BadFlavor,
    Cell,
    ComputeNode,
    HostAggregate,
    Instance,
    MigrationRecord,
    parse_flavor,
)
from osc_placement.migrate.sources.connection import resolve_connection
from osc_placement.migrate.sources.reading import NovaDatabase

_IMAGE_PREFIX: Final = "image_"
_NO_PROPERTIES: Final[Mapping[str, str]] = {}
_RATIOS: Final[Mapping[str, str]] = {
    "VCPU": "cpu_allocation_ratio",
    "MEMORY_MB": "ram_allocation_ratio",
    "DISK_GB": "disk_allocation_ratio",
}


class DatabaseSource:
    """Reads the API database at ``api_url``; ``main_url`` fills the templates of cell connections."""

    is_exhaustive = True

    def __init__(self, api_url: str, main_url: str | None = None) -> None:
        self._main_url = main_url
        self._api = NovaDatabase(api_url, "nova's API database")
        self._cells: dict[str, NovaDatabase] = {}

    def prepare(self) -> None:
        """Connect to the API database."""
        self._api.columns("cell_mappings")

    def close(self) -> None:
        """Give all connections back."""
        for database in (self._api, *self._cells.values()):
            database.close()

    # the API database

    def list_aggregates(self) -> list[HostAggregate]:
        """All host aggregates."""
        hosts, metadata = self._members(), self._metadata()
        table = self._api.table("aggregates", ("id", "uuid", "name"))
        return [
            HostAggregate(
                row["uuid"], row["name"], frozenset(hosts[row["id"]]), dict(metadata.get(row["id"], {}))
            )
            for row in self._api.fetch(sa.select(table).order_by(table.c.name))
        ]

    def _members(self) -> Mapping[int, list[str]]:
        table = self._api.table("aggregate_hosts", ("aggregate_id", "host"))
        members = defaultdict(list)
        for row in self._api.fetch(sa.select(table)):
            members[row["aggregate_id"]].append(row["host"])
        return members

    def _metadata(self) -> Mapping[int, dict[str, str]]:
        table = self._api.table("aggregate_metadata", ("aggregate_id", "key", "value"))
        metadata: dict[int, dict[str, str]] = defaultdict(dict)
        for row in self._api.fetch(sa.select(table)):
            metadata[row["aggregate_id"]][row["key"]] = row["value"]
        return metadata

    def list_cells(self) -> list[Cell]:
        """The cells that have hosts: all but cell0, disabled ones included."""
        table = self._api.table("cell_mappings", ("id", "uuid", "name", "database_connection"))
        rows = self._api.fetch(sa.select(table).where(table.c.uuid != CELL0).order_by(table.c.id))
        return [Cell(row["uuid"], row["name"] or "", row["database_connection"] or "") for row in rows]

    def map_hosts(self) -> dict[str, str]:
        """The UUID of the cell of each host."""
        hosts = self._api.table("host_mappings", ("host", "cell_id"))
        cells = self._api.table("cell_mappings", ("id", "uuid"))
        statement = sa.select(hosts.c.host, cells.c.uuid).where(hosts.c.cell_id == cells.c.id)
        return {row["host"]: row["uuid"] for row in self._api.fetch(statement)}

    def list_requested_builds(self) -> frozenset[str]:
        """UUIDs of instances that are being scheduled and may be in no cell yet."""
        table = self._api.table("build_requests", ("instance_uuid",))
        return frozenset(row["instance_uuid"] for row in self._api.fetch(sa.select(table)))

    def find_instances(self, uuids: Collection[str]) -> frozenset[str]:
        """None: what no list shows is not there."""
        return frozenset()

    def list_flavors(self) -> list[Flavor]:
        """The flavors that instances may be booted with, disabled ones included."""
        sizes = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap")
        table = self._api.table("flavors", ("id", "name", "flavorid", *sizes))
        specs = self._extra_specs()
        rows = self._api.fetch(sa.select(table).order_by(table.c.name))
        return [_flavor(row, specs.get(row["id"], {})) for row in rows]

    def _extra_specs(self) -> Mapping[int, dict[str, str]]:
        table = self._api.table("flavor_extra_specs", ("flavor_id", "key", "value"))
        specs: dict[int, dict[str, str]] = defaultdict(dict)
        for row in self._api.fetch(sa.select(table)):
            specs[row["flavor_id"]][row["key"]] = row["value"] or ""
        return specs

    # cells

    def _cell(self, cell: Cell) -> NovaDatabase:
        if cell.uuid not in self._cells:
            url = resolve_connection(cell.database, self._main_url, cell.label)
            self._cells[cell.uuid] = NovaDatabase(url, cell.label)
        return self._cells[cell.uuid]

    def list_compute_nodes(self, cell: Cell) -> list[ComputeNode]:
        """The compute nodes of a cell that are not deleted."""
        database = self._cell(cell)
        table = database.table(
            "compute_nodes",
            ("id", "uuid", "host", "hypervisor_hostname", "hypervisor_type", "deleted"),
            _RATIOS.values(),
        )
        statement = sa.select(table).where(table.c.deleted == 0)
        return [_node(row) for rows in database.pages(statement, table.c.id) for row in rows]

    def iterate_instances(self, cell: Cell) -> Iterator[Instance]:
        """The instances of a cell that are not deleted."""
        database = self._cell(cell)
        statement, key = _instance_statement(database)
        for rows in database.pages(statement, key):
            images = _image_properties(database, rows[0]["id"], rows[-1]["id"])
            for row in rows:
                yield _instance(row, images.get(row["uuid"], _NO_PROPERTIES))

    def list_migrations(self, cell: Cell) -> list[MigrationRecord]:
        """The migrations of a cell that are not over."""
        database = self._cell(cell)
        columns = (
            "id",
            "instance_uuid",
            "status",
            "source_compute",
            "source_node",
            "dest_compute",
            "dest_node",
        )
        table = database.table("migrations", (*columns, "deleted"), ("uuid",))
        live = sa.or_(table.c.status.is_(None), table.c.status.not_in(sorted(ENDED_MIGRATIONS)))
        statement = sa.select(table).where(table.c.deleted == 0, live)
        return [_migration(row) for rows in database.pages(statement, table.c.id) for row in rows]


def _flavor(row: RowMapping, extra_specs: Mapping[str, str]) -> Flavor:
    return Flavor(
        vcpus=row["vcpus"],
        memory_mb=row["memory_mb"],
        root_gb=row["root_gb"] or 0,
        ephemeral_gb=row["ephemeral_gb"] or 0,
        swap_mb=row["swap"] or 0,
        extra_specs=extra_specs,
        name=row["name"],
        flavorid=row["flavorid"],
    )


def _node(row: RowMapping) -> ComputeNode:
    ratios = {resource: row.get(column) for resource, column in _RATIOS.items()}
    name = row["hypervisor_hostname"] or ""
    return ComputeNode(row["uuid"], row["host"] or "", name, row["hypervisor_type"] or "", ratios)


def _instance_statement(database: NovaDatabase) -> tuple[sa.Select[Any], Any]:
    columns = ("id", "uuid", "project_id", "user_id", "host", "node", "vm_state", "task_state", "image_ref")
    instances = database.table("instances", (*columns, "deleted"), ("hidden",))
    extra = database.table("instance_extra", ("instance_uuid", "flavor", "deleted"))
    own = sa.and_(extra.c.instance_uuid == instances.c.uuid, extra.c.deleted == 0)
    selected = [instances.c[column] for column in columns]
    root = _root_device(database, instances).label("root")
    statement = sa.select(*selected, extra.c.flavor, root).select_from(instances.outerjoin(extra, own))
    statement = statement.where(instances.c.deleted == 0)
    if "hidden" in instances.c:
        hidden = instances.c.hidden
        statement = statement.where(sa.or_(hidden.is_(None), hidden == sa.false()))
    return statement, instances.c.id


def _root_device(database: NovaDatabase, instances: sa.TableClause) -> sa.ScalarSelect[Any]:
    """What the root device of an instance is, NULL if it has none of its own.

    PERF: as a column of the instance it takes a third of the time of a question about a page of them.
    """
    columns = ("instance_uuid", "boot_index", "destination_type", "deleted")
    table = database.table("block_device_mapping", columns)
    own = sa.and_(table.c.instance_uuid == instances.c.uuid, table.c.boot_index == 0, table.c.deleted == 0)
    return sa.select(sa.func.max(sa.func.coalesce(table.c.destination_type, ""))).where(own).scalar_subquery()


def _image_properties(database: NovaDatabase, first: int, last: int) -> dict[str, dict[str, str]]:
    """By instance, of those with an id in this range, the properties of its image that decide something.

    PERF: a range is a short question, and a thousand UUIDs are a long one.
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
    flavor, error = _read_flavor(row["flavor"])
    root = row["root"]
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
    )


def _read_flavor(text: str | None) -> tuple[Flavor | None, str]:
    if not text:
        return None, "it has no flavor"
    try:
        return parse_flavor(text), ""
    except BadFlavor as error:
        return None, str(error)


def _migration(row: RowMapping) -> MigrationRecord:
    return MigrationRecord(
        uuid=row.get("uuid"),
        instance_uuid=row["instance_uuid"],
        status=row["status"] or "",
        source_host=row["source_compute"],
        source_node=row["source_node"],
        dest_host=row["dest_compute"],
        dest_node=row["dest_node"],
    )
