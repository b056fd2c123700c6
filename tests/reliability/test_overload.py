# SPDX-License-Identifier: Apache-2.0
"""More than a server can take: many clients, slow ones, ones that vanish; no database, connection or room."""

import contextlib
import pathlib
import resource
import socket
import statistics
import threading
import time
import urllib.parse
from collections import Counter

import pytest
import sqlalchemy as sa

from benchmarks import processes
from tests import databases
from tests.functional import servers
from tests.functional.server.test_wsgi import serving, write_conf
from tests.reliability import own_servers, scale, truth
from tests.reliability.clients import Claim, Client, make_provider, run_together
from tests.reliability.ledger import THERE, Ledger

CLIENTS = 200
WORKERS = 2
SHORT_SECONDS = 5
#: what two workers may grow by in the long run, in bytes; what leaks grows by more
GROWTH = 48 << 20


def seconds():
    """How long the clients go on."""
    return 60 if scale.is_full() else SHORT_SECONDS


def memory_of(server):
    """The memory that the workers have to themselves, in bytes."""
    total = 0
    for pid in processes.find_children(server.process.pid):
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon"):
                total += int(line.split()[1]) << 10
    return total


def test_two_workers_serve_two_hundred_clients(backend, tmp_path, capsys):
    """All of them get answers, which are not errors, or say when to come again; memory does not grow."""
    with (
        databases.make_database(backend, tmp_path) as database,
        servers.running(tmp_path, "--database", database, "--workers", WORKERS) as server,
        contextlib.closing(Client(server.url)) as client,
    ):
        subjects = [make_provider(client, 1_000_000) for _ in range(20)]
        end = time.monotonic() + seconds()

        def work(client, number=0):
            answers = []
            while time.monotonic() < end:
                of = subjects[len(answers) % len(subjects)]
                claim = Claim.of({of: 1}, project="many")
                answers.append(claim.put(client))
                answers.append(client.send("GET", f"/resource_providers/{of}/usages"))
                answers.append(client.send("DELETE", f"/allocations/{claim.consumer}"))
            return answers

        run_together(server.url, [lambda client: work(client)] * WORKERS)
        end = time.monotonic() + seconds()
        before = memory_of(server)
        answers = [answer for each in run_together(server.url, [work] * CLIENTS) for answer in each]
        after = memory_of(server)
        assert set(Counter(answer.status for answer in answers)) <= {200, 204, 503}
        assert all(answer.status != 503 or answer.headers["retry-after"] for answer in answers)
        assert after - before < GROWTH
        assert truth.find_problems(database) == []
    times = statistics.quantiles([answer.seconds for answer in answers], n=100)
    with capsys.disabled():
        print(
            f"\n{backend}: {len(answers)} answers to {CLIENTS} clients, median {times[49]:.2f} s, "
            f"p99 {times[98]:.2f} s, memory {before >> 20} to {after >> 20} MiB"
        )


@pytest.fixture
def server(tmp_path):
    """A server of two workers on SQLite, which must not fail."""
    with servers.running(tmp_path, "--workers", WORKERS) as made:
        yield made


def connect(url):
    """A connection to a server."""
    parts = urllib.parse.urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port))


PIECES = {
    "request line": b"GET /resource_pro",
    "headers": b"GET /resource_providers HTTP/1.1\r\nHost: x\r\nX-Auth-Token: adm",
    "body": b"POST /resource_providers HTTP/1.1\r\nHost: x\r\nX-Auth-Token: admin\r\n"
    b'Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"name": "',
}


@pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES.keys())
def test_slow_clients_do_not_block_others(server, piece):
    """More of them than there are threads, and each goes on sending a byte now and then."""
    with contextlib.ExitStack() as opened:
        slow = [opened.enter_context(connect(server.url)) for _ in range(3 * WORKERS * 8)]
        for connection in slow:
            connection.sendall(piece)
        stop = threading.Event()

        def drip():
            while not stop.wait(0.5):
                for connection in slow:
                    with contextlib.suppress(OSError):
                        connection.send(b"a")

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            with contextlib.closing(Client(server.url)) as client:
                assert client.send("GET", "/resource_providers").status == 200
        finally:
            stop.set()
            dripping.join()


@pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES.keys())
def test_vanished_clients_leave_no_trace(server, piece):
    """Whatever they had sent when they went; nothing is done for them, and nothing is logged."""
    for _ in range(60):
        with connect(server.url) as connection:
            connection.sendall(piece)
            # without saying goodbye
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    with contextlib.closing(Client(server.url)) as client:
        assert client.insist("GET", "/resource_providers") == {"resource_providers": []}
    assert server.log.read_text() == ""


def test_oversized_body_is_refused_unread(server):
    """Whoever announces more than any request needs is answered at once."""
    with connect(server.url) as connection:
        connection.sendall(PIECES["body"].replace(b"1000", b"99999999999"))
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")
    with contextlib.closing(Client(server.url)) as client:
        assert client.send("GET", "/resource_providers").status == 200


def test_requests_without_a_free_connection_get_503(tmp_path):
    """One connection for eight threads: some wait in vain; nothing hangs, and afterwards all is well."""
    if "postgresql" not in scale.databases(databases.BACKENDS):
        pytest.skip("another kind of database was asked for")
    with databases.make_database("postgresql", tmp_path) as database:
        conf = tmp_path / "placement.conf"
        conf.write_text(
            f"[placement_database]\nconnection = {database}\nsync_on_startup = True\nmax_pool_size = 1\n"
            "max_overflow = 0\npool_timeout = 1\nwrite_patience = 0\n[api]\nauth_strategy = noauth2\n"
        )
        with (
            servers.running(tmp_path, "--config-file", conf, "--workers", 1) as server,
            contextlib.closing(Client(server.url)) as client,
        ):
            subject = make_provider(client, 1000)
            engine = sa.create_engine(database, poolclass=sa.pool.NullPool)
            claims = [Claim.of({subject: 1}) for _ in range(8)]
            with engine.begin() as connection:
                # somebody holds what all of them need
                connection.execute(sa.text("SELECT id FROM resource_providers FOR UPDATE"))
                ending = threading.Timer(4, connection.commit)
                ending.start()
                answers = run_together(server.url, [claim.put for claim in claims])
                ending.join()
            assert Counter(answer.status for answer in answers) == {204: 1, 503: 7}
            assert all(answer.status == 204 or answer.headers["retry-after"] for answer in answers)
            assert {claim.put(client).status for claim in claims} <= {204, 409}
            ledger = Ledger()
            for claim, answer in zip(claims, answers, strict=True):
                ledger.note(answer, claim, THERE)
            assert ledger.find_lost(database) == []


def test_server_started_before_its_database_answers_503_until_it_is_there(tmp_path):
    """In a container, which starts in any order: 503 that says when to come again, until it is there."""
    if "postgresql" not in scale.databases(databases.BACKENDS):
        pytest.skip("another kind of database was asked for")
    with own_servers.own_server("postgresql") as (own, database):
        with servers.running(tmp_path, "--database", database):
            pass
        own.kill()
        write_conf(
            tmp_path,
            f"[placement_database]\nconnection = {database}\n[api]\nauth_strategy = noauth2\n",
        )
        with serving(tmp_path, "--threads", "4") as url, contextlib.closing(Client(url)) as client:
            answer = client.send("GET", "/resource_providers")
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert database not in str(answer.body)
            own.start()
            # another connection: the server closes one that nobody uses for some seconds
            client.close()
            assert client.send("GET", "/resource_providers").status == 200
    assert "Traceback" not in (tmp_path / "container.log").read_text()


def limit_files(server, size):
    """Let no process of a server write a file beyond a size."""
    for pid in [server.process.pid, *processes.find_children(server.process.pid)]:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def test_full_disk_is_answered_with_503_and_damages_nothing(tmp_path):
    """What cannot be stored is answered with 503; reading goes on; with room again, so does writing."""
    database = f"sqlite:///{tmp_path}/placement.db"
    with (
        servers.running(tmp_path, "--database", database, "--workers", WORKERS) as server,
        contextlib.closing(Client(server.url)) as client,
    ):
        subject = make_provider(client, 1_000_000)
        size = max(path.stat().st_size for path in tmp_path.glob("placement.db*"))
        limit_files(server, size + (256 << 10))
        ledger = Ledger()
        for _ in range(5000):
            claim = Claim.of({subject: 1})
            answer = claim.put(client)
            ledger.note(answer, claim, THERE)
            if answer.status != 204:
                break
        assert answer.status == 503
        assert "no room left" in answer.body["errors"][0]["detail"]
        assert client.send("GET", f"/resource_providers/{subject}/usages").status == 200
        limit_files(server, resource.RLIM_INFINITY)
        claim = Claim.of({subject: 1})
        answer = claim.put(client)
        ledger.note(answer, claim, THERE)
        assert answer.status == 204
    assert ledger.find_lost(database) == []
    assert truth.find_problems(database) == []
    with contextlib.closing(sa.create_engine(database).raw_connection()) as connection:
        assert connection.cursor().execute("PRAGMA integrity_check").fetchall() == [("ok",)]
