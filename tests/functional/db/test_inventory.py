# SPDX-License-Identifier: Apache-2.0
"""Inventories: which rows a replacement writes."""

from datetime import datetime

import pytest
import sqlalchemy as sa

from osc_placement.model import Inventory
from osc_placement.server.db import inventory, tables

LONG_AGO = datetime(2020, 1, 1)


@pytest.fixture
def subject(database, make_provider):
    """A provider whose inventories were last modified long ago."""
    made = make_provider(VCPU=8, DISK_GB=8)

    def age(connection):
        rows = sa.update(tables.inventories).where(tables.inventories.c.resource_provider_id == made.id)
        connection.execute(rows.values(updated_at=LONG_AGO))

    database.write(age)
    return made


def replace(database, subject, **totals):
    """Give the provider inventories; what it has then, by class, and the classes that were modified."""
    wanted = {name: Inventory(total) for name, total in totals.items()}
    database.write(inventory.replace, subject.uuid, wanted)
    _, stored = database.read(inventory.load_of, subject.uuid)
    modified = {item.resource_class for item in stored if item.modified > LONG_AGO}
    return {item.resource_class: item.inventory.total for item in stored}, modified


def test_only_changed_inventories_are_written(database, subject):
    """An inventory with the same values keeps its time of modification."""
    assert replace(database, subject, VCPU=9, DISK_GB=8) == ({"VCPU": 9, "DISK_GB": 8}, {"VCPU"})


def test_putting_the_same_inventories_is_a_modification(database, subject):
    """The generation in the answer is incremented, and with it the time of modification changes."""
    everything = {"VCPU": 8, "DISK_GB": 8}
    assert replace(database, subject, **everything) == (everything, everything.keys())
