# SPDX-License-Identifier: Apache-2.0
"""Database servers of a benchmark's or test's own, each with its own directory and port; MariaDB and Galera.

Nobody else uses them, so they may be killed, and all of their processor time is for those who started them.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from benchmarks import databases
from benchmarks.case import Unavailable
from benchmarks.processes import find_children, find_free_port, is_running, kill

#: seconds a server may take to start; a crash has to be recovered from meanwhile
PATIENCE = 60
_GALERA_LIBRARIES = ("/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so")


class DatabaseServer:
    """A database server; `start` and `kill` it as often as you like."""

    #: options of Popen that give the account of the server
    account: Mapping[str, Any] = {}

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.port = find_free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.prepare()

    def prepare(self) -> None:
        """Make the data directory."""
        raise NotImplementedError

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the server; its process."""
        raise NotImplementedError

    @property
    def administration(self) -> sa.URL:
        """The URL with which databases are made."""
        raise NotImplementedError

    @property
    def pid(self) -> int:
        """The id of the process that was started."""
        assert self._process is not None, "the server was not started"
        return self._process.pid

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self._process = self.launch()
        self.await_answer()

    def await_answer(self) -> None:
        """Wait until the server answers, on a connection of its own."""
        engine = sa.create_engine(self.administration, poolclass=sa.pool.NullPool)
        end = time.monotonic() + PATIENCE
        while True:
            try:
                with engine.connect() as connection:
                    if self.is_ready(connection):
                        return
            except sa.exc.OperationalError:
                pass
            assert self._process is not None
            assert self._process.poll() is None, self.log.read_text()[-4000:]
            assert time.monotonic() < end, self.log.read_text()[-4000:]
            time.sleep(0.1)

    def is_ready(self, connection: sa.Connection) -> bool:
        """Return whether a server that accepts connections accepts statements, too."""
        return True

    def kill(self) -> None:
        """Kill the server with all its processes, at once."""
        if self._process is not None:
            # so that it starts no process meanwhile
            self._process.send_signal(signal.SIGSTOP)
            processes = [self._process.pid, *find_children(self._process.pid)]
            kill(processes)
            self._process.wait()
            # PostgreSQL does not start again while one of them is there
            while any(map(is_running, processes)):
                time.sleep(0.001)
            self._process = None

    @property
    def log(self) -> pathlib.Path:
        """Where the server writes its messages."""
        return self.directory / "server.log"

    def run(self, *command: object, check: bool = True) -> subprocess.Popen[bytes]:
        """Start a program as the account of the server."""
        with self.log.open("a") as log:
            process = subprocess.Popen(
                [*map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                # Ctrl+C is for the program, which ends the server when it is done with it
                start_new_session=True,
                **self.account,
            )
        if check:
            assert process.wait() == 0, self.log.read_text()
        return process


class MariaDB(DatabaseServer):
    """mariadbd with durable commits, whose administrator has no password."""

    user = getpass.getuser()

    def prepare(self) -> None:
        """Make the system tables."""
        self.data = self.directory / "data"
        self.run(
            "mariadb-install-db",
            "--no-defaults",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            f"--user={self.user}",
            f"--datadir={self.data}",
            f"--tmpdir={self.directory}",
        )

    def launch(self) -> subprocess.Popen[bytes]:
        """Start with a small cache; of the same option given twice, the last one counts."""
        return self.run(
            shutil.which("mariadbd", path=f"{os.environ['PATH']}:/usr/sbin"),
            "--no-defaults",
            f"--user={self.user}",
            f"--datadir={self.data}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            f"--socket={self.directory}/socket",
            f"--pid-file={self.directory}/pid",
            # a server that starts deletes the temporary tables of others there
            f"--tmpdir={self.directory}",
            "--innodb-buffer-pool-size=64M",
            "--innodb-log-file-size=32M",
            "--innodb-flush-log-at-trx-commit=1",
            "--skip-name-resolve",
            *self.options,
            check=False,
        )

    @property
    def options(self) -> Sequence[str]:
        """More options of the server."""
        return ()

    @property
    def administration(self) -> sa.URL:
        """Over TCP, as an administrator without a password."""
        return sa.make_url(f"mysql+pymysql://root@127.0.0.1:{self.port}/")


class LargeMariaDB(MariaDB):
    """MariaDB with a cache that holds a large cloud."""

    @property
    def options(self) -> Sequence[str]:
        """A larger cache and log."""
        return ("--innodb-buffer-pool-size=1G", "--innodb-log-file-size=512M")


class GaleraNode(LargeMariaDB):
    """The only node of a Galera cluster, on the loopback interface."""

    def prepare(self) -> None:
        """Make the system tables, and choose the port of the cluster."""
        self._cluster_port = find_free_port()
        super().prepare()

    @property
    def options(self) -> Sequence[str]:
        """Those of a large MariaDB, and a cluster of this node alone."""
        port = self._cluster_port
        cluster = make_galera_options(
            "gcomm://",
            node_address=f"127.0.0.1:{port}",
            provider_options=f"gmcast.listen_addr=tcp://127.0.0.1:{port};gcache.size=128M",
        )
        return (*super().options, *cluster, "--wsrep-new-cluster")

    def is_ready(self, connection: sa.Connection) -> bool:
        """Return whether the node is a member of its cluster."""
        state = connection.exec_driver_sql("SHOW STATUS LIKE 'wsrep_ready'").one()
        return bool(state[1] == "ON")


def make_galera_options(cluster_address: str, *, node_address: str, provider_options: str) -> tuple[str, ...]:
    """Return the options of MariaDB that make it a node of a Galera cluster."""
    return (
        "--wsrep-on=ON",
        f"--wsrep-provider={find_galera_library()}",
        "--wsrep-cluster-name=placement",
        f"--wsrep-cluster-address={cluster_address}",
        f"--wsrep-node-address={node_address}",
        f"--wsrep-provider-options={provider_options}",
        "--binlog-format=ROW",
        "--innodb-autoinc-lock-mode=2",
    )


def find_galera_library() -> str | None:
    """Return the path of Galera's library, None if it is not installed."""
    return next((path for path in _GALERA_LIBRARIES if pathlib.Path(path).exists()), None)


@contextlib.contextmanager
def running_mariadb(directory: pathlib.Path, *, galera: bool = False) -> Iterator[MariaDB]:
    """A started server in a new directory; raise Unavailable if MariaDB or Galera is not installed."""
    if shutil.which("mariadb-install-db") is None:
        raise Unavailable("there is no mariadb-install-db (on Debian: install mariadb-server)")
    if galera and find_galera_library() is None:
        raise Unavailable("there is no libgalera_smm.so (on Debian: install galera-4)")
    directory.mkdir()
    server = (GaleraNode if galera else LargeMariaDB)(directory)
    try:
        server.start()
        yield server
    finally:
        server.kill()


@contextlib.contextmanager
def busy_connection(server: sa.URL) -> Iterator[None]:
    """Keep a connection to a server in statements, each of which commits a change after a tenth of a second.

    It has a database of its own, as other services that use the server do.
    """
    over = threading.Event()
    with databases.made_on(server) as url, contextlib.ExitStack() as stack:
        engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
        connection = stack.enter_context(engine.connect())
        connection.exec_driver_sql("CREATE TABLE heartbeats (count INT) ENGINE=InnoDB")
        connection.exec_driver_sql("INSERT INTO heartbeats VALUES (0)")

        def work() -> None:
            while not over.is_set():
                connection.exec_driver_sql("UPDATE heartbeats SET count = count + 1 WHERE SLEEP(0.1) = 0")

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            yield
            if not thread.is_alive():
                raise RuntimeError("the connection that keeps the database server busy was lost")
        finally:
            over.set()
            thread.join()
