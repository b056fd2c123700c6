# SPDX-License-Identifier: Apache-2.0
"""The snapshot that a worker keeps: what it shows while others write, and what it costs to look."""

import concurrent.futures
import datetime
import itertools
import threading
import uuid
import zlib

import pytest
import sqlalchemy as sa

from osc_placement.server.db import (
    aggregate,
    allocation,
    inventory,
    names,
    provider,
    provider_changes,
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
from osc_placement.server.db.writers import STRANGERS
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


# the others never give an id again
@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_provider_that_reuses_an_id_is_noticed(database, comparing, make_provider):
    """SQLite uses ids again, and openstack-placement may create a deleted provider again."""
    item = make_provider(VCPU=4)
    assert comparing.get().snapshot.node(item.id).stocks["VCPU"].inventory.total == 4

    def make_anew(conn):
        providers, inventories = tables.resource_providers, tables.inventories
        moment = datetime.datetime(2026, 1, 1, microsecond=1)
        conn.execute(
            sa.update(providers)
            .where(providers.c.id == item.id)
            .values(created_at=moment, updated_at=providers.c.updated_at)
        )
        of_it = inventories.c.resource_provider_id == item.id
        conn.execute(sa.update(inventories).where(of_it).values(total=7))

    database.write(make_anew)
    assert comparing.get().snapshot.node(item.id).stocks["VCPU"].inventory.total == 7


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_trait_that_reuses_an_id_is_noticed(database, comparing):
    """SQLite uses ids again: only its time tells a trait from a deleted one of the same name."""
    name = "CUSTOM_MADE_TWICE"
    database.write(trait.ensure, name)
    before = comparing.get().trait_times[name]

    def make_anew(conn):
        moment = datetime.datetime(2026, 1, 1, microsecond=1)
        conn.execute(sa.update(tables.traits).where(tables.traits.c.name == name).values(created_at=moment))

    database.write(make_anew)
    assert comparing.get().trait_times[name] != before


def test_swapped_provider_names_are_noticed(database, comparing, make_provider):
    """Another program does not move their generations then."""
    first, second = make_provider(), make_provider()
    comparing.get()
    columns = tables.resource_providers.c

    def swap(conn):
        for item, name in ((first, "nobody"), (second, first.name), (first, second.name)):
            rename = sa.update(tables.resource_providers).where(columns.id == item.id)
            conn.execute(rename.values(name=name, updated_at=columns.updated_at))

    database.write(swap)
    nodes = comparing.get().snapshot
    assert (nodes.node(first.id).name, nodes.node(second.id).name) == (second.name, first.name)


def test_swapped_aggregates_are_noticed(database, comparing):
    """The sum of the CRC32 of these memberships is the same before and after."""
    first, second, one, other = 502789, 508066, 500010, 500012
    members, providers = tables.resource_provider_aggregates, tables.resource_providers
    uuids = {id_: str(uuid.uuid4()) for id_ in (first, second, one, other)}

    def store(conn):
        aggregates = [{"id": id_, "uuid": uuids[id_]} for id_ in (one, other)]
        conn.execute(sa.insert(tables.placement_aggregates), aggregates)
        for id_ in (first, second):
            row = {"id": id_, "uuid": uuids[id_], "name": uuids[id_], "generation": 0}
            conn.execute(sa.insert(providers).values(root_provider_id=id_, **row))
        pairs = ((first, one), (second, other))
        rows = [{"resource_provider_id": of, "aggregate_id": to} for of, to in pairs]
        conn.execute(sa.insert(members), rows)

    def swap(conn):
        for of, to in ((first, other), (second, one)):
            of_it = members.c.resource_provider_id == of
            conn.execute(sa.update(members).where(of_it).values(aggregate_id=to))

    database.write(store)
    assert comparing.get().snapshot.node(first).aggregates == (uuids[one],)
    database.write(swap)
    assert comparing.get().snapshot.node(first).aggregates == (uuids[other],)


def collide(first, second):
    """Whether sums over four memberships stay when 2 and 7 swap aggregates with 3 and 6: of products of ids,
    which always do, and of CRC32, which do for one pair of aggregates in a hundred.
    """
    before = [(2, first), (7, first), (3, second), (6, second)]
    after = [(2, second), (7, second), (3, first), (6, first)]
    sums = [
        sum(zlib.crc32(f"{EXCHANGED}{of}:{to}".encode()) for of, to in pairs) for pairs in (before, after)
    ]
    return sums[0] == sums[1]


#: the beginning of the ids of providers that exchange aggregates
EXCHANGED = 70000


def exchange_by_bulk_route(database, wanted):
    """Exchange by our server, in one transaction."""
    generations = dict(database.read(lambda conn: conn.execute(_GENERATIONS).all()))
    changes = [provider_changes.Wanted(of, generations[of], aggregates=[to]) for of, to in wanted.items()]
    database.write(provider_changes.apply, changes, may_reserve_all=True)


def exchange_without_generations(database, wanted):
    """Exchange by our server as below microversion 1.19, one provider after the other."""
    for of, to in wanted.items():
        database.write(aggregate.replace, of, [to], generation=None)


def exchange_elsewhere(database, wanted):
    """Exchange by a program that counts nothing, as below microversion 1.19."""
    members, providers, aggregates = (
        tables.resource_provider_aggregates,
        tables.resource_providers.c,
        tables.placement_aggregates.c,
    )

    def exchange(conn):
        for of, to in wanted.items():
            provider_id = sa.select(providers.id).where(providers.uuid == of).scalar_subquery()
            aggregate_id = sa.select(aggregates.id).where(aggregates.uuid == to).scalar_subquery()
            row = members.c.resource_provider_id == provider_id
            conn.execute(sa.update(members).where(row).values(aggregate_id=aggregate_id))

    database.write(exchange)


_GENERATIONS = sa.select(tables.resource_providers.c.uuid, tables.resource_providers.c.generation)


@pytest.mark.parametrize(
    "exchange", [exchange_by_bulk_route, exchange_without_generations, exchange_elsewhere]
)
def test_aggregate_exchange_with_equal_checksums_is_noticed(make_database, exchange):
    """The sums of ids, of products of ids and of CRC32 are the same before and after."""
    database = Database(make_database())
    upgrade.upgrade(database)
    kept = Current(database, compare=exchange is exchange_elsewhere)
    numbers = range(40000, 42000)
    aggregates = next(pair for pair in itertools.combinations(numbers, 2) if collide(*pair))
    ids = [int(f"{EXCHANGED}{digit}") for digit in (2, 7, 3, 6)]
    uuids = {id_: str(uuid.uuid4()) for id_ in (*ids, *aggregates)}

    def store(conn):
        conn.execute(
            sa.insert(tables.placement_aggregates), [{"id": id_, "uuid": uuids[id_]} for id_ in aggregates]
        )
        for place, id_ in enumerate(ids):
            row = {
                "id": id_,
                "uuid": uuids[id_],
                "name": uuids[id_],
                "generation": 0,
                "root_provider_id": id_,
            }
            conn.execute(sa.insert(tables.resource_providers).values(row))
            member = {"resource_provider_id": id_, "aggregate_id": aggregates[place // 2]}
            conn.execute(sa.insert(tables.resource_provider_aggregates).values(member))

    database.write(store)
    kept.get()
    wanted = {uuids[id_]: uuids[aggregates[1 - place // 2]] for place, id_ in enumerate(ids)}
    exchange(database, wanted)
    assert {node.uuid: node.aggregates for node in kept.get().snapshot.nodes} == {
        of: (to,) for of, to in wanted.items()
    }
    database.dispose()


def test_sums_of_the_largest_ids_do_not_overflow(make_database):
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


def take_from_a_consumer(conn, uuid_):
    """Delete allocations as a program does that keeps no count."""
    conn.execute(sa.delete(tables.allocations).where(tables.allocations.c.consumer_id == uuid_))
    conn.execute(sa.delete(tables.consumers).where(tables.consumers.c.uuid == uuid_))


def move_a_consumer(conn, uuid_, target):
    """Move allocations as openstack-placement does: the generation of the target moves, no other."""
    conn.execute(
        sa.update(tables.allocations)
        .where(tables.allocations.c.consumer_id == uuid_)
        .values(resource_provider_id=target.id)
    )
    of = tables.consumers.c
    conn.execute(sa.update(tables.consumers).where(of.uuid == uuid_).values(generation=of.generation + 1))
    of = tables.resource_providers.c
    conn.execute(
        sa.update(tables.resource_providers).where(of.id == target.id).values(generation=of.generation + 1)
    )


def test_changes_by_other_programs_are_noticed(database, comparing, make_provider):
    """Usage removed from a provider whose generation stays is noticed, also between our own writes."""
    one, two = make_provider(VCPU=10), make_provider(VCPU=10)
    consumers = [claim(database, one) for _ in range(3)]
    assert used(comparing, one) == 3
    database.write(take_from_a_consumer, consumers[0])
    assert used(comparing, one) == 2
    database.write(move_a_consumer, consumers[1], two)
    assert (used(comparing, one), used(comparing, two)) == (1, 1)
    # as many come as go
    database.write(take_from_a_consumer, consumers[2])
    claim(database, two)
    assert (used(comparing, one), used(comparing, two)) == (0, 2)


@pytest.mark.parametrize("same", [False, True])
def test_consumer_that_replaces_another_is_noticed(database, comparing, make_provider, same):
    """openstack-placement deletes one and makes one, whose allocations follow in another transaction.

    As many consumers as before, and no generation of a provider moves; on SQLite the id may be the same, and
    the consumer may be the one that was deleted.
    """
    item = make_provider(VCPU=10)
    consumer = claim(database, item)
    assert used(comparing, item) == 1
    rows = tables.consumers

    def exchange(conn):
        owner = conn.execute(sa.select(rows).where(rows.c.uuid == consumer)).mappings().one()
        take_from_a_consumer(conn, consumer)
        row = {"uuid": consumer if same else str(uuid.uuid4()), "generation": 0}
        conn.execute(sa.insert(rows).values(project_id=owner["project_id"], user_id=owner["user_id"], **row))

    database.write(exchange)
    assert used(comparing, item) == 0


def test_own_changes_do_not_look_like_foreign_changes(database, current, make_provider, caplog):
    """The fingerprint that is carried forward by what was recorded is the one of the database."""
    item, child = make_provider(VCPU=10), make_provider()
    consumer = claim(database, item)
    rows = tables.consumers

    def empty(conn):
        conn.execute(sa.delete(tables.allocations).where(tables.allocations.c.consumer_id == consumer))
        conn.execute(sa.update(rows).where(rows.c.uuid == consumer).values(generation=0))

    database.write(empty)
    current.get()
    database.write(allocation.replace, [Claim(consumer, OWNER, {item.uuid: {"VCPU": 2}})])
    claim(database, item)
    database.write(allocation.delete, consumer)
    database.write(trait.replace, item.uuid, ["HW_CPU_X86_VMX"])
    changes = {"name": child.name, "parent_provider_uuid": item.uuid}
    database.write(provider.update, child.uuid, changes, reparenting_allowed=True)
    database.write(provider.delete, make_provider(VCPU=1).uuid)
    carried, true = current.get().fingerprint, database.read(load, own_tables=True).fingerprint
    assert (carried.providers, carried.consumers) == (true.providers, true.consumers)
    assert current.watch() is not None
    assert current.get().fingerprint == true
    assert "another program writes" not in caplog.text
    assert used(current, item) == 1


def give_trait(database, item, name):
    """Give a provider a trait."""
    database.write(trait.replace, item.uuid, [name])


def give_trait_elsewhere(database, item, name):
    """The same as openstack-placement does it, which counts nothing."""
    traits, of = tables.traits.c, tables.resource_providers.c

    def give(conn):
        trait_id = conn.scalar(sa.select(traits.id).where(traits.name == name))
        row = {"resource_provider_id": item.id, "trait_id": trait_id}
        conn.execute(sa.insert(tables.resource_provider_traits).values(row))
        moved = sa.update(tables.resource_providers).where(of.id == item.id)
        conn.execute(moved.values(generation=of.generation + 1))

    database.write(give)


@pytest.mark.parametrize("give", [give_trait, give_trait_elsewhere])
def test_foreign_changes_between_own_claims_are_noticed(database, comparing, make_provider, give):
    """Our own claims do not hide the changes of other programs."""
    item = make_provider(VCPU=4)
    comparing.get()
    claim(database, item)
    give(database, item, "HW_CPU_X86_VMX")
    claim(database, item)
    node = comparing.get().snapshot.node(item.id)
    assert (node.stocks["VCPU"].used, node.traits) == (2, ("HW_CPU_X86_VMX",))


def test_refresh_after_a_claim_reads_only_usage(database, current, make_provider):
    """The mark, the slots, the row of the provider and its usage."""
    item = make_provider(VCPU=4)
    current.get()
    claim(database, item)
    with counting() as statements:
        assert used(current, item) == 1
    assert [each for each in statements if "FROM allocations" in each] == statements[-1:]
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
    slots = sa.select(sa.func.count()).where(writers.c.id != STRANGERS)
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
