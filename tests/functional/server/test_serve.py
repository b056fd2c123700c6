# SPDX-License-Identifier: Apache-2.0
"""`placement-server serve`, as a process: from the command to the end of it."""

import concurrent.futures
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
import yaml

from tests.functional import forking, servers

DATABASE = "[placement_database]\nconnection = sqlite://\n"
TOKEN = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}


def fetch(url, method="GET", body=None):
    """Send one request as an administrator; status and document of the answer."""
    data = None if body is None else json.dumps(body).encode()
    headers = {**TOKEN, **({} if body is None else {"Content-Type": "application/json"})}
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as response:
        text = response.read()
        return response.status, json.loads(text) if text else None


def run(directory, *arguments, stdout=subprocess.PIPE, **variables):
    """Run a command that does not go on serving; what came of it."""
    environment = servers.make_environment(**variables)
    return forking.run("placement-server", *arguments, cwd=directory, env=environment, stdout=stdout)


def run_anew(directory, *arguments, **variables):
    """Run a command in an interpreter that is started for it; what came of it."""
    return subprocess.run(
        [*servers.make_command(), *map(str, arguments)],
        cwd=directory,
        env=servers.make_environment(**variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def refuse(directory, *arguments, run=run, **variables):
    """Run a command that is to fail with one line; the line."""
    done = run(directory, *arguments, **variables)
    assert (done.returncode, done.stdout) == (1, "")
    match = re.fullmatch(r"placement-server: (.*)\n", done.stderr)
    assert match, done.stderr
    return match[1]


def get_status(url, path, body):
    """Send a request that is refused; the status of the answer."""
    with pytest.raises(urllib.error.HTTPError) as caught:
        fetch(url + path, "POST", body)
    caught.value.close()
    return caught.value.code


def test_allow_admin_reshape_changes_no_other_rule(tmp_path):
    """A reshape of nothing is refused with 403 by the policy, or with 400 by its schema."""
    nothing = {"inventories": {}, "allocations": {}}
    with servers.running(tmp_path) as server:
        assert get_status(server.url, "/reshaper", nothing) == 403
    rules = {"placement:reshaper:reshape": "!", "placement:resource_providers:create": "!"}
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(rules))
    environment = servers.make_environment(OS_OSLO_POLICY__POLICY_FILE=str(tmp_path / "policy.yaml"))
    with servers.running(tmp_path, "--allow-admin-reshape", environment=environment) as server:
        for _ in range(2):
            assert get_status(server.url, "/reshaper", nothing) == 400
            assert get_status(server.url, "/resource_providers", {"name": "host"}) == 403
            server.process.send_signal(signal.SIGHUP)


def test_serves_without_configuration(tmp_path):
    """Without arguments but the port: a SQLite file in the working directory, no authentication, loopback."""
    with servers.running(tmp_path) as server:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", server.url)
        assert server.facts == "database sqlite:///placement.db, noauth2, 2 workers"
        assert fetch(f"{server.url}/traits/HW_CPU_X86_AVX")[0] == 204
        assert fetch(f"{server.url}/resource_providers") == (200, {"resource_providers": []})
        assert server.log.read_text() == ""
    # nothing beside the file that would have to be copied with it
    assert sorted(path.name for path in tmp_path.iterdir()) == ["placement.db", "server.log"]


def test_state_outlives_the_server(tmp_path):
    """What was written is there when the server is started again."""
    with servers.running(tmp_path, "--workers", 1) as server:
        assert server.facts.endswith(" 1 worker")
        fetch(f"{server.url}/resource_providers", "POST", {"name": "host"})
    with servers.running(tmp_path) as server:
        _, document = fetch(f"{server.url}/resource_providers")
    assert [provider["name"] for provider in document["resource_providers"]] == ["host"]


def test_serves_on_every_database(server):
    """The same command serves from each kind of database, makes the tables there, and shows no password."""
    assert fetch(f"{server.url}/resource_providers?name=nobody") == (200, {"resource_providers": []})
    assert re.fullmatch(r"database \S+, noauth2, 2 workers", server.facts)
    assert "postgres:postgres@" not in server.facts


def test_several_workers_write_to_one_file(tmp_path):
    """Processes and threads that write to one SQLite file at once wait for each other, and all succeed."""
    with servers.running(tmp_path, "--workers", 3) as server:
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            names = [{"name": f"host{number}"} for number in range(60)]
            url = f"{server.url}/resource_providers"
            statuses = list(pool.map(lambda name: fetch(url, "POST", name)[0], names))
        assert statuses == [200] * 60
        assert len(fetch(url)[1]["resource_providers"]) == 60


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT], ids=lambda sig: sig.name)
def test_signal_stops_the_server(tmp_path, number):
    """A signal ends all processes, with status 0 and no word, also if a client keeps its connection."""
    with servers.launched(tmp_path) as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: placement\r\n\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.1 200 ")
            server.process.send_signal(number)
            assert server.process.wait(20) == 0
        assert server.process.stdout.read() == ""
        assert server.log.read_text() == ""
        with pytest.raises(urllib.error.URLError):
            fetch(server.url)


def test_server_whose_directory_was_removed_ends_without_a_traceback(tmp_path):
    """As after a try in a temporary directory: the file of its database cannot be named any more.

    The check of readiness may have said in a line each time that the database is gone. A second worker might
    still be starting, and fail.
    """
    directory = tmp_path / "try"
    directory.mkdir()
    with servers.launched(directory, "--workers", 1) as server, server.log.open() as log:
        shutil.rmtree(directory)
        server.process.terminate()
        status, told = server.process.wait(20), log.read()
    assert "Traceback" not in told
    assert status == 0, told


@pytest.mark.parametrize(
    "line", [("db", "version", "--database", "sqlite:///placement.db"), ("config", "sample")], ids=" ".join
)
def test_closed_pipe_ends_a_command_without_an_error(tmp_path, line):
    """As of `| head -1`, whether the command prints less than a buffer or more: status 141 and no word."""
    assert run(tmp_path, "db", "sync", "--database", "sqlite:///placement.db").returncode == 0
    receiver, sender = os.pipe()
    os.close(receiver)
    with os.fdopen(sender, "wb") as closed:
        done = run(tmp_path, *line, stdout=closed)
    assert (done.returncode, done.stderr) == (141, "")


#: a server whose second worker takes its time between its fork and all else
SLOW_SECOND_WORKER = """
import itertools, os, sys, time
from osc_placement.server.main import main
forks = itertools.count(1)
age = 0
def count():
    global age
    age = next(forks)
os.register_at_fork(before=count, after_in_child=lambda: time.sleep(3 if age == 2 else 0))
sys.exit(main())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda sig: sig.name)
def test_new_worker_stops_at_once(tmp_path, number):
    """It is told only once, before it can listen; nobody waits for the 30 seconds of its grace."""
    with servers.launched(tmp_path, command=(sys.executable, "-c", SLOW_SECOND_WORKER)) as server:
        server.process.send_signal(number)
        assert server.process.wait(20) == 0
        assert server.log.read_text() == ""


def test_started_request_is_answered_before_the_server_ends(tmp_path):
    """A request that has begun when the server is told to stop gets its answer."""
    with servers.launched(tmp_path) as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client:
            body = b'{"name": "late"}'
            head = "POST /resource_providers HTTP/1.1\r\nHost: placement\r\nX-Auth-Token: admin\r\n"
            client.sendall(
                f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n".encode()
            )
            client.sendall(b"OpenStack-API-Version: placement 1.20\r\nExpect: 100-continue\r\n\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.1 100 ")
            server.process.terminate()
            client.sendall(body)
            assert client.recv(1000).startswith(b"HTTP/1.1 200 ")
        assert server.process.wait(20) == 0


def test_dead_worker_is_replaced(tmp_path):
    """When a worker is killed the server goes on, with a new one, and does not say again that it is ready."""
    with servers.launched(tmp_path, "--workers", 1) as server:
        children = f"/proc/{server.process.pid}/task/{server.process.pid}/children"
        if not os.path.exists(children):
            pytest.skip("this system does not list the children of a process")
        with open(children) as file:
            (worker,) = file.read().split()
        os.kill(int(worker), signal.SIGKILL)
        assert fetch(f"{server.url}/resource_providers")[0] == 200
        assert server.stop() == 0
        assert server.process.stdout.read() == ""


def test_hangup_reads_the_configuration_again(tmp_path):
    """After SIGHUP new workers serve as the files say by then."""
    conf = tmp_path / "placement.conf"
    database = "[placement_database]\nconnection = sqlite:///conf.db\nsync_on_startup = 1\n"
    text = f"{database}[api]\nauth_strategy = noauth2\n"
    conf.write_text(text)
    with servers.running(tmp_path, "--config-file", conf, "--workers", 1) as server:
        request = urllib.request.Request(server.url, headers={"Origin": "https://dashboard.test"})
        with urllib.request.urlopen(request) as response:
            assert "Access-Control-Allow-Origin" not in response.headers
        conf.write_text(f"{text}[cors]\nallowed_origin = https://dashboard.test\n")
        server.process.send_signal(signal.SIGHUP)
        for _ in range(300):
            # a worker that goes may close a connection that it has not read from yet
            with contextlib.suppress(OSError), urllib.request.urlopen(request) as response:
                if "Access-Control-Allow-Origin" in response.headers:
                    break
            time.sleep(0.1)
        else:
            pytest.fail("the configuration has not been read again")


def test_requests_are_logged_if_asked(tmp_path):
    """--log-requests logs a line per request: method, path, status, length, microversion, seconds."""
    with servers.running(tmp_path, "--log-requests") as server:
        fetch(f"{server.url}/usages?project_id=x")
        log = server.log.read_text()
    request = r'INFO .* 127\.0\.0\.1 "GET /usages\?project_id=x" '
    assert re.search(rf"{request}status: 200 len: \d+ microversion: 1\.39 time: [\d.]+$", log, re.MULTILINE)


def test_verbose_logs_the_processes_of_gunicorn(tmp_path):
    """-v has gunicorn tell about its processes, on stderr."""
    with servers.running(tmp_path, "-v") as server:
        assert "Booting worker" in server.log.read_text()


def test_writes_clouds_yaml(tmp_path):
    """--write-clouds-yaml adds a cloud through which the real command reaches the server; the others stay."""
    path = tmp_path / "clouds.yaml"
    path.write_text("# mine\nclouds:\n    prod:\n        auth_type: password\n")
    with servers.running(tmp_path, "--write-clouds-yaml", "clouds.yaml"):
        environment = servers.make_environment(OS_CLIENT_CONFIG_FILE=str(path), HOME=str(tmp_path))
        command = (
            "--os-cloud",
            "placement",
            "resource",
            "provider",
            "create",
            "host",
            "-f",
            "value",
            "-c",
            "name",
        )
        done = forking.run("openstack", *command, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "host\n", "")
    assert path.read_text().startswith("# mine\nclouds:\n    placement:\n")
    assert yaml.safe_load(path.read_text())["clouds"]["prod"] == {"auth_type": "password"}


def test_serves_as_configured(tmp_path):
    """With a placement.conf, its database and its way of authentication are used."""
    (tmp_path / "etc").mkdir()
    conf = tmp_path / "etc" / "placement.conf"
    conf.write_text("[placement_database]\nconnection = sqlite:///conf.db\n[api]\nauth_strategy = noauth2\n")
    assert run(tmp_path, "db", "sync", "--config-file", conf).returncode == 0
    with servers.running(tmp_path, "--config-file", conf) as server:
        assert server.facts == "database sqlite:///conf.db, noauth2, 2 workers"
    with servers.running(tmp_path, "--config-dir", conf.parent) as server:
        assert server.facts == "database sqlite:///conf.db, noauth2, 2 workers"
    environment = servers.make_environment(OS_PLACEMENT_CONFIG_DIR=str(conf.parent))
    with servers.running(tmp_path, environment=environment) as server:
        assert server.facts == "database sqlite:///conf.db, noauth2, 2 workers"


def test_configured_server_creates_tables_only_if_told_to(tmp_path):
    """With a placement.conf the tables are made at start only if sync_on_startup says so."""
    conf = tmp_path / "placement.conf"
    text = "[placement_database]\nconnection = sqlite:///conf.db\n[api]\nauth_strategy = noauth2\n"
    conf.write_text(text)
    arguments = ("serve", "--port", 0, "--config-file", conf)
    message = "Database sqlite:///conf.db: It has no tables of placement: run 'placement-server db sync'"
    assert refuse(tmp_path, *arguments) == message
    conf.write_text(text.replace("[api]", "sync_on_startup = true\n[api]"))
    with servers.running(tmp_path, "--config-file", conf) as server:
        assert fetch(f"{server.url}/resource_providers")[0] == 200


def test_old_schema_is_refused(tmp_path):
    """A schema that is too old for the requests is named at start, with the way to the new one."""
    conf = tmp_path / "placement.conf"
    conf.write_text("[placement_database]\nconnection = sqlite:///conf.db\n[api]\nauth_strategy = noauth2\n")
    run(tmp_path, "db", "sync", "--config-file", conf)
    run(tmp_path, "db", "stamp", "b5c396305c25", "--config-file", conf)
    assert refuse(tmp_path, "serve", "--port", 0, "--config-file", conf) == (
        "Database sqlite:///conf.db: The schema is at version b5c396305c25, and a082b8bb98d0 is needed: "
        "run 'placement-server db sync'"
    )


def test_schema_with_an_unknown_revision_is_served(tmp_path):
    """A version that is not known was made by a newer release, whose tables are trusted."""
    conf = tmp_path / "placement.conf"
    conf.write_text("[placement_database]\nconnection = sqlite:///conf.db\n[api]\nauth_strategy = noauth2\n")
    run(tmp_path, "db", "sync", "--config-file", conf)
    with sqlite3.connect(tmp_path / "conf.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'ffffffffffff'")
    connection.close()
    with servers.running(tmp_path, "--config-file", conf) as server:
        assert fetch(f"{server.url}/resource_providers")[0] == 200


def test_restarts_leave_no_more_slots_than_there_are_connections(tmp_path):
    """A worker that ends gives its slot to the next one, so that checks read no more rows after restarts."""
    for number in range(3):
        with servers.running(tmp_path, "--database", "sqlite:///placement.db", "--workers", "1") as server:
            fetch(f"{server.url}/resource_providers", "POST", {"name": f"host{number}"})
    with contextlib.closing(sqlite3.connect(tmp_path / "placement.db")) as connection:
        rows = connection.execute("SELECT changed_at FROM oscp_writers").fetchall()
    assert rows == [(0,)]


def test_edit_by_sql_is_seen_after_a_refresh(tmp_path):
    """By every worker, with its next request; a database in which nobody records changes needs none."""
    url = "sqlite:///placement.db"
    with servers.running(tmp_path, "--database", url, "--workers", "2") as server:
        for number in range(3):
            fetch(f"{server.url}/resource_providers", "POST", {"name": f"host{number}"})
        found = [fetch(f"{server.url}/resource_providers?name=host1") for _ in range(20)]
        assert all(len(document["resource_providers"]) == 1 for _, document in found)
        with contextlib.closing(sqlite3.connect(tmp_path / "placement.db")) as connection:
            connection.execute("UPDATE resource_providers SET name = 'renamed' WHERE name = 'host1'")
            connection.commit()
        assert run(tmp_path, "db", "refresh", "--database", url).stderr == ""
        names = [
            {each["name"] for each in fetch(f"{server.url}/resource_providers")[1]["resource_providers"]}
            for _ in range(20)
        ]
        assert all(each == {"host0", "renamed", "host2"} for each in names)
    with contextlib.closing(sqlite3.connect(tmp_path / "placement.db")) as connection:
        connection.execute("DROP TABLE oscp_writers")
    assert refuse(tmp_path, "db", "refresh", "--database", url) == (
        "There is nothing to do: without the tables of our own, which 'placement-server db sync' makes, "
        "servers read the database anew with each request"
    )


def test_options_without_effect_are_logged_once(tmp_path):
    """What a placement.conf sets in vain is named in one line of the log."""
    conf = tmp_path / "placement.conf"
    conf.write_text(
        "[placement_database]\nmax_retries = 3\nsync_on_startup = 1\nconnection = sqlite:///c.db\n"
    )
    environment = servers.make_environment(OS_API__AUTH_STRATEGY="noauth2")
    with servers.running(tmp_path, "--config-file", conf, environment=environment) as server:
        log = server.log.read_text()
    assert log.count("without effect here: [placement_database] max_retries") == 1


def test_noauth_stays_on_loopback(tmp_path):
    """Without authentication another address is refused; --insecure allows it."""
    message = refuse(tmp_path, "serve", "--port", 0, "--host", "0.0.0.0")
    assert message == (
        "Without authentication (noauth2) anybody who reaches 0.0.0.0 is an administrator; serve on "
        "127.0.0.1, configure keystone, or say --insecure"
    )
    assert list(tmp_path.iterdir()) == []
    with servers.running(tmp_path, "--host", "0.0.0.0", "--insecure") as server:
        assert fetch(f"{server.url}/resource_providers")[0] == 200


def test_serves_on_ipv6(tmp_path):
    """An IPv6 address is one like any other."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6")
    with servers.running(tmp_path, "--host", "::1") as server:
        assert server.url.startswith("http://[::1]:")
        assert fetch(f"{server.url}/resource_providers")[0] == 200


def test_port_in_use_is_a_one_line_error(tmp_path):
    """A port that somebody listens on is named, and nothing is made."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        message = refuse(tmp_path, "serve", "--port", port)
    assert message == (
        f"Cannot listen on 127.0.0.1 port {port}: Address already in use; choose another port with --port "
        "(0 takes a free one), or another address with --host"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            "sqlite:////nonexistent/p.db",
            "Cannot use the database .*: unable to open database file: the directory /nonexistent .*",
        ),
        ("mysql+pymysql://root:secret@127.0.0.1:1/x", r"Cannot use the database .*Connection refused.*"),
        ("postgresql+psycopg2://me:secret@127.0.0.1:1/x", r"Cannot use the database .*Connection refused.*"),
        ("nonsense", "The database URL cannot be read; one looks like .*"),
        ("dbase://x", "There is no such kind of database: .*dbase; one looks like .*"),
        ("mysql+nodriver://x", "There is no such kind of database: .*nodriver; one looks like .*"),
    ],
)
def test_unusable_database_is_a_one_line_error(tmp_path, url, message):
    """A database that is not there, or no database, is one line; it does not show the password."""
    line = refuse(tmp_path, "serve", "--port", 0, "--database", url)
    assert re.fullmatch(message, line)
    assert "secret" not in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "Failed to parse .*"),
        ("[api]\nauth_strategy = noauth2\n", "No database is named: .*"),
        (
            "[api]\nauth_strategy = none\n[placement_database]\nconnection = sqlite://\n",
            ".*auth_strategy.*none.*",
        ),
        ("[placement_database]\nconnection = sqlite://\nmax_pool_size = many\n", ".*max_pool_size.*many.*"),
        ("# \xff\n", "The configuration cannot be read: 'utf-8' codec can't decode .*"),
        (f"{DATABASE}[DEFAULT]\nlog_file = /none/x.log\n", "The log cannot be set up .*'/none/x.log'"),
        (f"{DATABASE}[DEFAULT]\nlog_config_append = /none.ini\n", "The log cannot be set up .*/none.ini.*"),
        (
            f"{DATABASE}[DEFAULT]\nuse_stderr = perhaps\n",
            r"The log cannot be set up as configured: use_stderr of \S+: Unexpected boolean value 'perhaps'",
        ),
        (
            f"{DATABASE}[DEFAULT]\ndebug = maybe\n",
            r"debug: Invalid Boolean value: maybe, in \[DEFAULT\] of /.*",
        ),
        (f"{DATABASE}[DEFAULT]\nuse_syslog = 1\nsyslog_log_facility = x\n", ".*syslog facility must .*"),
        (f"{DATABASE}sync_on_startup = true\n", r".*\[keystone_authtoken\] has no auth_type, so no .*"),
    ],
)
def test_unusable_configuration_is_a_one_line_error(tmp_path, text, message):
    """A placement.conf that cannot be read, or says what cannot be, is one line."""
    conf = tmp_path / "placement.conf"
    conf.write_text(text, encoding="latin-1")
    assert re.fullmatch(message, refuse(tmp_path, "serve", "--port", 0, "--config-file", conf))


def test_unusable_policy_is_refused_at_start(tmp_path):
    """It is refused at the start, not at each request."""
    policy = tmp_path / "policy.yaml"
    policy.write_text("rule: [role")
    conf = tmp_path / "placement.conf"
    lines = ("[placement_database]", "connection = sqlite:///x.db", "sync_on_startup = true")
    conf.write_text("\n".join([*lines, "[oslo_policy]", f"policy_file = {policy}"]))
    told = refuse(tmp_path, "serve", "--port", 0, "--config-file", conf, OS_API__AUTH_STRATEGY="noauth2")
    assert told.startswith(f"The policy, {policy}, cannot be read: while parsing a flow sequence")


@pytest.mark.parametrize(
    ("hidden", "with_password", "wanted"),
    [("memcache", False, "python-memcached"), ("bmemcached", True, "python-binary-memcached")],
)
def test_missing_memcached_library_is_refused_at_start(tmp_path, hidden, with_password, wanted):
    """It is missed at the start, not at each request with a token."""
    # the first of the path, and what it does not have nobody has
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules[{hidden!r}] = None\n")
    conf = tmp_path / "placement.conf"
    lines = ["[placement_database]", "connection = sqlite:///x.db", "sync_on_startup = true"]
    lines += ["[keystone_authtoken]", "auth_type = none", "memcached_servers = 127.0.0.1:11211"]
    lines += [f"memcache_sasl_enabled = {with_password}"]
    conf.write_text("\n".join(lines))
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    line = ("serve", "--port", 0, "--config-file", conf)
    assert refuse(tmp_path, *line, run=run_anew, PYTHONPATH=path) == (
        "The service cannot be set up as configured: memcached_servers in [keystone_authtoken] needs "
        f"{wanted}, which is not installed"
    )


@pytest.mark.parametrize("option", ["--config-file", "--config-dir"])
def test_missing_configuration_is_a_one_line_error(tmp_path, option):
    """A configuration that is not there is one line."""
    assert "nowhere" in refuse(tmp_path, "serve", "--port", 0, option, tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "nowhere/clouds.yaml",
            None,
            "Cannot write nowhere/clouds.yaml: the directory /.*/nowhere does not exist",
        ),
        ("clouds.yaml", "clouds: [", "Cannot add a cloud to clouds.yaml: it is not a clouds.yaml; .*"),
        (
            "clouds.yaml",
            "clouds: {placement: {auth_type: password}}",
            "Cannot add a cloud to clouds.yaml: it has a cloud 'placement' already, .*; name another file",
        ),
    ],
)
def test_unusable_clouds_yaml_is_a_one_line_error(tmp_path, name, text, message):
    """A clouds.yaml that cannot be added to is one line; it stays as it is, and nothing else is made."""
    if text is not None:
        (tmp_path / name).write_text(text)
    before = {path: path.read_text() for path in tmp_path.iterdir()}
    assert re.fullmatch(message, refuse(tmp_path, "serve", "--port", 0, "--write-clouds-yaml", name))
    assert {path: path.read_text() for path in tmp_path.iterdir()} == before


def test_clouds_yaml_is_refused_with_keystone(tmp_path):
    """With keystone there is no token that could be written down."""
    environment = {"OS_API__AUTH_STRATEGY": "keystone"}
    message = refuse(tmp_path, "serve", "--port", 0, "--write-clouds-yaml", "clouds.yaml", **environment)
    assert message.startswith("--write-clouds-yaml is for noauth2: ")


@pytest.mark.parametrize(
    "arguments", [(), ("serve", "--port", "x"), ("serve", "--workers", "0"), ("db",), ("db", "nothing")]
)
def test_invalid_command_line_is_told_in_two_lines(tmp_path, arguments):
    """The error and how to see the usage are on stderr; the status is 2."""
    done = run(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    error, hint = done.stderr.splitlines()
    assert re.match(r"placement-server[a-z ]*: error: ", error)
    assert re.fullmatch(r"See: placement-server[a-z ]* --help", hint)
