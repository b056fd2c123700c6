# SPDX-License-Identifier: Apache-2.0
"""How a schema comes about, on each kind of database: from an old one, from several sides, from nothing."""

import contextlib
import multiprocessing
import uuid

import pytest
import sqlalchemy as sa
from alembic.config import Config
from alembic.script import ScriptDirectory
from oslo_db import exception as db_exc

from osc_placement.server import errors
from osc_placement.server.db import names, provider, tables, upgrade
from osc_placement.server.db.engine import Database
from osc_placement.server.db.upgrade import SchemaError
from osc_placement.server.process import health
from osc_placement.server.snapshot.current import Current
from tests import databases


@pytest.fixture
def database(database_url):
    """An empty database."""
    opened = Database(database_url)
    yield opened
    opened.dispose()


def insert(database, table, **row):
    """Insert a row."""
    database.write(lambda conn: conn.execute(sa.insert(table).values(row)))


def test_head_equals_the_newest_alembic_script():
    """The revisions that are known without alembic are those of its scripts."""
    config = Config()
    config.set_main_option("script_location", "osc_placement.server.db:migrations")
    scripts = ScriptDirectory.from_config(config).walk_revisions("base", "heads")
    assert tuple(script.revision for script in scripts) == upgrade.PLACEMENT.revisions[::-1]


def test_url_may_name_mariadb(tmp_path):
    """Tables are made and duplicates are noticed as with a URL that names MySQL."""
    with databases.make_database("mariadb", tmp_path) as url:
        database = Database(sa.make_url(url).set(drivername="mariadb+pymysql"))
        upgrade.upgrade(database)
        assert upgrade.version(database) == upgrade.HEAD
        names.ensure(database, tables.projects, "external_id", ["project"])
        with pytest.raises(db_exc.DBDuplicateEntry):
            insert(database, tables.projects, external_id="project")
        database.dispose()


def test_upgrade_keeps_rows(database):
    """Rows of the oldest schema are there in the newest one."""
    upgrade.upgrade(database, "b4ed3a175331")
    row = {"uuid": str(uuid.UUID(int=1)), "project_id": 1, "user_id": 2, "generation": 3}
    old = sa.table("consumers", *(sa.column(name) for name in row))
    insert(database, old, **row)
    upgrade.upgrade(database)
    assert upgrade.version(database) == upgrade.HEAD
    found = database.read(lambda conn: conn.execute(sa.select(tables.consumers)).mappings().one())
    assert {name: found[name] for name in (*row, "consumer_type_id")} == {**row, "consumer_type_id": None}


@pytest.mark.parametrize(
    ("table", "row", "message"),
    [
        (
            tables.resource_providers,
            {"uuid": "u", "name": "host"},
            "There is at least one resource provider table record which is missing its root provider id. ",
        ),
        (
            tables.allocations,
            {"resource_provider_id": 1, "consumer_id": "c", "resource_class_id": 0, "used": 1},
            "There is at least one allocation record which is missing a consumer record. ",
        ),
    ],
    ids=["root", "consumer"],
)
def test_rows_that_need_a_repair_stop_an_upgrade(database, table, row, message):
    """Rows that have to be repaired first keep the schema where it is, and the message says how."""
    upgrade.upgrade(database, "b4ed3a175331")
    insert(database, table, **row)
    with pytest.raises(SchemaError) as caught:
        upgrade.upgrade(database)
    assert str(caught.value) == message + 'Run the "placement-server db online_data_migrations" command.'
    assert upgrade.version(database) in upgrade.PLACEMENT.revisions[:2]


def test_upgrade_refuses_placement_tables_without_a_revision(database):
    """Tables of placement whose version nobody knows are not touched; a stamp helps."""
    upgrade.upgrade(database)
    with database.engine.begin() as connection:
        connection.execute(sa.delete(upgrade.PLACEMENT.versions))
    with pytest.raises(SchemaError, match="There are tables of placement, but no record of their version"):
        upgrade.upgrade(database)
    upgrade.stamp(database, "head")
    upgrade.upgrade(database)
    assert upgrade.version(database) == upgrade.HEAD


def test_upgrade_works_beside_foreign_tables(database):
    """A database that has other tables gets ours beside them."""
    other = sa.Table("other", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True))
    other.create(database.engine)
    upgrade.upgrade(database)
    assert sa.inspect(database.engine).has_table("other")
    assert upgrade.version(database) == upgrade.HEAD


@pytest.mark.parametrize("change", [upgrade.upgrade, upgrade.stamp])
def test_unknown_revision_is_refused(database, change):
    """A revision that does not exist changes nothing."""
    upgrade.upgrade(database)
    with pytest.raises(SchemaError, match="nonsense"):
        change(database, "nonsense")
    assert upgrade.version(database) == upgrade.HEAD


def test_revision_of_another_project_is_refused(database):
    """A version that is not one of placement's, as in nova's database, stops an upgrade."""
    upgrade.PLACEMENT.versions.create(database.engine)
    insert(database, upgrade.PLACEMENT.versions, version_num="d67eeaabee36")
    with pytest.raises(SchemaError, match="d67eeaabee36"):
        upgrade.upgrade(database)
    assert not sa.inspect(database.engine).has_table("traits")


def test_check_refuses_missing_and_old_tables(database):
    """No tables and old tables are refused; the newest version, and one that is not known, are not."""
    with pytest.raises(SchemaError, match="It has no tables of placement"):
        upgrade.check(database)
    upgrade.upgrade(database, "422ece571366")
    with pytest.raises(SchemaError, match="The schema is at version 422ece571366"):
        upgrade.check(database)
    upgrade.upgrade(database)
    upgrade.check(database)
    with database.engine.begin() as connection:
        connection.execute(sa.update(upgrade.PLACEMENT.versions).values(version_num="ffffffffffff"))
    upgrade.check(database)


def _upgrade(url, gate, outcomes):
    database = Database(url)
    gate.wait()
    try:
        upgrade.upgrade(database)
        outcomes.put("made")
    except Exception as error:
        outcomes.put(repr(error))
    database.dispose()


def test_concurrent_upgrades_of_one_database_succeed(database_url):
    """Several processes may make the schema of one empty database at once: one does, nobody fails."""
    processes = 4
    context = multiprocessing.get_context("spawn")
    gate, outcomes = context.Barrier(processes), context.Queue()
    arguments = (database_url, gate, outcomes)
    started = [context.Process(target=_upgrade, args=arguments) for _ in range(processes)]
    for process in started:
        process.start()
    assert [outcomes.get(timeout=60) for _ in started] == ["made"] * processes
    for process in started:
        process.join()


def test_account_without_ddl_rights_can_serve(caplog, tmp_path):
    """MariaDB's driver tells of it as of a server in trouble; the log says what to do."""
    with databases.make_database("mariadb", tmp_path) as url:
        database = Database(url)
        upgrade.upgrade(database)
        with database.engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE oscp_collisions")
        with limited_account(database) as limited:
            other = Database(limited)
            checker = health.Health(other, Current(other))
            checker.get_ready()
            assert not other.records_changes
            (fault,) = checker.find_faults()
            assert (fault.check, fault.status) == ("own tables", "ready")
            assert "CREATE command denied" in fault.reason
            other.dispose()
        database.dispose()
    assert "cannot make the tables of its own" in caplog.text
    assert "CREATE command denied" in caplog.text


def test_account_without_rights_on_our_tables_can_serve(tmp_path):
    """It may write to placement's tables only: every check compares, and no change fails."""
    with databases.make_database("mariadb", tmp_path) as url:
        database = Database(url)
        upgrade.upgrade(database)
        on = tuple(upgrade.PLACEMENT.metadata.tables)
        with limited_account(database, on=(*on, "alembic_version")) as limited:
            other = Database(limited)
            checker = health.Health(other, Current(other))
            checker.get_ready()
            assert not other.records_changes
            other.write(provider.create, provider.New(str(uuid.UUID(int=1)), "host"))
            assert [fault.check for fault in checker.find_faults()] == ["own tables"]
            other.dispose()
        database.dispose()


def test_missing_column_is_no_outage(database):
    """Nothing is promised to a client that asks again; a missing table has a remedy, which is named."""
    upgrade.upgrade(database)
    with database.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE inventories DROP COLUMN step_size")
        connection.exec_driver_sql("DROP TABLE placement_aggregates")
    for reads in (
        lambda: database.read(lambda conn: conn.execute(sa.select(tables.inventories))),
        lambda: insert(database, tables.inventories, step_size=1),
    ):
        with pytest.raises((db_exc.DBError, sa.exc.DBAPIError), match="step_size"):
            reads()
    with pytest.raises(errors.SchemaUnfit, match="A table is missing: run"):
        database.read(lambda conn: conn.execute(sa.select(tables.placement_aggregates)))


def test_column_of_a_table_of_our_own_is_missed_by_no_request(database):
    """Another release has removed it meanwhile."""
    upgrade.upgrade(database)
    current = Current(database)
    health.Health(database, current).get_ready()
    assert database.records_changes
    with database.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE oscp_writers DROP COLUMN token")
    database.dispose()
    assert current.get().vector is None
    database.write(provider.create, provider.New(str(uuid.UUID(int=1)), "host"))
    assert not database.records_changes


def test_missing_right_to_a_table_is_no_outage(tmp_path):
    """The account is to blame, and asking again does not help."""
    with databases.make_database("mariadb", tmp_path) as url:
        database = Database(url)
        upgrade.upgrade(database)
        with limited_account(database, on=("traits",)) as limited:
            other = Database(limited)
            with pytest.raises(errors.SchemaUnfit, match="no right to a table"):
                other.read(lambda conn: conn.execute(sa.select(tables.inventories)))
            other.dispose()
        database.dispose()


@contextlib.contextmanager
def limited_account(database, on=("*",)):
    """The URL of a MariaDB database for an account that may read and write rows of these tables."""
    name = f"limited_{uuid.uuid4().hex[:12]}"
    with database.engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE USER {name}@'127.0.0.1' IDENTIFIED BY 'secret'")
    try:
        with database.engine.begin() as connection:
            try:
                for table in on:
                    rights = f"SELECT, INSERT, UPDATE, DELETE ON `{database.url.database}`.{table}"
                    connection.exec_driver_sql(f"GRANT {rights} TO {name}@'127.0.0.1'")
            except sa.exc.OperationalError as error:
                databases.skip_or_fail(f"the account of the tests may not grant rights: {error.orig}")
        yield database.url.set(username=name, password="secret", host="127.0.0.1")
    finally:
        with database.engine.begin() as connection:
            connection.exec_driver_sql(f"DROP USER {name}@'127.0.0.1'")
