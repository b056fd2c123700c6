# SPDX-License-Identifier: Apache-2.0
"""``placement-server shadow`` in front of a placement, and of services that misbehave."""

import contextlib
import http.client
import json
import os
import shlex
import signal
import socket
import ssl
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest
import requests

from tests import databases
from tests.functional import forking, servers
from tests.functional.server.test_tls import find_fingerprint, get_fingerprint, write_certificate
from tests.waiting import wait_until

HEADERS = {"x-auth-token": "admin", "openstack-api-version": "placement 1.39"}


class Handler(BaseHTTPRequestHandler):
    """Answers as a test says, in HTTP/1.1, and keeps what it was sent."""

    protocol_version = "HTTP/1.1"
    # else the content of an answer waits until the receipt of its headers is confirmed, up to 40 ms
    disable_nagle_algorithm = True

    def answer(self):
        length = int(self.headers.get("content-length", 0))
        self.body = self.rfile.read(length)
        self.server.seen.append((self.command, self.path, dict(self.headers.items()), self.body))
        self.server.respond(self)

    def __getattr__(self, name):
        if name.startswith("do_"):
            return self.answer
        raise AttributeError(name)

    def send(self, status, headers, body=b""):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "content-length" not in headers:
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *arguments):
        pass


@contextlib.contextmanager
def upstream(respond, context=None):
    """A service that answers by a function of the handler; its server, with ``url`` and ``seen``."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.respond, server.seen = respond, []
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.url = f"{'https' if context else 'http'}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def respond_json(data, status=200):
    """A function that answers every request with the same document."""
    headers = {"content-type": "application/json", "openstack-api-version": "placement 1.39"}
    return lambda handler: handler.send(status, headers, json.dumps(data).encode())


@pytest.fixture
def database(tmp_path):
    """The URL of a database with placement's tables."""
    with databases.make_database("sqlite", tmp_path) as url:
        assert forking.run("placement-server", "db", "sync", "--database", url).returncode == 0
        yield url


@contextlib.contextmanager
def shadowing(directory, upstream_url, database, *arguments, conf=None):
    """A shadow of an upstream: on a database without authentication, or as a file configures it."""
    if conf is None:
        conf = directory / "placement.conf"
        conf.write_text(f"[placement_database]\nconnection = {database}\n[api]\nauth_strategy = noauth2\n")
    line = ("--upstream", upstream_url, "--config-file", conf, "--report", directory / "report.json")
    with servers.launched(directory, *line, *arguments, verb="shadow") as shadow:
        shadow.report = directory / "report.json"
        yield shadow


def read_report(shadow):
    """Stop the shadow and return its report, with the sums of its routes."""
    assert shadow.stop() == 0
    assert "Traceback" not in shadow.log.read_text()
    document = json.loads(shadow.report.read_text())
    document["skipped"] = {}
    for name in ("forwarded", "compared", "equal", "different"):
        document[name] = sum(row[name] for row in document["routes"])
    for row in document["routes"]:
        for reason, count in row["skipped"].items():
            document["skipped"][reason] = document["skipped"].get(reason, 0) + count
    return document


def find_comparing(shadow):
    """The ids of the processes that compare, of which there is one most of the time."""
    return servers.find_grandchildren(shadow.process.pid)


def read_counts(port):
    """The metrics of a shadow, as lines."""
    return requests.get(f"http://127.0.0.1:{port}/metrics", timeout=10).text


def find_free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def compared(tmp_path, url, database, *arguments, conf=None):
    """A shadow that compares already, and a function that waits for so many results."""
    port = find_free_port()
    metrics = ("--metrics", f"127.0.0.1:{port}")
    with shadowing(tmp_path, url, database, *metrics, *arguments, conf=conf) as shadow:
        question = f"{shadow.url}/?warm"

        def is_running():
            requests.get(question, headers=HEADERS, timeout=10)
            return 'result="' in read_counts(port)

        wait_until(is_running)

        def wait(text):
            return wait_until(lambda: text in read_counts(port))

        yield shadow, wait


def test_clients_get_upstreams_answers_and_reads_are_equal_on_one_database(tmp_path, database):
    """Writes are made once, by upstream; each read is compared."""
    with (
        servers.running(tmp_path, "--database", database) as production,
        compared(tmp_path, production.url, database) as (shadow, wait),
    ):
        session = requests.Session()
        session.headers.update(HEADERS)
        made = session.post(f"{shadow.url}/resource_providers", json={"name": "host"})
        assert made.status_code == 200
        assert made.headers["location"].startswith(f"{shadow.url}/resource_providers/")
        again = session.post(f"{shadow.url}/resource_providers", json={"name": "host"})
        assert again.status_code == 409
        for path in ("/resource_providers", "/traits", "/nothing", "/allocation_candidates?resources=VCPU:1"):
            direct, forwarded = session.get(production.url + path), session.get(shadow.url + path)
            assert (direct.status_code, direct.headers["content-type"]) == (
                forwarded.status_code,
                forwarded.headers["content-type"],
            )
            if direct.ok:
                assert direct.content == forwarded.content
        wait('route="/allocation_candidates",version="1.39"')
        time.sleep(0.5)
        report = read_report(shadow)
    assert (report["different"], report["notes"]) == (0, [])
    assert report["equal"] == report["compared"] >= 5
    assert report["skipped"]["not a read"] == 2


def test_our_side_may_be_a_server_at_a_url(tmp_path, database):
    """It is asked over HTTP, and needs no configuration here."""
    with (
        servers.running(tmp_path, "--database", database) as production,
        compared(tmp_path, production.url, database, "--ours", production.url) as (shadow, wait),
    ):
        requests.put(f"{shadow.url}/traits/CUSTOM_A", headers=HEADERS, timeout=10)
        assert requests.get(f"{shadow.url}/traits", headers=HEADERS, timeout=10).ok
        wait('result="equal",route="/traits",version="1.39"}')
        report = read_report(shadow)
    assert (report["different"], report["notes"]) == (0, [])


def test_difference_is_reported_with_both_answers_and_without_the_token(tmp_path, database):
    """Upstream has a trait that the database of our side has not."""
    token = "gAAAAABa-token-of-a-client"
    with (
        upstream(respond_json({"traits": ["CUSTOM_A"]})) as server,
        compared(tmp_path, server.url, database) as (shadow, wait),
    ):
        requests.get(
            f"{shadow.url}/traits?name=startswith:X", headers={**HEADERS, "x-auth-token": token}, timeout=10
        )
        requests.get(f"{shadow.url}/traits?name=startswith:X", headers=HEADERS, timeout=10)
        wait('result="different",route="/traits",version="1.39"} ')
        time.sleep(0.5)
        report = read_report(shadow)
    example = next(one for one in report["differences"] if one["route"] == "/traits")
    assert json.loads(example["upstream"]["body"]) == {"traits": ["CUSTOM_A"]}
    assert token not in shadow.report.read_text()
    row = next(row for row in report["routes"] if row["route"] == "/traits")
    assert row["different"] >= 1
    assert row["upstream_seconds"]["p99"] > 0
    assert row["our_seconds"]["median"] > 0


def test_forms_of_requests_arrive_as_they_were_sent(tmp_path, database):
    """Methods, quoted paths, bodies with and without a length, 100-continue, and HEAD."""
    with upstream(respond_json({})) as server, shadowing(tmp_path, server.url, database) as shadow:
        address = urlsplit(shadow.url)
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=10)
        connection.request(
            "GET", "/traits/a%2Fb%C3%A9?x=1&y=%20z", headers={"connection": "x-hop", "x-hop": "1"}
        )
        assert connection.getresponse().read() == b"{}"
        connection.request("HEAD", "/traits")
        answer = connection.getresponse()
        assert (answer.status, answer.read(), answer.headers["content-length"]) == (200, b"", "2")
        connection.request("PUT", "/chunks", body=iter([b"ab", b"cd"]), encode_chunked=True)
        connection.getresponse().read()
        connection.request("PUT", "/waits", body=b"body", headers={"expect": "100-continue"})
        connection.getresponse().read()
        connection.request("DELETE", "/empty")
        connection.getresponse().read()
        connection.close()
        seen = [one for one in server.seen if one[1] != "/"]
    assert [one[:2] for one in seen] == [
        ("GET", "/traits/a%2Fb%C3%A9?x=1&y=%20z"),
        ("HEAD", "/traits"),
        ("PUT", "/chunks"),
        ("PUT", "/waits"),
        ("DELETE", "/empty"),
    ]
    assert [one[3] for one in seen] == [b"", b"", b"abcd", b"body", b""]
    first = {name.lower(): value for name, value in seen[0][2].items()}
    assert "x-hop" not in first
    assert first["x-forwarded-for"] == "127.0.0.1"
    assert first["host"] == f"{address.hostname}:{address.port}"


def test_body_that_does_not_arrive_is_refused_and_holds_no_thread(tmp_path, database):
    """Shorter than announced, because the client ends its side, and longer than any that placement takes."""
    with upstream(respond_json({})) as server, shadowing(tmp_path, server.url, database) as shadow:
        address = urlsplit(shadow.url)
        for length, status in (("10", b"400"), (str(1 << 40), b"413")):
            with socket.create_connection((address.hostname, address.port), timeout=10) as sock:
                sock.sendall(
                    b"PUT /traits HTTP/1.1\r\nhost: x\r\ncontent-length: %s\r\n\r\nabc" % length.encode()
                )
                sock.shutdown(socket.SHUT_WR)
                assert sock.recv(4096).startswith(b"HTTP/1.1 " + status)
        assert not [one for one in server.seen if one[0] == "PUT"]


def test_invented_methods_are_one_line_of_the_report(tmp_path, database):
    with upstream(respond_json({})) as server, shadowing(tmp_path, server.url, database) as shadow:
        for name in ("BREW", "POUR", "DRINK"):
            requests.request(name, f"{shadow.url}/traits", timeout=10)
        report = read_report(shadow)
    assert [row["method"] for row in report["routes"] if row["forwarded"] == 3] == ["other"]


def test_long_answer_is_passed_on_whole(tmp_path, database):
    """An answer that is longer than what is held back arrives complete."""
    body = os.urandom(1 << 20) * 3
    with (
        upstream(lambda handler: handler.send(200, {"content-type": "x"}, body)) as server,
        shadowing(tmp_path, server.url, database) as shadow,
    ):
        assert requests.get(f"{shadow.url}/traits", timeout=10).content == body


def break_off(length, sent):
    """A function that announces a body and sends a part of it."""

    def respond(handler):
        handler.send(200, {"content-length": str(length)}, b"x" * sent)
        handler.close_connection = True

    return respond


def check_error(answer, status, text):
    """The answer is an error as placement makes them."""
    assert answer.status_code == status
    (error,) = answer.json()["errors"]
    assert error["status"] == status
    assert text in error["detail"]


def test_upstream_that_is_down_is_answered_with_502(tmp_path, database):
    """The client gets what a proxy answers, in the form of placement, and the log has one line."""
    url = f"http://127.0.0.1:{find_free_port()}"
    with shadowing(tmp_path, url, database) as shadow:
        for _ in range(3):
            check_error(requests.get(f"{shadow.url}/traits", timeout=10), 502, "cannot be reached")
        check_error(requests.put(f"{shadow.url}/traits/X", timeout=10), 502, "cannot be reached")
        report = read_report(shadow)
        assert shadow.log.read_text().count(f"The placement service at {url} cannot be reached") == 1
    assert sum(row["failed"].get("502", 0) for row in report["routes"]) == 4


def test_slow_upstream_is_answered_with_504(tmp_path, database):
    """After the time limit, and not later."""
    with (
        upstream(lambda handler: time.sleep(3)) as server,
        shadowing(tmp_path, server.url, database, "--timeout", "0.5") as shadow,
    ):
        began = time.monotonic()
        check_error(requests.get(f"{shadow.url}/traits", timeout=10), 504, "within 0.5 seconds")
        assert time.monotonic() - began < 2


def test_answer_that_ends_too_early_is_answered_with_502(tmp_path, database):
    """A short one, which is held back until it is complete; the connection of a longer one is closed."""
    with upstream(break_off(1000, 10)) as server, shadowing(tmp_path, server.url, database) as shadow:
        check_error(requests.get(f"{shadow.url}/traits", timeout=10), 502, "closed the connection")
    again = tmp_path / "again"
    again.mkdir()
    with upstream(break_off(4 << 20, 2 << 20)) as server, shadowing(again, server.url, database) as shadow:
        with pytest.raises(requests.exceptions.ChunkedEncodingError):
            requests.get(f"{shadow.url}/traits", timeout=10).content  # noqa: B018
        assert "closed the connection" in shadow.log.read_text()


def test_html_of_a_load_balancer_is_passed_on_and_not_compared(tmp_path, database):
    """It is no answer of placement, so it is no difference; one note says what was answered."""
    page = b"<html>no server is available</html>"
    with (
        upstream(lambda handler: handler.send(503, {"content-type": "text/html"}, page)) as server,
        shadowing(tmp_path, server.url, database) as shadow,
    ):
        answer = requests.get(f"{shadow.url}/traits", headers=HEADERS, timeout=10)
        assert (answer.status_code, answer.content) == (503, page)
        report = read_report(shadow)
    assert report["skipped"] == {"upstream answered HTML that is not placement's": 1}
    assert any("with HTML that is not placement's" in note["text"] for note in report["notes"])


def test_certificate_that_cannot_be_verified_is_answered_with_502(tmp_path, database):
    """Until its authority is named."""
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost "
        "-addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem"
    )
    made = subprocess.run(shlex.split(command), cwd=tmp_path, capture_output=True, check=False)
    if made.returncode:
        databases.skip_or_fail("openssl makes no certificate")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    with upstream(respond_json({}), context) as server:
        with shadowing(tmp_path, server.url, database) as shadow:
            answer = requests.get(f"{shadow.url}/traits", timeout=10)
            check_error(answer, 502, "cannot be verified")
            assert "--ca-file" in answer.json()["errors"][0]["detail"]
        with shadowing(tmp_path, server.url, database, "--ca-file", tmp_path / "cert.pem") as shadow:
            assert requests.get(f"{shadow.url}/traits", timeout=10).status_code == 200


def test_clients_are_served_with_tls_and_a_renewed_certificate(tmp_path, database):
    """Upstream, which is asked without TLS, learns the scheme; the renewed pair needs no restart."""
    certificate, key = write_certificate(tmp_path)
    files = ("--tls-certificate", certificate, "--tls-key", key)
    with (
        upstream(respond_json({"traits": []})) as production,
        shadowing(tmp_path, production.url, database, *files) as shadow,
    ):
        assert shadow.url.startswith("https://127.0.0.1:")
        answer = requests.get(f"{shadow.url}/traits", headers=HEADERS, verify=certificate, timeout=30)
        assert answer.json() == {"traits": []}
        (sent,) = [headers for _, path, headers, _ in production.seen if path == "/traits"]
        assert sent["x-forwarded-proto"] == "https"
        plain = requests.get(shadow.url.replace("https", "http"), timeout=30)
        assert (plain.status_code, plain.text) == (400, "This port takes HTTPS: write https:// instead")
        new, new_key = write_certificate(tmp_path, "new")
        key.write_bytes(new_key.read_bytes())
        certificate.write_bytes(new.read_bytes())
        wait_until(lambda: get_fingerprint(shadow) == find_fingerprint(new))
        assert requests.get(f"{shadow.url}/traits", headers=HEADERS, verify=new, timeout=30).ok
        read_report(shadow)


def test_kept_connection_that_upstream_closes_is_not_noticed(tmp_path, database):
    """A read is sent again on a new connection; a write has had one of its own from the start."""

    def close_silently(handler):
        handler.send(200, {"content-type": "x"}, b"{}")
        time.sleep(0.02)
        handler.close_connection = True

    with upstream(close_silently) as server, shadowing(tmp_path, server.url, database) as shadow:
        for number in range(20):
            assert requests.get(f"{shadow.url}/traits", timeout=10).status_code == 200
            assert requests.put(f"{shadow.url}/traits/{number}", timeout=10).status_code == 200
        writes = [path for method, path, *_ in server.seen if method == "PUT"]
    assert writes == [f"/traits/{number}" for number in range(20)]


def test_another_database_is_noticed_and_said_once(tmp_path, database):
    """Nothing is compared, instead of differing at each request."""
    provider = {"uuid": "0000000a-0000-4000-8000-000000000001", "generation": 1, "name": "x"}
    with (
        upstream(respond_json({"resource_providers": [provider]})) as server,
        shadowing(tmp_path, server.url, database) as shadow,
    ):
        wait_until(lambda: find_comparing(shadow))

        def is_said():
            requests.get(f"{shadow.url}/traits", headers=HEADERS, timeout=10)
            return "another database than upstream" in shadow.log.read_text()

        wait_until(is_said)
        for _ in range(10):
            requests.get(f"{shadow.url}/traits", headers=HEADERS, timeout=10)
        time.sleep(0.5)
        report = read_report(shadow)
        assert shadow.log.read_text().count("another database than upstream") == 1
    assert report["different"] == 0
    assert report["skipped"]["another database"] >= 10


def test_clients_do_not_notice_that_our_database_cannot_be_reached(tmp_path):
    """They get upstream's answers; the report says why nothing is compared."""
    database = f"mysql+pymysql://nobody:secret-word@127.0.0.1:{find_free_port()}/placement"
    with (
        upstream(respond_json({"traits": []})) as server,
        shadowing(tmp_path, server.url, database) as shadow,
    ):

        def is_said():
            answer = requests.get(f"{shadow.url}/traits", headers=HEADERS, timeout=10)
            assert answer.json() == {"traits": []}
            return "Our side answers 503" in shadow.log.read_text()

        wait_until(is_said)
        # the request is counted after the line
        wait_until(lambda: "our side is not ready" in read_report(shadow)["skipped"])
        report = read_report(shadow)
        assert "secret-word" not in shadow.log.read_text() + shadow.report.read_text()
    assert report["different"] == 0
    assert report["skipped"]["our side is not ready"] >= 1


def test_clients_do_not_notice_that_our_side_is_killed_or_stopped(tmp_path, database):
    """Requests go on while the process that compares is killed, and stopped, again and again."""
    with (
        upstream(respond_json({"traits": []})) as server,
        shadowing(tmp_path, server.url, database, "--stall", "1", "--max-in-flight", "4") as shadow,
    ):
        ended = threading.Event()
        failures, longest, count = [], 0.0, 0

        def ask():
            nonlocal longest, count
            session = requests.Session()
            while not ended.is_set():
                began = time.monotonic()
                answer = session.get(f"{shadow.url}/traits", headers=HEADERS, timeout=10)
                longest, count = max(longest, time.monotonic() - began), count + 1
                if answer.status_code != 200:
                    failures.append(answer.text)

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            killed = set()
            for sent in (signal.SIGKILL, signal.SIGSTOP, signal.SIGKILL, signal.SIGSTOP):
                # its threads are started by what they compare
                process = wait_until(
                    lambda: [
                        one
                        for one in find_comparing(shadow)
                        if one not in killed and servers.count_threads(one) > 2
                    ]
                )[0]
                killed.add(process)
                os.kill(process, sent)
            wait_until(lambda: [one for one in find_comparing(shadow) if one not in killed])
        finally:
            ended.set()
            asking.join()
        report = read_report(shadow)
    assert (failures, report["restarts"] >= 4) == ([], True)
    assert count > 100
    assert longest < 5
    skipped = report["skipped"]
    assert skipped["too many comparisons are under way"] > 0
    assert any("gave no verdict for 1 seconds" in note["text"] for note in report["notes"])


def test_process_that_forwards_is_restarted_with_its_report(tmp_path, database):
    """The counts before a restart of the whole shadow are kept."""
    with upstream(respond_json({})) as server:
        for _ in range(2):
            with shadowing(tmp_path, server.url, database, "--sample", "0") as shadow:
                for _ in range(5):
                    requests.get(f"{shadow.url}/traits", headers=HEADERS, timeout=10)
                report = read_report(shadow)
    assert report["forwarded"] == 10
    assert report["skipped"] == {"not in the sample": 10}


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ("", "Nothing could be compared: [keystone_authtoken] has no auth_type"),
        ("[keystone_authtoken]\nauth_type = nonsense\n", "nonsense"),
        ("[keystone_authtoken]\nauth_type = password\n", "auth_url"),
        ("[api]\nauth_strategy = noauth2\n[oslo_policy]\npolicy_file = broken.yaml\n", "The policy, "),
    ],
)
def test_side_that_could_not_judge_who_asks_is_refused(more, text, tmp_path, database):
    """Each answer of it would differ from that of the placement in service."""
    conf = tmp_path / "placement.conf"
    conf.write_text(f"[placement_database]\nconnection = {database}\n{more}")
    (tmp_path / "broken.yaml").write_text("placement: [")
    arguments = ["--database", database] if not more else ["--config-file", str(conf)]
    command = ("shadow", "--port", "0", "--upstream", "http://127.0.0.1:9", *arguments)
    done = forking.run("placement-server", *command, cwd=tmp_path, env=servers.make_environment())
    assert (done.returncode, done.stdout) == (1, "")
    assert text in done.stderr
    assert done.stderr.startswith("placement-server: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "Name the placement in service with --upstream URL"),
        (["--upstream", "placement"], "placement is no URL of a service"),
        (["--upstream", "http://user:word@host"], "no user and no password"),
        (["--upstream", "http://[host"], "is no URL"),
        (["--upstream", "http://host"], "No database is named"),
        (["--upstream", "http://host", "--database", "sqlite:///missing.db"], "no such file"),
        (["--upstream", "https://host", "--ca-file", "missing.pem"], "missing.pem, cannot be read"),
        (["--upstream", "http://host", "--ours", "host"], "host is no URL of a service"),
        (["--upstream", "http://host", "--ours", "http://x", "--report", "no/report"], "cannot be written"),
    ],
)
def test_bad_options_are_refused_in_one_line(arguments, text, tmp_path):
    """Nothing is left behind, and nobody waits."""
    command = ("shadow", "--port", "0", *arguments)
    done = forking.run("placement-server", *command, cwd=tmp_path, env=servers.make_environment())
    assert (done.returncode, done.stdout) == (1, "")
    assert text in done.stderr
    assert done.stderr.startswith("placement-server: ")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
