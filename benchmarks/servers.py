# SPDX-License-Identifier: Apache-2.0
"""Placement servers, ours and the reference, on a free port of the loopback interface.

Both run under the same container with the same settings, from the same placement.conf, on databases with the
same content. The container is gunicorn if nothing else is said.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks import databases, environments, uwsgi
from benchmarks.case import Workspace
from benchmarks.clouds import Cloud
from benchmarks.fill import fill
from benchmarks.processes import find_children, find_free_port, read_resident
from benchmarks.requesting import Client

PATIENCE = 120.0
POLL = 0.002
#: processes that serve, as the issues say
WORKERS = 2
#: seconds after which gunicorn takes a worker for hanging: longer than anything that is measured
TIMEOUT = 600

CONFIGURATION = """\
[placement_database]
connection = {database}
[api]
auth_strategy = noauth2
[oslo_policy]
policy_file = {policy}
"""
#: by default only services may reshape, and the commands that are measured come from an administrator
POLICY = '"placement:reshaper:reshape": "rule:admin_or_service_api"\n'


@dataclass(frozen=True)
class Implementation:
    """A placement server: where it is installed, how it makes its tables, how it is started."""

    #: the name of an environment in the workspace
    environment: str
    #: the command for the database, by the name of its program
    manage: str
    #: the WSGI application that the container loads; None if the program is its own container
    application: str | None
    #: the options of uWSGI, which is the container then
    uwsgi: tuple[str, ...] = ()

    def sync_command(self, workspace: Workspace) -> list[str | pathlib.Path]:
        """What makes the tables."""
        configuration = workspace.directory / "placement.conf"
        program = self.binaries(workspace) / self.manage
        if self.manage == "placement-manage":
            return [program, "--config-file", configuration, "db", "sync"]
        return [program, "db", "sync", "--config-file", configuration]

    def serve_command(self, workspace: Workspace, port: int) -> list[str | pathlib.Path]:
        """What serves."""
        binaries = self.binaries(workspace)
        if self.application is None:
            configuration = workspace.directory / "placement.conf"
            return [binaries / self.manage, "serve", "--config-file", configuration, "--port", str(port)]
        if self.uwsgi:
            file = workspace.directory / "uwsgi.ini"
            uwsgi.write(file, (*self.uwsgi, f"module = {self.application}"), port=port)
            return [environments.make_uwsgi(), "--home", binaries.parent, "--ini", file]
        container = ["--workers", str(WORKERS), "--timeout", str(TIMEOUT), "--log-level", "warning"]
        return [binaries / "gunicorn", "--bind", f"127.0.0.1:{port}", *container, self.application]

    def binaries(self, workspace: Workspace) -> pathlib.Path:
        """The bin directory it is installed in."""
        directory: pathlib.Path = getattr(workspace, self.environment)
        return directory


OURS = Implementation("ours", "placement-server", "osc_placement.server.wsgi:application")
REFERENCE = Implementation("reference", "placement-manage", "placement.wsgi.api:application")
#: ours as it serves by itself: gunicorn with two processes of eight threads
OURS_ITSELF = Implementation("ours", "placement-server", None)


class Server:
    """A server that can be started again and again.

    :ivar database: the URL of its database
    """

    def __init__(
        self, implementation: Implementation, workspace: Workspace, database: str, **variables: str
    ) -> None:
        port = find_free_port()
        self.database = database
        self._variables = variables
        self.url = f"http://127.0.0.1:{port}"
        self._sync_command = implementation.sync_command(workspace)
        self._command = implementation.serve_command(workspace, port)
        self._directory = workspace.directory
        self._process: subprocess.Popen[bytes] | None = None

    def make_tables(self) -> None:
        """Make the tables in its database."""
        subprocess.run(self._sync_command, check=True, capture_output=True)

    def start(self) -> float:
        """Start and wait for an answer that needs the database; the seconds until then."""
        started = time.monotonic()
        with (self._directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                list(self._command),
                cwd=self._directory,
                env={**os.environ, "OS_PLACEMENT_CONFIG_DIR": str(self._directory), **self._variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._await_answer()
        return time.monotonic() - started

    def _await_answer(self) -> None:
        give_up = time.monotonic() + PATIENCE
        with Client(self.url) as client:
            while time.monotonic() < give_up and self._running.poll() is None:
                with contextlib.suppress(OSError):
                    if client.get("/resource_providers?name=nobody").status == 200:
                        return
                time.sleep(POLL)
        log = (self._directory / "server.log").read_text()
        raise RuntimeError(f"{self._command[0]} does not answer; its log:\n{log}")

    def stop(self) -> None:
        """Stop it with all its processes; whatever they are at is not wanted any more."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._running.wait()

    def restart(self) -> None:
        """Stop and start."""
        self.stop()
        self.start()

    def memory(self) -> float:
        """The resident memory of the worker that has most, in MiB."""
        return max(map(read_resident, find_children(self.pid)))

    @property
    def pid(self) -> int:
        """The id of the process that was started, whose children serve."""
        return self._running.pid

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the server was not started"
        return self._process


@contextlib.contextmanager
def prepared(
    workspace: Workspace,
    implementation: Implementation,
    cloud: Cloud | None,
    *,
    database: databases.Kind = databases.mariadb,
    **variables: str,
) -> Iterator[Server]:
    """A server, not started, on a database that holds a cloud, or nothing if there is none.

    :param variables: of its environment
    """
    with database(workspace.directory) as url:
        policy = workspace.directory / "policy.yaml"
        policy.write_text(POLICY)
        configuration = CONFIGURATION.format(database=url, policy=policy)
        (workspace.directory / "placement.conf").write_text(configuration)
        server = Server(implementation, workspace, url, **variables)
        if cloud is not None:
            server.make_tables()
            fill(url, cloud)
        yield server


@contextlib.contextmanager
def serving(
    workspace: Workspace,
    implementation: Implementation,
    cloud: Cloud,
    *,
    database: databases.Kind = databases.mariadb,
    **variables: str,
) -> Iterator[Server]:
    """A server on a database that holds a cloud, as `prepared`."""
    with (
        prepared(workspace, implementation, cloud, database=database, **variables) as server,
        started(server),
    ):
        yield server


@contextlib.contextmanager
def started(server: Server) -> Iterator[float]:
    """A server started, in the seconds that are given, and stopped at the end."""
    try:
        yield server.start()
    finally:
        server.stop()
