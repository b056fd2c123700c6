# SPDX-License-Identifier: Apache-2.0
"""The application in the WSGI containers that operators use, as processes: gunicorn and uWSGI."""

import contextlib
import pathlib
import socket
import subprocess
import sys
import time

from benchmarks import environments
from benchmarks.processes import find_free_port
from tests import databases
from tests.functional import servers

GUNICORN = pathlib.Path(sys.executable).with_name("gunicorn")
APPLICATION = "osc_placement.server.wsgi:application"


def find_uwsgi():
    """The program, built from PyPI where that can be done; else the test is skipped, or fails."""
    try:
        return environments.make_uwsgi()
    except environments.NotInstallable as error:
        databases.skip_or_fail(f"{environments.UWSGI} cannot be built: {error}")


def make_gunicorn_command(port, *arguments):
    """gunicorn with two workers."""
    return [GUNICORN, "--bind", f"127.0.0.1:{port}", "--workers", "2", *arguments, APPLICATION]


def make_uwsgi_command(port, *arguments):
    """UWSGI with two processes, which imports what this interpreter does."""
    options = ["--master", "--processes", "2", "--threads", "4", "--die-on-term", "--need-app"]
    where = ["--http-socket", f"127.0.0.1:{port}", "--home", sys.prefix]
    return [find_uwsgi(), *where, *options, *arguments, "--module", APPLICATION]


COMMANDS = {"gunicorn": make_gunicorn_command, "uwsgi": make_uwsgi_command}


@contextlib.contextmanager
def serving(directory, *arguments, container="gunicorn", **variables):
    """A container that serves the application as configured in a directory; its URL and its process."""
    port = find_free_port()
    command = COMMANDS[container](port, *map(str, arguments))
    environment = servers.make_environment(OS_PLACEMENT_CONFIG_DIR=str(directory), **variables)
    with running(command, directory, environment, port) as process:
        yield f"http://127.0.0.1:{port}", process


@contextlib.contextmanager
def running(command, directory, environment, port):
    """A process that listens on a port; ended at the end."""
    log = directory / "container.log"
    with log.open("w") as file:
        process = subprocess.Popen(command, cwd=directory, env=environment, stdout=file, stderr=file)
    try:
        _await(process, port, log)
        yield process
    finally:
        process.terminate()
        process.wait()


def _await(process, port, log):
    while process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise AssertionError(log.read_text())
