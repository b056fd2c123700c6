# SPDX-License-Identifier: Apache-2.0
"""How many statements an operation sends: as many for a hundred things as for one."""

import contextlib
import threading
import uuid

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
    resource_class,
    tables,
    trait,
    usage,
)
from osc_placement.server.db.allocation import Claim
from osc_placement.server.db.consumer import Owner

CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB", "PCPU", "SRIOV_NET_VF", "IPV4_ADDRESS")
TRAITS = ("HW_CPU_X86_VMX", "HW_CPU_X86_AVX", "HW_CPU_X86_AVX2", "HW_CPU_X86_SSE", "STORAGE_DISK_SSD")


@contextlib.contextmanager
def counting():
    """Collect the statements sent meanwhile, but for those that begin and end transactions.

    Threads that were there before do not count, such as those that watch the databases of earlier tests.
    """
    statements = []
    others = {thread.ident for thread in threading.enumerate()} - {threading.get_ident()}

    def note(connection, cursor, statement, parameters, context, executemany):
        if threading.get_ident() not in others and not statement.startswith(("BEGIN", "PRAGMA", "SET ")):
            statements.append(statement)

    sa.event.listen(sa.engine.Engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        sa.event.remove(sa.engine.Engine, "before_cursor_execute", note)


@pytest.fixture
def count(database):
    """A function that runs an operation in a transaction, and returns how many statements it sent."""

    def count_(operation, *arguments, **keywords):
        with counting() as statements:
            database.write(operation, *arguments, **keywords)
        return len(statements)

    return count_


@pytest.fixture
def owner(database):
    """A project and a user."""
    names.ensure(database, tables.projects, "external_id", ["project"])
    names.ensure(database, tables.users, "external_id", ["user"])
    return Owner("project", "user")


def make_claims(owner, consumers, providers, classes=1):
    """Claims of one unit of some classes on each provider, by each consumer."""
    resources = {item.uuid: dict.fromkeys(CLASSES[:classes], 1) for item in providers}
    return [Claim(consumer, owner, resources) for consumer in consumers]


def make_uuids(number):
    """So many new UUIDs."""
    return [str(uuid.uuid4()) for _ in range(number)]


def test_statements_of_the_first_claim_of_a_consumer(count, make_provider, owner):
    """Lock the provider; stock; write; generation, consumer, count.

    A claim that is refused ends with the stock.
    """
    subject = make_provider(**dict.fromkeys(CLASSES, 100))
    resources = {subject.uuid: dict.fromkeys(CLASSES, 1)}
    claim = Claim(str(uuid.uuid4()), owner, resources, checked=True)
    assert allocation.is_first(claim)
    assert count(allocation.replace_first, claim) == 6
    too_much = Claim(str(uuid.uuid4()), owner, {subject.uuid: {"VCPU": 100}}, checked=True)
    with counting() as statements, pytest.raises(errors.CapacityExceeded):
        count(allocation.replace_first, too_much)
    assert len(statements) == 2


@pytest.mark.parametrize("size", [1, 4])
class TestOfAnySize:
    """The number of statements does not depend on the number of things concerned."""

    def test_statements_of_first_claims(self, count, make_provider, owner, size):
        """Find what is named; lock consumers, read what they hold; lock providers; stock; write; generations,
        consumers, count.

        What one claim of one provider names is found by what locks and inserts it.
        """
        providers = [make_provider(**dict.fromkeys(CLASSES, 100)) for _ in range(size)]
        claims = make_claims(owner, make_uuids(size), providers, size)
        assert count(allocation.replace, claims) == (8 if size == 1 else 9)

    def test_statements_of_requests_that_wait_together(self, count, make_provider, owner, size):
        """Names, consumers and what they hold, providers, stock; write; generations, consumers, count."""
        providers = [make_provider(VCPU=100) for _ in range(size)]
        uuids = make_uuids(2 * size)
        requests = [make_claims(owner, [uuid_], providers[:1]) for uuid_ in uuids]
        assert count(allocation.replace_each, requests) == 9

    def test_statements_of_changed_claims(self, count, make_provider, owner, size):
        """As before; besides, what was held is read and deleted."""
        providers = [make_provider(**dict.fromkeys(CLASSES, 100)) for _ in range(size)]
        claims = make_claims(owner, make_uuids(size), providers, size)
        count(allocation.replace, claims)
        assert count(allocation.replace, claims) == 10

    def test_statements_of_emptied_consumers(self, count, make_provider, owner, size):
        """Nothing is judged."""
        providers = [make_provider(**dict.fromkeys(CLASSES, 100)) for _ in range(size)]
        consumers = make_uuids(size)
        count(allocation.replace, make_claims(owner, consumers, providers, size))
        assert count(allocation.replace, make_claims(owner, consumers, [])) == 7

    def test_statements_of_deletion_of_allocations(self, count, make_provider, owner, size):
        """Lock, read and delete the allocations, delete the consumer, count."""
        providers = [make_provider(**dict.fromkeys(CLASSES, 100)) for _ in range(size)]
        consumers = make_uuids(1)
        count(allocation.replace, make_claims(owner, consumers, providers, size))
        assert count(allocation.delete, consumers[0]) == 5

    def test_statements_of_first_inventories(self, count, make_provider, size):
        """Lock, find classes, look what is there, write, generation, count."""
        wanted = dict.fromkeys(CLASSES[:size], Inventory(1))
        assert count(inventory.replace, make_provider().uuid, wanted) == 6

    def test_statements_of_changed_inventories(self, count, make_provider, size):
        """Besides, whether what goes is in use is read, and what goes is deleted."""
        subject = make_provider(**dict.fromkeys(CLASSES[:size], 1), IPV4_ADDRESS=1)
        wanted = dict.fromkeys(CLASSES[:size], Inventory(2))
        assert count(inventory.replace, subject.uuid, wanted) == 8

    def test_statements_of_reduced_inventories(self, count, make_provider, size):
        """What is used of them is read, once."""
        subject = make_provider(**dict.fromkeys(CLASSES[:size], 2))
        wanted = dict.fromkeys(CLASSES[:size], Inventory(1))
        assert count(inventory.replace, subject.uuid, wanted) == 7

    def test_statements_of_provider_traits(self, count, make_provider, size):
        """Lock, find traits, look what is there, write, generation, count."""
        assert count(trait.replace, make_provider().uuid, TRAITS[:size]) == 6

    def test_statements_of_provider_aggregates(self, count, database, make_provider, size):
        """Lock, note the provider, find aggregates, look what is there, write, generation, count."""
        uuids = make_uuids(size)
        names.ensure(database, tables.placement_aggregates, "uuid", uuids)
        assert count(aggregate.replace, make_provider().uuid, uuids, generation=0) == 7

    def test_statements_of_bulk_changes(self, count, database, make_provider, size):
        """Find all names, lock, look and write three times, note the providers, generations, count."""
        subjects = [make_provider(**dict.fromkeys(CLASSES[:3], 100)) for _ in range(size)]
        uuids = make_uuids(2)
        names.ensure(database, tables.placement_aggregates, "uuid", uuids)
        new = {name: Inventory(100) for name in CLASSES[:3]} | {"VCPU": Inventory(100, allocation_ratio=4.0)}
        changes = [provider_changes.Wanted(subject.uuid, 1, new, TRAITS[:2], uuids) for subject in subjects]
        assert count(provider_changes.apply, changes, may_reserve_all=True) == 11

    def test_statements_of_bulk_creations(self, count, database, make_provider, size):
        """Find names and parents, lock; insert two levels; write three times; roots, generations, count.

        A level is inserted within a savepoint if it has more than one provider, and its ids are read then.
        """
        uuids = make_uuids(2)
        names.ensure(database, tables.placement_aggregates, "uuid", uuids)
        new = {name: Inventory(100) for name in CLASSES[:3]}
        roots, children = make_uuids(size), make_uuids(size)
        parents = [make_provider().uuid for _ in range(size)]
        wanted = [provider.New(root, root, parent) for root, parent in zip(roots, parents, strict=True)]
        wanted += [provider.New(child, child, root) for child, root in zip(children, roots, strict=True)]
        changes = [
            provider_changes.Wanted(each.uuid, None, new, TRAITS[:2], uuids, new=each) for each in wanted
        ]
        expected = 4 if size == 1 else 8
        assert count(provider_changes.apply, changes, may_reserve_all=True) == 9 + expected

    def test_statements_of_a_move(self, count, make_provider, size):
        """Load; find roots and both trees, lock them, look again; move all; note both trees; load; count."""
        subject = make_provider()
        for _ in range(size):
            make_provider(subject.uuid)
        changes = {"name": subject.name, "parent_provider_uuid": make_provider().uuid}
        assert count(provider.update, subject.uuid, changes, reparenting_allowed=True) == 10

    def test_statements_of_usages_by_type(self, count, make_provider, owner, size):
        """Count, and sum of all."""
        providers = [make_provider(VCPU=100)]
        count(allocation.replace, make_claims(owner, make_uuids(size), providers))
        assert count(usage.by_consumer_type, "project", None, None) == 2
        assert count(usage.by_consumer_type, "project", None, "all") == 2


def test_known_names_take_one_statement(database):
    """A project that exists costs no transaction that writes."""
    names.ensure(database, tables.projects, "external_id", ["known", "also known"])
    with counting() as statements:
        names.ensure(database, tables.projects, "external_id", ["known", "also known"])
    assert len(statements) == 1


def test_statements_of_operations_on_one_object(count, make_provider):
    """Operations on one thing, as a table."""
    subject = make_provider(VCPU=1)
    name = f"CUSTOM_{uuid.uuid4().hex.upper()}"
    new, child = make_uuids(2)
    assert {
        "create a root": count(provider.create, provider.New(new, new)),
        "create a child": count(provider.create, provider.New(child, child, new)),
        "delete a provider": count(provider.delete, child),
        "rename a provider": count(provider.update, new, {"name": f"new {new}"}, reparenting_allowed=True),
        "add an inventory": count(inventory.add, subject.uuid, "DISK_GB", Inventory(1)),
        "change an inventory": count(inventory.update, subject.uuid, "DISK_GB", Inventory(2), generation=2),
        "delete an inventory": count(inventory.delete, subject.uuid, "DISK_GB"),
        "create a class": count(resource_class.create, name),
        "rename a class": count(resource_class.rename, name, f"{name}_"),
        "delete a class": count(resource_class.delete, f"{name}_"),
        "create a trait": count(trait.ensure, name),
        "find a trait": count(trait.ensure, name),
        "delete a trait": count(trait.delete, name),
        "list inventories": count(inventory.load_of, subject.uuid),
        "list usages": count(usage.of_provider, subject.uuid),
        "list allocations": count(allocation.load_of_provider, subject.uuid),
        "list traits": count(trait.load_of, subject.uuid),
        "list aggregates": count(aggregate.load, subject.uuid),
    } == {
        "create a root": 5,
        "create a child": 7,
        "delete a provider": 10,
        "rename a provider": 4,
        "add an inventory": 6,
        "change an inventory": 6,
        "delete an inventory": 6,
        "create a class": 5,
        "rename a class": 3,
        "delete a class": 4,
        "create a trait": 4,
        "find a trait": 1,
        "delete a trait": 4,
        "list inventories": 2,
        "list usages": 2,
        "list allocations": 2,
        "list traits": 2,
        "list aggregates": 2,
    }
