# SPDX-License-Identifier: Apache-2.0
"""A random workload for openstack-placement through ``placement-server shadow``, of which a part is killed.

The requests are those of the differential tester. No client may see a failure of the shadow, and no answer of
ours may differ without a reason::

    python -m tests.reliability.shadow --requests 100000 --kills 100 --backend mariadb
"""

import argparse
import collections
import concurrent.futures
import contextlib
import itertools
import json
import os
import pathlib
import random
import secrets
import signal
import sys
import tempfile
import threading
import time

import requests

from osc_placement.server.process.opening import CannotRun
from osc_placement.server.shadow import report as shadow_report
from tests import databases
from tests.functional import reference_server, servers
from tests.reliability.differential import clouds, generate, sides

#: requests between two looks at the database, which requests are made about
LOOK = 25
#: of a hundred requests, how many are questions about the whole cloud
QUESTIONS = 30
#: threads of a process that compares something, at least
THREADS = 2


class Looking(sides.Side):
    """A reader of the database that both servers have."""

    def _make(self):
        return None


def run(directory, backend, *, count, clients=1, kills=0, seed=None):
    """Send so many requests through a shadow of openstack-placement; the report, and failures of clients.

    :param clients: how many send at the same time
    :param kills: how often the process that compares is killed meanwhile, as evenly as it is made again
    """
    seed = secrets.randbelow(10**9) if seed is None else seed
    with (
        databases.make_database(backend, directory) as url,
        reference_server.running(directory, url, sync=True) as upstream,
    ):
        conf = directory / "placement.conf"
        conf.write_text(f"[placement_database]\nconnection = {url}\n[api]\nauth_strategy = noauth2\n")
        path = directory / "report.json"
        line = ("--upstream", upstream, "--config-file", conf, "--report", path)
        with servers.launched(directory, *line, verb="shadow") as shadow:
            ended = threading.Event()
            killed, sent = [], []

            def is_due():
                return len(sent) * kills >= count * len(killed)

            killing = threading.Thread(target=_kill, args=(shadow.process.pid, kills, killed, is_due, ended))
            killing.start()
            try:
                failures = _send(shadow.url, url, seed, count, clients, sent, lambda: len(killed) >= kills)
            finally:
                ended.set()
                killing.join()
            time.sleep(2)
            assert shadow.stop() == 0
        return seed, shadow_report.read_file(path), failures, len(killed)


def _kill(pid, kills, killed, is_due, ended):
    """Kill the process that compares so many times, each time that there is a new one and it is due."""
    while len(killed) < kills and not ended.wait(0.1):
        if not is_due():
            continue
        for process in servers.find_grandchildren(pid):
            with contextlib.suppress(OSError):
                # its threads are started by what they compare
                compares = servers.count_threads(process) > THREADS
                if process not in killed and compares and len(killed) < kills:
                    os.kill(process, signal.SIGKILL)
                    killed.append(process)


def _send(address, database, seed, count, clients, sent, is_enough):
    """Send requests from several clients until there were enough of them and of kills; what failed.

    The number of each request is appended to ``sent``.
    """
    failures = []
    first = Client(address, database, random.Random(seed), failures)
    with contextlib.closing(first):
        first.build()
    numbers = itertools.count()

    def work(number):
        with contextlib.closing(Client(address, database, random.Random(seed + number), failures)) as client:
            # `next` of a counter is one operation, so each number is taken once
            while (number := next(numbers)) < count or not is_enough():
                sent.append(number)
                client.send_any()

    with concurrent.futures.ThreadPoolExecutor(clients) as executor:
        list(executor.map(work, range(1, clients + 1)))
    return failures


class Client:
    """A client with a connection of its own to the shadow; it looks at the database now and then.

    :ivar failures: what a client may not get, for all clients: no answer, or one that a proxy made
    """

    def __init__(self, address, database, chance, failures):
        self._address = address
        self._chance = chance
        self._failures = failures
        self._looking = Looking(database)
        self._session = requests.Session()
        self._sent = 0

    def close(self):
        """Close the connections."""
        self._looking.close()
        self._session.close()

    def build(self):
        """Make a cloud."""
        for request in clouds.build(self._chance):
            self._send(request)

    def send_any(self):
        """Send a request about what was there a moment ago."""
        if self._sent % LOOK == 0:
            self._world = sides.look(self._looking.state())
        self._sent += 1
        if self._chance.randrange(100) < QUESTIONS:
            self._send(clouds.question(self._chance, self._world))
        else:
            self._send(generate.request(self._chance, self._world, opening=False))

    def _send(self, request):
        url = self._address + request.path + (f"?{request.query}" if request.query else "")
        try:
            answer = self._session.request(
                request.method, url, data=request.body, headers=dict(request.headers), allow_redirects=False
            )
        except requests.RequestException as error:
            self._failures.append(f"{request.to_json()}: {error}")
            return
        if answer.status_code in (502, 504):
            self._failures.append(f"{request.to_json()}: {answer.text}")


def main():
    """Run, and print what came of it; the exit status is 1 if there is a failure or a difference."""
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.shadow", description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--backend", default="mariadb", choices=("sqlite", "mariadb", "postgresql"))
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        try:
            seed, document, failures, killed = run(
                pathlib.Path(name),
                options.backend,
                count=options.requests,
                clients=options.clients,
                kills=options.kills,
                seed=options.seed,
            )
        except CannotRun as error:
            sys.exit(str(error))
    print(shadow_report.render(document))
    reasons = collections.Counter()
    for row in document["routes"]:
        reasons.update(row["explained"])
    print(
        f"seed {seed}: {killed} kills, {len(failures)} failures of clients, intended: {json.dumps(reasons)}"
    )
    print(*failures[:10], sep="\n")
    return 1 if failures or any(row["different"] for row in document["routes"]) else 0


if __name__ == "__main__":
    sys.exit(main())
