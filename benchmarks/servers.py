# SPDX-License-Identifier: Apache-2.0
"""Placement servers, ours and the reference, on a free port of the loopback interface."""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

PATIENCE = 60.0
POLL = 0.002


@dataclass(frozen=True)
class Server:
    """How to start a server: its command line, and what it needs in its environment."""

    command: Sequence[str | pathlib.Path]
    directory: pathlib.Path
    url: str
    environment: dict[str, str]


def ours(binaries: pathlib.Path, directory: pathlib.Path, *, database: str, workers: int) -> Server:
    """``placement-server serve``."""
    port = find_free_port()
    command: list[str | pathlib.Path] = [binaries / "placement-server", "serve", "--port", str(port)]
    command += ["--database", database, "--workers", str(workers)]
    return Server(command, directory, f"http://127.0.0.1:{port}", {})


def reference(binaries: pathlib.Path, directory: pathlib.Path, *, database: str, workers: int) -> Server:
    """openstack-placement under gunicorn; it makes its tables at its start, unless several workers would."""
    port = find_free_port()
    settings = f"[placement_database]\nconnection = {database}\nsync_on_startup = {workers == 1}\n"
    (directory / "placement.conf").write_text(settings + "[api]\nauth_strategy = noauth2\n")
    command: list[str | pathlib.Path] = [
        binaries / "gunicorn",
        "--bind",
        f"127.0.0.1:{port}",
        "--workers",
        str(workers),
    ]
    command += ["--log-level", "warning", "placement.wsgi.api:application"]
    environment = {"OS_PLACEMENT_CONFIG_DIR": str(directory)}
    return Server(command, directory, f"http://127.0.0.1:{port}", environment)


def make_reference_tables(binaries: pathlib.Path, server: Server) -> None:
    """Make the tables for a reference server of several workers."""
    subprocess.run(
        [binaries / "placement-manage", "--config-file", server.directory / "placement.conf", "db", "sync"],
        check=True,
        capture_output=True,
    )


def find_free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def running(server: Server) -> Iterator[None]:
    """Start a server, wait for its first answer; stop it afterwards."""
    log = server.directory / "server.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            list(server.command),
            cwd=server.directory,
            env={**os.environ, **server.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        _await_answer(server, process, log)
        yield
    finally:
        process.terminate()
        process.wait()


def _await_answer(server: Server, process: subprocess.Popen[bytes], log: pathlib.Path) -> None:
    """Ask for the providers, which needs the tables, until they come."""
    request = urllib.request.Request(f"{server.url}/resource_providers", headers={"X-Auth-Token": "admin"})
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up and process.poll() is None:
        try:
            with urllib.request.urlopen(request):
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(POLL)
    raise RuntimeError(f"{server.command[0]} does not answer; its log:\n{log.read_text()}")
