# SPDX-License-Identifier: Apache-2.0
"""What a connection to `placement-server serve` may hold, and for how long; what arrives in pieces."""

import contextlib
import itertools
import json
import re
import resource
import socket
import subprocess
import sys
import threading
import time
import urllib.parse

import pytest
import requests

from benchmarks import processes
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
PROMPT, AHEAD, REST = worker._Turn
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


def test_incomplete_request_is_timed_out(tmp_path):
    """However much of it has arrived, and also if a byte comes now and then."""
    kinds = [
        kind
        for kind in hostile.KINDS.values()
        if not (kind.churn or kind.reads or kind.floods) and kind.begins.count(b"GET") < 2
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
        assert len(socks) > 5
        assert [kind for sock, kind in zip(socks, kinds, strict=True) if not is_closed(sock)] == []
        assert ask(server.url, "/-/readyz") == (200, {"status": "ready"})


def test_unread_answer_is_timed_out(tmp_path, long_list):
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


def test_slowly_read_answer_is_timed_out(tmp_path, long_list):
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


def test_unread_stream_does_not_occupy_a_thread(tmp_path, long_list):
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


def test_pipelined_requests_are_answered_in_order(tmp_path):
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


def test_worker_survives_closing_the_connection_it_is_handling(tmp_path):
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


def test_body_in_tiny_chunks_is_refused(tmp_path):
    """The loop, which is everybody's, would be busy with each of them."""
    with servers.running(tmp_path) as server, connect(server) as sock:
        sock.sendall(hostile.POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 1200)
        ((status, _),) = read_answers(sock, 1)
    assert status == "400"


def serve_in_thread(queue):
    """Return a thread that takes a connection, and the list in which it puts it."""
    taken = []
    thread = threading.Thread(target=lambda: taken.append(queue.take().__enter__()), daemon=True)
    thread.start()
    return thread, taken


def test_requests_sent_ahead_are_served_one_at_a_time_and_after_those_of_others():
    """The second of a hundred requests that one client sends in a row comes after the first of all others."""
    queue = worker._Queue()
    for name, turn in (("first", PROMPT), ("ahead", AHEAD), ("other", PROMPT), ("further ahead", AHEAD)):
        queue.put(name, turn)
    with queue.take() as one, queue.take() as two, queue.take() as three:
        assert [one, two, three] == ["first", "other", "ahead"]
        # another thread waits, although there is a request, until there is one of another turn
        thread, taken = serve_in_thread(queue)
        queue.put("later")
        thread.join()
    with queue.take() as last:
        assert [*taken, last] == ["later", "further ahead"]


def test_a_request_sent_ahead_does_not_delay_the_rest_of_a_long_answer():
    """It may wait for a lock of the database, and the rest of an answer only needs a processor."""
    queue = worker._Queue()
    queue.put("ahead", AHEAD)
    with queue.take():
        queue.put("rest", REST)
        with queue.take() as connection:
            assert connection == "rest"


def test_the_rest_of_a_long_answer_takes_its_turn_among_new_requests():
    """Otherwise a worker that is never idle would make a little of it every few seconds."""
    queue = worker._Queue()
    for name, turn in (("first", PROMPT), ("rest", REST), ("second", PROMPT)):
        queue.put(name, turn)
    with queue.take() as one, queue.take() as two, queue.take() as three:
        assert [one, two, three] == ["first", "rest", "second"]


def test_requests_sent_ahead_wait_no_longer_than_some_seconds(monkeypatch):
    """Other clients go on sending requests; those that arrive after these seconds are served later."""
    now = [0.0]
    monkeypatch.setattr(worker.time, "monotonic", lambda: now[0])
    queue = worker._Queue()
    queue.put("ahead", AHEAD)
    now[0] = worker._MOST_DEFERRED_SECONDS - 1
    queue.put("in time")
    now[0] = worker._MOST_DEFERRED_SECONDS + 1
    queue.put("too late")
    with queue.take() as one, queue.take() as two:
        assert [one, two] == ["in time", "ahead"]


def test_requests_sent_ahead_do_not_keep_a_single_thread_for_themselves(monkeypatch):
    """A new request comes after those that are due, and before all later ones."""
    now = [0.0]
    monkeypatch.setattr(worker.time, "monotonic", lambda: now[0])
    queue = worker._Queue()
    queue.put("due", AHEAD)
    now[0] = 100.0
    queue.put("later", AHEAD)
    queue.put("new")
    served = []
    for _ in range(3):
        with queue.take() as connection:
            served.append(connection)
    assert served == ["due", "new", "later"]


def count_served(server):
    """Return the number of requests for traits that a server of one worker has answered."""
    text = requests.get(f"{server.url}/-/metrics", headers=TOKEN).text
    pattern = r'placement_requests_total\{[^}]*route="/traits"[^}]*\} ([0-9.]+)'
    return sum(float(number) for number in re.findall(pattern, text))


def test_requests_whose_answers_nobody_reads_are_hardly_served(tmp_path):
    """The system accepts a few answers for the client, and the other requests wait until it reads them."""
    with (
        servers.running(tmp_path, "--workers", 1) as server,
        contextlib.ExitStack() as opened,
    ):
        socks = [opened.enter_context(connect(server, buffer=2048)) for _ in range(5)]
        for sock in socks:
            sock.sendall(hostile.TRAITS * 100)
        served = -1
        while served != (served := count_served(server)):
            time.sleep(0.5)
        assert 5 <= served < 50
        # the client that reads after all gets all its answers
        assert [status for status, _ in read_answers(socks[0], 100)] == ["200"] * 100


def test_a_server_without_free_file_descriptors_accepts_connections_later(tmp_path):
    """There is no connection that it could close, and the next one waits until there are descriptors."""
    with servers.running(tmp_path, "--workers", 1) as server:
        assert ask(server.url, "/-/healthz")[0] == 200
        (pid,) = processes.find_children(server.process.pid)
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        # those open now stay open
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        with connect(server) as sock:
            sock.sendall(b"GET /-/healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            sock.settimeout(1.5)
            with pytest.raises(TimeoutError):
                sock.recv(1)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
            sock.settimeout(30)
            assert read_answers(sock, 1)[0][0] == "200"


@pytest.mark.parametrize(
    "arguments", [("serve", "--database", "sqlite://"), ("shadow", "--upstream", "http://127.0.0.1:9")]
)
def test_a_limit_of_too_few_open_files_is_refused_with_the_number_that_is_needed(tmp_path, arguments):
    """Each thread needs one for a connection; with fewer, each connection would end its worker."""

    def run_limited(directory, *line):
        limit = ("sh", "-c", 'ulimit -n 128 && exec "$@"', "sh")
        return subprocess.run(
            [*limit, *servers.make_command(), *line, "--port", "0", "--threads", "4"],
            cwd=directory,
            env=servers.make_environment(),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    line = refuse(tmp_path, *arguments, run=run_limited)
    assert line.startswith(
        "A process may have 128 open files at most here, and a worker with 4 threads needs"
    )
    needed = re.search(r"needs (\d+):", line)[1]
    if arguments[0] == "serve":
        limit = ("sh", "-c", f'ulimit -n {needed} && exec "$@"', "sh")
        options = ("--threads", 4, *arguments[1:])
        with servers.running(tmp_path, *options, wrapper=limit) as server, contextlib.ExitStack() as opened:
            pids = processes.find_children(server.process.pid)
            for _ in range(20):
                opened.enter_context(connect(server))
            for _ in range(5):
                assert ask(server.url, "/-/healthz")[0] == 200
            # another worker may have started meanwhile
            assert set(pids) <= set(processes.find_children(server.process.pid))


def test_continue_is_sent_once_and_not_for_oversized_bodies(tmp_path):
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


def test_malformed_chunks_are_answered_with_400(tmp_path):
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


#: what stands after the last chunk of a body and ends otherwise than a parser in front may think
TRAILERS = (b"x: y\nz: 1\r\n\r\n", b"x: y\rz: 1\r\n\r\n", b"x\r\n\r\n", b"\nx: y\r\n\r\n", b" x: y\r\n\r\n")
CHUNKED = b"Host: placement\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"


@pytest.mark.parametrize(
    ("begins", "status"),
    [(b"POST /resource_providers", b"401"), (b"PUT /usages", b"401"), (b"DELETE /", b"405")],
    ids=lambda text: text.decode(),
)
def test_malformed_trailers_end_the_connection_where_no_body_is_read(tmp_path, begins, status):
    """Nothing that follows is taken for a request; well-formed ones are ignored."""
    after = b"GET / HTTP/1.1\r\nHost: placement\r\n\r\n"
    with servers.running(tmp_path) as server:
        for trailer in TRAILERS:
            with connect(server) as sock:
                sock.sendall(begins + b" HTTP/1.1\r\n" + CHUNKED + trailer + after)
                answer = b"".join(iter(lambda sock=sock: sock.recv(1 << 16), b""))
            assert answer.startswith(b"HTTP/1.1 " + status), trailer
            assert answer.count(b"HTTP/1.1 ") == 1, trailer
        # without the end for which a parser would wait
        with connect(server) as sock:
            sock.sendall(begins + b" HTTP/1.1\r\n" + CHUNKED + b"x: y\n\n")
            assert sock.recv(1000).startswith(b"HTTP/1.1 " + status)
        with connect(server) as sock:
            sock.sendall(begins + b" HTTP/1.1\r\n" + CHUNKED + b"x-y: \xe9\r\nz:\r\n\r\n" + after)
            assert [answer[0] for answer in read_answers(sock, 2)] == [status.decode(), "200"]


def test_line_ends_before_a_request_do_not_prolong_its_time(tmp_path):
    """Neither on a new connection nor after an answer, and not when they come in halves."""
    line = b"GET / HTTP/1.1\r\nHost: placement\r\n"
    with (
        servers.running(tmp_path, command=limited(REQUEST_SECONDS=1)) as server,
        contextlib.ExitStack() as opened,
    ):
        socks = [opened.enter_context(connect(server)) for _ in range(2)]
        ends = time.monotonic() + 6
        pieces = itertools.cycle((b"\r", b"\n"))
        while not all(map(is_closed, socks)):
            assert time.monotonic() < ends, "a connection stays open"
            with contextlib.suppress(OSError):
                socks[0].send(b"\r\n")
            with contextlib.suppress(OSError):
                socks[1].send(next(pieces))
            time.sleep(0.1)
        with connect(server) as sock:
            # a request may follow them
            for piece in (b"\r\n\r", b"\n" + line, b"\r\n\r\n" + line + b"\r\n"):
                sock.sendall(piece)
                time.sleep(0.1)
            assert [answer[0] for answer in read_answers(sock, 2)] == ["200", "200"]


def test_text_in_a_request_line_need_not_be_escaped(tmp_path):
    """It is read as its percent-encoded form is, valid UTF-8 or not."""
    with servers.running(tmp_path) as server, connect(server) as sock:
        sock.sendall(hostile.POST + b"Content-Length: 17\r\n\r\n" + '{"name": "caf\xe9"}'.encode())
        assert [answer[0] for answer in read_answers(sock, 1)] == ["200"]
        for raw in ("/resource_providers?name=caf\xe9".encode(), "/traits/\u732b".encode(), b"/traits/\xff"):
            found = []
            for path in (raw, urllib.parse.quote(raw, safe="/?=").encode()):
                sock.sendall(b"GET " + path + b" HTTP/1.1\r\n" + hostile.HEAD + b"\r\n")
                status, body = read_answers(sock, 1)[0]
                found.append((status, re.sub(rb"req-[-0-9a-f]+", b"", body)))
            assert found[0] == found[1], raw
            assert found[0][0] == ("200" if b"name" in raw else "404"), raw
            assert (b"caf" in found[0][1]) == (b"name" in raw)
        for text in ("G\xcbT / HTTP/1.1", "GET /\xe9", "GET / HTTP/1.\u0661"):
            with connect(server) as other:
                other.sendall(text.encode() + b"\r\nHost: placement\r\n\r\n")
                assert other.recv(1000).startswith(b"HTTP/1.1 400 "), text


def test_request_line_with_a_thousand_aggregates_is_accepted(tmp_path):
    """A query with a thousand aggregates is one; what nobody asks is refused."""
    with servers.running(tmp_path) as server, connect(server) as sock:
        for length, status in ((9_000, 200), (60_000, 200), (70_000, 414)):
            aggregates = ",".join(["f0000000-0000-4000-8000-000000000000"] * (length // 37))
            line = f"GET /resource_providers?member_of=in:{aggregates} HTTP/1.1\r\n"
            sock.sendall(line.encode() + hostile.HEAD + b"\r\n")
            head = sock.recv(1 << 16)
            assert head.startswith(b"HTTP/1.1 %d " % status), length


def test_invalid_request_line_is_refused_at_once(tmp_path):
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


def test_parser_of_requests_does_not_depend_on_what_is_installed(tmp_path):
    """gunicorn would use this module, which it knows by its name, for every request."""
    other = (
        "import sys, types\nsys.modules['gunicorn_h1c'] = types.SimpleNamespace(LimitRequestLine=ValueError)"
    )
    with servers.launched(
        tmp_path, command=(sys.executable, "-c", other + LIMITED.format(limits={}))
    ) as server:
        assert ask(server.url, "/")[0] == 200


def test_connections_of_one_address_are_limited(tmp_path):
    """Further ones close its longest idle one; other addresses and proxies are not affected."""
    arguments = ("--workers", 1, "--connections-per-address", 5, "--proxy", "127.0.0.3")
    with servers.running(tmp_path, *arguments) as server, contextlib.ExitStack() as opened:
        kept = opened.enter_context(connect(server, "127.0.0.2"))
        kept.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        read_answers(kept, 1)
        # the answer arrives before the thread has returned the connection
        time.sleep(1)
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


def test_trusted_address_option_refuses_other_values(tmp_path):
    """Other values end with usage."""
    for arguments in (("--proxy", "nowhere"), ("--connections-per-address", "-1")):
        done = run(tmp_path, "serve", *arguments)
        assert done.returncode == 2
        assert arguments[1] in done.stderr
    assert refuse(tmp_path, "serve", "--port", 99999, "--proxy", "::1").startswith("Cannot listen")


def test_address_with_most_connections_loses_an_idle_one(tmp_path):
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


def test_connections_are_grouped_by_ipv4_address_or_ipv6_64_network():
    """The origin is an IPv4 address, however it is written, or a 64-bit network."""
    assert split_address("") == ("", "")
    assert split_address(("192.0.2.1", 5)) == ("192.0.2.1", "192.0.2.1")
    assert split_address(("::ffff:192.0.2.1", 5, 0, 0)) == ("192.0.2.1", "192.0.2.1")
    assert split_address(("2001:db8:1:2:3::4", 5, 0, 0)) == ("2001:db8:1:2:3::4", "2001:db8:1:2::/64")
    assert split_address(("fe80::1%eth0", 5, 0, 2))[1] == "fe80::/64"


def test_probes_are_answered_while_every_thread_waits(tmp_path, hanging):
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
