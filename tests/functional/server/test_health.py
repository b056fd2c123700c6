# SPDX-License-Identifier: Apache-2.0
"""`/-/healthz` and `/-/readyz`: what load balancers are told, under each way of serving."""

import concurrent.futures
import contextlib
import itertools
import logging
import sqlite3
import threading
import time

import pytest
import requests
import webob

from osc_placement.server import deploy
from osc_placement.server.db.engine import Database
from osc_placement.server.db.upgrade import HEAD
from osc_placement.server.process import health as health_module
from osc_placement.server.testing import make_conf
from tests.functional import containers, servers
from tests.functional.server.test_serve import run
from tests.waiting import wait_until

NOAUTH = "[api]\nauth_strategy = noauth2\n"


def write_conf(directory, connection, text=NOAUTH):
    """Write a placement.conf for a database."""
    path = directory / "placement.conf"
    path.write_text(f"[placement_database]\nconnection = {connection}\n{text}")
    return path


def ask(url, path):
    """Status and document, of an answer to somebody without a token."""
    answer = requests.get(url + path, timeout=30)
    return answer.status_code, answer.json()


@contextlib.contextmanager
def serving(way, directory, **variables):
    """The URL of the service as configured in a directory; the variables are for containers."""
    if way == "serve":
        with servers.running(directory, "--config-file", directory / "placement.conf") as server:
            yield server.url
    else:
        with containers.serving(directory, container=way, **variables) as (url, _):
            yield url


@pytest.mark.parametrize("way", ["serve", "gunicorn", "uwsgi"])
def test_ready_service_answers_probes_without_a_token(way, tmp_path):
    """Without a token, and without a question to the API before."""
    conf = write_conf(tmp_path, f"sqlite:///{tmp_path}/placement.db")
    assert run(tmp_path, "db", "sync", "--config-file", conf).returncode == 0
    with serving(way, tmp_path) as url:
        assert ask(url, "/-/healthz") == (200, {"status": "alive"})
        assert ask(url, "/-/readyz") == (200, {"status": "ready"})
        assert requests.get(f"{url}/resource_providers", timeout=30).status_code == 401


@pytest.mark.parametrize("way", ["gunicorn", "uwsgi"])
def test_service_without_tables_becomes_ready_after_their_creation(way, tmp_path):
    """It lives, says what to do, answers 503, and is ready when that is done, without a restart."""
    conf = write_conf(tmp_path, f"sqlite:///{tmp_path}/placement.db")
    reason = "It has no tables of placement: run 'placement-server db sync'"
    with serving(way, tmp_path) as url:
        assert ask(url, "/-/healthz") == (200, {"status": "alive"})
        reasons = [{"check": "schema", "reason": reason}]
        assert ask(url, "/-/readyz") == (503, {"status": "not ready", "reasons": reasons})
        headers = {"X-Auth-Token": "admin"}
        answer = requests.get(f"{url}/resource_providers", headers=headers, timeout=30)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert reason in answer.json()["errors"][0]["detail"]
        assert run(tmp_path, "db", "sync", "--config-file", conf).returncode == 0
        # what was found out of the database counts for a second
        time.sleep(health_module.KEPT)
        assert ask(url, "/-/readyz") == (200, {"status": "ready"})
    log = (tmp_path / "container.log").read_text()
    assert reason in log
    assert "Traceback" not in log


@pytest.mark.parametrize("way", ["gunicorn", "uwsgi"])
def test_service_without_a_database_is_not_ready(way, tmp_path):
    """The reason names the database, and not its account."""
    write_conf(tmp_path, "mysql+pymysql://somebody:secret@127.0.0.1:1/placement")
    with serving(way, tmp_path) as url:
        assert ask(url, "/-/healthz")[0] == 200
        status, document = ask(url, "/-/readyz")
    assert status == 503
    reason = "The database cannot be reached. Please retry your request."
    assert document["reasons"] == [{"check": "database", "reason": reason}]


def test_readiness_follows_the_schema(tmp_path):
    """What is asked is the database of now: a schema that is taken back, and brought forward."""
    path = tmp_path / "placement.db"
    conf = write_conf(tmp_path, f"sqlite:///{path}")
    assert run(tmp_path, "db", "sync", "--config-file", conf).returncode == 0
    with serving("serve", tmp_path) as url:
        for version, status in (("b5c396305c25", 503), (HEAD, 200), ("ffffffffffff", 200)):
            with contextlib.closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("UPDATE alembic_version SET version_num = ?", (version,))
            # what was found out before is told for a second
            time.sleep(1.1)
            assert ask(url, "/-/readyz")[0] == status, version


@pytest.fixture
def database(tmp_path):
    """An up-to-date database."""
    opened = Database(f"sqlite:///{tmp_path}/placement.db")
    deploy.upgrade.upgrade(opened)
    yield opened
    opened.dispose()


def probe(application):
    """The answer of the application to a question about its readiness."""
    return webob.Request.blank("/-/readyz").get_response(application)


def test_hanging_probe_does_not_delay_the_next(database, monkeypatch):
    """While one waits for the database, the next is soon answered with the time of waiting."""
    application = deploy.make_application(make_conf(), database)
    monkeypatch.setattr(health_module, "PATIENCE", 0.05)
    entered, ended = threading.Event(), threading.Event()

    def hang(_database):
        entered.set()
        ended.wait(30)

    monkeypatch.setattr(health_module.upgrade, "find_fault", hang)
    first = threading.Thread(target=probe, args=(application,))
    first.start()
    try:
        assert entered.wait(30)
        answer = probe(application)
    finally:
        ended.set()
        first.join()
    assert (answer.status_int, answer.headers["retry-after"]) == (503, "1")
    reason = "The database has not answered for 0 seconds."
    assert answer.json["reasons"] == [{"check": "database", "reason": reason}]
    wait_until(lambda: probe(application).status_int == 200)


def test_simultaneous_probes_query_the_database_once(database, monkeypatch):
    """At the same time and within a second, for a service that is ready and for one that is not."""
    application = deploy.make_application(make_conf(), database)
    asked = []

    def look(_database):
        asked.append(time.monotonic())
        time.sleep(0.2)
        return "It is not." if len(asked) > 1 else None

    monkeypatch.setattr(health_module.upgrade, "find_fault", look)
    probe(application)
    time.sleep(1.1)
    asked[:] = [0.0]
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        end = time.monotonic() + 2.5
        answers = []
        while time.monotonic() < end:
            answers += [answer.status_int for answer in pool.map(probe, [application] * 32)]
    assert set(answers) == {503}
    assert len(answers) >= 64
    assert len(asked) <= 1 + 3
    assert all(later - earlier >= 1 for earlier, later in itertools.pairwise(asked))


def test_probe_hides_unexpected_errors(database, monkeypatch, caplog):
    """What nobody expected is in the log, and the service is not ready."""
    application = deploy.make_application(make_conf(), database)

    def fail(_database):
        raise RuntimeError("inside")

    monkeypatch.setattr(health_module.upgrade, "find_fault", fail)
    caplog.set_level(logging.ERROR)
    answer = probe(application)
    assert answer.status_int == 503
    assert "inside" not in answer.text
    assert "inside" in caplog.text


@pytest.mark.parametrize("path", ["/-/healthz", "/-/readyz"])
def test_a_probe_refuses_other_methods_and_versions(database, path):
    """Other methods and unknown microversions are refused as for other paths."""
    application = deploy.make_application(make_conf(), database)
    assert webob.Request.blank(path, method="POST").get_response(application).status_int == 405
    request = webob.Request.blank(path, headers={"OpenStack-API-Version": "placement 9.99"})
    assert request.get_response(application).status_int == 406
