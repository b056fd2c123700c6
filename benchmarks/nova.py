# SPDX-License-Identifier: Apache-2.0
"""Databases of nova for the benchmarks: made by the real `nova-manage`, filled here, one cell beside cell0.

The hosts are those of `clouds.FLAT`, by name and UUID.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from benchmarks import clouds, databases, environments
from benchmarks.case import Unavailable

CELL0 = "00000000-0000-0000-0000-000000000000"
CONF = """\
[DEFAULT]
log_file = {directory}/nova.log
state_path = {directory}
[api_database]
connection = {api}
[database]
connection = {cell0}
[placement]
auth_type = admin_token
endpoint = {endpoint}
endpoint_override = {endpoint}
token = admin
"""
SYNC = {
    "api": ("api_db", "sync"),
    "cell0": ("db", "sync", "--local_cell"),
    "cell1": ("db", "sync", "--local_cell"),
}
NODE = {
    "vcpus": 64,
    "memory_mb": 524288,
    "local_gb": 8000,
    "vcpus_used": 0,
    "memory_mb_used": 0,
    "local_gb_used": 0,
    "hypervisor_type": "QEMU",
    "hypervisor_version": 6002000,
    "cpu_info": "{}",
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
Row = dict[str, Any]


@dataclass(frozen=True)
class Size:
    """How many of what there are."""

    hosts: int
    instances: int
    aggregates: int


def instance_uuid(number: int) -> str:
    """The UUID of an instance."""
    return clouds.make_uuid(f"instance{number}")


@contextlib.contextmanager
def filled(directory: pathlib.Path, endpoint: str, size: Size) -> Iterator[pathlib.Path]:
    """A nova with so much in it; the path of its nova.conf, which reaches placement at the endpoint."""
    with contextlib.ExitStack() as made:
        urls = {name: made.enter_context(databases.mariadb(directory)) for name in SYNC}
        conf = directory / "nova.conf"
        for name, words in SYNC.items():
            # each database is made as if it were the main one
            main = urls["cell0"] if name == "api" else urls[name]
            conf.write_text(CONF.format(directory=directory, endpoint=endpoint, api=urls["api"], cell0=main))
            _manage(conf, words)
        conf.write_text(
            CONF.format(directory=directory, endpoint=endpoint, api=urls["api"], cell0=urls["cell0"])
        )
        insert(urls["api"], _api_rows(urls, size))
        insert(urls["cell1"], _cell_rows(size))
        yield conf


def _manage(conf: pathlib.Path, words: Sequence[str]) -> None:
    try:
        program = environments.make_nova() / "nova-manage"
    except environments.NotInstallable as error:
        raise Unavailable(f"nova cannot be installed: {error}") from error
    subprocess.run([program, "--config-file", conf, *words], check=True, capture_output=True)


def _api_rows(urls: dict[str, str], size: Size) -> Iterator[tuple[str, list[Row]]]:
    cell = {"transport_url": "none:///", "disabled": False}
    yield (
        "cell_mappings",
        [
            {"id": 1, "uuid": CELL0, "name": "cell0", "database_connection": urls["cell0"], **cell},
            {
                "id": 2,
                "uuid": clouds.make_uuid("cell1"),
                "name": "cell1",
                "database_connection": urls["cell1"],
                **cell,
            },
        ],
    )
    hosts = [host_name(number) for number in range(size.hosts)]
    yield "host_mappings", [{"host": host, "cell_id": 2} for host in hosts]
    names = [f"rack{number}" for number in range(size.aggregates)]
    yield (
        "aggregates",
        [
            {"id": number, "uuid": clouds.make_uuid(name), "name": name}
            for number, name in enumerate(names, start=1)
        ],
    )
    yield (
        "aggregate_hosts",
        [{"aggregate_id": number % size.aggregates + 1, "host": host} for number, host in enumerate(hosts)],
    )
    yield (
        "instance_mappings",
        [
            {
                "instance_uuid": instance_uuid(number),
                "cell_id": 2,
                "project_id": project_name(number),
                "user_id": _user(number),
                "queued_for_delete": False,
            }
            for number in range(size.instances)
        ],
    )


def _cell_rows(size: Size) -> Iterator[tuple[str, list[Row]]]:
    nodes = [
        {
            **NODE,
            "host": host_name(number),
            "hypervisor_hostname": host_name(number),
            "uuid": clouds.root_uuid(number),
        }
        for number in range(size.hosts)
    ]
    yield "compute_nodes", nodes
    uuids = [instance_uuid(number) for number in range(size.instances)]
    yield "instances", [_instance(number, uuid, size) for number, uuid in enumerate(uuids)]
    embedded = {"nova_object.name": "Flavor", "nova_object.namespace": "nova", "nova_object.version": "1.2"}
    flavor = json.dumps({"cur": {**embedded, "nova_object.data": FLAVOR}, "old": None, "new": None})
    yield "instance_extra", [{"instance_uuid": uuid, "flavor": flavor, "deleted": 0} for uuid in uuids]
    device = {
        "boot_index": 0,
        "destination_type": "local",
        "source_type": "image",
        "device_name": "/dev/vda",
        "deleted": 0,
    }
    yield (
        "block_device_mapping",
        [{**device, "instance_uuid": uuid, "uuid": clouds.make_uuid(f"device {uuid}")} for uuid in uuids],
    )


def _instance(number: int, uuid: str, size: Size) -> Row:
    host = host_name(number % size.hosts)
    return {
        "uuid": uuid,
        "host": host,
        "node": host,
        "project_id": project_name(number),
        "user_id": _user(number),
        "vm_state": "active",
        "image_ref": clouds.make_uuid("image"),
        "deleted": 0,
        "hidden": False,
        "launch_index": 0,
        "instance_type_id": 1,
    }


def host_name(number: int) -> str:
    """The name of a host."""
    return f"host{number:05}"


def project_name(number: int) -> str:
    """The project of an instance."""
    return f"project{number % 100}"


def _user(number: int) -> str:
    return f"user{number % 100}"


def insert(url: str, tables: Iterator[tuple[str, list[Row]]]) -> None:
    """Store rows, in the order of the tables."""
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        for table, rows in tables:
            clause = sa.table(table, *map(sa.column, rows[0]))
            connection.execute(sa.insert(clause), rows)
