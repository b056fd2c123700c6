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
    """The databases of such a cloud on MariaDB, for one test after another: to make them takes seconds.

    The rows that are left of a test are deleted; where one has added or dropped columns, all is made anew.
    """

    def __init__(self):
        self._made = contextlib.ExitStack()
        self._urls = {}
        self._columns = None

    @contextlib.contextmanager
    def lent(self, directory):
        """The databases, empty."""
        if not self._urls:
            self._make(directory)
        yield Databases(dict(self._urls))
        if self._read_columns() == self._columns:
            self._empty()
        else:
            self.close()

    def close(self):
        """Drop them."""
        self._urls = {}
        self._made.close()

    def _make(self, directory):
        templates = make_templates("mariadb")
        urls = {}
        for name, kind in DATABASES.items():
            urls[name] = self._made.enter_context(databases.make_database("mariadb", directory))
            load_dump(urls[name], templates[kind])
        self._urls = urls
        self._columns = self._read_columns()

    def _read_columns(self):
        """The schema, table and name of each column, in order."""
        names = [sa.make_url(url).database for url in self._urls.values()]
        query = sa.text(
            "SELECT table_schema, table_name, column_name FROM information_schema.columns"
            " WHERE table_schema IN :names ORDER BY table_schema, table_name, ordinal_position"
        ).bindparams(sa.bindparam("names", names, expanding=True))
        with self._connect() as connection:
            return [tuple(row) for row in connection.execute(query)]

    def _empty(self):
        with self._connect() as connection:
            connection.exec_driver_sql("SET FOREIGN_KEY_CHECKS = 0")
            for schema, name in {(schema, table) for schema, table, _ in self._columns}:
                if connection.execute(sa.delete(sa.table(name, schema=schema))).rowcount:
                    # tests know which id a row will have
                    connection.exec_driver_sql(f"ALTER TABLE `{schema}`.`{name}` AUTO_INCREMENT = 1")

    def _connect(self):
        return sa.create_engine(self._urls["api"], poolclass=sa.pool.NullPool).begin()


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
