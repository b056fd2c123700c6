# SPDX-License-Identifier: Apache-2.0
"""SIGHUP and SIGTERM while requests are under way, and logs as JSON, under each way of serving."""

import contextlib
import json
import os
import signal
import socket
import sqlite3
import time

import pytest
import requests

from benchmarks import processes
from tests.functional import containers, servers

ADMIN = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}
READER = {**ADMIN, "X-Auth-Token": "somebody", "X-Roles": "reader"}
WAYS = ("serve", "gunicorn", "uwsgi")


def write_conf(directory, *lines, auth="noauth2"):
    """Write a placement.conf for a SQLite database, with lines for [DEFAULT]."""
    text = [
        "[DEFAULT]",
        *lines,
        "[placement_database]",
        f"connection = sqlite:///{directory}/placement.db",
        "sync_on_startup = true",
        f"[api]\nauth_strategy = {auth}",
        f"[oslo_policy]\npolicy_file = {directory}/policy.yaml",
    ]
    (directory / "placement.conf").write_text("\n".join(text) + "\n")


@contextlib.contextmanager
def serving(way, directory):
    """The URL of a service as configured in a directory, its first process and its log."""
    if way == "serve":
        arguments = ("--config-file", directory / "placement.conf", "--workers", 2)
        with servers.launched(directory, *arguments) as server:
            yield server.url, server.process, server.log
    else:
        with containers.serving(directory, container=way) as (url, process):
            yield url, process, directory / "container.log"


def await_(condition, what):
    """Return when something has come about; a restart may break a connection that it has not read from."""
    for _ in range(200):
        with contextlib.suppress(requests.ConnectionError):
            if condition():
                return
        time.sleep(0.1)
    pytest.fail(f"it did not come about: {what}")


def get(url, path="/traits", headers=ADMIN):
    """The status of an answer."""
    return requests.get(url + path, headers=headers, timeout=30).status_code


@pytest.mark.parametrize("way", WAYS)
def test_hangup_reads_policy_and_log_levels_again(way, tmp_path):
    """What the files say by then holds for all workers: a rule, and a logger that is to say more."""
    write_conf(tmp_path, "default_log_levels = osc_placement=WARNING")
    policy = tmp_path / "policy.yaml"
    policy.write_text("{}\n")
    with serving(way, tmp_path) as (url, process, log):
        assert get(url, headers=READER) == 403
        assert '"GET /traits"' not in log.read_text()
        write_conf(tmp_path)
        policy.write_text('"placement:traits:list": "role:reader"\n')
        process.send_signal(signal.SIGHUP)
        await_(lambda: all(get(url, headers=READER) == 200 for _ in range(10)), "the new rule")
        await_(lambda: get(url) == 403 and '"GET /traits" status: 403' in log.read_text(), "a log line")
        assert process.poll() is None


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_server_that_stops_refuses_new_connections(number, workers, tmp_path):
    """They do not wait for the requests that are under way; those that were there before are served."""
    with servers.running(tmp_path, "--workers", workers) as server, contextlib.ExitStack() as opened:
        host, port = server.url.removeprefix("http://").split(":")
        address = host, int(port)

        def connect():
            return opened.enter_context(socket.create_connection(address, servers.PATIENCE))

        held = [connect() for _ in range(6)]
        for client in held:
            client.sendall(b"GET / HTTP/1.1\r\nHost: placement\r\n")
        # they wait in the system, as a worker is stopped
        time.sleep(0.5)
        for pid in processes.find_children(server.process.pid):
            os.kill(pid, signal.SIGSTOP)
        waiting = [connect() for _ in range(20)]
        server.process.send_signal(number)
        time.sleep(0.3)
        for pid in processes.find_children(server.process.pid):
            os.kill(pid, signal.SIGCONT)
        await_(lambda: is_refused(address), "the end of the listener")
        for client in waiting:
            client.sendall(b"GET / HTTP/1.1\r\nHost: placement\r\n\r\n")
        for client in held:
            client.sendall(b"\r\n")
        for client in (*waiting, *held):
            assert client.recv(1000).startswith(b"HTTP/1.1 200 ")
        assert server.process.wait(servers.PATIENCE) == 0


def is_refused(address):
    """Whether nobody listens there."""
    try:
        socket.create_connection(address, 1).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM], ids=lambda number: number.name)
@pytest.mark.parametrize("way", ["serve", "gunicorn"])
def test_a_request_in_progress_is_answered_after_a_hangup(way, number, tmp_path):
    """A request whose body arrives after the signal is answered, and its changes are stored."""
    write_conf(tmp_path)
    with serving(way, tmp_path) as (url, process, _):
        assert get(url) == 200
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client:
            body = b'{"name": "late"}'
            head = [
                "POST /resource_providers HTTP/1.1",
                "Host: placement",
                "X-Auth-Token: admin",
                "OpenStack-API-Version: placement 1.20",
                "Content-Type: application/json",
                f"Content-Length: {len(body)}",
                "Expect: 100-continue",
            ]
            client.sendall("\r\n".join([*head, "", ""]).encode())
            assert client.recv(1000).startswith(b"HTTP/1.1 100 ")
            process.send_signal(number)
            time.sleep(0.5)
            client.sendall(body)
            assert client.recv(1000).startswith(b"HTTP/1.1 200 ")
        if number is signal.SIGTERM:
            assert process.wait(servers.PATIENCE) == 0
        with contextlib.closing(sqlite3.connect(tmp_path / "placement.db")) as connection:
            assert connection.execute("SELECT name FROM resource_providers").fetchall() == [("late",)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nonsense", "Failed to parse"),
        ("[api]\nauth_strategy = none\n", "auth_strategy"),
        ("[placement_database]\nconnection = dbase://x\n", "There is no such kind of database"),
        ("# \xff\n", "The configuration cannot be read: 'utf-8' codec"),
        ("[DEFAULT]\nlog_file = /nonexistent/x.log\n", "No such file or directory: '/nonexistent/x.log'"),
        (
            "[DEFAULT]\nlog_config_append = /no.ini\n",
            "Error loading logging config /no.ini",
        ),
        ("[DEFAULT]\nuse_syslog = true\nsyslog_log_facility = x\n", "syslog facility must be one of"),
        ("[DEFAULT]\nlog_options = perhaps\n", "log_options"),
    ],
)
def test_hangup_with_a_bad_configuration_changes_nothing(text, reason, tmp_path):
    """The server says what is wrong with it, and goes on as it was."""
    write_conf(tmp_path)
    with serving("serve", tmp_path) as (url, process, log):
        assert get(url) == 200
        conf = tmp_path / "placement.conf"
        text = text if text.startswith("n") else conf.read_text() + text
        conf.write_text(text, encoding="latin-1")
        process.send_signal(signal.SIGHUP)
        refusal = "the configuration has not been read again: "
        await_(lambda: refusal in log.read_text(), "a line in the log")
        assert reason in log.read_text().partition(refusal)[2].splitlines()[0]
        time.sleep(1)
        assert [get(url) for _ in range(10)] == [200] * 10
        assert "Traceback" not in log.read_text()
        process.terminate()
        assert process.wait(servers.PATIENCE) == 0


def test_hangup_keeps_a_server_without_authentication_on_loopback(tmp_path):
    """Without authentication it stays on loopback, also if the configuration says so later."""
    write_conf(tmp_path)
    conf = tmp_path / "placement.conf"
    noauth = conf.read_text()
    authentication = "www_authenticate_uri = http://127.0.0.1:1\nauth_url = http://127.0.0.1:1\n"
    account = "auth_type = password\nusername = placement\npassword = x\nproject_name = service\n"
    domains = "user_domain_id = default\nproject_domain_id = default\n"
    keystone = f"[keystone_authtoken]\n{authentication}{account}{domains}"
    conf.write_text(noauth.replace("noauth2", "keystone") + keystone)
    arguments = ("--config-file", conf, "--host", "0.0.0.0")
    with servers.launched(tmp_path, *arguments) as server:
        assert get(server.url, headers={}) == 401
        conf.write_text(noauth)
        server.process.send_signal(signal.SIGHUP)
        await_(lambda: "say --insecure" in server.log.read_text(), "a refusal")
        time.sleep(1)
        assert get(server.url) != 200


def test_hangup_with_a_hanging_database_keeps_the_server_controllable(tmp_path, hanging):
    """It refuses what it cannot check, answers what needs no database, and ends when it is told to."""
    url, way = hanging
    with servers.launched(tmp_path, "--database", url, "--workers", 1) as server:
        way.hang()
        server.process.send_signal(signal.SIGHUP)
        refusal = "not been read again: The database has not answered for 10 seconds"
        await_(lambda: refusal in server.log.read_text(), "a refusal")
        await_(lambda: get(server.url, "/-/healthz") == 200, "an answer")
        server.process.terminate()
        assert server.process.wait(20) == 0


def read_lines(log):
    """Every line of a log of JSON documents."""
    return [json.loads(line) for line in log.read_text().splitlines()]


def check_log(lines):
    """The line of a request, with its facts by name and the id of the request."""
    (line,) = [line for line in lines if line["extra"].get("uri") == "/traits?name=in:CUSTOM_A"]
    facts = line["extra"]
    assert (facts["method"], facts["status"], facts["microversion"]) == ("GET", "200", "1.39")
    assert 0 < facts["seconds"] < 30
    assert int(facts["length"]) == len('{"traits": []}')
    assert line["message"].startswith('127.0.0.1 "GET /traits?name=in:CUSTOM_A" status: 200')
    assert (line["levelname"], line["name"]) == ("INFO", "osc_placement.server.deploy")
    assert line["context"]["request_id"].startswith("req-")


@pytest.mark.parametrize("way", ["serve", "gunicorn"])
def test_logs_are_json_if_asked_for(way, tmp_path):
    """Each line is a document, whoever logs it."""
    path = "/traits?name=in:CUSTOM_A"
    log_file = [] if way == "serve" else [f"log_file = {tmp_path}/placement.log"]
    write_conf(tmp_path, "use_json = true", *log_file)
    with serving(way, tmp_path) as (url, process, log):
        assert get(url, path) == 200
        process.terminate()
        process.wait(servers.PATIENCE)
    check_log(read_lines(log if way == "serve" else tmp_path / "placement.log"))


def test_logs_are_json_without_a_configuration(tmp_path):
    """A variable is enough; what is said of processes is JSON as well."""
    environment = servers.make_environment(OS_DEFAULT__USE_JSON="true")
    with servers.running(tmp_path, "--verbose", environment=environment) as server:
        assert get(server.url, "/traits?name=in:CUSTOM_A") == 200
    lines = read_lines(server.log)
    check_log(lines)
    assert any("Booting worker" in line["message"] for line in lines)
