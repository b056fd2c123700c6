# SPDX-License-Identifier: Apache-2.0
"""Many at once on the same rows: nothing is sold twice, nothing left hanging, nobody fails for nothing."""

import collections
import random
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from osc_placement.model import Inventory
from osc_placement.server import errors
from osc_placement.server.db import (
    aggregate,
    allocation,
    inventory,
    names,
    provider,
    provider_changes,
    repair,
    resource_class,
    tables,
    trait,
    usage,
)
from osc_placement.server.db.allocation import Claim
from osc_placement.server.db.consumer import Owner
from osc_placement.server.db.provider import New

#: how often a race is run; who wins differs
ROUNDS = range(4)


def race(*operations):
    """Start all operations at the same moment; their results, or the errors they raised, in order."""
    results = [None] * len(operations)
    start = threading.Barrier(len(operations))

    def run(number, operation):
        start.wait()
        try:
            results[number] = operation()
        except errors.PlacementError as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=item) for item in enumerate(operations)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def tally(results):
    """How many of each outcome there were: the class of an error, or None for success."""
    return collections.Counter(
        type(result) if isinstance(result, errors.PlacementError) else None for result in results
    )


@pytest.fixture
def owner():
    """A project and a user."""
    return Owner("project", "user")


@pytest.fixture
def claim(database, owner):
    """A function that returns an operation: a consumer claims amounts of VCPU, by UUID of provider."""

    def make(amounts, consumer_uuid=None, **keywords):
        resources = {uuid_: {"VCPU": amount} for uuid_, amount in amounts.items()}
        wanted = Claim(consumer_uuid or str(uuid.uuid4()), owner, resources, **keywords)
        return lambda: database.write(allocation.replace, [wanted])

    return make


def used(database, subject):
    """The VCPU used of a provider."""
    return database.read(usage.of_provider, subject.uuid)[1].get("VCPU")


def test_claims_never_exceed_the_capacity(database, make_provider, claim):
    """Of 24 claims on 12 units 12 are granted, whichever; each moves the generation by one."""
    subject = make_provider(VCPU=12)
    results = race(*(claim({subject.uuid: 1}) for _ in range(24)))
    assert tally(results) == {None: 12, errors.CapacityExceeded: 12}
    assert used(database, subject) == 12
    assert database.read(provider.load, subject.uuid).generation == 1 + 12


def test_overlapping_claims_on_several_providers_all_end(database, make_provider, claim):
    """Claims name the same providers in any order; each is granted or too much."""
    subjects = [make_provider(VCPU=8) for _ in range(3)]
    orders = (subjects, subjects[::-1], [subjects[1], subjects[0], subjects[2]])
    results = race(*(claim({item.uuid: 1 for item in orders[number % 3]}) for number in range(18)))
    assert tally(results) == {None: 8, errors.CapacityExceeded: 10}
    assert [used(database, subject) for subject in subjects] == [8, 8, 8]


def test_concurrent_claims_of_one_consumer_hold_nothing_twice(database, make_provider, claim):
    """Old clients know no generations: the last word counts, and nothing is held twice."""
    subjects = [make_provider(VCPU=8) for _ in range(4)]
    consumer = str(uuid.uuid4())
    results = race(*(claim({subject.uuid: 3}, consumer) for subject in subjects * 2))
    assert tally(results) == {None: 8}
    assert sum(used(database, subject) for subject in subjects) == 3
    assert database.read(allocation.load_of_consumer, consumer)[0].consumer_generation == 8


@pytest.mark.parametrize("present", [False, True], ids=("new", "present"))
def test_one_of_several_claims_on_one_consumer_generation_is_granted(database, make_provider, claim, present):
    """The others are told that the consumer has changed."""
    subject = make_provider(VCPU=8)
    consumer = str(uuid.uuid4())
    if present:
        claim({subject.uuid: 1}, consumer)()
    generation = 1 if present else None
    claims = (claim({subject.uuid: 2}, consumer, generation=generation, checked=True) for _ in range(8))
    assert tally(race(*claims)) == {None: 1, errors.ConsumerChanged: 7}
    assert used(database, subject) == 2


@pytest.mark.parametrize("round_", ROUNDS)
def test_claim_beside_a_deletion_is_complete_or_absent(database, make_provider, claim, round_):
    """A consumer whose allocations are deleted while it claims has them or not, and is there or not."""
    subject = make_provider(VCPU=8)
    consumer = str(uuid.uuid4())
    claim({subject.uuid: 1}, consumer)()
    results = race(
        claim({subject.uuid: 2}, consumer),
        lambda: database.write(allocation.delete, consumer),
        claim({subject.uuid: 3}, consumer),
        lambda: database.write(allocation.delete, consumer),
    )
    assert set(tally(results)) <= {None, errors.AllocationsNotFound}
    held = database.read(allocation.load_of_consumer, consumer)
    assert used(database, subject) == sum(item.used for item in held)
    assert database.read(count, tables.consumers.c.uuid, consumer) == len(held)


@pytest.fixture
def come_between(database, backend):
    """A function that lets an operation be carried out after the next statement of a write."""
    if backend == "sqlite":
        pytest.skip("SQLite has one writer at a time, so nothing comes between two statements")
    waiting = []

    def let_come(*arguments):
        while waiting:
            waiting.pop()()

    sa.event.listen(database._writer, "after_cursor_execute", let_come)
    yield waiting.append
    sa.event.remove(database._writer, "after_cursor_execute", let_come)
    assert not waiting


def test_deletion_of_nothing_keeps_a_later_claim(database, make_provider, claim, come_between):
    """A deletion that found no consumer to lock does not take what came to be a moment later."""
    subject = make_provider(VCPU=8)
    consumer = str(uuid.uuid4())
    come_between(claim({subject.uuid: 2}, consumer))
    with pytest.raises(errors.AllocationsNotFound):
        database.write(allocation.delete, consumer)
    assert [held.used for held in database.read(allocation.load_of_consumer, consumer)] == [2]


@pytest.fixture
def unrecorded(database, make_provider):
    """A provider of 8 VCPU, of which a consumer without a record holds 6, and the UUID of that consumer."""
    subject, consumer = make_provider(VCPU=8), str(uuid.uuid4())
    row = {"resource_provider_id": subject.id, "resource_class_id": 0, "consumer_id": consumer}
    held = [{**row, "used": amount} for amount in (2, 4)]
    database.write(lambda conn: conn.execute(sa.insert(tables.allocations), held))
    return subject, consumer


def create_missing(database):
    """Create the consumers that have no record, as online_data_migrations does."""
    project = names.ensure(database, tables.projects, "external_id", ["project"])["project"]
    user = names.ensure(database, tables.users, "external_id", ["user"])["user"]
    return database.write(repair.create_consumers, project, user, 50)


@pytest.mark.parametrize("checked", [False, True], ids=("old client", "generation"))
def test_claims_of_a_consumer_without_a_record_hold_nothing_twice(
    database, claim, first_claim, unrecorded, checked
):
    """Its rows are replaced once, and the others find the record that the first claim made."""
    subject, consumer = unrecorded
    assert not first_claim(subject, 5, consumer)
    results = race(*(claim({subject.uuid: 5}, consumer, checked=checked) for _ in range(6)))
    assert tally(results) == ({None: 1, errors.ConsumerChanged: 5} if checked else {None: 6})
    assert used(database, subject) == 5
    (held,) = database.read(allocation.load_of_consumer, consumer)
    assert held.consumer_generation == (1 if checked else 6)


@pytest.mark.parametrize("round_", ROUNDS)
def test_consumer_without_a_record_has_one_if_it_holds_anything(database, claim, unrecorded, round_):
    """Whether a claim, the end of the consumer or the repair of its record comes first."""
    subject, consumer = unrecorded
    results = race(
        claim({}, consumer),
        lambda: create_missing(database),
        claim({subject.uuid: 3}, consumer),
        claim({}, consumer),
    )
    assert not any(isinstance(result, errors.PlacementError) for result in results)
    held = database.read(allocation.load_of_consumer, consumer)
    assert used(database, subject) == sum(item.used for item in held)
    assert database.read(count, tables.consumers.c.uuid, consumer) == bool(held)


@pytest.mark.parametrize("amount", [0, 3])
def test_claim_finds_a_record_that_is_created_after_it_looked(
    database, claim, unrecorded, come_between, amount
):
    """The consumer is not new any more, and keeps what it holds."""
    subject, consumer = unrecorded
    come_between(lambda: create_missing(database))
    with pytest.raises(errors.ConsumerChanged):
        claim({subject.uuid: amount} if amount else {}, consumer, checked=True)()
    assert used(database, subject) == 6
    assert database.read(count, tables.consumers.c.uuid, consumer) == 1


@pytest.fixture
def first_claim(database, owner):
    """A function that carries out the first claim of a consumer, and returns whether it was."""

    def claim_(subject, amount, consumer_uuid=None):
        resources = {subject.uuid: {"VCPU": amount}}
        wanted = Claim(consumer_uuid or str(uuid.uuid4()), owner, resources, checked=True)
        assert allocation.is_first(wanted)
        return database.write(allocation.replace_first, wanted)

    return claim_


def test_first_claims_never_exceed_the_capacity(database, make_provider, claim, first_claim):
    """Beside claims of the other form, for the same units; each that is granted moves the generation."""
    subject = make_provider(VCPU=12)
    first = [lambda: first_claim(subject, 1) for _ in range(16)]
    results = race(*first, *(claim({subject.uuid: 1}) for _ in range(8)))
    assert tally(results) == {None: 12, errors.CapacityExceeded: 12}
    assert used(database, subject) == 12
    assert database.read(provider.load, subject.uuid).generation == 1 + 12


@pytest.mark.parametrize("other", [1, 8])
def test_first_claim_that_waited_for_the_lock_reads_the_usage_after_it(
    database, backend, make_provider, claim, first_claim, other
):
    """It is refused if the claim that it waited for has left no room."""
    if backend == "sqlite":
        pytest.skip("SQLite has one writer at a time, so nothing waits for a lock")
    subject = make_provider(VCPU=8)
    is_locked, may_end = threading.Event(), threading.Event()

    def hold(conn):
        wanted = Claim(str(uuid.uuid4()), Owner("project", "user"), {subject.uuid: {"VCPU": other}})
        allocation.replace(conn, [wanted])
        is_locked.set()
        assert may_end.wait(30)

    with ThreadPoolExecutor(2) as threads:
        holder = threads.submit(database.write, hold)
        assert is_locked.wait(30)
        waiting = threads.submit(first_claim, subject, 2)
        with pytest.raises(TimeoutError):
            waiting.result(0.3)
        may_end.set()
        holder.result(30)
        if other == 1:
            assert waiting.result(30)
        else:
            with pytest.raises(errors.CapacityExceeded):
                waiting.result(30)
    assert used(database, subject) == (3 if other == 1 else 8)
    assert database.read(provider.load, subject.uuid).generation == (3 if other == 1 else 2)


def test_first_claim_of_a_consumer_that_exists_is_not_carried_out(
    database, make_provider, claim, first_claim
):
    """Nothing is written; the long form compares the generation."""
    subject, elsewhere = make_provider(VCPU=8), make_provider(VCPU=8)
    consumer = str(uuid.uuid4())
    claim({elsewhere.uuid: 1}, consumer)()
    assert not first_claim(subject, 2, consumer)
    assert (used(database, subject), used(database, elsewhere)) == (0, 1)


def test_first_claim_of_a_consumer_that_is_created_meanwhile_is_repeated(
    database, make_provider, claim, first_claim, come_between
):
    """It finds the consumer then, which has a claim on another provider."""
    subject, elsewhere = make_provider(VCPU=8), make_provider(VCPU=8)
    consumer = str(uuid.uuid4())
    come_between(claim({elsewhere.uuid: 1}, consumer))
    assert not first_claim(subject, 2, consumer)
    assert (used(database, subject), used(database, elsewhere)) == (0, 1)


@pytest.mark.parametrize(
    ("totals", "error"), [(None, errors.ProviderNotFound), ({"MEMORY_MB": 8}, errors.InventoryUnfit)]
)
def test_first_claim_tells_an_unknown_provider_from_one_without_the_class(
    database, make_provider, first_claim, totals, error
):
    """As the long form does."""
    subject = make_provider(**totals) if totals else New(str(uuid.uuid4()), "unknown")
    with pytest.raises(error):
        first_claim(subject, 2)


def count(connection, column, value):
    """The number of rows that have a value."""
    return connection.scalar(sa.select(sa.func.count()).where(column == value))


MENTIONS = [
    (tables.projects, "external_id"),
    (tables.users, "external_id"),
    (tables.consumer_types, "name"),
    (tables.placement_aggregates, "uuid"),
]


@pytest.mark.parametrize(("table", "column"), MENTIONS, ids=lambda value: str(value))
def test_names_used_first_by_many_are_created_once(database, table, column):
    """All get the same ids, regardless of the order of the names."""
    wanted = [str(uuid.uuid4()) for _ in range(3)]
    orders = (wanted, wanted[::-1])
    results = race(
        *(
            lambda number=number: names.ensure(database, table, column, orders[number % 2])
            for number in range(16)
        )
    )
    assert set(results[0]) == set(wanted)
    assert results == [results[0]] * 16
    assert database.read(count, table.c[column], wanted[0]) == 1


def test_trait_created_by_many_is_created_once(database):
    """The others find it."""
    name = f"CUSTOM_{uuid.uuid4().hex.upper()}"
    results = race(*(lambda: database.write(trait.ensure, name) for _ in range(16)))
    assert sorted(is_new for _, is_new in results) == [False] * 15 + [True]
    assert len({found.id for found, _ in results}) == 1


def test_class_created_by_many_is_created_once(database):
    """The others find it."""
    name = f"CUSTOM_{uuid.uuid4().hex.upper()}"
    results = race(*(lambda: database.write(resource_class.ensure, name) for _ in range(16)))
    assert sorted(results) == [False] * 15 + [True]


def test_different_classes_created_at_once_all_exist(database):
    """Each chooses an id of its own."""
    wanted = [f"CUSTOM_{uuid.uuid4().hex.upper()}" for _ in range(16)]
    results = race(*(lambda name=name: database.write(resource_class.create, name) for name in wanted))
    assert tally(results) == {None: 16}
    assert len(set(database.write(names.keep_class_ids, wanted).values())) == 16


def test_provider_created_by_many_is_created_once(database):
    """By its name; the others are told so."""
    name = str(uuid.uuid4())
    uuids = [str(uuid.uuid4()) for _ in range(12)]
    results = race(
        *(lambda uuid_=uuid_: database.write(provider.create, provider.New(uuid_, name)) for uuid_ in uuids)
    )
    assert tally(results) == {None: 1, errors.DuplicateProvider: 11}
    assert {str(result) for result in results if isinstance(result, errors.DuplicateProvider)} == {
        f"Conflicting resource provider name: {name} already exists."
    }


@pytest.mark.parametrize("are_roots", [True, False])
def test_providers_created_by_many_in_bulk_are_created_once(database, make_provider, are_roots):
    """In any order, with the same new aggregate, as roots or below the same parent."""
    parent, group = None if are_roots else make_provider().uuid, str(uuid.uuid4())
    new = [provider.New(each, each, parent) for each in (str(uuid.uuid4()) for _ in range(12))]
    wanted = [provider_changes.Wanted(each.uuid, None, aggregates=[group], new=each) for each in new]

    def create():
        order = random.sample(wanted, len(wanted))
        return database.write(provider_changes.apply, order, may_reserve_all=True)

    results = race(*[create] * 6)
    verdicts = [[result[each.uuid] for result in results] for each in new]
    assert all(tally(told) == {None: 1, errors.DuplicateProvider: 5} for told in verdicts)


def add_child(database, parent):
    """An operation that gives a provider a child."""
    new = str(uuid.uuid4())
    return lambda: database.write(provider.create, provider.New(new, new, parent.uuid))


def move(database, subject, parent):
    """An operation that puts a provider below another, or makes it a root."""
    parent_uuid = None if parent is None else parent.uuid
    changes = {"name": subject.name, "parent_provider_uuid": parent_uuid}
    return lambda: database.write(provider.update, subject.uuid, changes, reparenting_allowed=True)


def check_trees(connection):
    """Assert that every provider's root is what its parents lead to, without going in circles."""
    columns = tables.resource_providers.c
    query = sa.select(columns.id, columns.parent_provider_id, columns.root_provider_id)
    parents, roots = {}, {}
    for id_, parent_id, root_id in connection.execute(query):
        parents[id_], roots[id_] = parent_id, root_id
    for id_, root_id in roots.items():
        seen, top = set(), id_
        while parents[top] is not None:
            assert top not in seen, "a loop"
            seen.add(top)
            top = parents[top]
        assert root_id == top


def end_waiting_session(conn):
    """End the session of this database that waits for a lock."""
    if conn.dialect.name == "postgresql":
        waiting = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        assert conn.exec_driver_sql(f"SELECT pg_terminate_backend(pid) {waiting}").scalar_one()
        return
    waiting = "FROM information_schema.processlist WHERE db = database() AND info LIKE 'INSERT%%'"
    conn.exec_driver_sql("KILL %s", (conn.exec_driver_sql(f"SELECT id {waiting}").scalar_one(),))


@pytest.mark.parametrize("lost", ["deadlock", "connection"])
def test_bulk_creation_that_loses_its_transaction_is_repeated(database, backend, lost):
    """Another transaction inserts the same providers in another order, or the session is ended."""
    if backend == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    new = [provider.New(each, each) for each in (f"{number}{str(uuid.uuid4())[1:]}" for number in range(3))]
    wanted = [provider_changes.Wanted(each.uuid, None, new=each) for each in new]
    results = []
    bulk = threading.Thread(
        target=lambda: results.append(database.write(provider_changes.apply, wanted, may_reserve_all=True))
    )
    insert = sa.insert(tables.resource_providers)
    with database.engine.connect() as conn:
        # MariaDB rolls back the transaction that has written fewer rows
        others = [{"uuid": each, "name": each} for each in (str(uuid.uuid4()) for _ in range(100))]
        conn.execute(insert, [*others, {"uuid": new[-1].uuid, "name": new[-1].name}])
        bulk.start()
        time.sleep(0.5)
        assert not results
        if lost == "deadlock":
            conn.execute(insert, {"uuid": new[0].uuid, "name": new[0].name})
        else:
            end_waiting_session(conn)
        conn.rollback()
    bulk.join()
    assert results == [{each.uuid: 0 for each in new}]


@pytest.mark.parametrize("round_", ROUNDS)
def test_child_created_during_a_move_is_in_the_tree_of_its_parent(database, make_provider, round_):
    """Whether a child comes before or after the move, it ends in the tree of its parent."""
    one, two = make_provider(), make_provider()
    subject = make_provider(one.uuid)
    below = make_provider(subject.uuid)
    results = race(
        add_child(database, subject),
        move(database, subject, two),
        add_child(database, below),
        move(database, subject, None),
        add_child(database, subject),
        move(database, below, one),
    )
    assert tally(results) == {None: 6}
    database.read(check_trees)


@pytest.mark.parametrize("round_", ROUNDS)
def test_concurrent_moves_make_no_loop(database, make_provider, round_):
    """Each would be right alone; of three that go round at least one is refused."""
    a, b, c = make_provider(), make_provider(), make_provider()
    results = race(move(database, a, b), move(database, b, c), move(database, c, a))
    assert tally(results) == {None: 2, errors.TreeRefused: 1}
    database.read(check_trees)


@pytest.mark.parametrize("round_", ROUNDS)
def test_provider_deleted_while_it_gets_a_child_stays_or_has_none(database, make_provider, round_):
    """Either it has one and stays, or it is gone and gets none."""
    subject = make_provider(make_provider().uuid)
    child, deleted = race(add_child(database, subject), lambda: database.write(provider.delete, subject.uuid))
    refused = isinstance(child, errors.TreeRefused)
    assert refused != isinstance(deleted, errors.ProviderHasChildren)
    database.read(check_trees)


@pytest.mark.parametrize("round_", ROUNDS)
def test_provider_deleted_during_a_claim_stays_or_is_not_claimed(database, make_provider, claim, round_):
    """Either something is held of it and it stays, or it is gone and nothing can be."""
    subject = make_provider(VCPU=8)
    claimed, deleted = race(claim({subject.uuid: 1}), lambda: database.write(provider.delete, subject.uuid))
    assert isinstance(claimed, errors.ProviderNotFound) != isinstance(deleted, errors.ProviderInUse)
    left = database.read(count, tables.allocations.c.resource_provider_id, subject.id)
    assert left == (0 if isinstance(claimed, errors.ProviderNotFound) else 1)


@pytest.mark.parametrize("round_", ROUNDS)
def test_inventory_deleted_during_a_claim_stays_or_is_not_claimed(database, make_provider, claim, round_):
    """Either it is held and stays, or it is gone."""
    subject = make_provider(VCPU=8)
    claimed, taken = race(
        claim({subject.uuid: 1}), lambda: database.write(inventory.replace, subject.uuid, {})
    )
    assert isinstance(claimed, errors.InventoryUnfit) != isinstance(taken, errors.InventoryInUse)
    assert used(database, subject) == (1 if isinstance(taken, errors.InventoryInUse) else None)


@pytest.mark.parametrize("round_", ROUNDS)
def test_claims_respect_the_inventory_at_the_time_of_the_grant(database, make_provider, claim, round_):
    """Claims are judged by what the inventory is when they are granted."""
    subject = make_provider(VCPU=8)
    *claimed, shrunk = race(
        *(claim({subject.uuid: 2}) for _ in range(4)),
        lambda: database.write(inventory.replace, subject.uuid, {"VCPU": Inventory(2)}),
    )
    granted = [result for result in claimed if result is None]
    assert not isinstance(shrunk, errors.PlacementError)
    assert used(database, subject) == 2 * len(granted)
    # the generation after the shrinking tells how many were granted before it
    before = shrunk - 2
    assert len(granted) == max(before, 1)


@pytest.mark.parametrize("round_", ROUNDS)
def test_class_deleted_while_inventory_is_created_stays_or_has_none(database, make_provider, round_):
    """Either it is used and stays, or it is gone and cannot be."""
    name = f"CUSTOM_{uuid.uuid4().hex.upper()}"
    database.write(resource_class.create, name)
    subject = make_provider()
    added, deleted = race(
        lambda: database.write(inventory.add, subject.uuid, name, Inventory(1)),
        lambda: database.write(resource_class.delete, name),
    )
    assert isinstance(added, errors.ResourceClassNotFound) != isinstance(deleted, errors.ResourceClassInUse)


@pytest.mark.parametrize("round_", ROUNDS)
def test_trait_deleted_while_it_is_assigned_stays_or_is_unused(database, make_provider, round_):
    """Either somebody has it and it stays, or it is gone and cannot be had."""
    name = f"CUSTOM_{uuid.uuid4().hex.upper()}"
    database.write(trait.ensure, name)
    subject = make_provider()
    given, deleted = race(
        lambda: database.write(trait.replace, subject.uuid, [name]),
        lambda: database.write(trait.delete, name),
    )
    assert isinstance(given, errors.TraitNotFound) != isinstance(deleted, errors.TraitInUse)


def test_one_of_several_changes_on_one_generation_is_made(database, make_provider):
    """Of many who saw the same provider one may change it."""
    subject = make_provider(VCPU=8)
    wanted = [{"VCPU": Inventory(total)} for total in range(1, 13)]
    results = race(
        *(
            lambda new=new: database.write(inventory.replace, subject.uuid, new, generation=1)
            for new in wanted
        )
    )
    outcome = tally(results)
    assert outcome == {None: 1, errors.ProviderChanged: 11}
    assert database.read(provider.load, subject.uuid).generation == 2


def test_overlapping_bulk_changes_change_each_provider_once(database, make_provider):
    """Of overlapping changes of many providers based on the same generations, one wins each provider."""
    subjects = [make_provider(VCPU=8) for _ in range(30)]
    portions = [(subjects[:20], 2), (subjects[10:][::-1], 3), (subjects[::-3], 4), (subjects[5:25], 5)]

    def change(portion, total):
        wanted = [
            provider_changes.Wanted(
                subject.uuid, 1, {"VCPU": Inventory(total)}, [], [str(uuid.UUID(int=total))]
            )
            for subject in portion
        ]
        return lambda: database.write(provider_changes.apply, wanted, may_reserve_all=True)

    results = race(*(change(*portion) for portion in portions))
    for subject in subjects:
        verdicts = {
            total: result[subject.uuid]
            for (_, total), result in zip(portions, results, strict=True)
            if subject.uuid in result
        }
        (winner,) = [total for total, verdict in verdicts.items() if verdict == 2]
        others = [verdict for total, verdict in verdicts.items() if total != winner]
        assert all(isinstance(verdict, errors.ProviderChanged) for verdict in others)
        now, (stored,) = database.read(inventory.load_of, subject.uuid)
        assert (now.generation, stored.inventory.total) == (2, winner)
        assert database.read(aggregate.load, subject.uuid)[1] == [str(uuid.UUID(int=winner))]


@pytest.mark.parametrize("round_", ROUNDS)
def test_bulk_changes_and_claims_on_the_same_providers_all_end(database, make_provider, claim, round_):
    """Claims that name the providers in another order are granted or too much, never both."""
    subjects = [make_provider(VCPU=4) for _ in range(6)]
    shrink = [provider_changes.Wanted(subject.uuid, 1, {}) for subject in subjects]
    results = race(
        lambda: database.write(provider_changes.apply, shrink, may_reserve_all=True),
        *(claim({subject.uuid: 1 for subject in subjects[::-1]}) for _ in range(3)),
    )
    verdicts, claims = results[0], results[1:]
    gone = [subject for subject in subjects if verdicts[subject.uuid] == 2]
    assert len(gone) in (0, len(subjects))
    assert set(tally(claims)) <= ({errors.InventoryUnfit} if gone else {None})
