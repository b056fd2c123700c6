# SPDX-License-Identifier: Apache-2.0
"""The snapshot that a worker keeps: what it shows while others write, and what it costs to look."""

import concurrent.futures
import threading
import uuid

import pytest
import sqlalchemy as sa

from osc_placement.model import Inventory
from osc_placement.server.db import (
    aggregate,
    allocation,
    inventory,
    names,
    provider,
    resource_class,
    standard_names,
    tables,
    trait,
    upgrade,
)
from osc_placement.server.db.allocation import Claim
from osc_placement.server.db.consumer import Owner
from osc_placement.server.db.engine import Database
from osc_placement.server.db.own_tables import writers
from osc_placement.server.snapshot.current import Current
from osc_placement.server.snapshot.load import load
from tests.functional.db.test_statement_counts import counting

OWNER = Owner("project", "user", None)


@pytest.fixture
def current(database):
    """What another worker keeps."""
    other = Database(database.url)
    upgrade.upgrade(other)
    yield Current(other)
    other.dispose()


@pytest.fixture
def comparing(database):
    """A worker that expects other programs to write."""
    other = Database(database.url)
    upgrade.upgrade(other)
    yield Current(other, compare=True)
    other.dispose()


def claim(database, *providers):
    """Take one VCPU of each provider for a new consumer, which is returned."""
    consumer = str(uuid.uuid4())
    resources = {item.uuid: {"VCPU": 1} for item in providers}
    database.write(allocation.replace, [Claim(consumer, OWNER, resources)])
    return consumer


def used(current, item):
    """How many VCPUs of a provider are used, as the worker sees it."""
    return current.get().snapshot.node(item.id).stocks["VCPU"].used


def compare_all(current):
    """Compare all providers once, as the thread in the background does in the course of a pass."""
    current.watch()
    while current._cursor:
        current.watch()


def describe(loaded):
    """The data of a snapshot that answers are made of."""
    names = loaded.names
    return list(loaded.snapshot.nodes), names.classes, names.traits, names.aggregates, names.trait_times


#: changes of one table by which no generation moves, as operators and other programs make them
EDITS = (
    "DELETE FROM allocations WHERE consumer_id = '{consumer}'",
    "UPDATE allocations SET used = used + 1 WHERE resource_provider_id = {item}",
    "UPDATE allocations SET resource_provider_id = {other} WHERE resource_provider_id = {item}",
    "UPDATE allocations SET resource_class_id = {class} WHERE resource_provider_id = {item}",
    (
        "INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used)"
        " VALUES ({item}, '{uuid}', 0, 3)"
    ),
    *(
        f"UPDATE inventories SET {change} WHERE resource_provider_id = {{item}} AND resource_class_id = 0"  # noqa: S608
        for change in (
            "total = 11",
            "reserved = 2",
            "min_unit = 2",
            "max_unit = 5",
            "step_size = 2",
            "allocation_ratio = 1.5",
            "updated_at = '2036-01-02 03:04:05.000000'",
            "resource_class_id = 1",
            "resource_provider_id = {bare}",
        )
    ),
    "DELETE FROM inventories WHERE resource_provider_id = {item}",
    (
        "INSERT INTO inventories (resource_provider_id, resource_class_id, total, reserved, min_unit,"
        " max_unit, step_size, allocation_ratio) VALUES ({other}, 1, 1, 0, 1, 1, 1, 1.1)"
    ),
    "DELETE FROM resource_provider_traits WHERE resource_provider_id = {item}",
    "UPDATE resource_provider_traits SET trait_id = {trait} WHERE resource_provider_id = {item}",
    "INSERT INTO resource_provider_traits (resource_provider_id, trait_id) VALUES ({other}, {trait})",
    "DELETE FROM resource_provider_aggregates WHERE resource_provider_id = {item}",
    "UPDATE resource_provider_aggregates SET resource_provider_id = {other} WHERE aggregate_id = {aggregate}",
    (
        "INSERT INTO resource_provider_aggregates (resource_provider_id, aggregate_id)"
        " VALUES ({other}, {aggregate})"
    ),
    *(
        f"UPDATE resource_providers SET {change} WHERE id = {{item}}"  # noqa: S608
        for change in (
            "uuid = '{uuid}'",
            "name = '{uuid}'",
            "generation = NULL",
            "generation = generation + 5",
            "parent_provider_id = {other}, root_provider_id = {other}",
            "updated_at = '2036-01-02 03:04:05.000000'",
        )
    ),
    "INSERT INTO resource_providers (uuid, name, generation) VALUES ('{uuid}', '{uuid}', 0)",
    "DELETE FROM resource_providers WHERE id = {orphan}",
    "UPDATE placement_aggregates SET uuid = '{uuid}' WHERE id = {aggregate}",
    "UPDATE traits SET name = 'CUSTOM_{hex}' WHERE id = {trait}",
    "UPDATE traits SET updated_at = '2036-01-02 03:04:05.000000' WHERE id = {trait}",
    "INSERT INTO traits (name) VALUES ('CUSTOM_{hex}')",
    "DELETE FROM traits WHERE id = {unused}",
    "UPDATE resource_classes SET name = 'CUSTOM_{hex}' WHERE id = {class}",
    "INSERT INTO resource_classes (id, name) VALUES (1000000 + {class}, 'CUSTOM_{hex}')",
    "DELETE FROM resource_classes WHERE id = {class}",
)


@pytest.fixture
def edited(database, make_provider):
    """What `EDITS` change, by the names that they have there."""
    made = {name: make_provider(VCPU=10) for name in ("item", "other")} | {"bare": make_provider()}
    number, member_of = uuid.uuid4(), str(uuid.uuid4())
    new = f"CUSTOM_{number.hex.upper()}"
    for name in (f"{new}_1", f"{new}_2"):
        database.write(trait.ensure, name)
    database.write(resource_class.create, new)
    database.write(inventory.add, made["item"].uuid, new, Inventory(7))
    database.write(trait.replace, made["item"].uuid, ["HW_CPU_X86_VMX"])
    database.write(aggregate.replace, made["item"].uuid, [member_of], generation=None)

    orphan = sa.insert(tables.resource_providers).values(uuid=str(number), name=str(number), generation=0)

    def find(table, column, value):
        query = sa.select(table.c.id).where(table.c[column] == value)
        return database.read(lambda conn: conn.scalar(query))

    return {
        **{name: item.id for name, item in made.items()},
        "orphan": database.write(lambda conn: conn.execute(orphan).inserted_primary_key[0]),
        "consumer": claim(database, made["item"]),
        "uuid": str(uuid.uuid4()),
        "hex": uuid.uuid4().hex.upper(),
        "trait": find(tables.traits, "name", f"{new}_1"),
        "unused": find(tables.traits, "name", f"{new}_2"),
        "class": find(tables.resource_classes, "name", new),
        "aggregate": find(tables.placement_aggregates, "uuid", member_of),
    }


@pytest.mark.parametrize("statement", EDITS)
def test_what_other_programs_write_is_seen(database, current, comparing, edited, statement):
    """At once by a worker that expects it, and by others when they have compared everything."""
    before = describe(current.get())
    assert describe(comparing.get()) == before
    with database.engine.begin() as connection:
        connection.exec_driver_sql(statement.format_map(edited))
    after = describe(database.read(load, own_tables=True))
    assert after != before
    assert describe(comparing.get()) == after
    compare_all(current)
    assert describe(current.get()) == after


@pytest.mark.parametrize("worker", ["comparing", "current"])
@pytest.mark.parametrize("is_renamed", [True, False])
def test_trait_that_a_script_takes_away_is_not_shown(database, make_provider, request, worker, is_renamed):
    """The traits of a provider exist, also if a worker only follows the creation of another trait."""
    current = request.getfixturevalue(worker)
    item, name, new = make_provider(), *(f"CUSTOM_{uuid.uuid4().hex.upper()}" for _ in range(2))
    id_ = database.write(trait.ensure, name)[0].id
    database.write(trait.replace, item.uuid, [name])
    assert current.get().snapshot.node(item.id).traits == (name,)

    def take_away(conn):
        of = tables.resource_provider_traits.c.trait_id
        itself = tables.traits.c.id == id_
        if is_renamed:
            conn.execute(sa.update(tables.traits).where(itself).values(name=new))
        else:
            conn.execute(sa.delete(of.table).where(of == id_))
            conn.execute(sa.delete(tables.traits).where(itself))

    database.write(take_away)
    database.write(trait.ensure, f"{name}_2")
    loaded = current.get()
    assert loaded.snapshot.node(item.id).traits == ((new,) if is_renamed else ())
    assert (new in loaded.names.trait_times) is is_renamed


def test_a_consumer_deleted_before_its_allocations_is_seen(database, current, make_provider):
    """As by two statements between which the snapshot is read."""
    item = make_provider(VCPU=10)
    consumer = claim(database, item)
    assert used(current, item) == 1
    for table, column in ((tables.consumers, "uuid"), (tables.allocations, "consumer_id")):
        with database.engine.begin() as connection:
            connection.execute(sa.delete(table).where(table.c[column] == consumer))
        compare_all(current)
        current.get()
    assert used(current, item) == 0


def test_the_largest_numbers_do_not_overflow(make_database):
    """SQLite fails at a sum of more than 63 bits."""
    database = Database(make_database())
    upgrade.upgrade(database)
    largest, number = 2**31 - 1, 6000
    ids = range(largest - number, largest)

    def store(conn):
        providers = [{"id": id_, "uuid": str(uuid.uuid4()), "root_provider_id": id_} for id_ in ids]
        rows = [{**row, "name": row["uuid"], "generation": largest} for row in providers]
        conn.execute(sa.insert(tables.resource_providers), rows)
        slot = {"count": 2**62, "token": 2**62, "changed_at": 2**62, "recent": ""}
        conn.execute(sa.insert(writers), [{"id": 2**62 + number, **slot} for number in range(10)])

    database.write(store)
    kept = Current(database)
    assert len(kept.get().snapshot.nodes) == number
    database.write(
        provider.update, kept.get().snapshot.nodes[0].uuid, {"name": "x"}, reparenting_allowed=True
    )
    assert [node.name for node in kept.get().snapshot.nodes].count("x") == 1
    compare_all(kept)
    database.dispose()


def test_an_inventory_of_a_deleted_class_is_ignored(database, current, make_provider):
    """Nothing prevents openstack-placement from deleting a class while inventory of it is created."""
    item = make_provider(VCPU=4)

    def store(conn):
        row = {"resource_provider_id": item.id, "resource_class_id": 12345, "total": 1, "reserved": 0}
        limits = {"min_unit": 1, "max_unit": 1, "step_size": 1, "allocation_ratio": 1.0}
        conn.execute(sa.insert(tables.inventories), row | limits)
        generation = tables.resource_providers.c.generation
        conn.execute(sa.update(tables.resource_providers).values(generation=generation + 1))

    database.write(store)
    assert list(current.get().snapshot.node(item.id).stocks) == ["VCPU"]


def test_threads_see_own_writes_and_no_partial_writes(database, current, make_provider):
    """Threads claim a pair of hosts, give back, and look through one worker."""
    pair = [make_provider(VCPU=1000), make_provider(VCPU=1000)]
    problems = []

    def work():
        mine = make_provider(VCPU=100)
        for number in range(1, 13):
            consumer = claim(database, mine, *pair)
            if used(current, mine) != 1:
                problems.append(f"claim {number} is not seen")
            view = current.get().snapshot
            nodes = [view.node(item.id) for item in pair]
            if len({node.stocks["VCPU"].used for node in nodes}) != 1:
                problems.append(f"half of a claim is seen: {nodes}")
            database.write(allocation.delete, consumer)
            if used(current, mine) != 0:
                problems.append(f"what was given back {number} times is not seen")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_refresh_after_a_claim_reads_only_usage(database, current, make_provider):
    """The mark, the slots, the row of the provider and its usage."""
    item = make_provider(VCPU=4)
    current.get()
    claim(database, item)
    with counting() as statements:
        assert used(current, item) == 1
    assert len([each for each in statements if "FROM allocations" in each]) == 1
    assert len(statements) == 4
    assert not [each for each in statements if "inventories" in each or "resource_provider_traits" in each]


def test_changes_without_a_generation_increment_are_noticed(database, current, make_provider):
    """Another name, place, aggregate or class."""
    item, parent = make_provider(VCPU=10), make_provider()
    current.get()
    database.write(provider.update, item.uuid, {"name": f"new {item.uuid}"}, reparenting_allowed=True)
    assert current.get().snapshot.node(item.id).name == f"new {item.uuid}"
    changes = {"name": f"new {item.uuid}", "parent_provider_uuid": parent.uuid}
    database.write(provider.update, item.uuid, changes, reparenting_allowed=True)
    assert current.get().snapshot.node(item.id).root_id == parent.id
    member_of = str(uuid.uuid4())
    names.ensure(database, tables.placement_aggregates, "uuid", [member_of])
    database.write(aggregate.replace, item.uuid, [member_of], generation=None)
    assert current.get().snapshot.node(item.id).aggregates == (member_of,)
    name = f"CUSTOM_{uuid.uuid4().hex.upper()}"
    database.write(resource_class.create, name)
    database.write(inventory.add, item.uuid, name, inventory.Inventory(1))
    assert name in current.get().snapshot.node(item.id).stocks
    database.write(resource_class.rename, name, f"{name}_")
    assert f"{name}_" in current.get().snapshot.node(item.id).stocks


def test_changes_are_noticed_without_our_own_tables(database, make_provider):
    """Without them, usage is read for all providers."""
    other = Database(database.url)
    bare = Current(other)
    item = make_provider(VCPU=10)
    assert not other.records_changes
    consumer = claim(other, item)
    assert used(bare, item) == 1
    other.write(allocation.delete, consumer)
    assert used(bare, item) == 0
    other.dispose()


def test_a_check_without_writes_returns_the_same_snapshot(backend, database, current, make_provider):
    """A second check reads no data and returns the same object."""
    make_provider(VCPU=1)
    first = current.get()
    with counting() as statements:
        assert current.get() is first
    assert len(statements) == 1


def test_slots_are_as_many_as_simultaneous_writes(make_database):
    """One after the other needs one; four at the same time, and many of them, need no more than four."""
    database = Database(make_database())
    upgrade.upgrade(database)
    standard_names.synchronize(database)
    item = str(uuid.uuid4())
    database.write(provider.create, provider.New(item, item))
    database.write(inventory.replace, item, {"VCPU": inventory.Inventory(1000)})
    slots = sa.select(sa.func.count()).select_from(writers)
    assert database.read(lambda conn: conn.scalar(slots)) == 1
    claims = [Claim(str(uuid.uuid4()), OWNER, {item: {"VCPU": 1}}) for _ in range(32)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda each: database.write(allocation.replace, [each]), claims))
    assert 1 <= database.read(lambda conn: conn.scalar(slots)) <= 4
    database.dispose()


def test_a_snapshot_does_not_change_later(database, current, make_provider):
    """A snapshot that a caller holds stays the same."""
    item = make_provider(VCPU=10)
    before = current.get().snapshot
    claim(database, item)
    assert used(current, item) == 1
    assert before.node(item.id).stocks["VCPU"].used == 0
    true = database.read(load, own_tables=True).snapshot.nodes
    assert list(current.get().snapshot.nodes) == list(true)
