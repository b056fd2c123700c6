# SPDX-License-Identifier: Apache-2.0
"""Three servers and an operator write to one database, and nobody may see anything old.

Two servers are ours and one is the reference; the operator edits any row by SQL and moves no generation.
With ``--alone``, two servers of ours write, and the workers do not expect others. On Galera, the second of
ours and one of the workers are on another node than the rest.

Random requests go to one of the servers at a time. After each, a worker's snapshot is compared with what is
read from the database anew; a second worker looks now and then only, and has more to catch up with. A third,
which does not expect others, is compared after it has compared everything in the background. Now and then the
connections of the first are cut. Run as a program for as long as one likes; exit status 1 and the seed if a
stale answer is found.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import logging
import pathlib
import secrets
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from random import Random
from typing import Any

import sqlalchemy as sa

from osc_placement.server.db import tables, upgrade
from osc_placement.server.db.engine import Database
from osc_placement.server.snapshot.current import Current
from osc_placement.server.snapshot.load import Loaded, load
from tests import databases
from tests.reliability import galera
from tests.reliability.differential import generate
from tests.reliability.differential.sides import Ours, Reference, Side, look

#: requests until the database is emptied, by statements that no server knows of
LENGTH = 300
#: how a server's own connections are cut
_KILL = (
    "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id != CONNECTION_ID()",
    "KILL {}",
)
_CUT = {
    "mariadb": _KILL,
    galera.BACKEND: _KILL,
    "postgresql": (
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid != pg_backend_pid()",
        "SELECT pg_terminate_backend({})",
    ),
}


class Worker:
    """What a worker keeps, beside what a new one would read."""

    def __init__(self, url: str, *, compare: bool) -> None:
        self._database = Database(url)
        upgrade.upgrade(self._database)
        self._current = Current(self._database, compare=compare)

    def compare_all(self) -> None:
        """Compare all providers once, as the thread in the background does in the course of a pass."""
        self._current.get()
        self._current.watch()
        while self._current._cursor:
            self._current.watch()

    def find_stale(self) -> list[Any]:
        """The providers and names of which the worker knows something else than the database."""
        kept = describe(self._current.get())
        true = describe(self._database.read(load, own_tables=True))
        return [(key, kept.get(key), true.get(key)) for key in kept | true if kept.get(key) != true.get(key)]

    def close(self) -> None:
        """Close the connections."""
        self._database.dispose()


def describe(loaded: Loaded) -> dict[object, object]:
    """All that answers are made of."""
    view = loaded.snapshot
    nodes: dict[object, object] = {node.id: node for node in view.nodes}
    classes = {name for node in view.nodes for name in node.stocks}
    traits = {name for node in view.nodes for name in node.traits}
    aggregates = {uuid for node in view.nodes for uuid in node.aggregates}
    return {
        **nodes,
        "class names": loaded.names.classes,
        "trait names": loaded.names.trait_times,
        "roots": view.roots,
        "sharing": view.sharing,
        "parents": list(view.parent_of),
        "trees": [view.tree(root) for root in view.root_of],
        "with room": {name: view.with_free_capacity(name) for name in classes},
        "with trait": {name: view.with_any_trait([name]) for name in traits},
        "members": {uuid: view.in_any_aggregate([uuid]) for uuid in aggregates},
    }


class Operator:
    """Somebody who edits rows by SQL."""

    def __init__(self, url: str) -> None:
        self._engine = sa.create_engine(url)

    def edit(self, random: Random) -> None:
        """Change, delete or add one row of any table, unless the database refuses that."""
        kind = random.choice((self._update, self._update, self._delete, self._insert))
        with contextlib.suppress(sa.exc.DBAPIError), self._engine.begin() as conn:
            conn.execute(kind(conn, random))

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def _update(self, conn: sa.Connection, random: Random) -> sa.Update:
        table, columns = random.choice(_EDITED)
        column = table.c[random.choice(columns)]
        where = _is_row(table, _choose_row(conn, random, table))
        values = {column: self._make_value(conn, random, column)}
        if "updated_at" in table.c:
            values.setdefault(table.c.updated_at, table.c.updated_at)
        if column.name == "parent_provider_id":
            values[table.c.root_provider_id] = table.c.id if values[column] is None else values[column]
        return sa.update(table).where(where).values(values)

    def _delete(self, conn: sa.Connection, random: Random) -> sa.Delete:
        table = random.choice([*_DELETED, *_LINKS])
        return sa.delete(table).where(_is_row(table, _choose_row(conn, random, table)))

    def _insert(self, conn: sa.Connection, random: Random) -> sa.Insert:
        table = random.choice(_LINKS)
        return sa.insert(table).values(
            {column.name: self._make_value(conn, random, column) for column in table.primary_key}
        )

    def _make_value(self, conn: sa.Connection, random: Random, column: sa.Column[Any]) -> Any:
        if column.name in _REFERRED:
            return random.choice(conn.scalars(sa.select(_REFERRED[column.name].c.id)).all() or [1])
        if column.name in ("uuid", "name"):
            return f"CUSTOM_{random.randrange(10**9)}"
        return {
            "updated_at": datetime.datetime(2030, 1, 1, second=random.randrange(60)),
            "generation": random.choice([None, 0, 7]),
            "allocation_ratio": random.choice([0.5, 1.1, 16.0]),
        }.get(column.name, random.randint(1, 9))


def _choose_row(conn: sa.Connection, random: Random, table: sa.Table) -> sa.Row[Any]:
    """One row's key; never that of a standard name."""
    query = sa.select(*table.primary_key)
    if table in (tables.traits, tables.resource_classes):
        query = query.where(table.c.name.like("CUSTOM%"))
    rows = conn.execute(query).all()
    return random.choice(rows) if rows else (0,) * len(table.primary_key)  # type: ignore[return-value]


def _is_row(table: sa.Table, key: sa.Row[Any]) -> sa.ColumnElement[bool]:
    return sa.and_(*(column == value for column, value in zip(table.primary_key, key, strict=True)))


_LINKS = (tables.resource_provider_traits, tables.resource_provider_aggregates)
_DELETED = (tables.allocations, tables.inventories, tables.traits, tables.resource_classes)
_REFERRED = {
    "resource_provider_id": tables.resource_providers,
    "parent_provider_id": tables.resource_providers,
    "resource_class_id": tables.resource_classes,
    "trait_id": tables.traits,
    "aggregate_id": tables.placement_aggregates,
}
_EDITED: tuple[tuple[sa.Table, tuple[str, ...]], ...] = (
    (tables.allocations, ("used", "resource_provider_id", "resource_class_id")),
    (
        tables.inventories,
        (
            "resource_provider_id",
            "resource_class_id",
            "total",
            "reserved",
            "min_unit",
            "max_unit",
            "step_size",
            "allocation_ratio",
            "updated_at",
        ),
    ),
    (tables.resource_providers, ("uuid", "name", "generation", "parent_provider_id", "updated_at")),
    (tables.resource_provider_traits, ("trait_id", "resource_provider_id")),
    (tables.resource_provider_aggregates, ("aggregate_id", "resource_provider_id")),
    (tables.placement_aggregates, ("uuid",)),
    (tables.traits, ("name", "updated_at")),
    (tables.resource_classes, ("name",)),
)


class Cloud:
    """One database, the servers that write to it, and the workers that watch it."""

    def __init__(self, urls: Sequence[str], backend: str, *, alone: bool) -> None:
        self._urls, self._backend, self._alone = urls, backend, alone
        ours: list[Side] = [Ours(url, others_write=not alone) for url in urls]
        self.writers = ours if alone else [Reference(urls[0]), *ours]
        self.operator = Operator(urls[0])
        self.often, self.seldom = self._make_workers()
        self.unaware = Worker(urls[1], compare=False)
        self.checks = 0

    def _make_workers(self) -> tuple[Worker, Worker]:
        first, second = self._urls
        return Worker(second, compare=not self._alone), Worker(first, compare=not self._alone)

    def run(self, random: Random, steps: int) -> list[Any]:
        """So many requests; what was stale, if anything."""
        self.writers[0].empty()
        if self._alone:
            # that was another program
            self.often.close()
            self.seldom.close()
            self.often, self.seldom = self._make_workers()
            for writer in self.writers:
                writer.application = writer._make()
        # SQLite gives the ids of deleted rows to others; of aggregates no server deletes any
        self.seldom.find_stale()
        for step in range(steps):
            world = look(self.writers[0].state())
            request = generate.request(random, world, opening=step < 20)
            if self._alone or random.random() < 0.5:
                random.choice(self.writers).send(request)
            else:
                self.operator.edit(random)
            if random.random() < 0.01:
                self._cut()
            stale = self.often.find_stale()
            if not stale and random.random() < 0.1:
                stale = self.seldom.find_stale()
            if not stale and random.random() < 0.1:
                self.unaware.compare_all()
                stale = self.unaware.find_stale()
            self.checks += 1
            if stale:
                return [request, *stale]
        return []

    def _cut(self) -> None:
        if self._backend not in _CUT:
            return
        for writer in (*self.writers, self.operator):
            writer.close()
        find, cut = _CUT[self._backend]
        for url in set(self._urls):
            engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
            with engine.connect() as connection:
                for id_ in connection.scalars(sa.text(find)).all():
                    # it may have gone by itself
                    with contextlib.suppress(sa.exc.DBAPIError):
                        connection.execute(sa.text(cut.format(id_)))

    def close(self) -> None:
        """Close the workers' connections."""
        for each in (self.often, self.seldom, self.unaware, self.operator):
            each.close()


def main() -> int:
    """Run, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", choices=(*databases.BACKENDS, galera.BACKEND), default="sqlite")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**9))
    parser.add_argument("--alone", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable()
    random = Random(options.seed)
    end = time.monotonic() + options.seconds
    with (
        tempfile.TemporaryDirectory() as directory,
        galera.make_databases(options.backend, pathlib.Path(directory)) as urls,
        contextlib.closing(Cloud(urls, options.backend, alone=options.alone)) as cloud,
    ):
        stale: list[Any] = []
        while not stale and time.monotonic() < end:
            stale = cloud.run(random, LENGTH)
        print(f"{options.backend}, seed {options.seed}: {cloud.checks} checks, {len(stale)} stale")
        for item in stale:
            print(item)
        return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
