# SPDX-License-Identifier: Apache-2.0
"""The slots in which transactions record what they changed, and the workers that follow them."""

import itertools
import logging
import os
import random
import threading
import time
import uuid
from datetime import datetime

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc

from osc_placement.model import Inventory
from osc_placement.server import errors
from osc_placement.server.db import (
    aggregate,
    allocation,
    inventory,
    names,
    own_tables,
    provider,
    provider_changes,
    reshaper,
    resource_class,
    tables,
    trait,
    upgrade,
    writers,
)
from osc_placement.server.db.allocation import Claim
from osc_placement.server.db.consumer import Owner
from osc_placement.server.db.engine import Database
from osc_placement.server.db.writers import Slot
from osc_placement.server.process.health import Health
from osc_placement.server.snapshot import current as current_module
from osc_placement.server.snapshot import load as load_module
from osc_placement.server.snapshot.current import Current
from tests import databases
from tests.functional.db.conftest import open_prepared
from tests.waiting import wait_until

OWNER = Owner("project", "user", None)
TRAITS = ("HW_CPU_X86_VMX", "HW_CPU_X86_SVM", "HW_CPU_X86_AVX")
FOUND = "another program writes to the database"
DAY = 24 * 60 * 60 * 1_000_000


@pytest.fixture
def database(database_url):
    """A database of its own, with the standard names."""
    with open_prepared(database_url) as opened:
        yield opened


@pytest.fixture
def open_database(database):
    """A function that opens the database as another process does."""
    opened = []

    def open_():
        other = Database(database.url)
        upgrade.upgrade(other)
        opened.append(other)
        return other

    yield open_
    for other in opened:
        other.dispose()


@pytest.fixture
def worker(open_database):
    """The snapshot of another process."""
    return Current(open_database())


@pytest.fixture
def unwatched(monkeypatch):
    """No comparisons in the background."""
    monkeypatch.setattr(current_module, "_watch", lambda reference: threading.Event().wait())


@pytest.fixture
def ways(monkeypatch):
    """What was read to bring snapshots up to date since: ``some`` providers, or ``all``."""
    taken = []
    read_nodes, read_used = load_module.read_nodes, load_module.read_used

    def read_contents(conn, names, ids):
        taken.append("all" if ids is None else "some")
        return read_nodes(conn, names, ids)

    def read_usage(conn, names, known):
        if known:
            taken.append("usage")
        return read_used(conn, names, known)

    monkeypatch.setattr(load_module, "read_nodes", read_contents)
    monkeypatch.setattr(load_module, "read_used", read_usage)
    return taken


def compare_all(current):
    """Compare all providers once, as the thread in the background does in the course of a pass."""
    current.watch()
    while current._cursor:
        current.watch()


def make_provider(database, vcpus=1000):
    """Make a provider with VCPUs."""
    uuid_ = str(uuid.uuid4())
    made = database.write(provider.create, provider.New(uuid_, uuid_))
    database.write(inventory.replace, uuid_, {"VCPU": Inventory(vcpus)})
    return made


def claim(database, *items, consumer=None):
    """Claim one VCPU of each provider."""
    consumer = consumer or str(uuid.uuid4())
    resources = {item.uuid: {"VCPU": 1} for item in items}
    database.write(allocation.replace, [Claim(consumer, OWNER, resources)])
    return consumer


def used(current, item):
    """The VCPUs of a provider that are used in a snapshot."""
    return current.get().snapshot.node(item.id).stocks["VCPU"].used


def claim_elsewhere(conn, item):
    """Claim one VCPU as openstack-placement does, which records nothing."""
    row = {"consumer_id": str(uuid.uuid4()), "resource_provider_id": item.id, "resource_class_id": 0}
    conn.execute(sa.insert(tables.allocations).values(used=1, **row))
    consumer = {"uuid": row["consumer_id"], "project_id": 1, "user_id": 1, "generation": 1}
    conn.execute(sa.insert(tables.consumers).values(consumer))
    of = tables.resource_providers.c
    moved = sa.update(tables.resource_providers).where(of.id == item.id)
    conn.execute(moved.values(generation=of.generation + 1))


def elsewhere(database, operation, *arguments):
    """Run an operation in a transaction that records nothing."""
    recorded, database.records_changes = database.records_changes, False
    try:
        return database.write(operation, *arguments)
    finally:
        database.records_changes = recorded


def describe(loaded):
    """The data of a snapshot that answers are made of."""
    nodes = sorted(loaded.snapshot.nodes, key=lambda node: node.id)
    return nodes, dict(loaded.names.classes), loaded.names.trait_times


def read_slots(database):
    """The rows of the slots."""
    return database.read(lambda conn: conn.execute(sa.select(own_tables.writers)).mappings().all())


class History:
    """Random changes through several processes."""

    def __init__(self, databases, seed):
        self.databases, self.random = databases, random.Random(seed)
        self.uuids, self.consumers, self.classes = [], [], []

    def change(self):
        """Make one random change; one that is refused changes nothing."""
        database = self.random.choice(self.databases)
        kinds = [name for name in dir(self) if name.startswith("do_")]
        kind = "do_create" if len(self.uuids) < 3 else self.random.choice(kinds)
        try:
            getattr(self, kind)(database)
        except errors.PlacementError:
            assert kind not in ("do_create", "do_create_many", "do_rename", "do_traits", "do_empty")

    def any(self):
        """One of the providers."""
        return self.random.choice(self.uuids)

    def do_create(self, database):
        parent = self.any() if self.uuids and self.random.random() < 0.5 else None
        # the UUID of a deleted provider may come again
        uuid_ = str(uuid.UUID(int=self.random.randrange(10)))
        if uuid_ not in self.uuids:
            database.write(provider.create, provider.New(uuid_, uuid_, parent))
            self.uuids.append(uuid_)

    def do_delete(self, database):
        uuid_ = self.any()
        database.write(provider.delete, uuid_)
        self.uuids.remove(uuid_)

    def do_rename(self, database):
        uuid_ = self.any()
        changes = {"name": f"{uuid_} {self.random.random()}"}
        database.write(provider.update, uuid_, changes, reparenting_allowed=True)

    def do_move(self, database):
        uuid_ = self.any()
        changes = {"name": uuid_, "parent_provider_uuid": self.random.choice([None, self.any()])}
        database.write(provider.update, uuid_, changes, reparenting_allowed=True)

    def do_inventory(self, database):
        classes = ["VCPU", *self.classes]
        chosen = self.random.sample(classes, self.random.randint(1, len(classes)))
        wanted = {name: Inventory(self.random.randint(10, 20)) for name in chosen}
        database.write(inventory.replace, self.any(), wanted)

    def do_traits(self, database):
        database.write(trait.replace, self.any(), self.random.sample(TRAITS, 2))

    def do_custom_trait(self, database):
        name = f"CUSTOM_{self.random.randrange(3)}"
        database.write(trait.ensure, name)
        database.write(trait.replace, self.any(), [name])

    def do_aggregates(self, database):
        wanted = [str(uuid.UUID(int=self.random.randrange(5)))]
        database.write(aggregate.replace, self.any(), wanted, generation=None)

    def do_class(self, database):
        name = f"CUSTOM_{self.random.randrange(3)}"
        if name in self.classes and self.random.random() < 0.5:
            database.write(resource_class.delete, name)
            self.classes.remove(name)
        else:
            database.write(resource_class.ensure, name)
            self.classes = sorted({*self.classes, name})

    def do_claim(self, database):
        consumer = str(uuid.UUID(int=self.random.randrange(20)))
        chosen = self.random.sample(self.uuids, self.random.randint(1, 2))
        resources = {uuid_: {"VCPU": 1} for uuid_ in chosen}
        database.write(allocation.replace, [Claim(consumer, OWNER, resources)])
        self.consumers.append(consumer)

    def do_empty(self, database):
        if self.consumers:
            database.write(allocation.replace, [Claim(self.consumers[-1], OWNER, {})])

    def do_group(self, database):
        resources = {self.any(): {"VCPU": self.random.choice([1, 100])} for _ in range(2)}
        claims = [Claim(str(uuid.UUID(int=number)), OWNER, resources) for number in (3, 4, 5)]
        claims[0] = Claim(claims[0].consumer_uuid, OWNER, {})
        database.write(allocation.replace_each, [claims[:2], claims[2:]])

    def do_reshape(self, database):
        old, new = self.random.sample(self.uuids, 2)
        wanted = {
            uuid_: reshaper.NewInventories(self.generations(database)[uuid_], {"VCPU": Inventory(total)})
            for uuid_, total in ((old, 15), (new, 25))
        }
        claims = [
            Claim(str(uuid.UUID(int=number)), OWNER, {new: {"VCPU": number}} if number < 7 else {})
            for number in self.random.sample(range(5, 9), self.random.randint(1, 2))
        ]
        database.write(reshaper.reshape, wanted, claims)

    def do_create_many(self, database):
        every = (str(uuid.UUID(int=number)) for number in range(10, 14))
        free = [each for each in every if each not in self.uuids]
        parent = self.random.choice([None, self.any()])
        new = [provider.New(each, each, parent) for each in free[:2]]
        new += [provider.New(each, each, free[0]) for each in free[2:]]
        given = {"VCPU": Inventory(9)}, TRAITS[:1], [str(uuid.UUID(int=1))]
        changes = [
            provider_changes.Wanted(each.uuid, None, *(given if self.random.random() < 0.5 else ()), new=each)
            for each in new
        ]
        database.write(provider_changes.apply, changes, may_reserve_all=True)
        self.uuids += free

    def do_rename_class(self, database):
        old, new = (f"CUSTOM_{self.random.randrange(3)}" for _ in range(2))
        database.write(resource_class.rename, old, new)
        self.classes = sorted({*self.classes, new} - ({old} - {new}))

    def do_delete_trait(self, database):
        database.write(trait.delete, f"CUSTOM_{self.random.randrange(3)}")

    def do_delete_inventory(self, database):
        database.write(inventory.delete, self.any(), self.random.choice(["VCPU", *self.classes]))

    def generations(self, database):
        """The generations of all providers, by UUID."""
        columns = tables.resource_providers.c
        query = sa.select(columns.uuid, columns.generation)
        return dict(database.read(lambda conn: conn.execute(query).all()))

    def do_give_back(self, database):
        if self.consumers:
            consumer = self.consumers.pop(self.random.randrange(len(self.consumers)))
            if database.read(allocation.load_of_consumer, consumer):
                database.write(allocation.delete, consumer)

    def do_bulk(self, database):
        generations = self.generations(database)
        changes = [
            provider_changes.Wanted(uuid_, generations[uuid_], {"VCPU": Inventory(30)}, TRAITS[:1])
            for uuid_ in self.random.sample(self.uuids, 2)
        ]
        database.write(provider_changes.apply, changes, may_reserve_all=True)


def test_refresh_after_any_history_equals_a_new_snapshot(database, open_database, ways, caplog):
    """One worker checks after each change, another now and then; neither takes ours for another program's."""
    seed = random.randrange(10**9)
    history = History([database, open_database()], seed)
    often, seldom = Current(open_database()), Current(open_database())
    for step in range(150):
        history.change()
        true = describe(database.read(load_module.load, own_tables=True))
        assert describe(often.get()) == true, (seed, step)
        if history.random.random() < 0.2:
            assert describe(seldom.get()) == true, (seed, step)
    # beside those of true, few: a class that has a new name has it everywhere
    assert ways.count("all") < 150 + 20, seed
    compare_all(often)
    assert FOUND not in caplog.text, seed


def test_a_commit_without_an_answer_gives_its_slot_up(database, worker, monkeypatch):
    """Nobody knows its count, so the next transaction takes a new slot; a lost certification keeps it."""
    item = make_provider(database)
    worker.get()
    assert len(read_slots(database)) == 1
    dialect = database._writer.dialect
    outcomes = ["lost", "done", "unknown", "done"]
    commit, roll_back = dialect.do_commit, dialect.do_rollback

    def do_commit(connection):
        outcome = outcomes.pop(0)
        if outcome == "lost":
            roll_back(connection)
            raise db_exc.DBDeadlock
        commit(connection)
        if outcome == "unknown":
            raise RuntimeError("no answer")

    monkeypatch.setattr(dialect, "do_commit", do_commit)
    claim(database, item)
    assert len(read_slots(database)) == 1
    with pytest.raises((RuntimeError, db_exc.DBError)):
        claim(database, item)
    claim(database, item)
    assert len(read_slots(database)) == 2
    assert used(worker, item) == 3


@pytest.mark.usefixtures("unwatched")
def test_more_transactions_than_a_slot_describes_are_found(database, worker, ways):
    """Then everything is read."""
    item, other = make_provider(database), make_provider(database)
    consumers = [claim(database, other) for _ in range(3)]
    worker.get()
    for _ in range(writers.LINES):
        claim(database, item)
    del ways[:]
    assert used(worker, item) == writers.LINES
    assert ways == ["usage"]
    for _ in range(writers.LINES):
        claim(database, item)
    for consumer in consumers:
        database.write(allocation.delete, consumer)
    del ways[:]
    assert (used(worker, item), used(worker, other)) == (2 * writers.LINES, 0)
    assert ways == ["all"]


@pytest.mark.usefixtures("unwatched")
def test_a_transaction_about_very_many_providers_is_found(database, worker, ways, caplog):
    """It is recorded without the providers."""
    uuids = [str(uuid.uuid4()) for _ in range(writers.MANY + 1)]

    def store(conn):
        rows = [{"id": 1000 + n, "uuid": uuid_, "name": uuid_} for n, uuid_ in enumerate(uuids)]
        conn.execute(
            sa.insert(tables.resource_providers),
            [{"root_provider_id": row["id"], "generation": 0, **row} for row in rows],
        )

    elsewhere(database, store)
    worker.get()
    changes = [provider_changes.Wanted(uuid_, 0, {"VCPU": Inventory(7)}) for uuid_ in uuids]
    database.write(provider_changes.apply, changes, may_reserve_all=True)
    del ways[:]
    assert {node.stocks["VCPU"].inventory.total for node in worker.get().snapshot.nodes} == {7}
    assert ways == ["all"]
    assert FOUND not in caplog.text


@pytest.mark.parametrize("jump", [-3 * DAY, 3 * DAY])
def test_a_clock_that_jumps_hides_nothing(database, open_database, worker, monkeypatch, jump):
    """The time decides only which slots are taken over, and whoever finds his taken takes another."""
    item = make_provider(database)
    real = time.time_ns
    for round_ in range(3):
        claim(database, item)
        assert used(worker, item) == 4 * round_ + 1
        monkeypatch.setattr(writers, "now", lambda: real() // 1000 + jump)
        # of a process that takes a slot, so that it deletes others
        claim(open_database(), item)
        assert used(worker, item) == 4 * round_ + 2
        claim(database, item)
        monkeypatch.setattr(writers, "now", lambda: real() // 1000)
        claim(open_database(), item)
        assert used(worker, item) == 4 * round_ + 4


class TestNumberOfSlots:
    """It is that of the connections that write, and not of those that did."""

    @pytest.fixture
    def later(self, monkeypatch):
        """A function that moves the clock forward by so many seconds."""
        real = writers.now

        def move(seconds):
            monkeypatch.setattr(writers, "now", lambda: real() + seconds * 1_000_000)

        return move

    def test_an_unused_slot_is_taken_over(self, database, open_database, worker, ways, later):
        """By another process, with its lines; the process that owned it takes another."""
        item = make_provider(database)
        (before,) = read_slots(database)
        assert used(worker, item) == 0
        claim(database, item)
        later(writers.IDLE + 1)
        ways.clear()
        claim(open_database(), item)
        (after,) = read_slots(database)
        assert (after["id"], after["count"]) == (before["id"], before["count"] + 2)
        assert used(worker, item) == 2
        claim(database, item)
        assert len(read_slots(database)) == 2
        assert used(worker, item) == 3
        assert "all" not in ways

    def test_a_process_that_ends_gives_its_slots_back(self, database, open_database):
        """So any number of restarts leaves one for each connection."""
        item = make_provider(database)
        for _ in range(5):
            other = open_database()
            claim(other, item)
            other.dispose()
        assert len(read_slots(database)) == 2

    def test_two_processes_that_take_the_same_slot_over(self, database, open_database, worker, monkeypatch):
        """The second finds another count, and makes a slot of its own."""
        item = make_provider(database)
        other = open_database()
        assert used(worker, item) == 0
        monkeypatch.setattr(writers, "IDLE", -1)
        find = Slot._find_unused

        def find_while_another_does(slot, conn, moment):
            found = find(slot, conn, moment)
            monkeypatch.setattr(Slot, "_find_unused", find)
            row = own_tables.writers.c
            values = {"count": row.count + 1, "token": 5, "recent": f"{found.count + 1} - {item.id}"}
            conn.execute(sa.update(own_tables.writers).where(row.id == found.id).values(values))
            return found

        monkeypatch.setattr(Slot, "_find_unused", find_while_another_does)
        claim(other, item)
        assert len(read_slots(database)) == 2
        assert used(worker, item) == 1

    def test_forgotten_slots_are_deleted(self, database, open_database, worker, later):
        """All but a few, when a slot is needed, so that thousands of crashes do not slow checks down."""
        item = make_provider(database)
        claim(database, item)
        row = {"count": 1, "token": 1, "changed_at": writers.now(), "recent": "1 - 1"}
        rows = [{"id": 2**40 + number, **row} for number in range(writers.SPARE + 100)]
        database.write(lambda conn: conn.execute(sa.insert(own_tables.writers), rows))
        later(writers.FORGOTTEN + 10)
        claim(database, item)
        claim(open_database(), item)
        assert len(read_slots(database)) in range(writers.SPARE, writers.SPARE + 3)
        assert used(worker, item) == 3


class TestConnections:
    """A slot stays with its connection."""

    @pytest.fixture
    def nodes(self, database, backend, tmp_path):
        """A database whose connections lead to two nodes in turns, and the nodes, which replicate nothing."""

        with databases.make_database(backend, tmp_path) as url, open_prepared(url) as other:
            both = [database, other]
            shared = Database(database.url)
            upgrade.upgrade(shared)
            opened = itertools.count()

            @sa.event.listens_for(shared._writer, "do_connect")
            def connect(dialect, record, arguments, parameters):
                node = both[next(opened) % 2]
                arguments[:], given = dialect.create_connect_args(node.url)
                parameters.update(given)

            # SQLite's writers queue before they connect
            shared._turns.clear()
            yield shared, both
            shared.dispose()

    @staticmethod
    def write_on_each(shared, times):
        """Write on two connections at the same time, and each time on the one that the pool gives."""

        def write(conn, *, depth):
            writers.record(conn, names=True)
            if depth:
                shared.write(write, depth=depth - 1)

        for _ in range(times):
            shared.write(write, depth=1)
            shared.write(write, depth=0)

    def test_a_node_that_lags_behind_makes_no_slots_grow(self, nodes):
        """There are as many as connections, however often the pool hands out another."""
        shared, both = nodes
        for node in both:
            node.write(lambda conn: conn.execute(sa.delete(own_tables.writers)))
        self.write_on_each(shared, 10)
        slots = [read_slots(node) for node in both]
        assert [len(rows) for rows in slots] == [1, 1]
        assert sum(rows[0]["count"] for rows in slots) == 30

    def test_a_slot_rests_after_its_connection_was_closed(self, database, monkeypatch):
        """A new connection may lead to a node that does not have its last change yet."""
        item = make_provider(database)
        assert len(read_slots(database)) == 1
        database._close_idle()
        claim(database, item)
        assert len(read_slots(database)) == 2
        monkeypatch.setattr(writers, "REST", 0)
        for _ in range(5):
            database._close_idle()
            claim(database, item)
        assert len(read_slots(database)) == 2

    def test_few_slots_rest(self, database, worker, monkeypatch):
        """Connections that are closed and opened again and again take the slots of old ones."""
        item = make_provider(database)
        worker.get()
        monkeypatch.setattr(writers, "MOST_RESTING", 3)
        for number in range(1, 11):
            database._close_idle()
            claim(database, item)
            assert used(worker, item) == number
        assert len(read_slots(database)) == 4

    def test_a_child_process_uses_no_slot_of_its_parent(self, database):
        """Neither one of a connection nor one that rests."""
        make_provider(database)
        database._close_idle()
        slots = database._slots
        assert slots.can_be_given_back
        slots._pid = -1
        assert not slots.can_be_given_back
        taken = slots.take({writers._SLOT: Slot(-1, 1, 1)})
        assert (taken.id, taken.pid) == (None, os.getpid())


def test_another_program_is_found_in_the_background(database, open_database, worker, monkeypatch, caplog):
    """By each worker, within a pass, and logged once by each; other answers do not wait for it."""
    monkeypatch.setattr(current_module, "PASS", 0.2)
    item = make_provider(database)
    claim(database, item)
    other = Current(open_database())
    assert (used(worker, item), used(other, item)) == (1, 1)
    for number in range(2, 4):
        elsewhere(database, claim_elsewhere, item)
        wait_until(lambda number=number: (used(worker, item), used(other, item)) == (number, number))
    assert caplog.text.count(FOUND) == 2


def test_the_first_check_after_a_pause_reads_everything(database, worker, monkeypatch, caplog):
    """Nothing is compared in the background while nobody asks."""
    monkeypatch.setattr(current_module, "PASS", 0.01)
    item = make_provider(database)
    claim(database, item)
    worker.get()
    monkeypatch.setattr(current_module, "IDLE", -1)
    worker._watcher.join(30)
    elsewhere(database, claim_elsewhere, item)
    assert worker.get_if_cheap() is None
    assert used(worker, item) == 2


@pytest.mark.usefixtures("unwatched")
def test_names_by_others_in_use_by_this_server_are_found(database, worker):
    """A class and a trait that another program created, and this server gives to a provider."""
    item = make_provider(database)
    worker.get()
    elsewhere(database, resource_class.create, "CUSTOM_THEIRS")
    database.write(inventory.add, item.uuid, "CUSTOM_THEIRS", Inventory(3))
    assert worker.get().snapshot.node(item.id).stocks["CUSTOM_THEIRS"].inventory.total == 3
    fresh = Current(worker._database)
    fresh.get()
    elsewhere(database, trait.ensure, "CUSTOM_THEIRS")
    database.write(trait.replace, item.uuid, ["CUSTOM_THEIRS"])
    fresh.get().check_names(["CUSTOM_THEIRS"], ["CUSTOM_THEIRS"])


@pytest.mark.usefixtures("unwatched")
@pytest.mark.parametrize("recorded", [True, False])
def test_a_class_deleted_while_inventory_of_it_was_created_is_hidden(database, worker, recorded):
    """Two nodes of a cluster can do so; answers from the database do not show it either."""
    item = make_provider(database)
    database.write(resource_class.create, "CUSTOM_GONE")
    database.write(inventory.add, item.uuid, "CUSTOM_GONE", Inventory(3))
    assert list(worker.get().snapshot.node(item.id).stocks) == ["VCPU", "CUSTOM_GONE"]

    def delete(conn):
        rows, classes = tables.inventories, tables.resource_classes
        later = sa.update(rows).where(rows.c.resource_class_id != names.STANDARD_CLASSES["VCPU"])
        conn.execute(later.values(updated_at=datetime(2040, 1, 1)))
        conn.execute(sa.delete(classes).where(classes.c.name == "CUSTOM_GONE"))
        writers.record(conn, names=True)

    if recorded:
        database.write(delete)
    else:
        elsewhere(database, delete)
        compare_all(worker)
    found = worker.get().snapshot.node(item.id)
    _, (stored,) = database.read(inventory.load_of, item.uuid)
    assert list(found.stocks) == [stored.resource_class]
    assert found.stocked == stored.modified
    assert found == Current(database).get().snapshot.node(item.id)


@pytest.mark.parametrize(
    "edit",
    [
        {"recent": "nonsense"},
        {"recent": ""},
        {"count": 1000},
        {"count": 0},
        {"count": -5, "token": -7},
        {"token": 5, "recent": "x y z"},
        {"count": 5, "token": 5, "recent": "5 - 99999999999999999999"},
        {"count": 5, "token": 5, "recent": "5 - -1"},
    ],
    ids=lambda edit: " ".join(edit),
)
def test_slots_edited_by_hand_hide_nothing(database, open_database, worker, edit):
    """Before and after other changes."""
    item = make_provider(database)
    claim(database, item)
    assert used(worker, item) == 1
    database.write(lambda conn: conn.execute(sa.update(own_tables.writers).values(edit)))
    fresh = Current(open_database())
    for number in range(2, 5):
        claim(database, item)
        assert (used(worker, item), used(fresh, item)) == (number, number)


@pytest.mark.parametrize("table", sorted(own_tables.metadata.tables))
def test_a_table_of_ours_that_is_dropped_is_done_without_and_made_again(
    database, open_database, caplog, table
):
    """No request fails, no answer is stale, and after a second it is there again."""
    item = make_provider(database)
    worker = Current(database)
    assert used(worker, item) == 0
    other = open_database()
    other_worker = Current(other)
    both = Health(database, worker), Health(other, other_worker)
    for health in both:
        health.get_ready()
    assert used(other_worker, item) == 0
    with database.engine.begin() as connection:
        own_tables.metadata.tables[table].drop(connection)
    for number in range(1, 3):
        claim(database, item)
        assert (used(worker, item), used(other_worker, item)) == (number, number)
    child = str(uuid.uuid4())
    database.write(provider.create, provider.New(child, child, item.uuid))
    assert child in worker.get().snapshot.slot_by_uuid
    for health in both:
        health._checked_at = 0
        health.get_ready()
    assert database.records_changes
    assert other.records_changes
    claim(database, item)
    assert (used(worker, item), used(other_worker, item)) == (3, 3)
    claim(other, item)
    assert (used(worker, item), used(other_worker, item)) == (4, 4)


def test_write_succeeds_if_another_thread_notices_the_missing_table_first(database):
    """The transaction, which began before that, is repeated without recording its changes."""
    make_provider(database)
    with database.engine.begin() as connection:
        own_tables.writers.drop(connection)

    def create(conn):
        database.stop_recording()
        return provider.create(conn, provider.New(child, child))

    child = str(uuid.uuid4())
    assert database.write(create).uuid == child
    assert not database.records_changes


def test_read_succeeds_if_another_thread_notices_the_missing_table_first(database, unwatched, monkeypatch):
    """The check for changes, which began before that, is repeated without the tables of ours."""
    item = make_provider(database)
    worker = Current(database)
    assert used(worker, item) == 0
    with database.engine.begin() as connection:
        own_tables.writers.drop(connection)

    def refresh(*args, **kwargs):
        database.stop_recording()
        return load_module.refresh(*args, **kwargs)

    monkeypatch.setattr(current_module, "refresh", refresh)
    assert used(worker, item) == 0
    assert not database.records_changes


def test_tables_of_a_later_release_are_not_used(database, caplog):
    """Every check compares, and the log and the probe for readiness say so once."""
    item = make_provider(database)
    with database.engine.begin() as connection:
        connection.execute(sa.update(upgrade.OWN.versions).values(version_num="ffffffffffff"))
    other = Database(database.url)
    worker = Current(other)
    health = Health(other, worker)
    health.get_ready()
    assert not other.records_changes
    assert used(worker, item) == 0
    elsewhere(database, claim_elsewhere, item)
    assert used(worker, item) == 1
    claim(other, item)
    assert used(worker, item) == 2
    health._made_at = -1000
    health._checked_at = 0
    health.get_ready()
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert "not at" in caplog.text
    other.dispose()


def test_comparison_in_the_background_reads_what_others_recorded_once(database, worker, ways):
    """A worker without requests follows the changes of other processes, and keeps what it read."""
    items = [make_provider(database) for _ in range(10)]
    worker.get()
    for item in items:
        claim(database, item)
    ways.clear()
    assert worker.watch() is not None
    assert ways == ["usage", "some"]
    assert worker.watch() is not None
    assert ways == ["usage", "some", "some"]
    assert all(used(worker, item) == 1 for item in items)


@pytest.mark.parametrize("in_bulk", [False, True])
def test_change_of_aggregates_writes_a_common_row_before_it_reads(database, in_bulk):
    """Another node then aborts it, rather than that the aggregates of both changes are left."""
    made = make_provider(database)
    statements = []

    def note(connection, cursor, statement, *others):
        statements.append(statement)

    sa.event.listen(sa.engine.Engine, "before_cursor_execute", note)
    try:
        aggregates = [str(uuid.uuid4())]
        if in_bulk:
            wanted = provider_changes.Wanted(made.uuid, 1, None, None, aggregates)
            database.write(provider_changes.apply, [wanted], may_reserve_all=True)
        else:
            database.write(aggregate.replace, made.uuid, aggregates, generation=1)
    finally:
        sa.event.remove(sa.engine.Engine, "before_cursor_execute", note)
    writes = [f"INSERT INTO {own_tables.collisions.name}" in each for each in statements]
    reads = ["FROM resource_provider_aggregates" in each for each in statements]
    assert writes.index(True) < reads.index(True)
