# SPDX-License-Identifier: Apache-2.0
"""Clients change and read one cloud through several servers; each answer has to fit one order of the changes.

Arrangements: ``alone``, two servers of ours with two workers each; ``reference``, those and
openstack-placement on the same database; ``galera``, two servers of ours on two nodes of a cluster.

Each client notes when it sent a request and when it had the answer; `history` finds what no order explains.
Answers of openstack-placement are not judged, but what it writes counts. Clients pause every few seconds, all
reads are then made once more on several connections to each server, and the database itself is read: nothing
that was acknowledged may be missing there.

Run as a program for as long as one likes. Exit status 1, and the first problems with the seed, if something
was found: stale, early or torn answers, lost writes, answers 500, or more granted by our servers than there
was. The seed chooses what clients do; in which order servers come to it is of the moment.
"""

import argparse
import collections
import contextlib
import math
import pathlib
import random
import secrets
import sys
import tempfile
import threading
import time

from tests import databases
from tests.functional import forking, reference_server, servers
from tests.reliability import galera, history, truth
from tests.reliability.actors import Actor, Cloud, read_registers
from tests.reliability.clients import Client

ARRANGEMENTS = ("alone", "reference", "galera")
#: seconds after which all clients pause and what was noted is judged
EPOCH = 8.0
#: problems that are printed
SHOWN = 10


@contextlib.contextmanager
def arranged(arrangement, backend, directory):
    """Start servers; the URL of the database, and of each server its URL and whether it is one of ours."""
    with contextlib.ExitStack() as started:
        kind = galera.BACKEND if arrangement == "galera" else backend
        urls = started.enter_context(galera.make_databases(kind, directory))
        addresses = []
        for number, url in enumerate(urls):
            place = directory / f"server{number}"
            place.mkdir()
            arguments = ("--database", url, "--workers", 2, "--threads", 8)
            others = str(arrangement == "reference")
            environment = servers.make_environment(OS_PLACEMENT_DATABASE__OTHER_PROGRAMS_WRITE=others)
            server = servers.launched(place, *arguments, environment=environment)
            addresses.append((started.enter_context(server).url, True))
        if arrangement == "reference":
            addresses.append((started.enter_context(reference_server.running(directory, urls[0])), False))
        yield urls[0], addresses


def run(cloud, url, addresses, options):
    """Have clients work for as long as was asked for; the problems, and how much there was of what."""
    problems, total = [], collections.Counter()
    chosen = random.Random(options.seed)
    end = time.monotonic() + options.seconds
    while time.monotonic() < end and (options.go_on or not any(map(is_ours, problems))):
        work_for(min(EPOCH, max(end - time.monotonic(), 1)), cloud, chosen, addresses, options.clients)
        problems += count(cloud.notes, total)
        problems += cloud.judge(url)
    return problems, total


def is_ours(problem):
    """Return whether a problem is a fault of our servers."""
    return problem.kind != history.BESIDE_OTHERS


def work_for(seconds, cloud, chosen, addresses, clients):
    """Have clients work for so long, then read everything on several connections to each of our servers."""
    stop = threading.Event()
    ours = [address for address in addresses if address[1]]
    with contextlib.ExitStack() as connected:

        def connect(addresses):
            actor = Actor(cloud, random.Random(chosen.random()), addresses)
            connected.callback(actor.close)
            return actor

        working = [connect(addresses) for _ in range(clients)]
        scripts = [lambda actor=actor: actor.work(stop) for actor in working]
        work_together(scripts, lambda: stop.wait(seconds), stop)
        last = [connect([each]) for each in ours for _ in range(5)]
        work_together([actor.read_all for actor in last], lambda: None, stop)


def count(notes, total):
    """Add what was noted to the numbers; answers of our servers that are problems by themselves."""
    problems = []
    total["acknowledged writes"] += sum(write.ended < math.inf for write in notes.writes)
    total["writes without an outcome"] += sum(write.ended == math.inf for write in notes.writes)
    total["refusals"] += sum(number for (_, status), number in notes.statuses.items() if status == 409)
    total["reads"] += len(notes.reads)
    total["facts"] += sum(len(read.seen) for read in notes.reads)
    for (is_ours, status), number in notes.statuses.items():
        if status >= 500 or status == 0:
            total[f"answers {status} of {'ours' if is_ours else 'openstack-placement'}"] += number
        if status == 500 and is_ours:
            problems.append(history.Problem("error", f"{number} answers of our servers are 500"))
    return problems


def work_together(scripts, wait, stop):
    """Run the scripts in threads until they end, telling them when to stop; raise what one of them raised."""
    failures = []

    def script_of(script):
        try:
            script()
        except BaseException as error:
            failures.append(error)
            stop.set()

    threads = [threading.Thread(target=script_of, args=(script,)) for script in scripts]
    for thread in threads:
        thread.start()
    wait()
    stop.set()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def main(arguments=None):
    """Run, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--arrangement", choices=ARRANGEMENTS, default="alone")
    parser.add_argument(
        "--backend", choices=databases.BACKENDS, default="mariadb", help="not for galera, which is MariaDB"
    )
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**9))
    parser.add_argument(
        "--go-on", action="store_true", help="do not end with the first epoch in which something was found"
    )
    options = parser.parse_args(arguments)
    if options.arrangement == "galera":
        options.backend = "mariadb"
        if obstacle := galera.find_obstacle():
            parser.error(f"no Galera cluster: {obstacle}")
    with (
        tempfile.TemporaryDirectory() as directory,
        arranged(options.arrangement, options.backend, pathlib.Path(directory)) as (url, addresses),
    ):
        cloud = Cloud(options.seed)
        with contextlib.closing(Client(addresses[0][0])) as client:
            cloud.make(client)
        cloud.adopt(read_registers(url, cloud))
        problems, total = run(cloud, url, addresses, options)
        if options.arrangement != "reference":
            torn = truth.find_problems(url, oversold=cloud.roots)
            problems += [history.Problem("lost", text) for text in torn]
    kinds = collections.Counter(problem.kind for problem in problems)
    beside = kinds.pop(history.BESIDE_OTHERS, 0)
    found = ", ".join(
        f"{kinds[kind]} {kind}" for kind in ("stale", "early", "torn", "lost", "error", "oversold by us")
    )
    print(f"{options.arrangement}, {options.backend}, seed {options.seed}: {found}")
    print(", ".join(f"{number} {name}" for name, number in total.items()))
    print(f"{beside} oversold while openstack-placement granted too")
    for problem in sorted(problems, key=is_ours, reverse=True)[:SHOWN]:
        print(problem)
    return int(any(kinds.values()) or not (total["acknowledged writes"] and total["facts"]))


if __name__ == "__main__":
    try:
        status = main()
    finally:
        forking.close_servers()
    sys.exit(status)
