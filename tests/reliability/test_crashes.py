# SPDX-License-Identifier: Apache-2.0
"""kill -9 in the middle of writing: what was acknowledged is there afterwards, and nothing is half done."""

import contextlib
import random
import time
from collections import Counter

import pytest

from benchmarks import processes
from tests import databases
from tests.functional import servers
from tests.reliability import own_servers, scale, truth
from tests.reliability.clients import Claim, Client, make_provider
from tests.reliability.ledger import Ledger, work_until
from tests.reliability.test_storms import load_inventories, move

PROVIDERS = 4
#: what each has: more than is claimed in any number of rounds
PLENTY = 1_000_000
#: what the parent has, and with it the most consumers that move at once
TOTAL = 400
SERVED = {204, 409}
SERVER_BACKENDS = ("mariadb", "postgresql")


def pause():
    """Wait until the storm is in full swing, at any moment of it."""
    time.sleep(random.uniform(0.3, 0.8))


class Cloud:
    """A few providers to claim of, and a parent and child between which inventory is moved to and fro."""

    def __init__(self, client):
        self.subjects = [make_provider(client, PLENTY) for _ in range(PROVIDERS)]
        self.parent = make_provider(client, TOTAL)
        self.child = make_provider(client, parent=self.parent)

    def choose(self):
        """Amounts of two providers, or of the one whose inventory moves, if that is there now."""
        if random.random() < 0.2:
            return {self.parent: 1}
        return dict.fromkeys(random.sample(self.subjects, 2), 1)

    def reshape(self, client, stop):
        """Move the inventory of the parent to the child, and back, with all that is held of it."""
        answers = []
        while not stop.is_set():
            for one, other in ((self.parent, self.child), (self.child, self.parent)):
                with contextlib.suppress(AssertionError, KeyError, TypeError):
                    # what reads fails while there is no server, which is not what is tested here
                    answers.append(self._move_all(client, one, other))
        return answers

    def _move_all(self, client, one, other):
        inventories = {of: load_inventories(client, of) for of in (one, other)}
        inventories[other]["inventories"]["VCPU"] = inventories[one]["inventories"].pop("VCPU")
        held = client.insist("GET", f"/resource_providers/{one}/allocations")["allocations"]
        moved = {consumer: move(client, consumer, one, other) for consumer in held}
        return client.send("POST", "/reshaper", {"inventories": inventories, "allocations": moved})

    def find_problems(self, database, ledger):
        """All that is wrong now, in words."""
        return truth.find_problems(database) + ledger.find_lost(database, {self.parent: self.child})


def check_round(cloud, database, ledger, total, allowed):
    """Nothing is lost or torn, and every answer was one that a client can make something of."""
    # a commit that the dead had sent may still be on its way
    time.sleep(0.3)
    assert cloud.find_problems(database, ledger) == []
    assert {answer.status for answer in ledger.answers} <= allowed
    for answer in ledger.answers:
        assert answer.status != 503 or answer.headers["retry-after"]
    total.merge(ledger)


@pytest.fixture
def report(record_property, request, capsys):
    """A function that says how many kills there were, and how many writes were acknowledged."""

    def report_(kills, ledger):
        record_property("kills", kills)
        tally = dict(sorted(Counter(answer.status for answer in ledger.answers).items()))
        if scale.is_full():
            with capsys.disabled():
                print(
                    f"\n{request.node.name}: {kills} kills, {ledger.acknowledged} acknowledged writes, "
                    f"none lost; answers {tally}"
                )

    return report_


def test_killed_worker_loses_no_acknowledged_write(backend, tmp_path, report):
    """Others go on, another takes its place; who was served by it gets no answer."""
    total, kills = Ledger(), 0
    with (
        databases.make_database(backend, tmp_path) as database,
        servers.launched(tmp_path, "--database", database, "--workers", 3) as server,
        contextlib.closing(Client(server.url)) as client,
    ):
        cloud = Cloud(client)
        for _ in scale.rounds(2):
            workers = []

            def kill_workers(workers=workers):
                for _ in range(3):
                    pause()
                    workers.append(random.choice(processes.find_children(server.process.pid)))
                    processes.kill(workers[-1:])

            ledger = work_until(server.url, cloud.choose, kill_workers, others=[cloud.reshape])
            kills += len(workers)
            check_round(cloud, database, ledger, total, SERVED | {0})
        assert server.stop() == 0
    report(kills, total)


def test_killed_server_loses_no_acknowledged_write(backend, tmp_path, report):
    """All processes at once; the next server finds everything, and no trace of what was not done."""
    total, kills, cloud = Ledger(), 0, None
    with databases.make_database(backend, tmp_path) as database:
        for _ in scale.rounds(2):
            with servers.launched(tmp_path, "--database", database, "--workers", 3) as server:
                if cloud is None:
                    with contextlib.closing(Client(server.url)) as client:
                        cloud = Cloud(client)

                def kill_server(server=server):
                    pause()
                    pid = server.process.pid
                    processes.kill([pid, *processes.find_children(pid)])

                ledger = work_until(server.url, cloud.choose, kill_server, others=[cloud.reshape])
                kills += 1
            check_round(cloud, database, ledger, total, SERVED | {0})
        with servers.running(tmp_path, "--database", database) as server:
            check_shown(server.url, database)
    report(kills, total)


def check_shown(url, database):
    """What the database has is what the API shows."""
    with contextlib.closing(Client(url)) as client:
        for consumer, held in list(truth.held(database).items())[:50]:
            shown = client.insist("GET", f"/allocations/{consumer}")["allocations"]
            assert {(of, "VCPU"): item["resources"]["VCPU"] for of, item in shown.items()} == held


@pytest.mark.parametrize("kind", SERVER_BACKENDS)
def test_killed_database_loses_no_acknowledged_write(kind, tmp_path, report):
    """While it is down every request is answered with 503; afterwards the server goes on by itself."""
    if kind not in scale.databases(SERVER_BACKENDS):
        pytest.skip("another kind of database was asked for")
    total, kills = Ledger(), 0
    with (
        own_servers.own_server(kind) as (own, database),
        servers.launched(tmp_path, "--database", database, "--workers", 3) as server,
        contextlib.closing(Client(server.url)) as client,
    ):
        cloud = Cloud(client)
        for _ in scale.rounds(2):

            def kill_database():
                pause()
                own.kill()
                # the others' requests may all be in flight for as long as the database is down
                assert Claim.of(cloud.choose()).put(client).status == 503
                pause()
                own.start()
                pause()

            ledger = work_until(server.url, cloud.choose, kill_database, others=[cloud.reshape])
            kills += 1
            check_round(cloud, database, ledger, total, SERVED | {503})
            # the server, which nobody touched, goes on
            assert client.send("GET", f"/resource_providers/{cloud.parent}/usages").status == 200
        assert server.stop() == 0
    report(kills, total)
