# SPDX-License-Identifier: Apache-2.0
"""A database that is restored, dropped or replaced under running workers: none answers from before."""

import contextlib
import random
import shutil
import sqlite3
import uuid

import pytest
import sqlalchemy as sa
import webob

from osc_placement.model import Inventory
from osc_placement.server import deploy
from osc_placement.server.db import (
    aggregate,
    allocation,
    inventory,
    own_tables,
    provider,
    tables,
    trait,
    upgrade,
)
from osc_placement.server.db.allocation import Claim
from osc_placement.server.db.consumer import Owner
from osc_placement.server.db.engine import Database
from osc_placement.server.process import health as health_module
from osc_placement.server.snapshot.current import Current
from osc_placement.server.snapshot.load import load
from osc_placement.server.testing import make_conf
from tests.functional.db.conftest import open_prepared

OWNER = Owner("project", "user", None)
TRAITS = ("HW_CPU_X86_VMX", "HW_CPU_X86_SVM", "HW_CPU_X86_AVX")
ALL_TABLES = (*tables.metadata.sorted_tables, *own_tables.metadata.sorted_tables)


@pytest.fixture
def database(database_url):
    """An empty database of its own, with schema and standard names."""
    with open_prepared(database_url) as opened:
        yield opened


@pytest.fixture
def worker(database):
    """What another process keeps, whose connection stays open."""
    other = Database(database.url)
    upgrade.upgrade(other)
    yield Current(other)
    other.dispose()


def make_providers(database, number):
    """Make providers with VCPUs, and return their UUIDs."""
    uuids = [str(uuid.uuid4()) for _ in range(number)]
    for uuid_ in uuids:
        database.write(provider.create, provider.New(uuid_, uuid_))
        database.write(inventory.replace, uuid_, {"VCPU": Inventory(1000)})
    return uuids


def back_up(database):
    """Read every row of every table."""
    return database.read(
        lambda conn: {table: conn.execute(sa.select(table)).mappings().all() for table in ALL_TABLES}
    )


def restore(database, rows):
    """Replace all rows by those of the backup, as programs do that restore into the tables that are there."""

    restored = [table for table in ALL_TABLES if table in rows]

    def replace(conn):
        # providers refer to each other
        conn.execute(
            sa.update(tables.resource_providers).values(root_provider_id=None, parent_provider_id=None)
        )
        for table in reversed(restored):
            conn.execute(sa.delete(table))
        for table in restored:
            if rows[table]:
                conn.execute(sa.insert(table), [dict(row) for row in rows[table]])

    database.write(replace)


def claim(database, uuid_):
    """Claim one VCPU for a new consumer, which is returned."""
    consumer = str(uuid.uuid4())
    database.write(allocation.replace, [Claim(consumer, OWNER, {uuid_: {"VCPU": 1}})])
    return consumer


def change_something(database, chosen, uuids, consumers):
    """Make one random change to one of the providers."""
    uuid_ = chosen.choice(uuids)
    kind = chosen.choice(["claim", "claim", "give back", "traits", "inventory", "aggregates", "name"])
    if kind == "claim":
        consumers.append(claim(database, uuid_))
    elif kind == "give back" and consumers:
        database.write(allocation.delete, consumers.pop())
    elif kind == "traits":
        database.write(trait.replace, uuid_, chosen.sample(TRAITS, 2))
    elif kind == "inventory":
        database.write(inventory.replace, uuid_, {"VCPU": Inventory(chosen.randint(900, 1100))})
    elif kind == "aggregates":
        database.write(aggregate.replace, uuid_, [str(uuid.uuid4())], generation=None)
    elif kind == "name":
        changes = {"name": f"{uuid_} {chosen.random()}"}
        database.write(provider.update, uuid_, changes, reparenting_allowed=True)


def test_idle_workers_notice_a_restored_backup(database, worker):
    """They saw changes that are lost, and then others were made, as many, so that sums are what they were."""
    first, second = make_providers(database, 2)
    rows = back_up(database)
    claim(database, first)
    database.write(trait.replace, first, TRAITS[:1])
    worker.get()
    restore(database, rows)
    claim(database, second)
    database.write(trait.replace, first, TRAITS[1:2])
    nodes = {node.uuid: node for node in worker.get().snapshot.nodes}
    assert [nodes[uuid_].stocks["VCPU"].used for uuid_ in (first, second)] == [0, 1]
    assert nodes[first].traits == TRAITS[1:2]


def test_a_restored_backup_without_our_own_tables_is_noticed(database, worker):
    """Another program has then made as many changes as were lost, and none of our servers any."""
    first, second = make_providers(database, 2)
    rows = {
        table: rows
        for table, rows in back_up(database).items()
        if table.name not in own_tables.metadata.tables
    }
    claim(database, first)
    worker.get()
    database.records_changes = False
    restore(database, rows)
    claim(database, second)
    worker.watch()
    nodes = {node.uuid: node for node in worker.get().snapshot.nodes}
    assert [nodes[uuid_].stocks["VCPU"].used for uuid_ in (first, second)] == [0, 1]


def test_refresh_after_any_restore_equals_a_new_snapshot(database, worker):
    """Whatever was lost and whatever came instead, a refreshed snapshot equals one that is loaded."""
    uuids = make_providers(database, 3)
    kept = [claim(database, uuid_) for uuid_ in uuids]
    seed = random.randrange(10**9)
    chosen = random.Random(seed)
    for round_ in range(12):
        rows, consumers = back_up(database), list(kept)
        length = chosen.randint(1, 4)
        for _ in range(length):
            change_something(database, chosen, uuids, consumers)
        worker.get()
        restore(database, rows)
        consumers = list(kept)
        for _ in range(length):
            change_something(database, chosen, uuids, consumers)
        kept = consumers
        loaded = database.read(load, own_tables=True)
        key = lambda node: node.id  # noqa: E731
        refreshed = sorted(worker.get().snapshot.nodes, key=key)
        assert refreshed == sorted(loaded.snapshot.nodes, key=key), (seed, round_)


def make_anew(database):
    """Drop all tables and make them, as ``db sync`` does on an empty database."""
    with database.engine.begin() as connection:
        connection.execute(
            sa.update(tables.resource_providers).values(root_provider_id=None, parent_provider_id=None)
        )
        for history in (upgrade.OWN, upgrade.PLACEMENT):
            history.metadata.drop_all(connection)
            history.versions.drop(connection)
    upgrade.upgrade(database)


def get(application, path):
    """Ask the application for a path."""
    request = webob.Request.blank(
        path, headers={"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}
    )
    return request.get_response(application)


@pytest.fixture
def application(database):
    """The application on connections of its own."""
    other = Database(database.url)
    conf = make_conf()
    conf.set_override("auth_strategy", "noauth2", group="api")
    yield deploy.make_application(conf, other)
    other.dispose()


def test_recreated_database_gets_the_standard_names(database, application, monkeypatch):
    """Standard classes and traits are there for who asks, and the service does not say ready without them."""
    monkeypatch.setattr(health_module, "KEPT", 0)
    (item,) = make_providers(database, 1)
    assert get(application, f"/resource_providers/{item}").status_code == 200
    make_anew(database)
    assert get(application, "/resource_classes/VCPU").status_code == 200
    assert get(application, "/traits/HW_CPU_X86_VMX").status_code == 204
    assert get(application, "/-/readyz").status_code == 200
    assert get(application, "/resource_providers").json["resource_providers"] == []
    assert get(application, "/allocation_candidates?resources=VCPU:1").json["allocation_requests"] == []


def test_a_database_without_its_tables_is_unavailable_until_they_are_made(database, application, monkeypatch):
    """Requests are answered 503 with what to do, also before anybody has noticed."""
    assert get(application, "/resource_classes/VCPU").status_code == 200
    with database.engine.begin() as connection:
        for history in (upgrade.OWN, upgrade.PLACEMENT):
            history.metadata.drop_all(connection)
            history.versions.drop(connection)
    for path in ("/resource_classes/VCPU", "/resource_providers", "/allocation_candidates?resources=VCPU:1"):
        answer = get(application, path)
        assert (answer.status_code, "db sync" in answer.text) == (503, True), (path, answer.text)
    monkeypatch.setattr(health_module, "KEPT", 0)
    assert "db sync" in get(application, "/resource_providers").text
    upgrade.upgrade(database)
    assert get(application, "/resource_classes/VCPU").status_code == 200


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_replaced_sqlite_file_is_reopened(database, worker, tmp_path):
    """By those who have the one of before open: they neither answer from it nor write to it."""
    first, second = make_providers(database, 2)
    database.dispose()
    path = tmp_path / database.url.database.rpartition("/")[2]
    copy = tmp_path / "copy.db"
    with contextlib.closing(sqlite3.connect(path)) as source:
        source.execute("VACUUM INTO ?", (str(copy),))
    claim(database, first)
    assert worker.get().snapshot
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    shutil.move(copy, path)
    claim(database, second)
    nodes = {node.uuid: node for node in worker.get().snapshot.nodes}
    assert [nodes[uuid_].stocks["VCPU"].used for uuid_ in (first, second)] == [0, 1]
