# SPDX-License-Identifier: Apache-2.0
"""Providers in the database: what no answer of the API shows."""

import datetime
import uuid

import pytest
import sqlalchemy as sa

from osc_placement import codes
from osc_placement.model import Inventory
from osc_placement.server import errors
from osc_placement.server.db import aggregate, inventory, names, provider, tables, trait

providers = tables.resource_providers


def load_row(connection, uuid_):
    """The row of a provider."""
    return connection.execute(sa.select(providers).where(providers.c.uuid == uuid_)).one()


def age(connection):
    """Let everything be made and changed long ago."""
    past = datetime.datetime(2001, 1, 1)
    connection.execute(sa.update(providers).values(created_at=past, updated_at=past))


def forget_root(connection, uuid_):
    """Make a row as it was before there were trees."""
    row = sa.update(providers).where(providers.c.uuid == uuid_)
    connection.execute(row.values(root_provider_id=None))


def test_new_root_has_itself_as_root_and_no_update_time(database, make_provider):
    """That the id of the root is stored a moment later is not an update."""
    row = database.read(load_row, make_provider().uuid)
    assert (row.root_provider_id, row.parent_provider_id) == (row.id, None)
    assert row.updated_at is None
    assert row.created_at is not None


def test_move_updates_the_moved_providers_only(database, make_provider):
    """A descendant shows another root, so it has changed; the new parent has not."""
    old, new = make_provider(), make_provider()
    child = make_provider(old.uuid)
    grandchild = make_provider(child.uuid)
    database.write(age)
    changes = {"name": child.name, "parent_provider_uuid": new.uuid}
    database.write(provider.update, child.uuid, changes, reparenting_allowed=True)
    years = {
        item.uuid: database.read(load_row, item.uuid).updated_at.year
        for item in (old, new, child, grandchild)
    }
    assert {uuid_ for uuid_, year in years.items() if year != 2001} == {child.uuid, grandchild.uuid}


def test_a_rename_to_the_same_name_writes_nothing(database, make_provider):
    """Not even the time."""
    subject = make_provider()
    database.write(age)
    database.write(provider.update, subject.uuid, {"name": subject.name}, reparenting_allowed=True)
    assert database.read(load_row, subject.uuid).updated_at.year == 2001


def test_provider_without_a_stored_root_is_a_root(database, make_provider):
    """It can be shown, get children, be moved and be deleted though its root was never stored."""
    old, new = make_provider(), make_provider()
    database.write(forget_root, old.uuid)
    database.write(forget_root, new.uuid)
    assert database.read(provider.load, old.uuid).root_provider_uuid == old.uuid
    child = make_provider(old.uuid)
    assert child.root_provider_uuid == old.uuid
    for member, tree in ((old, {old.id, child.id}), (child, {old.id, child.id}), (new, {new.id})):
        assert database.read(provider.find_ids, name=None, uuid=None, in_tree=member.uuid) == tree
    assert not database.read(provider.find_ids, name=None, uuid=None, in_tree=str(uuid.uuid4()))
    changes = {"name": old.name, "parent_provider_uuid": new.uuid}
    moved = database.write(provider.update, old.uuid, changes, reparenting_allowed=True)
    assert moved.root_provider_uuid == new.uuid
    assert database.read(provider.load, child.uuid).root_provider_uuid == new.uuid
    for item in (child, old, new):
        database.write(provider.delete, item.uuid)


@pytest.mark.usefixtures("impatient")
def test_generation_changed_on_another_node_is_a_conflict(database, make_provider):
    """Locks do not reach other Galera nodes; the comparison with what was read does."""
    subject = make_provider()
    locked = database.write(provider.lock, subject.uuid)
    database.write(provider.advance_generations, [locked])
    attempts = []

    def advance(connection):
        attempts.append(connection)
        provider.advance_generations(connection, [locked])

    with pytest.raises(errors.TooMuchContention):
        database.write(advance)
    assert len(attempts) > 1
    assert database.read(provider.load, subject.uuid).generation == 1


@pytest.mark.usefixtures("impatient")
def test_generations_of_several_providers_change_together(database, make_provider):
    """One provider that somebody else changed keeps the others as they are."""
    one, two = make_provider(), make_provider()
    locked = [database.write(provider.lock, item.uuid) for item in (one, two)]
    database.write(provider.advance_generations, locked[1:])
    with pytest.raises(errors.TooMuchContention):
        database.write(provider.advance_generations, locked)
    assert database.read(provider.load, one.uuid).generation == 0


@pytest.mark.usefixtures("impatient")
def test_locking_a_deleted_provider_restarts_the_transaction(database, make_provider):
    """Whoever looked up an id before it was deleted has to look again."""
    gone = make_provider()
    database.write(provider.delete, gone.uuid)

    def lock(connection):
        provider.lock_ids(connection, [gone.id])

    with pytest.raises(errors.TooMuchContention):
        database.write(lock)


def test_a_duplicate_uuid_is_reported_before_a_duplicate_name(database, make_provider):
    """The UUID and the name belong to different providers, found in any order."""
    one, two = make_provider(), make_provider()
    for first, second in ((one, two), (two, one)):
        with pytest.raises(errors.DuplicateProvider, match=f"uuid: {first.uuid}"):
            database.write(provider.create, provider.New(first.uuid, second.name))


def test_deleting_removes_inventories_and_associations(database, make_provider):
    """They are deleted together with the provider."""
    subject = make_provider(VCPU=1)

    def associate(connection):
        trait_id = connection.scalar(sa.select(tables.traits.c.id).limit(1))
        row = {"resource_provider_id": subject.id}
        connection.execute(sa.insert(tables.resource_provider_traits).values(trait_id=trait_id, **row))
        connection.execute(sa.insert(tables.resource_provider_aggregates).values(aggregate_id=1, **row))

    def count(connection):
        of_providers = (
            tables.inventories,
            tables.resource_provider_traits,
            tables.resource_provider_aggregates,
        )
        return [
            connection.scalar(
                sa.select(sa.func.count())
                .select_from(table)
                .where(table.c.resource_provider_id == subject.id)
            )
            for table in of_providers
        ]

    database.write(associate)
    assert database.read(count) == [1, 1, 1]
    database.write(provider.delete, subject.uuid)
    assert database.read(count) == [0, 0, 0]


def test_a_value_too_long_for_a_column_is_refused_as_invalid(database, backend):
    """This holds for databases that report it; SQLite stores values of any length."""
    create = {"uuid": "x" * 40, "name": str(uuid.uuid4())}
    if backend == "sqlite":
        database.write(provider.create, provider.New(**create))
        database.write(provider.delete, create["uuid"])
        return
    with pytest.raises(errors.Unstorable):
        database.write(provider.create, provider.New(**create))


LARGEST = 2**31 - 1


def exhaust(connection, table, uuid_):
    """Give a row the largest generation that its column holds."""
    connection.execute(sa.update(table).where(table.c.uuid == uuid_).values(generation=LARGEST))


@pytest.mark.parametrize(
    "change",
    [
        lambda conn, uuid_: inventory.replace(conn, uuid_, {"VCPU": Inventory(9)}),
        lambda conn, uuid_: trait.replace(conn, uuid_, ["HW_CPU_X86_MMX"], generation=LARGEST),
        lambda conn, uuid_: aggregate.replace(conn, uuid_, [str(uuid.uuid4())], generation=LARGEST),
    ],
    ids=("inventories", "traits", "aggregates"),
)
def test_the_largest_generation_is_reported_as_exhausted(database, backend, make_provider, change):
    """Clients must not retry; SQLite has no such limit."""
    subject = make_provider(VCPU=8)
    database.write(exhaust, providers, subject.uuid)
    if backend == "sqlite":
        database.write(change, subject.uuid)
        assert database.read(load_row, subject.uuid).generation == LARGEST + 1
        return
    with pytest.raises(errors.GenerationExhausted) as caught:
        database.write(change, subject.uuid)
    assert str(caught.value).endswith(f"where 'uuid' is {subject.uuid} in the table resource_providers")
    assert (caught.value.status, caught.value.code) == (409, codes.UNDEFINED)
    assert database.read(load_row, subject.uuid).generation == LARGEST


def test_only_existing_ids_are_found(database, make_provider):
    """Unknown UUIDs are left out."""
    one, two = make_provider(), make_provider()
    wanted = [one.uuid, two.uuid, str(uuid.uuid4())]
    found = database.read(names.find_ids, tables.resource_providers, "uuid", wanted)
    assert found == {one.uuid: one.id, two.uuid: two.id}
