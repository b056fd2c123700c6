# SPDX-License-Identifier: Apache-2.0
"""Allocations and consumers in the database."""

import uuid

import pytest
import sqlalchemy as sa

from osc_placement.server import errors
from osc_placement.server.db import allocation, consumer, inventory, names, provider, tables, usage
from osc_placement.server.db.allocation import Claim
from osc_placement.server.db.consumer import Owner


@pytest.fixture(scope="module")
def owner():
    """A project, a user and a type of consumers."""
    return Owner("project", "user", "INSTANCE")


@pytest.fixture
def claim(database, owner):
    """A function that makes a consumer hold amounts of VCPU, by UUID of provider; returns its UUID."""

    def claim_(amounts, consumer_uuid=None, owner_=owner):
        consumer_uuid = consumer_uuid or str(uuid.uuid4())
        resources = {uuid_: {"VCPU": amount} for uuid_, amount in amounts.items()}
        database.write(allocation.replace, [Claim(consumer_uuid, owner_, resources)])
        return consumer_uuid

    return claim_


def load_consumer(connection, uuid_):
    """The row of a consumer, if there is one."""
    consumers = tables.consumers
    return connection.execute(sa.select(consumers).where(consumers.c.uuid == uuid_)).one_or_none()


def generation(database, subject):
    """The generation of a provider now."""
    return database.read(provider.load, subject.uuid).generation


def test_claim_increments_generations_of_claimed_providers_only(database, make_provider, claim):
    """Those that a consumer leaves for others stay as they are, as in openstack-placement."""
    one, two = make_provider(VCPU=8), make_provider(VCPU=8)
    consumer = claim({one.uuid: 1})
    assert (generation(database, one), generation(database, two)) == (2, 1)
    claim({two.uuid: 1}, consumer)
    assert (generation(database, one), generation(database, two)) == (2, 2)


def test_emptying_a_consumer_increments_generations_of_its_providers(database, make_provider, claim):
    """If a consumer ends; a deletion moves none, as in openstack-placement."""
    subject = make_provider(VCPU=8)
    consumer = claim({subject.uuid: 1})
    claim({}, consumer)
    assert generation(database, subject) == 3
    consumer = claim({subject.uuid: 1})
    database.write(allocation.delete, consumer)
    assert generation(database, subject) == 4


@pytest.mark.parametrize("end", ["claim", "delete"])
def test_a_consumer_without_allocations_is_deleted(database, make_provider, claim, end):
    """Its row is deleted with its last allocation."""
    consumer = claim({make_provider(VCPU=8).uuid: 1})
    assert database.read(load_consumer, consumer).generation == 1
    if end == "claim":
        claim({}, consumer)
    else:
        database.write(allocation.delete, consumer)
    assert database.read(load_consumer, consumer) is None


def test_an_empty_claim_creates_no_consumer(database, claim):
    """A consumer that never had allocations is not created."""
    assert database.read(load_consumer, claim({})) is None


def test_a_refused_claim_changes_nothing(database, make_provider, claim):
    """Neither what the consumer holds nor any generation."""
    subject = make_provider(VCPU=8)
    consumer = claim({subject.uuid: 3})
    with pytest.raises(errors.CapacityExceeded):
        claim({subject.uuid: 9}, consumer)
    with pytest.raises(errors.ProviderNotFound):
        claim({subject.uuid: 1, str(uuid.uuid4()): 1}, consumer)
    assert [held.used for held in database.read(allocation.load_of_consumer, consumer)] == [3]
    assert database.read(load_consumer, consumer).generation == 1
    assert generation(database, subject) == 2


def test_refused_claim_creates_no_project_user_or_type(database, make_provider, claim):
    """The project, user and type that it mentioned first do not come to exist."""
    subject = make_provider(VCPU=8)
    name = str(uuid.uuid4())
    with pytest.raises(errors.CapacityExceeded):
        claim({subject.uuid: 9}, owner_=Owner(name, name, f"CUSTOM_{name}"))
    known = database.read(names.find_known, consumer.names_of([Owner(name, name, f"CUSTOM_{name}")]))
    assert known.ids == {}
    claim({subject.uuid: 8}, owner_=Owner(name, name, f"CUSTOM_{name}"))
    known = database.read(names.find_known, consumer.names_of([Owner(name, name, f"CUSTOM_{name}")]))
    assert {table: set(ids) for table, ids in known.ids.items()} == {
        "projects": {name},
        "users": {name},
        "consumer_types": {f"CUSTOM_{name}"},
    }


def test_claim_without_a_type_keeps_the_type(database, make_provider, claim, owner):
    """Old clients know no types; another project or user is taken over."""
    subject = make_provider(VCPU=8)
    consumer = claim({subject.uuid: 3})
    claim({subject.uuid: 3}, consumer, Owner(owner.project, "other"))
    held = database.read(allocation.load_of_consumer, consumer)[0]
    assert (held.user_id, held.consumer_type, held.consumer_generation) == ("other", "INSTANCE", 2)


def test_capacity_is_checked_for_all_consumers_of_a_request_together(database, make_provider, owner):
    """What one gives back another may have, and two share what there is."""
    subject = make_provider(VCPU=8)
    one, two, three = (str(uuid.uuid4()) for _ in range(3))
    all_of_it = [Claim(one, owner, {subject.uuid: {"VCPU": 8}})]
    database.write(allocation.replace, all_of_it)
    shared = [Claim(uuid_, owner, {subject.uuid: {"VCPU": 4}}) for uuid_ in (two, three)]
    database.write(allocation.replace, [Claim(one, owner, {}), *shared])
    assert database.read(usage.of_provider, subject.uuid)[1] == {"VCPU": 8}
    grown = [Claim(two, owner, {subject.uuid: {"VCPU": 5}}), *shared[1:]]
    with pytest.raises(errors.CapacityExceeded):
        database.write(allocation.replace, grown)


def test_request_may_name_thousands_of_consumers(database, make_provider, owner):
    """PostgreSQL gave up at some thousands; what the last request deletes is all that there was."""
    number = 8_000
    item = make_provider(VCPU=2 * number)
    uuids = [str(uuid.uuid4()) for _ in range(number)]
    for generation_, amount in ((None, 1), (1, 2), (2, 0)):
        resources = {item.uuid: {"VCPU": amount}} if amount else {}
        claims = [Claim(uuid_, owner, resources, generation_, checked=True) for uuid_ in uuids]
        database.write(allocation.replace, claims)
        _, used = database.read(usage.of_provider, item.uuid)
        assert used == {"VCPU": amount * number}
    assert database.read(load_consumer, uuids[-1]) is None


def test_consumer_stored_in_capitals_is_found_on_mariadb(database, backend, make_provider, claim):
    """openstack-placement stores a consumer of POST as it was spelled; to MariaDB it is the same consumer."""
    subject = make_provider(VCPU=8)
    consumer = claim({subject.uuid: 3})

    def capitalize(connection):
        for column in (tables.consumers.c.uuid, tables.allocations.c.consumer_id):
            rows = sa.update(column.table).where(column == consumer)
            connection.execute(rows.values({column.name: consumer.upper()}))

    database.write(capitalize)
    claim({subject.uuid: 4}, consumer)
    used = 4 if backend == "mariadb" else 7
    assert database.read(usage.of_provider, subject.uuid)[1] == {"VCPU": used}


@pytest.mark.parametrize("backend", ["mariadb"], indirect=True)
def test_provider_stored_in_capitals_is_claimed_from_on_mariadb(database, make_provider, claim, owner):
    """To MariaDB it is the same provider, for the first claim of a consumer and for a later one."""
    subject = make_provider(VCPU=8)

    def capitalize(connection):
        row = sa.update(tables.resource_providers).where(tables.resource_providers.c.id == subject.id)
        connection.execute(row.values(uuid=subject.uuid.upper()))

    database.write(capitalize)
    consumer = str(uuid.uuid4())
    first = Claim(consumer, owner, {subject.uuid: {"VCPU": 2}}, checked=True)
    assert database.write(allocation.replace_first, first)
    claim({subject.uuid: 4}, consumer)
    assert database.read(usage.of_provider, subject.uuid)[1] == {"VCPU": 4}


def test_inventory_below_its_usage_is_logged(database, make_provider, claim, caplog):
    """It is allowed, and the operator is told."""
    subject = make_provider(VCPU=8, DISK_GB=8)
    claim({subject.uuid: 5})
    smaller = {name: inventory.Inventory(4) for name in ("VCPU", "DISK_GB")}
    database.write(inventory.replace, subject.uuid, smaller)
    assert f"Resource provider {subject.uuid} is now over-capacity for VCPU" in caplog.text
    assert "DISK_GB" not in caplog.text
