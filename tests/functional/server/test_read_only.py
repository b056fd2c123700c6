# SPDX-License-Identifier: Apache-2.0
"""A database that takes no changes: questions are answered, changes are refused in one line."""

import contextlib
import logging
import pathlib
import secrets
import shutil
import sqlite3
import tempfile
import time

import pytest
import requests
import sqlalchemy as sa
import webob

from osc_placement.server import deploy
from osc_placement.server.db.engine import Database
from osc_placement.server.process import health as health_module
from osc_placement.server.testing import make_conf
from tests import databases
from tests.functional import servers
from tests.reliability.own_servers import PostgreSQL, own_server

HOST = "0000000a-0000-4000-8000-000000000001"
OTHER = "0000000a-0000-4000-8000-000000000002"
CONSUMER = "0000000c-0000-4000-8000-000000000001"
REASON = "The database is read-only: changes are answered with 503, reads go on."
BASED_ON = {"resource_provider_generation": 1}
#: requests that change something, of each kind of thing
CHANGES = (
    ("POST", "/resource_providers", {"name": "other", "uuid": OTHER}),
    ("PUT", f"/resource_providers/{HOST}", {"name": "renamed"}),
    ("DELETE", f"/resource_providers/{HOST}", None),
    ("POST", f"/resource_providers/{HOST}/inventories", {"resource_class": "DISK_GB", "total": 1}),
    ("DELETE", f"/resource_providers/{HOST}/inventories/VCPU", None),
    ("PUT", f"/resource_providers/{HOST}/traits", {"traits": ["COMPUTE_NODE"], **BASED_ON}),
    ("PUT", f"/resource_providers/{HOST}/aggregates", {"aggregates": [OTHER], **BASED_ON}),
    ("PUT", "/traits/CUSTOM_NEW", None),
    ("PUT", "/resource_classes/CUSTOM_NEW", None),
    (
        "PUT",
        f"/allocations/{CONSUMER}",
        {
            "allocations": {HOST: {"resources": {"VCPU": 1}}},
            "project_id": "p",
            "user_id": "u",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        },
    ),
    ("POST", "/-/providers", {"changes": [{"uuid": HOST, "traits": ["COMPUTE_NODE"], **BASED_ON}]}),
)
#: questions, of which the last is about all providers
QUESTIONS = (
    "/",
    "/traits",
    "/usages?project_id=p",
    f"/resource_providers/{HOST}",
    f"/resource_providers/{HOST}/inventories",
    f"/allocations/{CONSUMER}",
    "/allocation_candidates?resources=VCPU:1",
    "/-/providers",
    "/resource_providers",
)


class Standby(PostgreSQL):
    """A PostgreSQL server that follows another one."""

    def __init__(self, directory, primary):
        self._primary = primary
        super().__init__(directory)

    def prepare(self):
        """Copy the other one's cluster."""
        self.programs = self._primary.programs
        self.account = self._primary.account
        if self.account:
            shutil.chown(self.directory, "postgres", "postgres")
        source = f"host=127.0.0.1 port={self._primary.port} user=postgres"
        data = self.directory / "data"
        self.run(
            self.programs / "pg_basebackup", "-R", "-X", "stream", "-c", "fast", "-d", source, "-D", data
        )


@contextlib.contextmanager
def open_application(url):
    """The application on a database of which it makes nothing."""
    database = Database(url)
    try:
        conf = make_conf()
        conf.set_override("auth_strategy", "noauth2", "api")
        yield deploy.make_application(conf, database)
    finally:
        database.dispose()


@pytest.fixture
def send():
    """A function that sends a request of an administrator to an application."""

    def send_(application, method, path, body=None):
        request = webob.Request.blank(path, method=method)
        request.headers["x-auth-token"] = "admin"
        request.headers["openstack-api-version"] = "placement 1.39"
        if body is not None:
            request.json_body = body
            request.content_type = "application/json"
        return request.get_response(application)

    return send_


def fill(url, send):
    """Make the schema, and a provider."""
    database = Database(url)
    deploy.upgrade.upgrade(database)
    database.dispose()
    with open_application(url) as application:
        assert send(application, "POST", "/resource_providers", {"name": "h", "uuid": HOST}).status_int == 200
        inventory = {"resource_class": "VCPU", "total": 8}
        path = f"/resource_providers/{HOST}/inventories"
        assert send(application, "POST", path, inventory).status_int == 201


@pytest.fixture
def frozen(backend, tmp_path, send):
    """The URL of a database with a provider that takes no changes, and a function that has it take them."""
    with contextlib.ExitStack() as stack:
        yield {"sqlite": freeze_file, "mariadb": freeze_server, "postgresql": make_standby}[backend](
            stack, tmp_path, send
        )


def freeze_file(stack, directory, send):
    """A SQLite file that is opened for reading."""
    path = directory / "placement.db"
    fill(f"sqlite:///{path}", send)
    return f"sqlite:///file:{path}?mode=ro&uri=true", None


def freeze_server(stack, directory, send):
    """MariaDB with read_only, and an account that has no privilege to write in spite of it."""
    server, url = stack.enter_context(own_server("mariadb"))
    fill(url, send)
    password = secrets.token_hex(8)
    databases.execute(server.administration, f"CREATE USER placement@'127.0.0.1' IDENTIFIED BY '{password}'")
    databases.execute(server.administration, "GRANT ALL ON placement.* TO placement@'127.0.0.1'")
    databases.execute(server.administration, "SET GLOBAL read_only = ON")
    url = sa.make_url(url).set(username="placement", password=password)
    return (
        url.render_as_string(hide_password=False),
        lambda: databases.execute(server.administration, "SET GLOBAL read_only = OFF"),
    )


def make_standby(stack, directory, send):
    """A hot standby of PostgreSQL."""
    server, url = stack.enter_context(own_server("postgresql"))
    fill(url, send)
    # pytest's directories are for their owner alone
    place = stack.enter_context(tempfile.TemporaryDirectory(prefix="placement-", ignore_cleanup_errors=True))
    standby = Standby(pathlib.Path(place), server)
    stack.callback(standby.kill)
    standby.start()
    url = sa.make_url(url).set(port=standby.port)
    return (
        url.render_as_string(hide_password=False),
        lambda: databases.execute(standby.administration, "SELECT pg_promote()"),
    )


def test_read_only_database_serves_reads_and_refuses_changes(frozen, send, caplog):
    """From the start on such a database, until it can be changed."""
    url, thaw = frozen
    with open_application(url) as application:
        check_frozen(application, send, caplog)
        if thaw is not None:
            thaw()
            # what was found out of the database counts for a second
            time.sleep(health_module.KEPT)
            answer = webob.Request.blank("/-/readyz").get_response(application)
            assert answer.json == {"status": "ready"}
            for _ in range(2):
                # the first may still be on a connection that was made before
                done = send(application, "PUT", "/traits/CUSTOM_NEW")
            assert done.status_int == 204


def check_frozen(application, send, caplog):
    """Questions are answered; changes are refused with one line, of which the log has one too."""
    for path in QUESTIONS:
        assert send(application, "GET", path).status_int == 200, path
    (record,) = send(application, "GET", QUESTIONS[-1]).json["resource_providers"]
    assert (record["uuid"], record["name"]) == (HOST, "h")
    caplog.clear()
    for method, path, body in CHANGES:
        answer = send(application, method, path, body)
        assert (answer.status_int, answer.headers.get("retry-after")) == (503, "1"), (path, answer.text)
        detail = answer.json["errors"][0]["detail"].split("\n\n ", 1)[1].strip()
        assert detail == "The database is read-only; nothing was changed. Tell the operator."
    problems = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(problems) == len(CHANGES)
    assert not [record for record in problems if record.exc_info or "\n" in record.getMessage().strip()]
    caplog.clear()
    answer = webob.Request.blank("/-/readyz").get_response(application)
    reasons = [{"check": "database", "reason": REASON}]
    assert (answer.status_int, answer.json) == (200, {"status": "read-only", "reasons": reasons})
    # a probe comes every few seconds
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_read_only_sqlite_file_keeps_its_journal_mode(tmp_path, send):
    """SQLite's default journal stays where it cannot be changed."""
    path = tmp_path / "placement.db"
    fill(f"sqlite:///{path}", send)
    engine = sa.create_engine(f"sqlite:///{path}", isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode = DELETE").scalar() == "delete"
    engine.dispose()
    with open_application(f"sqlite:///file:{path}?mode=ro&uri=true") as application:
        assert len(send(application, "GET", "/resource_providers").json["resource_providers"]) == 1
        assert send(application, "PUT", "/traits/CUSTOM_NEW").status_int == 503


def test_a_read_only_database_needs_no_tables_of_our_own(tmp_path, send, caplog):
    """A database made by openstack-placement that accepts no changes is read without them."""
    path = tmp_path / "placement.db"
    fill(f"sqlite:///{path}", send)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in names:
            if name.startswith("oscp_"):
                connection.execute(f"DROP TABLE {name}")
    with open_application(f"sqlite:///file:{path}?mode=ro&uri=true") as application:
        assert len(send(application, "GET", "/resource_providers").json["resource_providers"]) == 1
        answer = webob.Request.blank("/-/readyz").get_response(application).json
        assert answer["status"] == "read-only"
        assert [reason["check"] for reason in answer["reasons"]] == ["database", "own tables"]
    assert caplog.text.count("cannot make the tables of its own") == 1


def test_busy_sqlite_database_is_not_reported_read_only(tmp_path, send):
    """A probe neither waits for whoever writes to SQLite, nor takes that for a refusal."""
    path = tmp_path / "placement.db"
    fill(f"sqlite:///{path}", send)
    other = Database(f"sqlite:///{path}")
    with open_application(f"sqlite:///{path}") as application, other.engine.begin():
        answer = webob.Request.blank("/-/readyz").get_response(application)
        assert answer.json == {"status": "ready"}
    other.dispose()


def test_server_starts_on_a_read_only_database(tmp_path, send):
    """The command says that it is ready as ever, for reads are answered."""
    path = tmp_path / "placement.db"
    fill(f"sqlite:///{path}", send)
    conf = tmp_path / "placement.conf"
    conf.write_text(
        f"[placement_database]\nconnection = sqlite:///file:{path}?mode=ro&uri=true\n"
        "[api]\nauth_strategy = noauth2\n"
    )
    with servers.running(tmp_path, "--config-file", conf) as server:
        headers = {"x-auth-token": "admin"}
        answer = requests.get(f"{server.url}/resource_providers", headers=headers, timeout=30)
        assert len(answer.json()["resource_providers"]) == 1
        assert requests.put(f"{server.url}/traits/CUSTOM_X", headers=headers, timeout=30).status_code != 500
