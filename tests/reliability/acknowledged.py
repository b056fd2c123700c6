# SPDX-License-Identifier: Apache-2.0
"""Writers commit at any moment of a worker's looks, and each asks the worker for what it has just committed.

What `staleness` cannot show, where one request is made after the other: that no look takes the mark of a
commit that it does not see. Writers pause now and then, as a mark is kept only where nobody is busy; where
others keep the database busy, it goes on until a mark was kept, for a minute at most. Run as a program for as
long as one likes; exit status 1 if a commit that was acknowledged is not in an answer, if a thread failed, or
if no mark was ever kept.
"""

from __future__ import annotations

import argparse
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

from osc_placement.server.db import provider, upgrade
from osc_placement.server.db.engine import Database
from osc_placement.server.db.tables import resource_providers
from osc_placement.server.snapshot.current import Current
from tests import databases

PROCESSES = 2
WRITERS = 2
#: seconds that a writer waits at most before it writes again
PAUSES = (0.0, 0.0, 0.001, 0.01)
#: seconds that a worker goes on at most beyond what it was asked for, until it has kept a mark
PATIENCE = 60


class Worker:
    """A worker that looks all the time, and writers that ask it."""

    def __init__(self, url: str, seconds: float) -> None:
        self._database = Database(url)
        self._current = Current(self._database)
        self._end = time.monotonic() + seconds
        self.counts = {"commits": 0, "missing": 0, "failed": 0, "looks": 0, "marks kept": 0}
        self._counting = threading.Lock()

    def run(self) -> dict[str, int]:
        """Look and write until the time is up; how often, and how many commits were missing in answers."""
        work = [self._write] * WRITERS + [self._look]
        threads = [threading.Thread(target=self._count_failure, args=(each,)) for each in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._database.dispose()
        return self.counts

    def _count(self, what: str, number: int = 1) -> None:
        with self._counting:
            self.counts[what] += number

    def _goes_on(self) -> bool:
        beyond = time.monotonic() - self._end
        return beyond < (0 if self.counts["marks kept"] or self.counts["failed"] else PATIENCE)

    def _count_failure(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException:
            self._count("failed")
            raise

    def _write(self) -> None:
        name = str(uuid.uuid4())
        made = self._database.write(provider.create, uuid=name, name=name, parent_uuid=None)
        columns = resource_providers.c
        move = sa.update(resource_providers).where(columns.id == made.id)
        engine = sa.create_engine(self._database.url)
        generation = made.generation
        with engine.connect() as connection:
            while self._goes_on():
                generation += 1
                connection.execute(move.values(generation=generation))
                connection.commit()
                self._count("commits")
                self._count("missing", not self._shows(made.id, generation))
                time.sleep(random.choice(PAUSES))
        engine.dispose()

    def _shows(self, id_: int, generation: int) -> bool:
        view = self._current.get().snapshot
        try:
            return view.node(id_).generation >= generation
        except KeyError:
            return False

    def _look(self) -> None:
        last: object = None
        while self._goes_on():
            self._current.get()
            mark = self._current._marker
            self._count("looks")
            self._count("marks kept", mark is not None and mark == last)
            last = mark


def _work(url: str, seconds: float, outcomes: multiprocessing.Queue[dict[str, int]]) -> None:
    warnings.simplefilter("ignore")
    logging.disable()
    outcomes.put(Worker(url, seconds).run())


def main() -> int:
    """Run, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", choices=databases.BACKENDS, default="mariadb")
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    logging.disable()
    spawn = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as directory,
        databases.make_database(options.backend, pathlib.Path(directory)) as url,
    ):
        database = Database(url)
        upgrade.upgrade(database)
        database.dispose()
        outcomes = spawn.Queue()
        arguments = (url, options.seconds, outcomes)
        # daemons: they end with this process, whatever comes
        workers = [spawn.Process(target=_work, args=arguments, daemon=True) for _ in range(PROCESSES)]
        for worker in workers:
            worker.start()
        counted = [outcomes.get(timeout=options.seconds + PATIENCE + 60) for _ in workers]
        for worker in workers:
            worker.join()
    total = {name: sum(counts[name] for counts in counted) for name in counted[0]}
    print(options.backend, ", ".join(f"{number} {name}" for name, number in total.items()))
    return int(bool(total["missing"] or total["failed"]) or not (total["commits"] and total["marks kept"]))


if __name__ == "__main__":
    sys.exit(main())
