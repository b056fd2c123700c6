# SPDX-License-Identifier: Apache-2.0
"""A database with the schema and the standard names, on each kind; one for all tests of a file."""

import uuid

import pytest

from osc_placement.model import Inventory
from osc_placement.server.db import inventory, names, provider, upgrade
from osc_placement.server.db.engine import Database
from tests import databases


@pytest.fixture(scope="module")
def database(backend, tmp_path_factory):
    """The database; tests share it, so each makes its own providers and names."""
    with databases.make_database(backend, tmp_path_factory.mktemp("placement")) as url:
        database = Database(url)
        upgrade.upgrade(database)
        names.synchronize(database)
        yield database
        database.dispose()


@pytest.fixture
def make_provider(database):
    """A function that makes a provider, with inventories by class if it is given any."""

    def make(parent_uuid=None, **totals):
        uuid_ = str(uuid.uuid4())
        made = database.write(provider.create, provider.New(uuid_, uuid_, parent_uuid))
        if totals:
            inventories = {name: Inventory(total) for name, total in totals.items()}
            database.write(inventory.replace, uuid_, inventories)
        return made

    return make
