# SPDX-License-Identifier: Apache-2.0
"""A database with the schema and the standard names, on each kind; one for all tests of a file."""

import contextlib
import uuid

import pytest

from osc_placement.model import Inventory
from osc_placement.server.db import engine, inventory, provider, standard_names, upgrade
from osc_placement.server.db.engine import Database
from tests import databases


@contextlib.contextmanager
def open_prepared(url):
    """Open an empty database and give it the schema and the standard names."""
    opened = Database(url)
    upgrade.upgrade(opened)
    standard_names.synchronize(opened)
    yield opened
    opened.dispose()


@pytest.fixture(scope="module")
def database(backend, tmp_path_factory):
    """The database; tests share it, so each makes its own providers and names."""
    directory = tmp_path_factory.mktemp("placement")
    with databases.make_database(backend, directory) as url, open_prepared(url) as database:
        yield database


@pytest.fixture
def impatient(monkeypatch):
    """Transactions that lose every race are given up after their attempts, however fast these are over."""
    monkeypatch.setattr(engine, "LEAST_SECONDS", 0)


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
