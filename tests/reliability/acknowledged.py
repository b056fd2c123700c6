# SPDX-License-Identifier: Apache-2.0
"""Writers commit at any moment of a worker's checks, and each asks the worker for what it has just committed.

What `staleness` cannot show, where one request is made after the other: that no check takes the count of a
commit that it does not see. Writers pause now and then, so that some checks find nothing changed. With
``--others``, the writers are another program, and the workers expect that. On Galera, each worker reads on
one node, and its writers write on another. Run as a program for as long as one likes; exit status 1 if a
commit that was acknowledged is not in an answer, if a thread failed, or if no check ever found that nothing
had changed.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import multiprocessing
import pathlib
import random
import sys
import tempfile
import threading
import time
import uuid
import warnings
from collections.abc import Callable

import sqlalchemy as sa

from osc_placement.server.db import aggregate, provider, upgrade
from osc_placement.server.db.engine import Database
from osc_placement.server.db.tables import resource_providers
from osc_placement.server.snapshot.current import Current
from tests import databases
from tests.reliability import galera

WRITERS = 2
#: seconds that a writer waits at most before it writes again
PAUSES = (0.0, 0.0, 0.001, 0.01)
#: seconds that a worker goes on at most beyond what it was asked for, until a check found nothing changed
PATIENCE = 60


class Worker:
    """A worker that looks all the time, and writers that ask it."""

    def __init__(self, url: str, writing: str, seconds: float, *, others: bool) -> None:
        self._database = Database(url)
        self._written = self._database if writing == url else Database(writing)
        for database in {self._database, self._written}:
            upgrade.upgrade(database)
        self._current = Current(self._database, compare=others)
        self._others = others
        self._end = time.monotonic() + seconds
        self.counts = {"commits": 0, "missing": 0, "failed": 0, "checks": 0, "unchanged": 0}
        self._counting = threading.Lock()

    def run(self) -> dict[str, int]:
        """Look and write until the time is up; how often, and how many commits were missing in answers."""
        work = [self._write] * WRITERS + [self._look]
        threads = [threading.Thread(target=self._count_failure, args=(each,)) for each in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for database in {self._database, self._written}:
            database.dispose()
        return self.counts

    def _count(self, what: str, number: int = 1) -> None:
        with self._counting:
            self.counts[what] += number

    def _goes_on(self) -> bool:
        beyond = time.monotonic() - self._end
        return beyond < (0 if self.counts["unchanged"] or self.counts["failed"] else PATIENCE)

    def _count_failure(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException:
            self._count("failed")
            raise

    def _write(self) -> None:
        name = str(uuid.uuid4())
        made = self._written.write(provider.create, provider.New(name, name))
        generation = made.generation
        with contextlib.ExitStack() as opened:
            advance = self._advance_elsewhere(opened) if self._others else self._advance
            while self._goes_on():
                advance(made, generation)
                generation += 1
                self._count("commits")
                self._count("missing", not self._shows(made.id, generation))
                time.sleep(random.choice(PAUSES))

    def _advance(self, made: provider.Provider, generation: int) -> None:
        self._written.write(aggregate.replace, made.uuid, [str(uuid.uuid4())], generation=generation)

    def _advance_elsewhere(self, opened: contextlib.ExitStack) -> Callable[[provider.Provider, int], None]:
        engine = sa.create_engine(self._written.url)
        opened.callback(engine.dispose)
        connection = opened.enter_context(engine.connect())
        columns = resource_providers.c

        def advance(made: provider.Provider, generation: int) -> None:
            move = sa.update(resource_providers).where(columns.id == made.id)
            connection.execute(move.values(generation=generation + 1))
            connection.commit()

        return advance

    def _shows(self, id_: int, generation: int) -> bool:
        node = self._current.get().snapshot.node(id_)
        return node is not None and node.generation >= generation

    def _look(self) -> None:
        last: object = None
        while self._goes_on():
            loaded = self._current.get()
            self._count("checks")
            self._count("unchanged", loaded is last)
            last = loaded


def _work(
    url: str, writing: str, seconds: float, others: bool, outcomes: multiprocessing.Queue[dict[str, int]]
) -> None:
    warnings.simplefilter("ignore")
    logging.disable()
    outcomes.put(Worker(url, writing, seconds, others=others).run())


def main() -> int:
    """Run, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", choices=(*databases.BACKENDS, galera.BACKEND), default="mariadb")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--others", action="store_true")
    options = parser.parse_args()
    logging.disable()
    spawn = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as directory,
        galera.make_databases(options.backend, pathlib.Path(directory)) as urls,
    ):
        database = Database(urls[0])
        upgrade.upgrade(database)
        database.dispose()
        outcomes = spawn.Queue()
        settings = (options.seconds, options.others, outcomes)
        # daemons: they end with this process, whatever comes
        workers = [
            spawn.Process(target=_work, args=(*pair, *settings), daemon=True)
            for pair in (urls, reversed(urls))
        ]
        for worker in workers:
            worker.start()
        counted = [outcomes.get(timeout=options.seconds + PATIENCE + 60) for _ in workers]
        for worker in workers:
            worker.join()
    total = {name: sum(counts[name] for counts in counted) for name in counted[0]}
    print(options.backend, ", ".join(f"{number} {name}" for name, number in total.items()))
    return int(bool(total["missing"] or total["failed"]) or not (total["commits"] and total["unchanged"]))


if __name__ == "__main__":
    sys.exit(main())
