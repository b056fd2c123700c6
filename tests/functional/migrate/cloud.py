# SPDX-License-Identifier: Apache-2.0
"""A builder of nova's rows, as nova itself leaves them: hosts, nodes, instances, aggregates, migrations."""

import collections
import contextlib
import datetime
import functools
import json

import sqlalchemy as sa

from tests.functional.migrate.nova_databases import new_uuid

CELL0 = "00000000-0000-0000-0000-000000000000"
NOW = "2026-01-02 03:04:05.000000"
PROJECT, USER = "a" * 32, "b" * 32

#: what a compute node must have and nobody here looks at
NODE = {
    "vcpus": 16,
    "memory_mb": 65536,
    "local_gb": 1000,
    "vcpus_used": 0,
    "memory_mb_used": 0,
    "local_gb_used": 0,
    "hypervisor_version": 6002000,
    "cpu_info": "{}",
    "cpu_allocation_ratio": 16.0,
    "ram_allocation_ratio": 1.0,
    "disk_allocation_ratio": 1.0,
    "created_at": NOW,
    "deleted": 0,
}
#: the nova-compute of a host; nova's API shows no hypervisor without
SERVICE = {
    "binary": "nova-compute",
    "topic": "compute",
    "report_count": 1,
    "disabled": False,
    "forced_down": False,
    "version": 74,
    "created_at": NOW,
    "deleted": 0,
}
FLAVOR = {
    "id": 1,
    "name": "m1",
    "memory_mb": 2048,
    "vcpus": 2,
    "root_gb": 20,
    "ephemeral_gb": 0,
    "flavorid": "1",
    "swap": 0,
    "rxtx_factor": 1.0,
    "vcpu_weight": None,
    "disabled": False,
    "is_public": True,
    "extra_specs": {},
    "description": None,
    "created_at": None,
    "updated_at": None,
    "deleted_at": None,
    "deleted": False,
}
#: fields of a requested instance that nova shows and that are not set
UNSET = (
    *("host", "node", "launched_on", "availability_zone", "key_name", "image_ref", "access_ip_v4"),
    *("access_ip_v6", "display_description", "user_data", "updated_at", "kernel_id", "ramdisk_id"),
    *("root_device_name", "config_drive", "reservation_id", "launched_at", "terminated_at", "progress"),
    *("power_state", "trusted_certs"),
)
KVM, IRONIC = "QEMU", "ironic"
#: by dialect, how its driver names parameters
STYLES = {"sqlite": "named", "mysql": "pyformat", "mariadb": "pyformat"}
#: what nova has of an instance on no host: a row in a cell, a build request, a mapping to the cell
TRACES = {
    "building in its cell": (True, False, True),
    "requested": (False, True, False),
    "requested, with a row": (True, True, False),
    "in a cell and mapped to none": (True, False, False),
    "mapped to no cell": (False, False, False),
    "in no cell": (False, False, True),
}
#: those that nova's API finds, so that it deletes them
FOUND_BY_NOVA = tuple(TRACES)[:3]
#: tables whose rows others refer to by their id, which is therefore needed at once
WITH_ID = ("aggregates", "flavors")


def tell_time(ago=0):
    """The time so many seconds ago, as nova's databases have it."""
    moment = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=ago)
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")


def add_flavor(cloud, name, sizes=None, **extra_specs):
    """A flavor that instances may be booted with; what they embed of it. ``sizes`` are other than usual."""
    columns = ("memory_mb", "vcpus", "root_gb", "ephemeral_gb", "swap", "rxtx_factor")
    flavorid = new_uuid()
    row = {column: FLAVOR[column] for column in columns} | (sizes or {})
    number = cloud.insert(
        "api", "flavors", name=name, flavorid=flavorid, is_public=True, disabled=False, **row
    )
    for key, value in extra_specs.items():
        cloud.insert("api", "flavor_extra_specs", flavor_id=number, key=key, value=value)
    return {"id": number, "name": name, "flavorid": flavorid, "extra_specs": extra_specs}


def embed_flavor(**fields):
    """The flavor column of instance_extra."""
    return json.dumps({"cur": make_object("Flavor", "1.2", {**FLAVOR, **fields}), "old": None, "new": None})


def make_object(name, version, fields):
    """An object of nova, as it is in columns of JSON."""
    return {
        "nova_object.name": name,
        "nova_object.namespace": "nova",
        "nova_object.version": version,
        "nova_object.data": fields,
    }


@functools.cache
def _write_insert(dialect, table, columns):
    """Return the statement that inserts a row; to compile it for each row takes longer than to run it."""
    clause = sa.insert(sa.table(table, *map(sa.column, columns))).values(dict.fromkeys(columns, ""))
    return str(clause.compile(dialect=sa.dialects.registry.load(dialect)(paramstyle=STYLES[dialect])))


class Cloud:
    """Rows in the databases of a cloud; ``templates`` writes the connection of cell2 as a template of it."""

    def __init__(self, urls):
        self.urls = urls
        self._open = {}
        self._waiting = None
        self.engines = {name: sa.create_engine(url, poolclass=sa.pool.NullPool) for name, url in urls.items()}
        self.cells = {"cell0": CELL0, "cell1": new_uuid(), "cell2": new_uuid()}
        self.aggregate_ids = {}
        self.aggregates = {}
        for name, uuid in self.cells.items():
            self.insert(
                "api",
                "cell_mappings",
                uuid=uuid,
                name=name,
                transport_url="none:///",
                disabled=False,
                database_connection=urls[name],
            )

    @contextlib.contextmanager
    def together(self):
        """Insert what is made within at the end, with one statement for each table."""
        self._waiting = collections.defaultdict(list)
        with contextlib.ExitStack() as transactions:
            self._open = {
                name: transactions.enter_context(engine.begin()) for name, engine in self.engines.items()
            }
            try:
                yield
                for (database, table, columns), rows in self._waiting.items():
                    clause = sa.table(table, *map(sa.column, columns))
                    self._open[database].execute(sa.insert(clause), rows)
            finally:
                self._open = {}
                self._waiting = None

    def _transaction(self, database):
        if database in self._open:
            return contextlib.nullcontext(self._open[database])
        return self.engines[database].begin()

    def insert(self, database, table, **values):
        """Insert a row; its id, if it has one that is needed."""
        if self._waiting is not None and table not in WITH_ID:
            self._waiting[database, table, tuple(values)].append(values)
            return None
        with self._transaction(database) as connection:
            statement = _write_insert(connection.dialect.name, table, tuple(values))
            return connection.exec_driver_sql(statement, values).lastrowid

    def update(self, database, statement, **values):
        """Run a statement of change."""
        with self._transaction(database) as connection:
            connection.execute(sa.text(statement) if isinstance(statement, str) else statement, values)

    def add_host(
        self, host, cell="cell1", nodes=None, hypervisor_type=KVM, mapped=True, is_up=True, **columns
    ):
        """A host with its compute nodes, of its own name unless others are given; their UUIDs, by name."""
        if mapped:
            self.insert("api", "host_mappings", host=host, cell_id=list(self.cells).index(cell) + 1)
        seen = tell_time() if is_up else NOW
        self.insert(cell, "services", host=host, uuid=new_uuid(), last_seen_up=seen, **SERVICE)
        uuids = {}
        for name in nodes or [host]:
            uuids[name] = new_uuid()
            values = {**NODE, "hypervisor_type": hypervisor_type, **columns, "uuid": uuids[name]}
            self.insert(cell, "compute_nodes", host=host, hypervisor_hostname=name, **values)
        return uuids

    def add_aggregate(self, name, hosts=(), **metadata):
        """A host aggregate; its UUID."""
        self.aggregates[name] = new_uuid()
        aggregate_id = self.insert("api", "aggregates", uuid=self.aggregates[name], name=name, created_at=NOW)
        self.aggregate_ids[name] = aggregate_id
        for host in hosts:
            self.join(name, host)
        for key, value in metadata.items():
            self.insert("api", "aggregate_metadata", aggregate_id=aggregate_id, key=key, value=value)
        return self.aggregates[name]

    def stop(self, host, cell="cell1"):
        """Let nova-compute of a host be down."""
        statement = "UPDATE services SET last_seen_up = :seen WHERE host = :host"
        self.update(cell, statement, seen=tell_time(ago=3600), host=host)

    def join(self, aggregate, host):
        """Add a host to an aggregate."""
        self.insert("api", "aggregate_hosts", aggregate_id=self.aggregate_ids[aggregate], host=host)

    def add_instance(
        self, host=None, cell="cell1", node=None, flavor=None, volume=False, image=None, **columns
    ):
        """An instance with its embedded flavor, boot device and mapping; its UUID.

        ``flavor`` is a dict of what differs from the usual one, or the text of the column.
        """
        uuid = columns.pop("uuid", None) or new_uuid()
        values = {
            "uuid": uuid,
            "host": host,
            "node": node or host,
            "project_id": PROJECT,
            "user_id": USER,
            "vm_state": "active",
            "image_ref": "" if volume else new_uuid(),
            "created_at": tell_time(),
            "updated_at": tell_time(),
            "deleted": 0,
            "hidden": False,
            "launch_index": 0,
            "instance_type_id": 1,
        }
        values |= columns
        self.insert(cell, "instances", **values)
        text = flavor if isinstance(flavor, str) else embed_flavor(**(flavor or {}))
        self.insert(cell, "instance_extra", instance_uuid=uuid, flavor=text, created_at=NOW, deleted=0)
        destination = "volume" if volume else "local"
        self.insert(
            cell,
            "block_device_mapping",
            instance_uuid=uuid,
            boot_index=0,
            destination_type=destination,
            source_type="volume" if volume else "image",
            device_name="/dev/vda",
            deleted=0,
            created_at=NOW,
            uuid=new_uuid(),
        )
        for key, value in (image or {}).items():
            self.insert(
                cell,
                "instance_system_metadata",
                instance_uuid=uuid,
                key=f"image_{key}",
                value=value,
                deleted=0,
            )
        cell_id = list(self.cells).index(cell) + 1
        self.insert(
            "api",
            "instance_mappings",
            instance_uuid=uuid,
            cell_id=cell_id,
            project_id=values["project_id"],
            queued_for_delete=False,
            user_id=values["user_id"],
            created_at=NOW,
        )
        return uuid

    def add_traces(self, kind, ago):
        """What nova has of an instance that it began to build so many seconds ago; its UUID."""
        has_row, has_request, is_mapped = TRACES[kind]
        times = dict.fromkeys(("created_at", "updated_at"), tell_time(ago))
        uuid = self.add_instance(vm_state="building", task_state="scheduling", **times)
        cell = 2 if is_mapped else None
        statement = "UPDATE instance_mappings SET cell_id = :cell, created_at = :ago, updated_at = :ago"
        statement += " WHERE instance_uuid = :uuid"
        self.update("api", statement, cell=cell, ago=tell_time(ago), uuid=uuid)
        if not has_row:
            self.update("cell1", "DELETE FROM instances WHERE uuid = :uuid", uuid=uuid)
        if has_request:
            self.request_build(uuid, ago)
        return uuid

    def request_build(self, uuid, ago=0):
        """The request to build an instance, which nova deletes when the instance is in its cell."""
        instance = {
            **dict.fromkeys(UNSET),
            "uuid": uuid,
            "project_id": PROJECT,
            "user_id": USER,
            "display_name": uuid,
            "hostname": uuid,
            "vm_state": "building",
            "task_state": "scheduling",
            **dict.fromkeys(("auto_disk_config", "hidden", "locked", "disable_terminate"), False),
            "launch_index": 0,
            "metadata": {},
            "system_metadata": {},
            "flavor": make_object("Flavor", "1.2", FLAVOR),
            "created_at": f"{tell_time(ago)[:19].replace(' ', 'T')}Z",
        }
        self.insert(
            "api",
            "build_requests",
            instance_uuid=uuid,
            project_id=PROJECT,
            created_at=tell_time(ago),
            instance=json.dumps(make_object("Instance", "2.8", instance)),
            block_device_mappings=json.dumps(make_object("BlockDeviceMappingList", "1.18", {"objects": []})),
        )

    def add_migration(self, instance, source, dest, cell="cell1", status="migrating", ago=0, **columns):
        """A move of an instance that nova changed so many seconds ago; its UUID."""
        uuid = new_uuid()
        self.insert(
            cell,
            "migrations",
            uuid=uuid,
            instance_uuid=instance,
            status=status,
            source_compute=source,
            source_node=source,
            dest_compute=dest,
            dest_node=dest,
            deleted=0,
            created_at=tell_time(ago),
            **{"migration_type": "live-migration", **columns},
        )
        return uuid

    def evacuate(self, instance, source, dest, cell="cell1"):
        """The evacuation of an instance, whose source was not up since; its UUID."""
        return self.add_migration(instance, source, dest, cell, "done", migration_type="evacuation")
