# SPDX-License-Identifier: Apache-2.0
"""Nova's real databases: made once by the real `nova-manage`, kept in .cache, and copied for each test."""

import contextlib
import fcntl
import pathlib
import shutil
import uuid
from dataclasses import dataclass

import sqlalchemy as sa

from benchmarks import environments
from tests import databases
from tests.functional import forking

KINDS = ("api", "main")
SYNC = {"api": ("api_db", "sync"), "main": ("db", "sync", "--local_cell")}
#: the databases of one cloud, and the schema of each
DATABASES = {"api": "api", "cell0": "main", "cell1": "main", "cell2": "main"}

CONF = """\
[DEFAULT]
log_file = {directory}/nova.log
state_path = {directory}
[api_database]
connection = {api}
[database]
connection = {main}
{more}
"""
PLACEMENT = """\
[placement]
auth_type = admin_token
endpoint = {endpoint}
endpoint_override = {endpoint}
token = admin
"""


def find_nova():
    """The bin directory of nova's environment; skips or fails the test if it cannot be installed."""
    try:
        return environments.make_nova()
    except environments.NotInstallable as error:
        return databases.skip_or_fail(f"nova cannot be installed: {error}")


def write_conf(directory, api, main, endpoint=None):
    """Write a nova.conf, and return its path."""
    more = PLACEMENT.format(endpoint=endpoint) if endpoint else ""
    path = directory / "nova.conf"
    path.write_text(CONF.format(directory=directory, api=api, main=main, more=more))
    return path


def manage(conf, *arguments):
    """Run `nova-manage`."""
    return forking.run("nova-manage", "--config-file", conf, *arguments, python=find_nova() / "python")


@dataclass
class Databases:
    """The URLs of the databases of a cloud, by name."""

    urls: dict

    def configure(self, directory, endpoint):
        """Write the nova.conf of the cloud, which reaches placement at the endpoint."""
        return write_conf(directory, self.urls["api"], self.urls["cell0"], endpoint)


@contextlib.contextmanager
def copy_files(directory):
    """The empty databases of a cloud with cell0 and two cells, in SQLite files."""
    templates = make_templates("sqlite")
    urls = {}
    for name, kind in DATABASES.items():
        shutil.copy(templates[kind], directory / f"{name}.db")
        urls[name] = f"sqlite:///{directory}/{name}.db"
    yield Databases(urls)


class Kept:
    """The databases of such a cloud on MariaDB, for one test after another: to make one takes seconds.

    The rows that are left of a test are deleted; a database whose columns a test has changed is made anew.
    """

    def __init__(self):
        self._made = {}
        self._urls = {}
        self._columns = {}

    @contextlib.contextmanager
    def lent(self, directory):
        """The databases, empty."""
        for name in DATABASES:
            if name not in self._urls:
                self._make(name, directory)
        yield Databases(dict(self._urls))
        columns = self._read_columns()
        for name in [name for name in self._urls if columns[name] != self._columns[name]]:
            self._drop(name)
        self._empty()

    def close(self):
        """Drop them."""
        for name in list(self._urls):
            self._drop(name)

    def _make(self, name, directory):
        template = make_templates("mariadb")[DATABASES[name]]
        made = self._made[name] = contextlib.ExitStack()
        self._urls[name] = made.enter_context(databases.make_database("mariadb", directory))
        load_dump(self._urls[name], template)
        self._columns[name] = self._read_columns()[name]

    def _drop(self, name):
        del self._urls[name]
        self._made.pop(name).close()

    def _find_schemas(self):
        """The names of the databases on the server."""
        return {name: sa.make_url(url).database for name, url in self._urls.items()}

    def _read_columns(self):
        """The table and name of each column, in order, by database."""
        names = {schema: name for name, schema in self._find_schemas().items()}
        query = sa.text(
            "SELECT table_schema, table_name, column_name FROM information_schema.columns"
            " WHERE table_schema IN :schemas ORDER BY table_schema, table_name, ordinal_position"
        ).bindparams(sa.bindparam("schemas", list(names), expanding=True))
        columns = {name: [] for name in self._urls}
        with self._connect() as connection:
            for schema, *column in connection.execute(query):
                columns[names[schema]].append(column)
        return columns

    def _empty(self):
        tables = sorted(
            {
                f"`{schema}`.`{table}`"
                for name, schema in self._find_schemas().items()
                for table, _ in self._columns[name]
            }
        )
        if not tables:
            return
        rows = [f"(SELECT '{table}' FROM {table} LIMIT 1)" for table in tables]  # noqa: S608
        with self._connect() as connection:
            connection.exec_driver_sql("SET FOREIGN_KEY_CHECKS = 0")
            for table in connection.exec_driver_sql(" UNION ALL ".join(rows)).scalars().all():
                connection.exec_driver_sql(f"DELETE FROM {table}")  # noqa: S608
                # tests know which id a row will have
                connection.exec_driver_sql(f"ALTER TABLE {table} AUTO_INCREMENT = 1")

    def _connect(self):
        return sa.create_engine(next(iter(self._urls.values())), poolclass=sa.pool.NullPool).begin()


def make_templates(backend, cache=environments.CACHE):
    """A file for each kind of database, with nova's schema: a SQLite file, or the statements that make it."""
    binaries = find_nova()
    directory = cache / f"{binaries.parent.name}-{backend}"
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test processes run side by side
        return {kind: make_template(backend, kind, directory) for kind in KINDS}


def make_template(backend, kind, directory):
    """Make a template unless it is there."""
    path = directory / f"{kind}.{'db' if backend == 'sqlite' else 'sql'}"
    if not path.exists():
        unfinished = directory / f"{kind}.new"
        unfinished.unlink(missing_ok=True)
        with contextlib.ExitStack() as made:
            url = f"sqlite:///{unfinished}"
            if backend != "sqlite":
                url = made.enter_context(databases.make_database(backend, directory))
            done = manage(write_conf(directory, url, url), *SYNC[kind])
            assert done.returncode == 0, done.stderr
            if backend != "sqlite":
                unfinished.write_text(dump(url))
        unfinished.rename(path)
    return path


def dump(url):
    """The statements that make the tables of a MariaDB database."""
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        tables = connection.scalars(sa.text("SHOW TABLES")).all()
        made = [connection.execute(sa.text(f"SHOW CREATE TABLE `{table}`")).one()[1] for table in tables]
    return ";\n\n".join(made)


def load_dump(url, path):
    """Make the tables of a dump."""
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("SET FOREIGN_KEY_CHECKS = 0")
        for statement in pathlib.Path(path).read_text().split(";\n\n"):
            connection.exec_driver_sql(statement.replace("%", "%%"))


def new_uuid():
    """A UUID that nobody has."""
    return str(uuid.uuid4())
