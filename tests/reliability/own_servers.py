# SPDX-License-Identifier: Apache-2.0
"""Database servers of a test's own, which it may kill: each with its own directory and port."""

import contextlib
import os
import pathlib
import shutil
import tempfile

import sqlalchemy as sa

from benchmarks.database_servers import DatabaseServer, MariaDB
from tests import databases

POSTGRESQL_PROGRAMS = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))


class PostgreSQL(DatabaseServer):
    """postgres, which does not run as root."""

    def prepare(self):
        """Make the cluster."""
        self.programs = POSTGRESQL_PROGRAMS[-1]
        if os.getuid() == 0:
            self.account = {"user": "postgres", "group": "postgres", "extra_groups": []}
            shutil.chown(self.directory, "postgres", "postgres")
        data = self.directory / "data"
        self.run(self.programs / "initdb", "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8")

    def launch(self):
        """Start with default settings where it matters: commits are durable."""
        return self.run(
            self.programs / "postgres",
            "-D",
            self.directory / "data",
            "-p",
            self.port,
            "-h",
            "127.0.0.1",
            "-k",
            self.directory,
            # what is left of a server that is killed goes with its directory
            "-c",
            "dynamic_shared_memory_type=mmap",
            check=False,
        )

    @property
    def administration(self):
        """The URL with which databases are made."""
        return sa.make_url(f"postgresql+psycopg2://postgres@127.0.0.1:{self.port}/postgres")


@contextlib.contextmanager
def own_server(backend):
    """A started server of the test's own, and the URL of an empty database on it; skips if there is none."""
    programs = {
        "mariadb": shutil.which("mariadb-install-db"),
        "postgresql": POSTGRESQL_PROGRAMS,
    }
    if not programs[backend]:
        databases.skip_or_fail(f"{backend} is not installed here")
    # pytest's directories are for their owner alone, and the name of a socket has to be short
    with tempfile.TemporaryDirectory(prefix="placement-", ignore_cleanup_errors=True) as directory:
        server = {"mariadb": MariaDB, "postgresql": PostgreSQL}[backend](pathlib.Path(directory))
        try:
            server.start()
            databases.execute(server.administration, databases.CREATE[backend].format(name="placement"))
            url = server.administration.set(database="placement")
            yield server, url.render_as_string(hide_password=False)
        finally:
            server.kill()
