# SPDX-License-Identifier: Apache-2.0
"""Put a cloud into a database by bulk inserts, where requests take minutes; both sides share the schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import cycle, islice
from typing import Any

import os_resource_classes
import os_traits
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from benchmarks import clouds
from benchmarks.clouds import Cloud, Provider
from osc_placement.server.db import dialects, tables

#: rows per statement
CHUNK = 2000
FIRST_CUSTOM_CLASS_ID = 10000


def fill(url: str, cloud: Cloud) -> None:
    """Store all that a cloud has, and the standard names, in a database that has the tables.

    A server that starts has no names to store then: two workers of openstack-placement that store them at a
    time on SQLite may end each other.
    """
    engine = sa.create_engine(url)
    try:
        with engine.begin() as connection:
            _Filling(connection, cloud).run()
        if engine.dialect.name == "mysql":
            _analyze(engine)
    finally:
        engine.dispose()


def _analyze(engine: sa.Engine) -> None:
    """Let MariaDB count the rows, which it does some time later by itself, and plan statements by this."""
    names = ", ".join(tables.metadata.tables)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"ANALYZE TABLE {names}").all()


class _Filling:
    def __init__(self, connection: Connection, cloud: Cloud) -> None:
        self._connection = connection
        self._cloud = cloud
        self._providers = list(clouds.providers(cloud))

    def run(self) -> None:
        """Store what is referred to before what refers to it."""
        nodes = {id(provider.node): provider.node for provider in self._providers}.values()
        self._class_ids = self._name_classes({name for node in nodes for name in node.totals})
        traits = {name for node in nodes for name in node.traits} | set(os_traits.get_traits())
        self._trait_ids = self._name(tables.traits, "name", traits)
        uuids = {uuid for provider in self._providers for uuid in provider.aggregates}
        self._aggregate_ids = self._name(tables.placement_aggregates, "uuid", uuids)
        self._insert(tables.resource_providers, map(self._row, self._providers))
        self._insert(tables.inventories, self._inventories())
        self._insert(tables.resource_provider_traits, self._traits())
        self._insert(tables.resource_provider_aggregates, self._aggregates())
        self._insert_consumers()

    def _insert(self, table: sa.Table, rows: Iterable[dict[str, Any]]) -> None:
        remaining = iter(rows)
        while chunk := list(islice(remaining, CHUNK)):
            self._connection.execute(sa.insert(table), chunk)

    def _name(self, table: sa.Table, column: str, names: set[str]) -> dict[str, int]:
        """The ids of names, which are stored if they are not there."""
        query = sa.select(table.c[column], table.c.id)
        present = {name for name, _ in self._connection.execute(query)}
        self._insert(table, ({column: name} for name in sorted(names - present)))
        return {name: id_ for name, id_ in self._connection.execute(query) if name in names}

    def _name_classes(self, names: set[str]) -> dict[str, int]:
        standards = {name: id_ for id_, name in enumerate(os_resource_classes.STANDARDS)}
        customs = enumerate(sorted(names - standards.keys()), FIRST_CUSTOM_CLASS_ID)
        ids = standards | {name: id_ for id_, name in customs}
        present = set(self._connection.scalars(sa.select(tables.resource_classes.c.id)))
        dialects.of(self._connection).accept_id_zero(self._connection)
        rows = ({"id": id_, "name": name} for name, id_ in ids.items() if id_ not in present)
        self._insert(tables.resource_classes, rows)
        return ids

    def _row(self, provider: Provider) -> dict[str, Any]:
        return {
            "id": provider.id,
            "uuid": provider.uuid,
            "name": provider.name,
            "generation": 1,
            "parent_provider_id": provider.parent_id,
            "root_provider_id": provider.root_id,
        }

    def _inventories(self) -> Iterator[dict[str, Any]]:
        for provider in self._providers:
            for name, total in provider.node.totals.items():
                yield {
                    "resource_provider_id": provider.id,
                    "resource_class_id": self._class_ids[name],
                    "total": total,
                    "reserved": 0,
                    "min_unit": 1,
                    "max_unit": total,
                    "step_size": 1,
                    "allocation_ratio": provider.node.ratios.get(name, 1.0),
                }

    def _traits(self) -> Iterator[dict[str, Any]]:
        for provider in self._providers:
            for name in provider.node.traits:
                yield {"resource_provider_id": provider.id, "trait_id": self._trait_ids[name]}

    def _aggregates(self) -> Iterator[dict[str, Any]]:
        for provider in self._providers:
            for uuid in provider.aggregates:
                yield {"resource_provider_id": provider.id, "aggregate_id": self._aggregate_ids[uuid]}

    def _insert_consumers(self) -> None:
        holders = [(holder, uuid) for holder in self._providers for uuid in holder.consumers]
        owners = range(1, min(self._cloud.owners, len(holders)) + 1)
        for table in (tables.projects, tables.users):
            self._insert(table, ({"id": id_, "external_id": f"bench-{table.name}-{id_}"} for id_ in owners))
        self._insert(
            tables.consumers,
            (
                {"uuid": uuid, "project_id": owner, "user_id": owner, "generation": 1}
                for (_, uuid), owner in zip(holders, cycle(owners), strict=False)
            ),
        )
        self._insert(
            tables.allocations,
            (
                {
                    "resource_provider_id": holder.id,
                    "consumer_id": uuid,
                    "resource_class_id": self._class_ids[name],
                    "used": amount,
                }
                for holder, uuid in holders
                for name, amount in holder.held.items()
            ),
        )
