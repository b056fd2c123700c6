# SPDX-License-Identifier: Apache-2.0
"""`placement-server serve` with a certificate: what clients see, and what happens when it is replaced."""

import contextlib
import hashlib
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.parse

import pytest
import requests

from osc_placement.server.db.engine import Database
from tests import databases
from tests.functional import containers, servers
from tests.functional.server.test_health import write_conf
from tests.functional.server.test_metrics import fill, find_workers
from tests.functional.server.test_reload import await_
from tests.functional.server.test_serve import refuse

#: the commands that serve clients
COMMANDS = (["serve"], ["shadow", "--upstream", "http://127.0.0.1:1"])
TOKEN = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}


def write_certificate(directory, name="server", *options):
    """Files of a new key and of a certificate for this machine that it has signed itself."""
    if not shutil.which("openssl"):
        databases.skip_or_fail("openssl is not installed")
    certificate, key = directory / f"{name}.pem", directory / f"{name}.key"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-subj", "/CN=localhost", "-days", "2"]
    files = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    subprocess.run([*command, *files, *(options or ["-nodes"])], check=True, capture_output=True)
    return certificate, key


@pytest.fixture
def certificate(tmp_path):
    return write_certificate(tmp_path)


@contextlib.contextmanager
def serving(directory, certificate, *arguments):
    """A server with a certificate."""
    options = ("--tls-certificate", certificate[0], "--tls-key", certificate[1])
    with servers.running(directory, *options, *arguments) as server:
        assert server.url.startswith("https://127.0.0.1:")
        yield server


def shake_hands(server, certificate=None):
    """A connection of a client that trusts a certificate, or any."""
    parts = urllib.parse.urlsplit(server.url)
    context = ssl.create_default_context(cafile=certificate)
    if certificate is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    sock = socket.create_connection((parts.hostname, parts.port), timeout=30)
    return context.wrap_socket(sock, server_hostname=parts.hostname)


def get_fingerprint(server):
    """The hash of the certificate that a server shows to a new client."""
    with shake_hands(server) as sock:
        return hashlib.sha256(sock.getpeercert(binary_form=True)).hexdigest()


def find_fingerprint(certificate):
    """The hash of the certificate in a file."""
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate.read_text())).hexdigest()


def test_long_answers_and_bodies_arrive_whole(tmp_path, certificate):
    """Many records in both directions, read at once and in small pieces."""
    database = Database(f"sqlite:///{tmp_path}/placement.db")
    with serving(tmp_path, certificate) as server:
        fill(database, 3000)
        database.dispose()
        session = requests.Session()
        session.headers = TOKEN
        # certificates of the environment would replace those of a session
        session.trust_env, session.verify = False, certificate[0]
        answer = session.get(f"{server.url}/resource_providers", timeout=60)
        assert len(answer.json()["resource_providers"]) == 3000
        slow = session.get(f"{server.url}/resource_providers", timeout=60, stream=True)
        text = b"".join(piece for piece in slow.iter_content(1000) if not time.sleep(0.0001))
        assert text == answer.content
        provider = answer.json()["resource_providers"][0]
        traits = [f"CUSTOM_{number:0200}" for number in range(500)]
        for name in traits[:3]:
            session.put(f"{server.url}/traits/{name}", timeout=30).raise_for_status()
        body = {"resource_provider_generation": provider["generation"], "traits": traits}
        refused = session.put(
            f"{server.url}/resource_providers/{provider['uuid']}/traits", json=body, timeout=30
        )
        assert refused.status_code == 400
        assert "No such trait" in refused.text
        body["traits"] = traits[:3]
        accepted = session.put(
            f"{server.url}/resource_providers/{provider['uuid']}/traits", json=body, timeout=30
        )
        assert sorted(accepted.json()["traits"]) == sorted(traits[:3])


def test_requests_sent_ahead_in_one_record_are_all_answered(tmp_path, certificate):
    request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with serving(tmp_path, certificate) as server, shake_hands(server, certificate[0]) as sock:
        sock.sendall(request * 20 + last)
        text = b"".join(iter(lambda: sock.recv(65536), b""))
    assert text.count(b"HTTP/1.1 200 OK") == 21


def test_renewed_certificate_is_shown_to_new_connections_without_a_restart(tmp_path, certificate):
    """An open connection continues, and a half-written pair changes nothing."""
    with serving(tmp_path, certificate) as server, requests.Session() as session:
        session.trust_env, session.verify = False, certificate[0]
        before = get_fingerprint(server)
        assert before == find_fingerprint(certificate[0])
        assert session.get(server.url, timeout=30).ok
        new = write_certificate(tmp_path, "new")
        certificate[0].write_bytes(new[0].read_bytes())
        await_(lambda: "stays in use: The key in" in server.log.read_text(), "a line in the log")
        assert get_fingerprint(server) == before
        certificate[1].write_bytes(new[1].read_bytes())
        await_(lambda: get_fingerprint(server) == find_fingerprint(new[0]), "the new certificate")
        assert session.get(server.url, timeout=30).ok


def test_workers_that_start_with_a_half_replaced_pair_serve_the_old_certificate(tmp_path, certificate):
    """After SIGHUP, as after the end of a worker, the arbiter starts others."""
    with serving(tmp_path, certificate, "--workers", 1) as server:
        new = write_certificate(tmp_path, "new")
        certificate[0].write_bytes(new[0].read_bytes())
        old = find_workers(server)
        before = get_fingerprint(server)
        server.process.send_signal(signal.SIGHUP)
        await_(lambda: not {*old} & {*find_workers(server)}, "another worker")
        assert get_fingerprint(server) == before != find_fingerprint(new[0])
        certificate[1].write_bytes(new[1].read_bytes())
        await_(lambda: get_fingerprint(server) == find_fingerprint(new[0]), "the new certificate")


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda _: ("none.pem", "none.key"), "none.pem cannot be read: No such file or directory"),
        (
            lambda path: (write_certificate(path)[0].name, write_certificate(path, "other")[1].name),
            "The key in other.key is not that of the certificate in server.pem",
        ),
        (
            lambda path: [f.name for f in write_certificate(path, "server", "-passout", "pass:secret")],
            "The key in server.key is encrypted; decrypt it, with openssl pkey",
        ),
        (
            lambda path: [write_conf(path, "sqlite://").name] * 2,
            "placement.conf and placement.conf are no certificate with its key in PEM format",
        ),
    ],
    ids=["missing", "mismatch", "encrypted", "no PEM"],
)
@pytest.mark.parametrize("command", COMMANDS, ids=["serve", "shadow"])
def test_unusable_certificate_is_refused_at_start_in_one_line(tmp_path, make, line, command):
    certificate, key = make(tmp_path)
    assert refuse(tmp_path, *command, "--tls-certificate", certificate, "--tls-key", key) == line


@pytest.mark.parametrize("command", COMMANDS, ids=["serve", "shadow"])
def test_key_without_certificate_is_refused(tmp_path, command):
    line = "--tls-key needs --tls-certificate, which names the file of its certificate"
    assert refuse(tmp_path, *command, "--tls-key", "server.key") == line


def test_client_without_tls_is_told_to_use_it(tmp_path, certificate):
    with serving(tmp_path, certificate) as server:
        answer = requests.get(server.url.replace("https", "http"), timeout=30)
    assert (answer.status_code, answer.text) == (400, "This port takes HTTPS: write https:// instead")


def test_clients_that_do_not_complete_the_handshake_hinder_nobody(tmp_path, certificate):
    """Silence, bytes of another protocol, and half of a message."""
    with serving(tmp_path, certificate, "--workers", 1) as server:
        parts = urllib.parse.urlsplit(server.url)
        with contextlib.ExitStack() as stack:
            for text in (b"", b"SSH-2.0-x\r\n", b"\x16\x03\x01\x02\x00\x01\x00") * 20:
                sock = stack.enter_context(socket.create_connection((parts.hostname, parts.port), timeout=30))
                sock.sendall(text)
            for _ in range(20):
                assert requests.get(server.url, verify=certificate[0], timeout=10).ok


def test_gunicorn_serves_tls_with_the_worker_of_this_project(tmp_path, certificate):
    write_conf(tmp_path, f"sqlite:///{tmp_path}/placement.db\nsync_on_startup = true")
    kind = ("--worker-class", "osc_placement.server.worker.Worker")
    options = ("--certfile", certificate[0], "--keyfile", certificate[1])
    with containers.serving(tmp_path, *kind, *options) as (url, _):
        url = url.replace("http:", "https:")
        answer = requests.get(f"{url}/traits", headers=TOKEN, verify=certificate[0], timeout=30)
    assert answer.json()["traits"]
