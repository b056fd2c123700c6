# SPDX-License-Identifier: Apache-2.0
"""Database servers of a test's own, which it may kill: each with its own directory and port."""

import contextlib
import getpass
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import sqlalchemy as sa

from benchmarks.servers import find_free_port
from tests import databases

#: seconds a server may take to start; a crash has to be recovered from meanwhile
PATIENCE = 60
POSTGRESQL_PROGRAMS = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))


def find_children(pid):
    """The processes that a process has started, and those that these have."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [found for child in map(int, children) for found in (child, *find_children(child))]
    return []


def kill(pids):
    """Kill processes, if they are still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class OwnServer:
    """A database server; `start` and `kill` it as often as you like."""

    def __init__(self, directory):
        self.directory = directory
        self.port = find_free_port()
        self._process = None
        self.prepare()

    def prepare(self):
        """Make the data directory."""
        raise NotImplementedError

    def launch(self):
        """Start the server; its process."""
        raise NotImplementedError

    def start(self):
        """Start the server and wait until it answers."""
        self._process = self.launch()
        self.await_answer()

    def await_answer(self):
        """Wait until the server answers, on a connection of its own."""
        engine = sa.create_engine(self.administration, poolclass=sa.pool.NullPool)
        end = time.monotonic() + PATIENCE
        while True:
            try:
                with engine.connect():
                    return
            except sa.exc.OperationalError:
                assert self._process.poll() is None, self.log.read_text()[-4000:]
                assert time.monotonic() < end, self.log.read_text()[-4000:]
                time.sleep(0.1)

    def kill(self):
        """Kill the server with all its processes, at once."""
        if self._process is not None:
            kill([self._process.pid, *find_children(self._process.pid)])
            self._process.wait()
            self._process = None

    @property
    def log(self):
        """Where the server writes its messages."""
        return self.directory / "server.log"

    def run(self, *command, check=True):
        """Start a program as the account of the server."""
        with self.log.open("a") as log:
            process = subprocess.Popen(
                [*map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                **self.account,
            )
        if check:
            assert process.wait() == 0, self.log.read_text()
        return process

    account = {}


class MariaDB(OwnServer):
    """mariadbd with durable commits, whose administrator has no password."""

    def prepare(self):
        """Make the system tables."""
        self.data = self.directory / "data"
        self.run(
            "mariadb-install-db",
            "--no-defaults",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            f"--user={self.user}",
            f"--datadir={self.data}",
        )

    def launch(self):
        """Start with a small cache; options that a node of a cluster needs besides come last."""
        return self.run(
            shutil.which("mariadbd", path=f"{os.environ['PATH']}:/usr/sbin"),
            "--no-defaults",
            f"--user={self.user}",
            f"--datadir={self.data}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            f"--socket={self.directory}/socket",
            f"--pid-file={self.directory}/pid",
            "--innodb-buffer-pool-size=64M",
            "--innodb-log-file-size=32M",
            "--innodb-flush-log-at-trx-commit=1",
            "--skip-name-resolve",
            *self.options,
            check=False,
        )

    options = ()
    user = getpass.getuser()

    @property
    def administration(self):
        """The URL with which databases are made."""
        return sa.make_url(f"mysql+pymysql://root@127.0.0.1:{self.port}/")


class PostgreSQL(OwnServer):
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
