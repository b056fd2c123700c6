# SPDX-License-Identifier: Apache-2.0
"""Running `placement-server serve` for tests: it is expected to stop without a fuss."""

import contextlib
import os
import pathlib
import re
import selectors
import socket
import stat
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

import coverage

from tests.functional.forking import ForkedProcess, find_server

ROOT = pathlib.Path(__file__).parents[2]
#: the tests whose servers are measured: those of other tests take longer so, and do nothing that these do not
MEASURED = "tests/functional/server/"
#: the tests that are about the program, which is then started as people do, or about metrics:
#: prometheus-client is told by the environment how many processes count, when it is imported
OF_PROGRAM = (f"{MEASURED}test_metrics", "tests/functional/packaging/")
PROGRAM = pathlib.Path(sys.executable).with_name("placement-server")


def is_in(*directories):
    """Whether the test that is being run is in one of these."""
    return os.environ.get("PYTEST_CURRENT_TEST", "").startswith(directories)


def is_measured():
    """Whether the coverage of a server is to be measured: if the test is, and about the server."""
    return is_in(MEASURED) and coverage.Coverage.current() is not None


def make_command():
    """What starts `placement-server` anew: measured if the test is, and about the server."""
    if not is_measured():
        return (PROGRAM,)
    data = ROOT / ".cache" / "coverage"
    measure = ("coverage", "run", f"--rcfile={ROOT / 'pyproject.toml'}", f"--data-file={data}")
    return (pathlib.Path(sys.executable), "-m", *measure, PROGRAM)


READY = re.compile(r"placement-server: ready at (https?://\S+) \((.*)\)\n")
#: seconds after which a server that says nothing is taken to hang
PATIENCE = 60


@dataclass
class Server:
    """A server that has said that it is ready."""

    url: str
    #: what the line says beside the URL
    facts: str
    process: subprocess.Popen
    log: pathlib.Path

    def stop(self):
        """End the server; its exit status."""
        self.process.terminate()
        return self.process.wait(PATIENCE)


def make_environment(**variables):
    """The variables of a shell in which nothing is configured but this."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    return {**inherited, "NO_PROXY": "127.0.0.1,::1", **variables}


#: what passes a socket to a command as a service manager does
PASS_SOCKET = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""


@contextlib.contextmanager
def launched(directory, *arguments, verb="serve", environment=None, wrapper=(), command=None, listener=None):
    """A server process in a directory, with its log there; killed at the end if it is still running.

    A wrapper is a command that becomes the one it is given. With neither that nor a command, and in a test
    that is not about the program, the process comes from a fork server. A listener is a socket that is passed
    to the server as a service manager does.
    """
    log = directory / "server.log"
    line = [verb, *(() if listener else ("--port", "0")), *map(str, arguments)]
    environment = environment or make_environment()
    inherited = {}
    if listener:
        wrapper = (sys.executable, "-c", PASS_SOCKET, str(listener.fileno()))
        inherited = {"pass_fds": [listener.fileno()]}
    if wrapper or command or is_in(*OF_PROGRAM):
        start = partial(subprocess.Popen, [*wrapper, *(command or make_command()), *line], **inherited)
    else:
        start = partial(ForkedProcess, find_server("placement-server"), line, measured=is_measured())
    with log.open("w") as stderr:
        process = start(
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    try:
        match = READY.fullmatch(_read_line(process))
        assert match, f"the server did not start: {log.read_text()}"
        yield Server(match[1], match[2], process, log)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _read_line(process):
    """The first line a process prints; nothing if it ends, or takes too long."""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        return process.stdout.readline() if selector.select(PATIENCE) else ""


@contextlib.contextmanager
def running(directory, *arguments, **options):
    """A server that has to end with status 0 and a log without a traceback."""
    with launched(directory, *arguments, **options) as server:
        yield server
        end_connections(urlsplit(server.url).port)
        assert server.stop() == 0
    assert "Traceback" not in server.log.read_text()


def end_connections(port):
    """End the connections of this process with a port; a server that stops waits on each for a request."""
    for number in os.listdir("/proc/self/fd"):
        # some are closed meanwhile, and some are no sockets
        with contextlib.suppress(OSError):
            if not stat.S_ISSOCK(os.fstat(int(number)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(number))) as connection:
                if (
                    connection.family in (socket.AF_INET, socket.AF_INET6)
                    and connection.getpeername()[1] == port
                ):
                    connection.shutdown(socket.SHUT_RDWR)


def find_grandchildren(pid):
    """The ids of the processes that the children of a process have started, from whichever thread."""
    found = []
    for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        # any of them may end meanwhile
        with contextlib.suppress(OSError):
            for task in pathlib.Path(f"/proc/{child}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def count_threads(pid):
    """The number of threads of a process; none if it has ended."""
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0
