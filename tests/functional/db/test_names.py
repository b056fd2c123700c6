# SPDX-License-Identifier: Apache-2.0
"""Rows that are little more than a name."""

import uuid

import os_resource_classes
import os_traits
import pytest
import sqlalchemy as sa

from osc_placement.server import errors
from osc_placement.server.db import names, resource_class, standard_names, tables


def make_name(prefix=""):
    """A name that nothing has."""
    return f"{prefix}{uuid.uuid4().hex.upper()}"


def load_names(connection, table):
    """Ids by name."""
    return dict(connection.execute(sa.select(table.c.name, table.c.id)).all())


def test_new_database_has_all_standard_names(database):
    """Traits of os-traits, and classes of os-resource-classes with the ids that others rely on."""
    assert set(os_traits.get_traits()) <= database.read(load_names, tables.traits).keys()
    classes = database.read(load_names, tables.resource_classes)
    assert [classes[name] for name in os_resource_classes.STANDARDS] == list(
        range(len(os_resource_classes.STANDARDS))
    )


def test_missing_standard_names_are_added_again(database):
    """Even the class with the id 0, which MariaDB takes for a request to choose one."""

    def remove(connection):
        connection.execute(sa.delete(tables.resource_classes).where(tables.resource_classes.c.id == 0))
        connection.execute(sa.delete(tables.traits).where(tables.traits.c.name == "HW_CPU_X86_VMX"))

    database.write(remove)
    standard_names.synchronize(database)
    assert database.read(load_names, tables.resource_classes)["VCPU"] == 0
    assert "HW_CPU_X86_VMX" in database.read(load_names, tables.traits)


def test_names_of_a_newer_release_are_kept(database):
    """A server that is older than the database it is pointed at takes nothing away."""

    def add(connection):
        connection.execute(sa.insert(tables.traits).values(name="HW_FROM_THE_FUTURE"))

    database.write(add)
    standard_names.synchronize(database)
    assert "HW_FROM_THE_FUTURE" in database.read(load_names, tables.traits)


def test_new_names_are_created_once(database):
    """The second use finds the rows that the first created."""
    wanted = [make_name(), make_name()]
    made = names.ensure(database, tables.projects, "external_id", wanted)
    assert set(made) == set(wanted)
    assert names.ensure(database, tables.projects, "external_id", wanted) == made


def test_names_that_the_database_treats_as_equal_share_a_row(database, backend):
    """MariaDB treats "blue" and "BLUE" as equal; using both works there as well."""
    name = make_name()
    both = {name, name.lower()}
    together = names.ensure(database, tables.projects, "external_id", both)
    assert len(set(together.values())) == (1 if backend == "mariadb" else 2)
    other = make_name()
    first = names.ensure(database, tables.users, "external_id", [other])
    second = names.ensure(database, tables.users, "external_id", [other.lower()])
    assert (first[other] == second[other.lower()]) == (backend == "mariadb")


def test_ids_of_classes_are_found_by_exact_name(database):
    """MariaDB finds VCPU by "vcpu" too; that is not its name."""
    assert database.write(names.keep_class_ids, ["VCPU", "DISK_GB"]) == {"VCPU": 0, "DISK_GB": 2}
    for unknown in ("vcpu", "CUSTOM_NO_SUCH"):
        with pytest.raises(errors.ResourceClassNotFound, match=unknown):
            database.write(names.keep_class_ids, ["VCPU", unknown])


def test_custom_classes_are_numbered_above_the_standard_ones(database):
    """However many standard ones there will be."""
    one, two = make_name("CUSTOM_"), make_name("CUSTOM_")
    database.write(resource_class.create, one)
    database.write(resource_class.create, two)
    first = database.read(resource_class.load, one).id
    assert first >= names.FIRST_CUSTOM_CLASS_ID
    assert database.read(resource_class.load, two).id == first + 1


def test_existing_class_can_be_locked(database):
    """Standard and custom ones alike, by the ids that they have."""
    name = make_name("CUSTOM_")
    database.write(resource_class.create, name)
    ids = database.write(names.keep_class_ids, ["VCPU", name])
    assert ids == {"VCPU": 0, name: database.read(resource_class.load, name).id}
    database.write(resource_class.delete, name)
    with pytest.raises(errors.ResourceClassNotFound):
        database.write(names.keep_class_ids, [name])


@pytest.mark.usefixtures("impatient")
def test_a_class_renamed_before_the_lock_restarts_the_transaction(database):
    """Another class may have the id when it is locked."""
    name = make_name("CUSTOM_")
    database.write(resource_class.create, name)
    found = {name: database.read(resource_class.load, name).id}
    database.write(resource_class.rename, name, make_name("CUSTOM_"))
    with pytest.raises(errors.TooMuchContention):
        database.write(names.keep_classes, [name], found)
