# SPDX-License-Identifier: Apache-2.0
"""Programs for tests: a process for each command line, quickly forked instead of started."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys

import coverage

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
#: the variables that programs are loaded with, before any test has changed some
ENVIRONMENT = dict(os.environ)
#: what a forked process can be told, of what `Popen` takes
SETTINGS = {"bufsize", "stdin", "stdout", "stderr", "text"}
#: seconds after which a command is taken to hang
PATIENCE = 300


class ForkServer:
    """Where the processes of a program come from without loading it for each; one interpreter for all."""

    def __init__(self, program, python):
        self._program, self._python = program, python
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            # not with the directories beside it in its path: one of them is called packaging
            command = [python, "-P", HERE / "fork_server.py", program]
            environment = {**ENVIRONMENT, "PYTHONPATH": str(ROOT)} if ":" in program else ENVIRONMENT
            # in a session of its own: Ctrl-C is for pytest, which ends what it has begun
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdin=theirs, start_new_session=True
            )

    def write_program(self, directory):
        """Write the program into a directory, to be run from here; the descriptor that it has to inherit."""
        descriptor = self.control.fileno()
        path = directory / self._program
        path.write_text(
            f'#!/bin/sh\nexec {self._python} -IS {HERE / "forked_program.py"} {descriptor} "$@"\n'
        )
        path.chmod(0o755)
        return descriptor

    def close(self):
        """End the interpreter; what it forked goes on."""
        self.control.close()
        self.process.wait(timeout=60)


SERVERS = {}


def find_server(program, python=sys.executable):
    """The one fork server of a program for all tests of this process.

    :param program: a console script of the interpreter's environment, or ``module:function`` of the tests
    """
    key = (program, python)
    if key not in SERVERS:
        SERVERS[key] = ForkServer(*key)
    assert SERVERS[key].process.poll() is None, f"the fork server of {program} has ended"
    return SERVERS[key]


def close_servers():
    """End all fork servers."""
    while SERVERS:
        SERVERS.popitem()[1].close()


class ForkedProcess(subprocess.Popen):
    """A `Popen` whose process is a child of a fork server: `args` are the program's arguments.

    :param measured: whether the coverage of the process is measured; by default it is if that of the test is
    """

    def __init__(
        self, server, arguments, *, cwd=None, env=None, start_new_session=False, measured=None, **settings
    ):
        assert settings.keys() <= SETTINGS, settings
        self._server = server
        self._request = {
            "arguments": [str(argument) for argument in arguments],
            "directory": str(cwd or os.getcwd()),
            "environment": dict(os.environ if env is None else env),
            "session": start_new_session,
            "measured": coverage.Coverage.current() is not None if measured is None else measured,
        }
        super().__init__(arguments, **settings)

    def _execute_child(self, *settings):
        pipes = settings[10:16]
        streams = [pipes[0], pipes[3], pipes[5]]
        streams = [number if pipe == -1 else pipe for number, pipe in enumerate(streams)]
        ours, theirs = socket.socketpair()
        with theirs:
            packet = json.dumps(self._request).encode()
            socket.send_fds(self._server.control, [packet], [*streams, theirs.fileno()])
        # unbuffered: the status may come as soon as the pid, and is read from the socket itself
        self._told = ours.makefile("rb", buffering=0)
        ours.close()
        self.pid = int(self._told.readline())
        self._child_created = True
        self._close_pipe_fds(*pipes)

    def _try_wait(self, wait_flags):
        with socket.socket(fileno=os.dup(self._told.fileno())) as status:
            try:
                told = status.recv(100, socket.MSG_DONTWAIT if wait_flags & os.WNOHANG else 0)
            except BlockingIOError:
                return 0, 0
        self._told.close()
        # who should have told it was killed: so is the process, of which nobody knows any more
        return self.pid, int(told or os.kill(self.pid, signal.SIGKILL) or signal.SIGKILL)

    def _internal_poll(self, **_):
        if self.returncode is None and self._waitpid_lock.acquire(False):
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid == self.pid:
                    self._handle_exitstatus(status)
            finally:
                self._waitpid_lock.release()
        return self.returncode


def run(program, *arguments, python=sys.executable, text="", **settings):
    """Run a command line on a text, as :func:`subprocess.run` with its output captured as text does."""
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    server = find_server(program, python)
    with ForkedProcess(server, arguments, text=True, **{**streams, **settings}) as process:
        try:
            out, err = process.communicate(text, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return subprocess.CompletedProcess([program, *arguments], process.returncode, out, err)
