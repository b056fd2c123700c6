# SPDX-License-Identifier: Apache-2.0
"""Writers commit at any moment of a worker's looks, and each asks the worker for what it has just committed.

What `staleness` cannot show, where one request is made after the other: that no look takes the mark of a
commit that it does not see. Writers pause now and then, as a mark is kept only where nobody is busy. Run as a
program for as long as one likes; exit status 1 if a commit that was acknowledged is not in an answer.
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

import sqlalchemy as sa

from osc_placement.server.db import provider, upgrade
from osc_placement.server.db.current import Current
from osc_placement.server.db.engine import Database
from osc_placement.server.db.tables import resource_providers
from tests import databases

PROCESSES = 2
WRITERS = 2
#: seconds that a writer waits at most before it writes again
PAUSES = (0.0, 0.0, 0.001, 0.01)


class Worker:
    """A worker that looks all the time, and writers that ask it."""

    def __init__(self, url: str, seconds: float) -> None:
        self._database = Database(url)
        self._current = Current(self._database)
        self._end = time.monotonic() + seconds
        self.counts = {"commits": 0, "missing": 0, "looks": 0, "spared": 0}
        self._counting = threading.Lock()

    def run(self) -> dict[str, int]:
        """Look and write until the time is up; how often, and how many commits were missing in answers."""
        threads = [threading.Thread(target=self._write) for _ in range(WRITERS)]
        threads.append(threading.Thread(target=self._look))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._database.dispose()
        return self.counts

    def _count(self, **more: int) -> None:
        with self._counting:
            for name, number in more.items():
                self.counts[name] += number

    def _write(self) -> None:
        name = str(uuid.uuid4())
        made = self._database.write(provider.create, uuid=name, name=name, parent_uuid=None)
        columns = resource_providers.c
        move = sa.update(resource_providers).where(columns.id == made.id)
        engine = sa.create_engine(self._database.url)
        generation = made.generation
        with engine.connect() as connection:
            while time.monotonic() < self._end:
                generation += 1
                connection.execute(move.values(generation=generation))
                connection.commit()
                seen = self._current.get().snapshot.node(made.id).generation
                self._count(commits=1, missing=int(seen < generation))
                time.sleep(random.choice(PAUSES))
        engine.dispose()

    def _look(self) -> None:
        last = None
        while time.monotonic() < self._end:
            loaded = self._current.get()
            self._count(looks=1, spared=int(loaded is last))
            last = loaded


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
        upgrade.upgrade(Database(url))
        outcomes = spawn.Queue()
        workers = [
            spawn.Process(target=_work, args=(url, options.seconds, outcomes)) for _ in range(PROCESSES)
        ]
        for worker in workers:
            worker.start()
        counted = [outcomes.get(timeout=options.seconds + 60) for _ in workers]
        for worker in workers:
            worker.join()
    total = {name: sum(counts[name] for counts in counted) for name in counted[0]}
    print(options.backend, ", ".join(f"{number} {name}" for name, number in total.items()))
    return 1 if total["missing"] or not total["commits"] else 0


if __name__ == "__main__":
    sys.exit(main())
