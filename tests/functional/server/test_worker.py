# SPDX-License-Identifier: Apache-2.0
"""What a connection to `placement-server serve` may hold, and for how long; what arrives in pieces."""

import contextlib
import json
import socket
import sys
import threading
import time
import urllib.parse

import pytest
import requests

from osc_placement.server.db import upgrade
from osc_placement.server.db.engine import Database
from osc_placement.server.process import worker
from osc_placement.server.process.connection import split_address
from tests.functional import servers
from tests.functional.server.test_health import ask
from tests.functional.server.test_metrics import fill
from tests.functional.server.test_serve import refuse, run
from tests.reliability import hostile

#: a server whose limits are others
LIMITED = """
import sys
from osc_placement.server.process import limits
from osc_placement.server.main import main
vars(limits).update({limits})
sys.exit(main())
"""
TOKEN = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}


def limited(**limits):
    """The command of a server with other limits."""
    return (sys.executable, "-c", LIMITED.format(limits=limits))


def connect(server, source="127.0.0.1", buffer=None):
    """A connection to a server, from an address of this machine."""
    parts = urllib.parse.urlsplit(server.url)
    sock = socket.socket()
    if buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    sock.settimeout(30)
    sock.bind((source, 0))
    sock.connect((parts.hostname, parts.port))
    return sock


def is_closed(sock):
    """Whether the other side has closed a connection."""
    sock.setblocking(False)
    try:
        return not sock.recv(1 << 20, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True


def await_closed(sock, meanwhile=lambda: None):
    """Fail unless a connection is closed soon."""
    end = time.monotonic() + 30
    while not is_closed(sock):
        assert time.monotonic() < end, "the connection stays open"
        with contextlib.suppress(OSError):
            meanwhile()
        time.sleep(0.1)


@pytest.fixture
def long_list(tmp_path):
    """A database whose list of providers is longer than what the system keeps of an answer."""
    url = f"sqlite:///{tmp_path}/long.db"
    database = Database(url)
    upgrade.upgrade(database)
    fill(database, 20_000)
    database.dispose()
    return url


def test_a_request_that_does_not_arrive_is_given_up(tmp_path):
    """However much of it has arrived, and also if a byte comes now and then."""
    kinds = [
        kind
        for kind in hostile.KINDS.values()
        if not kind.churn and not kind.reads and kind.begins.count(b"GET") < 2
    ]
    with (
        servers.running(tmp_path, command=limited(REQUEST_SECONDS=1)) as server,
        contextlib.ExitStack() as opened,
    ):
        socks = [opened.enter_context(connect(server)) for _ in kinds]
        for sock, kind in zip(socks, kinds, strict=True):
            sock.sendall(kind.begins)
        for sock, kind in zip(socks, kinds, strict=True):
            await_closed(sock, lambda sock=sock, kind=kind: sock.send(kind.goes_on))


def test_answers_that_are_not_read_are_given_up(tmp_path, long_list):
    """Whoever does not read does not see the end either, but can no longer send."""
    arguments = ("--database", long_list)
    with (
        servers.running(tmp_path, *arguments, command=limited(STALL_SECONDS=1)) as server,
        connect(server) as sock,
    ):
        sock.sendall(hostile.LIST * 100)

        def send_for_long():
            for _ in range(300):
                time.sleep(0.1)
                sock.send(b"\r\n")

        with pytest.raises(OSError, match=r"Broken pipe|Connection reset"):
            send_for_long()


def test_an_answer_that_is_read_too_slowly_is_given_up(tmp_path, long_list):
    """A little is read all the time, and less than an honest client would."""
    command = limited(STALL_SECONDS=1, SLOWEST_READING=1 << 20)

    def read_for_long():
        for _ in range(1500):
            assert sock.recv(1000)
            time.sleep(0.02)

    with (
        servers.running(tmp_path, "--database", long_list, command=command) as server,
        connect(server, buffer=1 << 16) as sock,
    ):
        sock.sendall(hostile.LIST)
        with pytest.raises(ConnectionResetError):
            read_for_long()


def test_a_stream_that_nobody_reads_keeps_no_thread(tmp_path, long_list):
    """There is one, and another client is served; what was streamed is whole in the end."""
    path = "/-/providers"
    arguments = ("--database", long_list, "--workers", 1, "--threads", 1)
    with servers.running(tmp_path, *arguments) as server, contextlib.ExitStack() as opened:
        whole = requests.get(server.url + path, headers=TOKEN).content
        assert len(whole) > 1 << 20
        slow = []
        for _ in range(4):
            sock = opened.enter_context(connect(server, buffer=1 << 16))
            sock.sendall(f"GET {path} HTTP/1.0\r\n".encode() + hostile.HEAD + b"\r\n")
            slow.append(sock)
        for _ in range(10):
            answer = requests.get(f"{server.url}/resource_providers?name=x", headers=TOKEN, timeout=10)
            assert answer.status_code == 200
        for sock in slow:
            received = b"".join(iter(lambda sock=sock: sock.recv(1 << 20), b""))
            assert received.partition(b"\r\n\r\n")[2] == whole


def read_answers(sock, number):
    """The bodies of so many answers with a content-length."""
    file = sock.makefile("rb")
    bodies = []
    for _ in range(number):
        head = b"".join(iter(file.readline, b"\r\n")).decode()
        (length,) = [line.split(": ")[1] for line in head.lower().split("\r\n") if "content-length" in line]
        bodies.append((head.split()[1], file.read(int(length))))
    return bodies


def test_requests_in_a_row_are_answered_in_order(tmp_path):
    """Sent at once, with bodies of both kinds among them, and also byte by byte."""
    post = hostile.POST
    texts = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        post + b'Content-Length: 15\r\n\r\n{"name": "one"}\r\n',
        post + b'Transfer-Encoding: chunked\r\n\r\n9;x=y\r\n{"name": \r\n6\r\n"two"}\r\n0\r\n\r\n',
        post + b'Transfer-Encoding: chunked\r\n\r\nf\r\n{"name": "six"}\r\n0\r\nx: y\r\n\r\n',
        b"GET /resource_providers?name=one HTTP/1.1\r\n" + hostile.HEAD + b"\r\n",
        b"GET /resource_providers?name=two HTTP/1.1\r\n" + hostile.HEAD + b"\r\n",
    ]
    with servers.running(tmp_path) as server:
        for at_once in (True, False):
            with connect(server) as sock:
                if at_once:
                    sock.sendall(b"".join(texts))
                else:
                    for byte in b"".join(texts[:1] + texts[4:]):
                        sock.sendall(bytes((byte,)))
                answers = read_answers(sock, 6 if at_once else 3)
            assert [status for status, _ in answers] == ["200"] * len(answers)
            names = [json.loads(body)["resource_providers"][0]["name"] for _, body in answers[-2:]]
            assert names == ["one", "two"]


def test_a_connection_that_is_ended_in_the_midst_of_a_turn_ends_no_worker(tmp_path):
    """The bytes that wait are counted when a request is complete, and its own connection may have the most.

    So may one of which the system has told in the same turn that there is something to read.
    """
    most = 1 << 20
    with (
        servers.running(tmp_path, "--workers", 1, command=limited(BUFFERED=most)) as server,
        contextlib.ExitStack() as opened,
    ):
        other, largest = (opened.enter_context(connect(server)) for _ in range(2))
        for sock, length, sent in ((other, 500_000, 480_000), (largest, 580_000, 540_000)):
            sock.sendall(hostile.POST + b"Content-Length: %d\r\n\r\n" % length + b"x" * sent)
            time.sleep(0.5)
        # the rest is more than may wait, and makes the request complete
        largest.sendall(b"x" * 40_000)
        assert read_answers(largest, 1)[0][0] == "400"
        assert ask(server.url, "/-/healthz") == (200, {"status": "alive"})


def test_a_body_of_tiny_chunks_is_refused(tmp_path):
    """The loop, which is everybody's, would be busy with each of them."""
    with servers.running(tmp_path) as server, connect(server) as sock:
        sock.sendall(hostile.POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 1200)
        ((status, _),) = read_answers(sock, 1)
    assert status == "400"


def test_requests_that_were_sent_ahead_wait_for_those_of_others():
    """A client that sends a hundred requests in a row has the second served after the first of all others."""
    waiting = worker._Queue()
    for name, is_last in (("first", False), ("ahead", True), ("other", False), ("further ahead", True)):
        waiting.put(name, is_last=is_last)
    assert [waiting.get() for _ in range(4)] == ["first", "other", "ahead", "further ahead"]


def test_permission_to_go_on_is_given_once_and_not_for_what_is_too_large(tmp_path):
    """Then the refusal comes at once."""
    with servers.running(tmp_path) as server:
        for length, first in ((15, b"HTTP/1.1 100 "), (1 << 40, b"HTTP/1.1 413 ")):
            with connect(server) as sock:
                sock.sendall(hostile.POST + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % length)
                assert sock.recv(1000).startswith(first)
                if b"100" in first:
                    sock.sendall(b'{"name": "one"}')
                    assert sock.recv(1000).startswith(b"HTTP/1.1 200 ")


MALFORMED = (
    b"zz\r\n",
    b"0x5\r\nhello\r\n0\r\n\r\n",
    b"-5\r\nhello\r\n0\r\n\r\n",
    b"\r\n",
    b"5 5\r\nhello\r\n0\r\n\r\n",
    b"2\r\n{}xx0\r\n\r\n",
    b"1" * 10_000,
    b"11111111111111111111\r\n",
    b"2\r\n{}\r\n0\r\n" + b"a" * 100_000,
    b"2\r\n{}\r\n0\r\nx\ny\r\n\r\n",
)


def test_malformed_chunks_are_the_fault_of_the_client(tmp_path):
    """They are answered as any malformed body is, and the connection ends."""
    with servers.running(tmp_path) as server:
        for chunks in MALFORMED:
            with connect(server) as sock:
                sock.sendall(hostile.POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
                answer = b"".join(iter(lambda sock=sock: sock.recv(1 << 16), b""))
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 400 "), chunks[:50]
            assert b"x-openstack-request-id" in head.lower()
            assert json.loads(body)["errors"][0]["status"] == 400
        assert server.log.read_text() == ""


def test_long_request_lines_are_taken(tmp_path):
    """A query with a thousand aggregates is one; what nobody asks is refused."""
    with servers.running(tmp_path) as server, connect(server) as sock:
        for length, status in ((9_000, 200), (60_000, 200), (70_000, 414)):
            aggregates = ",".join(["f0000000-0000-4000-8000-000000000000"] * (length // 37))
            line = f"GET /resource_providers?member_of=in:{aggregates} HTTP/1.1\r\n"
            sock.sendall(line.encode() + hostile.HEAD + b"\r\n")
            head = sock.recv(1 << 16)
            assert head.startswith(b"HTTP/1.1 %d " % status), length


def test_what_is_no_request_is_refused_at_once(tmp_path):
    """One line, and the end of the connection."""
    with servers.running(tmp_path) as server:
        for text in (
            b"GET / HTTP/1.1\n\n",
            b"\x16\x03\x01\x02\x00\x01\n",
            b"GET /\r\n\r\n",
            b"GET / HTTP/1.1\r\nx\r\n\r\n",
        ):
            with connect(server) as sock:
                sock.sendall(text)
                assert sock.recv(1000).startswith(b"HTTP/1.1 400 "), text
                await_closed(sock)


def test_connections_of_one_address_are_limited(tmp_path):
    """Further ones close its longest idle one; other addresses and proxies are not affected."""
    arguments = ("--workers", 1, "--connections-per-address", 5, "--proxy", "127.0.0.3")
    with servers.running(tmp_path, *arguments) as server, contextlib.ExitStack() as opened:
        kept = opened.enter_context(connect(server, "127.0.0.2"))
        kept.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        read_answers(kept, 1)
        many = {
            source: [opened.enter_context(connect(server, source)) for _ in range(20)]
            for source in ("127.0.0.1", "127.0.0.2", "127.0.0.3")
        }
        await_closed(kept)
        for sock in many["127.0.0.2"][4:-1]:
            await_closed(sock)
        for sock in (*many["127.0.0.1"], *many["127.0.0.2"][:4], many["127.0.0.2"][-1], *many["127.0.0.3"]):
            assert not is_closed(sock)
            sock.setblocking(True)
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert read_answers(sock, 1)[0][0] == "200"


def test_an_option_for_addresses_takes_addresses(tmp_path):
    """Other values end with usage."""
    for arguments in (("--proxy", "nowhere"), ("--connections-per-address", "-1")):
        done = run(tmp_path, "serve", *arguments)
        assert done.returncode == 2
        assert arguments[1] in done.stderr
    assert refuse(tmp_path, "serve", "--port", 99999, "--proxy", "::1").startswith("Cannot listen")


def test_the_greediest_address_makes_room_for_others(tmp_path):
    """Where there are as many connections as may be, who has most of them loses one that does nothing."""
    command = limited(CONNECTIONS=10)
    with (
        servers.running(tmp_path, "--workers", 1, command=command) as server,
        contextlib.ExitStack() as opened,
    ):
        greedy = [opened.enter_context(connect(server, "127.0.0.2")) for _ in range(8)]
        for _ in range(6):
            sock = opened.enter_context(connect(server, "127.0.0.3"))
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert read_answers(sock, 1)[0][0] == "200"
        assert sum(map(is_closed, greedy)) >= 3


def test_waiting_bytes_are_limited(tmp_path):
    """If bodies do not end, the client that has sent most loses connections, and another one is served."""
    command = limited(BUFFERED=8 << 20)
    body = b"Content-Length: 60000000\r\n\r\n" + b"a" * (3 << 20)
    with (
        servers.running(tmp_path, "--workers", 1, command=command) as server,
        contextlib.ExitStack() as opened,
    ):
        many = [opened.enter_context(connect(server)) for _ in range(6)]
        for sock in many:
            with contextlib.suppress(OSError):
                sock.sendall(hostile.POST + body)
        for _ in range(100):
            if sum(map(is_closed, many)) >= 3:
                break
            time.sleep(0.1)
        assert sum(map(is_closed, many)) in (3, 4, 5)
        assert requests.get(f"{server.url}/resource_providers", headers=TOKEN).status_code == 200


def test_the_origin_of_a_client_address():
    """The origin is an IPv4 address, however it is written, or a 64-bit network."""
    assert split_address("") == ("", "")
    assert split_address(("192.0.2.1", 5)) == ("192.0.2.1", "192.0.2.1")
    assert split_address(("::ffff:192.0.2.1", 5, 0, 0)) == ("192.0.2.1", "192.0.2.1")
    assert split_address(("2001:db8:1:2:3::4", 5, 0, 0)) == ("2001:db8:1:2:3::4", "2001:db8:1:2::/64")
    assert split_address(("fe80::1%eth0", 5, 0, 2))[1] == "fe80::/64"


def test_life_and_readiness_are_told_while_every_thread_waits(tmp_path, hanging):
    """The database hangs, and more requests wait for it than there are threads."""
    url, way = hanging
    arguments = ("--database", url, "--workers", 1, "--threads", 2)
    with servers.running(tmp_path, *arguments) as server:
        assert ask(server.url, "/-/readyz") == (200, {"status": "ready"})
        way.hang()

        def wait():
            with contextlib.suppress(requests.RequestException):
                requests.get(f"{server.url}/usages?project_id=x", headers=TOKEN, timeout=60)

        waiting = [threading.Thread(target=wait) for _ in range(8)]
        try:
            for thread in waiting:
                thread.start()
            time.sleep(1)
            for path in ("/-/healthz", "/", "/-/readyz", "/-/healthz"):
                answer = requests.get(server.url + path, timeout=10)
                assert answer.status_code == (503 if path == "/-/readyz" else 200)
        finally:
            way.go_on()
            for thread in waiting:
                thread.join()
