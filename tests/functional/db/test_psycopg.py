# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL through psycopg 3: what depends on the driver and not on the database.

``OSC_PLACEMENT_TEST_POSTGRESQL_URL=postgresql+psycopg://...`` runs all tests with it.
"""

import importlib.util
import uuid

import pytest
import sqlalchemy as sa

from osc_placement.model import Inventory
from osc_placement.server import errors
from osc_placement.server.db import allocation, inventory, provider, standard_names, upgrade, usage
from osc_placement.server.db.allocation import Claim
from osc_placement.server.db.consumer import Owner
from osc_placement.server.db.engine import Database
from tests import databases
from tests.functional import servers
from tests.functional.db.test_races import race, tally


@pytest.fixture
def url(tmp_path):
    """An empty database, whose URL names the driver."""
    if importlib.util.find_spec("psycopg") is None:
        databases.skip_or_fail("psycopg is not installed (extra 'psycopg')")
    with databases.make_database("postgresql", tmp_path) as made:
        yield sa.make_url(made).set(drivername="postgresql+psycopg")


@pytest.fixture
def database(url):
    """A database with tables and standard names."""
    database = Database(url.render_as_string(hide_password=False))
    upgrade.upgrade(database)
    standard_names.synchronize(database)
    yield database
    database.dispose()


def test_concurrent_claims_exceed_nothing_and_lose_nothing(database):
    """Deadlocks and duplicates are told from other errors, and repeated, whatever the driver calls them."""
    subjects = []
    for number in range(3):
        subjects.append(str(uuid.uuid4()))
        database.write(provider.create, provider.New(subjects[-1], f"host-{number}"))
        database.write(inventory.replace, subjects[-1], {"VCPU": Inventory(total=8)})
    orders = (subjects, subjects[::-1], [subjects[1], subjects[0], subjects[2]])

    def make(number):
        resources = {item: {"VCPU": 1} for item in orders[number % 3]}
        wanted = Claim(str(uuid.uuid4()), Owner("project", "user"), resources)
        return lambda: database.write(allocation.replace, [wanted])

    assert tally(race(*map(make, range(18)))) == {None: 8, errors.CapacityExceeded: 10}
    assert [database.read(usage.of_provider, item)[1]["VCPU"] for item in subjects] == [8, 8, 8]


def test_missing_tables_are_recognized(url):
    database = Database(url.render_as_string(hide_password=False))
    with pytest.raises(upgrade.SchemaError, match="no tables of placement"):
        upgrade.check(database)
    database.dispose()


def test_changes_of_a_read_only_session_are_refused_as_such(database):
    name = database.url.database
    databases.execute(database.url, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    database.dispose()
    with pytest.raises(errors.Unavailable, match="read-only"):
        database.write(provider.create, provider.New(str(uuid.uuid4()), "host"))


def test_server_serves_with_it(url, tmp_path):
    text = url.render_as_string(hide_password=False)
    config = tmp_path / "placement.conf"
    config.write_text(
        f"[placement_database]\nconnection = {text}\nsync_on_startup = true\n[api]\nauth_strategy = noauth2\n"
    )
    with servers.running(tmp_path, "--config-file", config) as server:
        assert "postgresql+psycopg://" in server.facts
