# SPDX-License-Identifier: Apache-2.0
"""The schema is the one openstack-placement makes: either server can be pointed at the other's database."""

import configparser
import re

import pytest
import sqlalchemy as sa

from osc_placement.server.db import tables, upgrade
from osc_placement.server.db.engine import Database
from tests import databases
from tests.functional import forking

#: what the names of tables that openstack-placement does not know begin with
OWN = "oscp_"

#: the revisions of openstack-placement, oldest first
REVISIONS = ("b4ed3a175331", "611cd6dffd7b", "b5c396305c25", "422ece571366", "a082b8bb98d0")


def make_at_once(database):
    """Make the newest schema in an empty database."""
    upgrade.upgrade(database)


def make_by_revisions(database):
    """Make the oldest schema, then take one revision after another."""
    for revision in REVISIONS:
        upgrade.upgrade(database, revision)


def run_reference(directory, url, *arguments):
    """Run placement-manage on a database; its standard output."""
    databases.require_reference()
    config = configparser.RawConfigParser()
    config["placement_database"] = {"connection": url}
    path = directory / "placement.conf"
    with path.open("w") as file:
        config.write(file)
    done = forking.run("placement-manage", "--config-file", path, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def theirs(backend, tmp_path_factory):
    """A database made by openstack-placement, which every test leaves as it is."""
    directory = tmp_path_factory.mktemp("theirs")
    with databases.make_database(backend, directory) as url:
        run_reference(directory, url, "db", "sync")
        database = Database(url)
        yield database
        database.dispose()


@pytest.fixture(params=[make_at_once, make_by_revisions])
def ours(request, database_url):
    """A database made by us, in each way."""
    database = Database(database_url)
    request.param(database)
    yield database
    database.dispose()


def describe(database):
    """Everything SQLAlchemy can tell of each table, by table."""
    inspector = sa.inspect(database.engine)
    tables_ = [name for name in inspector.get_table_names() if not name.startswith(OWN)]
    return {table: describe_table(inspector, table) for table in sorted(tables_)}


def describe_table(inspector, table):
    """Columns in order, constraints and indexes by name."""
    return {
        "columns": [{**column, "type": repr(column["type"])} for column in inspector.get_columns(table)],
        "primary key": inspector.get_pk_constraint(table),
        "foreign keys": sorted(inspector.get_foreign_keys(table), key=str),
        "unique": sorted(inspector.get_unique_constraints(table), key=str),
        "indexes": sorted(inspector.get_indexes(table), key=str),
        "checks": sorted(inspector.get_check_constraints(table), key=str),
    }


def test_schema_equals_the_reference(ours, theirs):
    """Tables, columns (order, type, nullability, default, autoincrement), keys and indexes are the same."""
    assert describe(ours) == describe(theirs)


def read_statements(database):
    """The statements that would make each table, index and constraint again, by name; ours left out."""
    with database.engine.begin() as connection:
        statements = READERS[database.engine.dialect.name](connection)
    return {name: text for name, text in statements.items() if OWN not in name}


def read_sqlite(connection):
    """Read the text of sqlite_master, whose quotes and spacing depend on who wrote the statement."""
    rows = connection.execute(sa.text("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
    return {name: split_items(re.sub(r'\s+|"', " ", text)) for name, text in rows}


def split_items(text):
    """Split a CREATE statement into its head and items; SQLite keeps the order they were written in."""
    head, _, body = text.partition("(")
    items = re.split(r",(?![^(]*\))", body.strip().removesuffix(")"))
    return [" ".join(head.split()), *sorted(" ".join(item.split()) for item in items)]


def read_mysql(connection):
    """Read SHOW CREATE TABLE; the next id, and the order indexes were made in, are no part of the schema."""
    names = connection.scalars(sa.text("SHOW TABLES")).all()
    texts = {name: connection.execute(sa.text(f"SHOW CREATE TABLE {name}")).one()[1] for name in names}
    return {name: sort_indexes(re.sub(r" AUTO_INCREMENT=\d+", "", text)) for name, text in texts.items()}


def sort_indexes(text):
    """Split what SHOW CREATE TABLE says into lines, those of plain indexes by name at the end."""
    lines = [line.strip().rstrip(",") for line in text.split("\n")]
    return sorted(lines, key=lambda line: line if line.startswith("KEY ") else "")


def read_postgresql(connection):
    """Read what pg_dump goes by: definitions of indexes and constraints, and of columns with sequences."""
    indexes = sa.text("SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'")
    constraints = sa.text(
        "SELECT conrelid::regclass || '.' || conname, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE connamespace = 'public'::regnamespace"
    )
    columns = sa.text(
        "SELECT table_name || '.' || column_name,"
        " concat_ws(' ', ordinal_position, data_type, character_maximum_length, is_nullable, column_default)"
        " FROM information_schema.columns WHERE table_schema = 'public'"
    )
    return {
        name: text for query in (indexes, constraints, columns) for name, text in connection.execute(query)
    }


READERS = {"sqlite": read_sqlite, "mysql": read_mysql, "mariadb": read_mysql, "postgresql": read_postgresql}


def test_create_statements_equal_the_reference(ours, theirs):
    """The database itself describes both schemas with the same statements."""
    assert read_statements(ours) == read_statements(theirs)


def test_revision_equals_the_reference(ours, theirs):
    """The recorded revision is the newest one, to us and to openstack-placement."""
    assert upgrade.version(ours) == upgrade.version(theirs) == upgrade.HEAD == REVISIONS[-1]


def test_placement_manage_accepts_our_schema(ours, tmp_path):
    """`placement-manage db version` and `db sync` find nothing to do in a database of ours."""
    url = ours.url.render_as_string(hide_password=False)
    before = read_statements(ours)
    assert run_reference(tmp_path, url, "db", "version") == f"{upgrade.HEAD}\n"
    run_reference(tmp_path, url, "db", "sync")
    assert read_statements(ours) == before


def test_adopting_the_references_schema_changes_nothing(theirs):
    """An upgrade of a database that openstack-placement made leaves it as it is."""
    before = read_statements(theirs)
    upgrade.upgrade(theirs)
    assert read_statements(theirs) == before
    assert upgrade.version(theirs) == upgrade.HEAD


def test_table_definitions_match_the_schema(ours):
    """`tables` describes each table there is, but for the one that holds the revision."""
    assert set(describe(ours)) == {*tables.metadata.tables, "alembic_version"}
