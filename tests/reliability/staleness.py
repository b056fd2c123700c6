# SPDX-License-Identifier: Apache-2.0
"""Three servers write to one database, two of ours and the reference, and nobody may see anything old.

With ``--alone``, two servers of ours write, and the workers do not expect others. On Galera, the second of
ours and one of the workers are on another node than the rest.

Random requests go to one of the servers at a time. After each, a worker's snapshot is compared with what is
read from the database anew; a second worker looks now and then only, and has more to catch up with. Now and
then the connections of the first are cut. Run as a program for as long as one likes; exit status 1 and the
seed if a stale answer is found.
"""

from __future__ import annotations

import argparse
import contextlib
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

from osc_placement.server.db import upgrade
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
        "class names": dict(loaded.class_names),
        "trait names": dict(loaded.trait_times),
        "roots": view.roots,
        "sharing": view.sharing,
        "parents": list(view.parent_of),
        "trees": [view.tree(root) for root in view.root_of],
        "with room": {name: view.with_free_capacity(name) for name in classes},
        "with trait": {name: view.with_any_trait([name]) for name in traits},
        "members": {uuid: view.in_any_aggregate([uuid]) for uuid in aggregates},
    }


class Cloud:
    """One database, the servers that write to it, and the workers that watch it."""

    def __init__(self, urls: Sequence[str], backend: str, *, alone: bool) -> None:
        self._urls, self._backend, self._alone = urls, backend, alone
        ours: list[Side] = [Ours(url, others_write=not alone) for url in urls]
        self.writers = ours if alone else [Reference(urls[0]), *ours]
        self.often, self.seldom = self._make_workers()
        self.checks = 0

    def _make_workers(self) -> tuple[Worker, Worker]:
        first, second = self._urls
        return Worker(second, compare=not self._alone), Worker(first, compare=not self._alone)

    def run(self, random: Random, steps: int) -> list[Any]:
        """So many requests; what was stale, if anything."""
        self.writers[0].empty()
        if self._alone:
            # that was another program
            self.close()
            self.often, self.seldom = self._make_workers()
            for writer in self.writers:
                writer.application = writer._make()
        # SQLite gives the ids of deleted rows to others; of aggregates no server deletes any
        self.seldom.find_stale()
        for step in range(steps):
            world = look(self.writers[0].state())
            request = generate.request(random, world, opening=step < 20)
            random.choice(self.writers).send(request)
            if random.random() < 0.01:
                self._cut()
            stale = self.often.find_stale()
            if not stale and random.random() < 0.1:
                stale = self.seldom.find_stale()
            self.checks += 1
            if stale:
                return [request, *stale]
        return []

    def _cut(self) -> None:
        if self._backend not in _CUT:
            return
        for writer in self.writers:
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
        self.often.close()
        self.seldom.close()


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
