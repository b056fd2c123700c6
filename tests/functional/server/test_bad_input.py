# SPDX-License-Identifier: Apache-2.0
"""Bytes that no client should send, through a socket: refused as the reference refuses them, never a 500."""

import contextlib
import json
import re
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import databases
from tests.functional import servers

GUNICORN = Path(sys.executable).with_name("gunicorn")
CONTAINERS = {
    "gunicorn": "osc_placement.server.wsgi:application",
    "reference": "placement.wsgi.api:application",
}
CONF = """\
[placement_database]
connection = sqlite:///{directory}/placement.db
sync_on_startup = true
[api]
auth_strategy = noauth2
"""
UUID = "0000000a-0000-4000-8000-000000000001"


@dataclass(frozen=True)
class Case:
    """A request, byte by byte, and what is to be said of its answer."""

    name: str
    method: str
    path: bytes
    body: bytes = b""
    headers: tuple[bytes, ...] = ()
    #: whether the reference's answer is one to be like
    comparable: bool = True

    def encode(self):
        """What goes over the wire."""
        lengths = any(line.lower().startswith((b"content-length", b"transfer")) for line in self.headers)
        lines = [
            self.method.encode() + b" " + self.path + b" HTTP/1.1",
            b"host: localhost",
            b"connection: close",
            b"x-auth-token: admin",
            *([] if b"version" in b"".join(self.headers) else [b"openstack-api-version: placement 1.39"]),
            *([b"content-type: application/json"] if self.body else []),
            *([b"content-length: %d" % len(self.body)] if self.body and not lengths else []),
            *self.headers,
        ]
        return b"\r\n".join(lines) + b"\r\n\r\n" + self.body


def post(name, body, *headers, path=b"/resource_providers", **facts):
    """A case that sends a body."""
    return Case(name, "POST", path, body, headers, **facts)


def get(name, path, *headers, **facts):
    """A case that asks."""
    return Case(name, "GET", path, headers=headers, **facts)


INVENTORIES = b"/resource_providers/" + UUID.encode() + b"/inventories"
CASES = (
    post("half a document", b'{"name": "host'),
    post("a body shorter than announced", b'{"name": "a"', b"content-length: 500"),
    post("a body longer than announced", b'{"name": "abc"}', b"content-length: 5"),
    post("a length that is no number", b"{}", b"content-length: many", comparable=False),
    post("a negative length", b"{}", b"content-length: -5", comparable=False),
    post("no content type", b"", b"content-length: 0"),
    post("text that is not UTF-8", b'{"name": "\xff\xfe"}', comparable=False),
    post("no text at all", bytes(range(256)), comparable=False),
    post("not a number", b'{"name": NaN}', comparable=False),
    post("a number of 5000 digits", b'{"name": ' + b"9" * 5000 + b"}", comparable=False),
    post("a total beyond the database", b'{"resource_class": "VCPU", "total": 1e300}', path=INVENTORIES),
    post("a total without an end", b'{"resource_class": "VCPU", "total": Infinity}', path=INVENTORIES),
    post("a key twice", b'{"name": 1, "name": 2}'),
    post("a list within a list", b"[" * 2000 + b"]" * 2000, comparable=False),
    post("a long name", b'{"name": "' + b"a" * 100_000 + b'"}', comparable=False),
    get("a version that there is not", b"/traits", b"openstack-api-version: placement 1.400"),
    get("a version that is none", b"/traits", b"openstack-api-version: placement one"),
    get("a version of bytes", b"/traits", b"openstack-api-version: placement \xff\xfe", comparable=False),
    get("an unknown key", b"/resource_providers?color=blue"),
    get("a key twice that may be there once", b"/resource_providers?in_tree=x&in_tree=y"),
    get("a key without a value", b"/resource_providers?member_of"),
    get("a query that is not UTF-8", b"/resource_providers?name=%ff%fe", comparable=False),
    get("a path that is not UTF-8", b"/resource_providers/%ff%fe", comparable=False),
    get("a path of raw bytes", b"/resource_providers/\xff\xfe", comparable=False),
    get("an amount of 5000 digits", b"/resource_providers?resources=VCPU:" + b"9" * 5000, comparable=False),
    get("a mebibyte of URL", b"/resource_providers?name=" + b"a" * 2**20, comparable=False),
    get("a path out of the tree", b"/../../etc/passwd"),
    Case("a method of its own", "FROB", b"/resource_providers"),
)


@contextlib.contextmanager
def _contained(directory, application):
    (directory / "placement.conf").write_text(CONF.format(directory=directory))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (directory / "server.log").open("w") as log:
        process = subprocess.Popen(
            [GUNICORN, "--bind", f"127.0.0.1:{port}", application],
            cwd=directory,
            env=servers.make_environment(OS_PLACEMENT_CONFIG_DIR=str(directory), HOME=str(directory)),
            stdout=log,
            stderr=log,
        )
    try:
        give_up = time.monotonic() + servers.PATIENCE
        while send(port, get("root", b"/")) is None:
            assert process.poll() is None, (directory / "server.log").read_text()
            assert time.monotonic() < give_up
            time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module", params=["serve", "gunicorn"])
def port(request, tmp_path_factory):
    """Where one of our servers listens."""
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "serve":
        with servers.running(directory, "--workers", 1) as server:
            yield int(server.url.rpartition(":")[2])
    else:
        with _contained(directory, CONTAINERS["gunicorn"]) as listening:
            yield listening


@pytest.fixture(scope="module")
def reference_port(tmp_path_factory):
    """Where openstack-placement listens."""
    databases.require_reference()
    with _contained(tmp_path_factory.mktemp("reference"), CONTAINERS["reference"]) as listening:
        yield listening


def send(port, case):
    """The status and the body of the answer; None if there is none."""
    received = b""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        # a server may have enough before it has read all
        with contextlib.suppress(OSError):
            client.sendall(case.encode())
            client.shutdown(socket.SHUT_WR)
        while chunk := client.recv(65536):
            received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    match = re.match(rb"HTTP/1\.1 (\d+)", head)
    return (int(match[1]), body) if match else None


def read(body):
    """What an error says, without the id of the request."""
    try:
        errors = json.loads(body)["errors"]
    except ValueError:
        return body
    return [{name: value for name, value in error.items() if name != "request_id"} for error in errors]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bad_input_is_refused(port, reference_port, case):
    """The client is told what is wrong, in the reference's words where that has some."""
    status, body = send(port, case)
    assert 400 <= status < 500, body
    theirs = send(reference_port, case) if case.comparable else None
    if theirs is not None and 400 <= theirs[0] < 500:
        assert (status, read(body)) == (theirs[0], read(theirs[1]))
