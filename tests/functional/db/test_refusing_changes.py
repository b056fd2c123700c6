# SPDX-License-Identifier: Apache-2.0
"""A database that is opened to be read only, on each kind: nothing in it changes, whoever tries."""

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc

from osc_placement.server import deploy, errors
from osc_placement.server.db import dialects, own_tables, tables, upgrade
from osc_placement.server.db.engine import Database
from osc_placement.server.shadow.exchange import Request, send
from osc_placement.server.testing import make_conf
from tests import databases

NEW_TRAIT = sa.insert(tables.traits).values(name="CUSTOM_NEW")


@pytest.fixture
def read_only(backend, tmp_path):
    """A database with placement's tables, without ours and without standard names, opened to be read."""
    with databases.make_database(backend, tmp_path) as url:
        writable = Database(url)
        upgrade.upgrade(writable)
        with writable.engine.begin() as connection:
            own_tables.metadata.drop_all(connection)
        writable.dispose()
        opened = Database(url, options=dialects.EngineOptions(read_only=True))
        yield opened
        opened.dispose()


def test_database_itself_refuses_a_statement_that_changes_something(read_only):
    """An INSERT fails on the connections for reading and on those for changes of the schema."""
    with pytest.raises((sa.exc.SQLAlchemyError, db_exc.DBError, errors.DatabaseReadOnly)):
        read_only.read(lambda connection: connection.execute(NEW_TRAIT))
    # the refusal outlives the first transaction of a connection
    with pytest.raises((sa.exc.SQLAlchemyError, db_exc.DBError, errors.DatabaseReadOnly)):
        read_only.read(lambda connection: connection.execute(NEW_TRAIT))
    with (
        pytest.raises((sa.exc.SQLAlchemyError, db_exc.DBError, errors.DatabaseReadOnly)),
        read_only.engine.begin() as connection,
    ):
        connection.execute(NEW_TRAIT)
    with pytest.raises(errors.DatabaseReadOnly):
        read_only.write(lambda connection: connection.execute(NEW_TRAIT))


def test_application_reads_and_makes_neither_tables_nor_names(read_only):
    """A service on it answers reads, refuses writes with 503, and leaves the database as it was."""
    conf = make_conf()
    conf.set_override("auth_strategy", "noauth2", group="api")
    application = deploy.make_application(conf, read_only)
    headers = {"x-auth-token": "admin", "openstack-api-version": "placement 1.39"}
    assert send(application, Request("GET", "/traits", headers=headers)).data == {"traits": []}
    candidates = Request("GET", "/allocation_candidates", "resources=CUSTOM_A:1", headers)
    assert send(application, candidates).status == 400
    refused = send(application, Request("PUT", "/traits/CUSTOM_NEW", headers=headers))
    assert refused.status == 503
    present = read_only.read(lambda connection: sa.inspect(connection).get_table_names())
    assert not own_tables.metadata.tables.keys() & set(present)
    assert (
        read_only.read(lambda connection: connection.scalar(sa.select(sa.func.count(tables.traits.c.id))))
        == 0
    )
