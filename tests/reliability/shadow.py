# SPDX-License-Identifier: Apache-2.0
"""A random workload for openstack-placement through ``placement-server shadow``, of which a part is killed.

The requests are those of the differential tester. No client may see a failure of the shadow, and no answer of
ours may differ without a reason::

    python -m tests.reliability.shadow --requests 100000 --kills 100 --backend mariadb
"""

import argparse
import collections
import contextlib
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


def run(directory, backend, *, count, kills=0, seed=None):
    """Send so many requests through a shadow of openstack-placement; the report, and failures of clients.

    :param kills: how often the process that compares is killed meanwhile
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
            killed = []
            killing = threading.Thread(target=_kill, args=(shadow.process.pid, kills, killed, ended))
            killing.start()
            try:
                failures = _send(shadow.url, url, random.Random(seed), count, lambda: len(killed) >= kills)
            finally:
                ended.set()
                killing.join()
            time.sleep(2)
            assert shadow.stop() == 0
        return seed, shadow_report.read_file(path), failures, len(killed)


def _kill(pid, kills, killed, ended):
    """Kill the process that compares so many times, each time that there is a new one."""
    while len(killed) < kills and not ended.wait(0.1):
        for process in servers.find_grandchildren(pid):
            with contextlib.suppress(OSError):
                # its threads are started by what they compare
                compares = servers.count_threads(process) > THREADS
                if process not in killed and compares and len(killed) < kills:
                    os.kill(process, signal.SIGKILL)
                    killed.append(process)


def _send(address, database, chance, count, is_enough):
    """Send requests until there were enough of them and of kills; the answers that a proxy made."""
    failures = []
    looking = Looking(database)
    session = requests.Session()

    def send(request):
        url = address + request.path + (f"?{request.query}" if request.query else "")
        try:
            answer = session.request(
                request.method, url, data=request.body, headers=dict(request.headers), allow_redirects=False
            )
        except requests.RequestException as error:
            failures.append(f"{request.to_json()}: {error}")
            return
        if answer.status_code in (502, 504):
            failures.append(f"{request.to_json()}: {answer.text}")

    try:
        for request in clouds.build(chance):
            send(request)
        sent = 0
        while sent < count or not is_enough():
            if sent % LOOK == 0:
                world = sides.look(looking.state())
            is_question = chance.randrange(100) < QUESTIONS
            send(
                clouds.question(chance, world)
                if is_question
                else generate.request(chance, world, opening=False)
            )
            sent += 1
    finally:
        looking.close()
    return failures


def main():
    """Run, and print what came of it; the exit status is 1 if there is a failure or a difference."""
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.shadow", description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
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
