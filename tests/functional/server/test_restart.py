# SPDX-License-Identifier: Apache-2.0
"""The stop of `placement-server serve` under its clients, and a restart that none of them notices."""

import concurrent.futures
import contextlib
import http.client
import itertools
import json
import os
import select
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit

import pytest

from benchmarks import processes
from tests.functional import servers
from tests.functional.server.test_reload import await_
from tests.functional.server.test_serve import TOKEN, fetch
from tests.functional.server.test_tls import write_certificate
from tests.functional.server.test_worker import await_closed, connect, read_answers

GET = b"GET / HTTP/1.1\r\nHost: placement\r\n\r\n"


def keep(server, opened):
    """A connection on which a request has been answered."""
    sock = opened.enter_context(connect(server))
    sock.sendall(GET)
    assert read_answers(sock, 1)[0][0] == "200"
    return sock


def test_idle_connections_do_not_delay_the_stop(tmp_path):
    """Their clients keep them, and do not close their side of one that has been closed."""
    with servers.launched(tmp_path) as server, contextlib.ExitStack() as opened:
        kept = [keep(server, opened) for _ in range(20)]
        time.sleep(0.5)
        began = time.monotonic()
        server.process.terminate()
        assert server.process.wait(servers.PATIENCE) == 0
        assert time.monotonic() - began < 1
        assert all(sock.recv(1) == b"" for sock in kept)


def test_clients_that_keep_an_answered_connection_do_not_delay_the_stop(tmp_path):
    """The last answer announces the end of the connection, and its client does not close its side."""
    with servers.launched(tmp_path, "--workers", 1) as server, contextlib.ExitStack() as opened:
        kept = [keep(server, opened) for _ in range(20)]
        (worker,) = processes.find_children(server.process.pid)
        os.kill(worker, signal.SIGSTOP)
        server.process.terminate()
        for sock in kept:
            sock.sendall(GET)
        time.sleep(0.5)
        began = time.monotonic()
        os.kill(worker, signal.SIGCONT)
        assert server.process.wait(servers.PATIENCE) == 0
        assert time.monotonic() - began < 1
        for sock in kept:
            answer = b"".join(iter(lambda sock=sock: sock.recv(1 << 16), b""))
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert b"\r\nconnection: close\r\n" in answer.lower()


def test_a_stopping_server_drains_requests_that_have_begun(tmp_path):
    """A byte is enough; idle connections are closed meanwhile."""
    with servers.launched(tmp_path, "--workers", 1) as server, contextlib.ExitStack() as opened:
        kept, begun = keep(server, opened), keep(server, opened)
        begun.sendall(GET[:1])
        time.sleep(0.5)
        server.process.terminate()
        await_closed(kept)
        time.sleep(1)
        begun.sendall(GET[1:])
        assert read_answers(begun, 1)[0][0] == "200"
        assert server.process.wait(servers.PATIENCE) == 0


class Burst:
    """Clients that read and write until they are told to stop, and what became of their requests."""

    def __init__(self, url, number=3):
        self.url = urlsplit(url)
        #: what no client may see: a refused or reset connection, a request without an answer, a status of 5xx
        self.faults = []
        #: the names of providers whose creation was acknowledged
        self.created = []
        #: the number of answers of each kind of client
        self.answers = {"new": 0, "kept": 0}
        self._names = (f"host{number}" for number in itertools.count())
        self._stopped = threading.Event()
        self._pool = concurrent.futures.ThreadPoolExecutor(2 * number)
        self._clients = [self._pool.submit(self._run, kind) for kind in self.answers for _ in range(number)]

    def stop(self):
        """Have all clients finish the request that they have begun."""
        self._stopped.set()
        for client in self._clients:
            client.result()
        self._pool.shutdown()

    def _open(self):
        address = self.url.hostname, self.url.port
        if self.url.scheme == "http":
            return http.client.HTTPConnection(*address, timeout=servers.PATIENCE)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return http.client.HTTPSConnection(*address, timeout=servers.PATIENCE, context=context)

    def _run(self, kind):
        connection = self._open()
        for number in itertools.count():
            if self._stopped.is_set():
                break
            # a client that keeps a connection sends the next request on another one if it has been closed
            if kind == "new" or connection.sock is None or select.select([connection.sock], [], [], 0)[0]:
                connection.close()
                connection = self._open()
            try:
                self._ask(connection, kind, writes=number % 2)
            except Exception as error:  # whatever it is, it is what a client must not see
                self.faults.append((kind, repr(error)))
                connection.close()
            time.sleep(0.01)
        connection.close()

    def _ask(self, connection, kind, *, writes):
        if writes:
            name = next(self._names)
            headers = {**TOKEN, "Content-Type": "application/json"}
            connection.request("POST", "/resource_providers", json.dumps({"name": name}), headers)
        else:
            connection.request("GET", "/resource_providers?name=x", headers=TOKEN)
        response = connection.getresponse()
        response.read()
        if response.status != 200:
            self.faults.append((kind, response.status))
        elif writes:
            self.created.append(name)
        self.answers[kind] += 1

    def check(self, path):
        """Fail if a client saw a fault, or a provider that was acknowledged is not in a SQLite file."""
        assert self.faults == []
        with contextlib.closing(sqlite3.connect(path)) as connection:
            stored = {name for (name,) in connection.execute("SELECT name FROM resource_providers")}
        assert set(self.created) - stored == set()
        assert len(self.created) > 20
        assert min(self.answers.values()) > 20


@pytest.fixture
def listener():
    """The listening socket of a service manager."""
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as sock:
        yield sock


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_no_client_notices_a_restart_with_a_passed_socket(scheme, listener, tmp_path):
    """Connections wait in the socket until the next server accepts them."""
    options = ()
    if scheme == "https":
        certificate, key = write_certificate(tmp_path)
        options = ("--tls-certificate", certificate, "--tls-key", key)
    url = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
    clients = Burst(url)
    for last in (False, False, True):
        with servers.launched(tmp_path, *options, listener=listener) as server:
            assert server.url == url
            time.sleep(1)
            if last:
                clients.stop()
            assert server.stop() == 0
            assert server.log.read_text() == ""
    clients.check(tmp_path / "placement.db")


@pytest.mark.parametrize("option", [("--host", "127.0.0.1"), ("--port", "8778")], ids=" ".join)
def test_an_address_beside_a_passed_socket_is_refused(option, listener, tmp_path):
    """The server would not listen there."""
    done = run_with_socket(listener, tmp_path, *option)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("placement-server: The service manager passes a listening socket")
    assert line.endswith("leave out --host and --port")


def test_a_passed_socket_that_is_not_for_tcp_is_refused(tmp_path):
    """Such as the path of a Unix socket in ListenStream, or a port in ListenDatagram."""
    with socket.socket(socket.AF_UNIX) as unix, socket.socket(type=socket.SOCK_DGRAM) as datagram:
        unix.bind(str(tmp_path / "socket"))
        unix.listen()
        for sock in (unix, datagram):
            done = run_with_socket(sock, tmp_path)
            assert (done.returncode, done.stdout) == (1, "")
            (line,) = done.stderr.splitlines()
            assert "passes a socket that does not listen on a TCP port" in line


def test_several_passed_sockets_are_refused(listener, tmp_path):
    """Only one address is announced and checked."""
    done = run_with_socket(listener, tmp_path, count=2)
    assert (done.returncode, done.stdout) == (1, "")
    assert "passes 2 sockets, and not one" in done.stderr


def test_a_passed_socket_beyond_loopback_needs_authentication(tmp_path):
    """The address of the socket counts, as that of --host does."""
    with socket.create_server(("0.0.0.0", 0)) as listener:
        done = run_with_socket(listener, tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "anybody who reaches 0.0.0.0 is an administrator" in done.stderr


def test_a_socket_for_another_process_is_ignored(tmp_path):
    """The variables are inherited by every process that a service starts."""
    environment = servers.make_environment(LISTEN_FDS="1", LISTEN_PID="1")
    with servers.running(tmp_path, environment=environment) as server:
        assert fetch(f"{server.url}/traits")[0] == 200


def test_a_second_server_is_not_started_by_a_signal(listener, tmp_path):
    """SIGUSR2, with which gunicorn starts one that takes its sockets, is ignored with a line in the log."""
    with servers.launched(tmp_path, "--workers", 1, listener=listener) as server:
        server.process.send_signal(signal.SIGUSR2)
        await_(lambda: "SIGUSR2 is ignored" in server.log.read_text(), "a line in the log")
        assert len(processes.find_children(server.process.pid)) == 1
        assert server.stop() == 0


def run_with_socket(sock, directory, *options, count=1):
    """Run `serve` with a socket that it is to refuse; what came of it."""
    program = servers.PASS_SOCKET.replace('LISTEN_FDS="1"', f'LISTEN_FDS="{count}"')
    return subprocess.run(
        [sys.executable, "-c", program, str(sock.fileno()), *servers.make_command(), "serve", *options],
        cwd=directory,
        env=servers.make_environment(),
        pass_fds=[sock.fileno()],
        capture_output=True,
        text=True,
        timeout=servers.PATIENCE,
        check=False,
    )
