# SPDX-License-Identifier: Apache-2.0
"""Empty databases for tests, on the three kinds that the server runs on; dropped when the test is over."""

import contextlib
import importlib.util
import os
import uuid

import pytest
import sqlalchemy as sa

BACKENDS = ("sqlite", "mariadb", "postgresql")

#: of each database server: the variable that names it, with an account that may make databases, and a default
SERVERS = {
    "mariadb": ("OSC_PLACEMENT_TEST_MYSQL_URL", "mysql+pymysql://root@127.0.0.1:3306/"),
    "postgresql": (
        "OSC_PLACEMENT_TEST_POSTGRESQL_URL",
        "postgresql+psycopg2://postgres:postgres@127.0.0.1:5432/postgres",
    ),
}
#: set by those who know that everything is there: what is not is then a failure
STRICT = "OSC_PLACEMENT_TEST_STRICT"

CREATE = {
    "mariadb": "CREATE DATABASE {name} CHARACTER SET utf8mb4",
    "postgresql": "CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0",
}
DROP = {
    "mariadb": "DROP DATABASE {name}",
    # FORCE ends the sessions of servers that a test has killed
    "postgresql": "DROP DATABASE {name} WITH (FORCE)",
}


def skip_or_fail(reason, *, allow_module_level=False):
    """Skip the test, or the module, for this reason; with `STRICT` set, fail it."""
    if os.environ.get(STRICT) == "1":
        pytest.fail(f"{reason}; it must not, because {STRICT}=1", pytrace=False)
    pytest.skip(reason, allow_module_level=allow_module_level)


def require_reference():
    """Skip or fail the test if openstack-placement is not there to be compared with."""
    if importlib.util.find_spec("placement") is None:
        skip_or_fail("openstack-placement is not installed (extra 'reference')")


@contextlib.contextmanager
def make_database(backend, directory):
    """An empty database, as a URL; a SQLite one is a file in the directory."""
    if backend == "sqlite":
        yield f"sqlite:///{directory}/placement-{uuid.uuid4().hex[:12]}.db"
        return
    name = f"osc_placement_test_{uuid.uuid4().hex[:12]}"
    server = find_server(backend)
    execute(server, CREATE[backend].format(name=name))
    try:
        yield server.set(database=name).render_as_string(hide_password=False)
    finally:
        execute(server, DROP[backend].format(name=name))


def find_server(backend):
    """The URL of a database server that answers; skips or fails the test if there is none."""
    variable, default = SERVERS[backend]
    try:
        url = sa.make_url(os.environ.get(variable) or default)
    except (sa.exc.ArgumentError, ValueError):
        skip_or_fail(f"{variable} is no URL of a database")
    if url.get_backend_name().replace("mariadb", "mysql") != default.partition("+")[0]:
        skip_or_fail(f"{variable} is no URL of {backend}, as is {default}")
    if url.drivername == "postgresql":
        # the driver meant by the bare name depends on the version of SQLAlchemy
        url = url.set(drivername="postgresql+psycopg2")
    try:
        execute(url, "SELECT 1")
    except (sa.exc.OperationalError, ImportError) as error:
        reason = " ".join(str(getattr(error, "orig", error)).split())
        skip_or_fail(f"{backend} cannot be used, as {variable} names it, or by default {default}: {reason}")
    return url


def execute(server, statement):
    """Run a statement on a server, outside of any transaction."""
    # neither server makes a database within a transaction
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        connection.execute(sa.text(statement))
