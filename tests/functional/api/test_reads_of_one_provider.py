# SPDX-License-Identifier: Apache-2.0
"""Answers about one provider: the same bytes from the snapshot as from the database."""

import re
import time
import uuid
from email.utils import parsedate_to_datetime

import pytest
import sqlalchemy as sa
import webob

from osc_placement.server.db import tables
from osc_placement.server.snapshot.current import Current
from tests import databases
from tests.functional.api.conftest import make_application

BASE = "/resource_providers"
VERSIONS = ("1.0", "1.6", "1.13", "1.14", "1.15", "1.18", "1.19", "1.39")


class Side:
    """One application on a database."""

    def __init__(self, url):
        self.url = url
        self.application = make_application(url)

    def send(self, method, path, body=None, version="1.39"):
        """Send a request as the administrator."""
        request = webob.Request.blank(path, method=method)
        request.headers["x-auth-token"] = "admin"
        request.headers["openstack-api-version"] = f"placement {version}"
        if body is not None:
            request.json_body = body
            request.content_type = "application/json"
        return request.get_response(self.application)


@pytest.fixture(scope="module")
def side(backend, tmp_path_factory):
    """A server on a database of its own, whose snapshot is loaded."""
    with databases.make_database(backend, tmp_path_factory.mktemp("reads")) as url:
        side = Side(url)
        assert side.send("GET", BASE).status_int == 200
        yield side


@pytest.fixture
def answers(monkeypatch):
    """The number of requests that were answered from the snapshot, and of those that were not."""
    counts = {"snapshot": 0, "database": 0}
    get = Current.get_if_cheap

    def count(current):
        loaded = get(current)
        counts["database" if loaded is None else "snapshot"] += 1
        return loaded

    monkeypatch.setattr(Current, "get_if_cheap", count)
    return counts


def make_provider(side, parent=None):
    """Make a provider and return its UUID."""
    uuid_ = str(uuid.uuid4())
    body = {"uuid": uuid_, "name": f'a "quoted" ünïcode {uuid_}', "parent_provider_uuid": parent}
    assert side.send("POST", BASE, body).status_int == 200
    return uuid_


def make_tree(side):
    """A root with all parts, a child with inventories, and one with nothing."""
    root = make_provider(side)
    child, bare = make_provider(side, root), make_provider(side, root)
    inventories = {"VCPU": {"total": 8, "allocation_ratio": 4.1}, "MEMORY_MB": {"total": 512, "reserved": 12}}
    for subject in (root, child):
        body = {"resource_provider_generation": 0, "inventories": inventories}
        assert side.send("PUT", f"{BASE}/{subject}/inventories", body).status_int == 200
    body = {"resource_provider_generation": 1, "traits": ["STORAGE_DISK_SSD", "HW_CPU_X86_AVX"]}
    assert side.send("PUT", f"{BASE}/{root}/traits", body).status_int == 200
    body = {"resource_provider_generation": 2, "aggregates": [str(uuid.uuid4()) for _ in range(3)]}
    assert side.send("PUT", f"{BASE}/{root}/aggregates", body).status_int == 200
    claim(side, root)
    return root, child, bare


def claim(side, subject):
    """Claim of the root for a new consumer."""
    body = {
        "allocations": {subject: {"resources": {"VCPU": 2}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    consumer = str(uuid.uuid4())
    assert side.send("PUT", f"/allocations/{consumer}", body).status_int == 204
    return consumer


def list_paths(subject):
    """The requests about one provider."""
    parts = ("", "/inventories", "/usages", "/traits", "/aggregates")
    filters = (f"?uuid={subject}", f"?in_tree={subject}", f"?uuid={subject}&in_tree={subject}")
    more = (f"?in_tree={subject}&required=STORAGE_DISK_SSD", f"?in_tree={subject}&resources=VCPU:7")
    return [f"{BASE}/{subject}{part}" for part in parts] + [f"{BASE}{query}" for query in (*filters, *more)]


def read(side, path, version):
    """Status, body and headers, and the time of the last modification in seconds."""
    response = side.send("GET", path, version=version)
    headers = dict(response.headers)
    headers.pop("x-openstack-request-id", None)
    headers.pop("openstack-request-id", None)
    modified = headers.pop("Last-Modified", None)
    seconds = None if modified is None else parsedate_to_datetime(modified).timestamp()
    body = re.sub(rb"req-[0-9a-f-]{36}", b"", response.body)
    return (response.status, body, headers), seconds


def assert_same_answers(side, subjects, monkeypatch):
    """Compare what the snapshot and the database say of these providers, at all versions."""
    for subject in subjects:
        for path in list_paths(subject):
            for version in VERSIONS:
                known, known_time = read(side, path, version)
                with monkeypatch.context() as patch:
                    patch.setattr(Current, "get_if_cheap", lambda current: None)
                    asked, asked_time = read(side, path, version)
                assert known == asked, (path, version)
                # an answer without a time of its own has the present time
                is_now = asked_time is not None and abs(asked_time - time.time()) < 3
                assert known_time == asked_time or (is_now and abs(known_time - asked_time) < 3), path


def test_snapshot_answers_as_the_database_does(side, answers, monkeypatch):
    """Of a tree with all parts, before and after each part changes."""
    root, child, bare = make_tree(side)
    assert_same_answers(side, (root, child, bare, str(uuid.uuid4())), monkeypatch)
    consumer = claim(side, root)
    assert_same_answers(side, (root,), monkeypatch)
    assert side.send("DELETE", f"/allocations/{consumer}").status_int == 204
    assert side.send("DELETE", f"{BASE}/{child}/inventories").status_int == 204
    assert_same_answers(side, (root, child), monkeypatch)
    assert side.send("DELETE", f"{BASE}/{bare}").status_int == 204
    assert_same_answers(side, (root, bare), monkeypatch)
    assert answers["snapshot"] > 0
    assert answers["database"] == 0


def test_generation_that_another_program_left_out_is_null(side, monkeypatch):
    """As openstack-placement answers; the next change counts from 0."""
    subject = make_provider(side)
    body = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}}
    assert side.send("PUT", f"{BASE}/{subject}/inventories", body).status_int == 200
    consumer = claim(side, subject)
    engine = sa.create_engine(side.url, poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        of = tables.resource_providers.c
        forget = sa.update(tables.resource_providers).where(of.uuid == subject)
        connection.execute(forget.values(generation=None))
    # a new worker, since one that is running need not notice the first change of another program at once
    loaded = Side(side.url)
    held = loaded.send("GET", f"/allocations/{consumer}").json["allocations"][subject]
    assert held == {"resources": {"VCPU": 2}, "generation": None}
    for part in ("allocations", "inventories", "usages", "traits", "aggregates"):
        answer = loaded.send("GET", f"{BASE}/{subject}/{part}")
        assert answer.json["resource_provider_generation"] is None, part
    assert loaded.send("GET", f"{BASE}?uuid={subject}").json["resource_providers"][0]["generation"] is None
    assert_same_answers(loaded, (subject,), monkeypatch)
    claim(loaded, subject)
    assert loaded.send("GET", f"{BASE}/{subject}").json["generation"] == 1
    assert_same_answers(loaded, (subject,), monkeypatch)


def test_null_in_every_column_is_read_alike(database_url, monkeypatch):
    """Another program may leave out what the schema does not require, but for the root."""
    side = Side(database_url)
    subjects = make_tree(side)
    with sa.create_engine(side.url, poolclass=sa.pool.NullPool).begin() as connection:
        for table in tables.metadata.sorted_tables:
            columns = [column.name for column in table.columns if column.nullable]
            values = dict.fromkeys(columns, sa.null())
            if table is tables.resource_providers:
                values["root_provider_id"] = table.c.id
            connection.execute(sa.update(table).values(values))
    loaded = Side(side.url)
    assert loaded.send("GET", BASE).status_int == 200
    assert_same_answers(loaded, subjects, monkeypatch)
    assert all(loaded.send("GET", path).status_int == 200 for path in list_paths(subjects[0]))


def test_list_checks_for_changes_once(side, monkeypatch):
    """With and without filters by UUID."""
    root, *_ = make_tree(side)
    checks = []
    get = Current.get

    def count(current):
        checks.append(current)
        return get(current)

    monkeypatch.setattr(Current, "get", count)
    for query in ("", "?resources=VCPU:1", f"?uuid={root}", f"?in_tree={root}"):
        assert side.send("GET", BASE + query).status_int == 200
        assert len(checks) == 1, query
        checks.clear()


def test_time_of_inventories_is_that_of_the_last_change(side, monkeypatch):
    """It stays when something else of the provider changes a moment later."""
    root, *_ = make_tree(side)
    _, before = read(side, f"{BASE}/{root}/inventories", "1.39")
    time.sleep(1.1)
    claim(side, root)
    assert_same_answers(side, (root,), monkeypatch)
    assert read(side, f"{BASE}/{root}/inventories", "1.39")[1] == before
    generation = side.send("GET", f"{BASE}/{root}").json["generation"]
    body = {"resource_provider_generation": generation, "total": 9}
    assert side.send("PUT", f"{BASE}/{root}/inventories/VCPU", body).status_int == 200
    assert_same_answers(side, (root,), monkeypatch)
    assert read(side, f"{BASE}/{root}/inventories", "1.39")[1] > before


def test_new_worker_answers_before_its_snapshot_is_loaded(backend, tmp_path_factory, answers):
    """The first answers come from the database, later ones from the snapshot, which is loaded meanwhile."""
    with databases.make_database(backend, tmp_path_factory.mktemp("new")) as url:
        side = Side(url)
        subject = make_provider(side)
        path = f"{BASE}/{subject}/inventories"
        assert side.send("GET", path).json["inventories"] == {}
        assert answers == {"snapshot": 0, "database": 1}
        end = time.monotonic() + 30
        while not answers["snapshot"]:
            assert side.send("GET", path).json["inventories"] == {}
            assert time.monotonic() < end, "the snapshot was not loaded"
            time.sleep(0.01)
