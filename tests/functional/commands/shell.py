# SPDX-License-Identifier: Apache-2.0
"""The `openstack` command for tests: a process for each command, quickly forked or as people start it."""

import json
import os
import pathlib
import socket
import subprocess
import sys
from dataclasses import dataclass

HERE = pathlib.Path(__file__).parent
PROGRAM = pathlib.Path(sys.executable).with_name("openstack")


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def json(self):
        """Standard output, read as JSON."""
        return json.loads(self.out)


class ForkServer:
    """Where `openstack` processes come from without loading it for each; one interpreter for many homes."""

    def __init__(self):
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen([sys.executable, HERE / "fork_server.py"], stdin=theirs)

    def write_program(self, directory):
        """Have an `openstack` in a directory that comes from here; the descriptor that it has to inherit."""
        program = directory / "openstack"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -IS {HERE / "forked_openstack.py"} "$@"\n')
        program.chmod(0o755)
        return self.control.fileno()

    def close(self):
        """End the interpreter; what it forked goes on."""
        self.control.close()
        self._process.wait(timeout=60)


class ForkedProcess(subprocess.Popen):
    """A `Popen` whose process is a child of a fork server: `args` are those of `openstack`."""

    def __init__(self, server, arguments, *, cwd, env, start_new_session=False, **settings):
        self._server = server
        self._request = {
            "arguments": [str(argument) for argument in arguments],
            "directory": str(cwd),
            "environment": env,
            "session": start_new_session,
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
        self._told = ours.makefile()
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
        return self.pid, int(told)

    def _internal_poll(self, **_):
        if self.returncode is None and self._waitpid_lock.acquire(False):
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid == self.pid:
                    self._handle_exitstatus(status)
            finally:
                self._waitpid_lock.release()
        return self.returncode


class OpenStack:
    """Commands against one endpoint."""

    def __init__(self, endpoint, home, server):
        self.endpoint = endpoint
        self.home = home
        self.server = server
        self.environment = {
            "PATH": os.defpath,
            "LANG": "C.UTF-8",
            "HOME": str(home),
            "TERM": "xterm",
            "NO_PROXY": "127.0.0.1",
        }

    def options(self, endpoint):
        """The global options that lead to an endpoint."""
        endpoint = endpoint or self.endpoint
        return ["--os-auth-type", "admin_token", "--os-token", "admin", "--os-endpoint", endpoint]

    def run(self, *arguments, endpoint=None, version="1", text="", environment=()):
        """Run one command, with this text on its standard input."""
        chosen = ["--os-placement-api-version", version]
        process = self.start(
            *chosen, *arguments, endpoint=endpoint, environment=environment, stderr=subprocess.PIPE
        )
        return finish(process, text)

    def start(self, *arguments, endpoint=None, environment=(), **settings):
        """Begin one command."""
        command = [*self.options(endpoint), *map(str, arguments)]
        return ForkedProcess(self.server, command, **self._settings(environment, settings))

    def run_in_cloud(self, *arguments, environment):
        """Run one command with no options but its own; the environment says which cloud."""
        settings = self._settings(environment, {"stderr": subprocess.PIPE})
        return finish(ForkedProcess(self.server, arguments, **settings))

    def run_process(self, *arguments, endpoint=None, text="", environment=()):
        """Run one command as people do: a program that is loaded anew."""
        command = [PROGRAM, *self.options(endpoint), *map(str, arguments)]
        settings = self._settings(environment, {"stderr": subprocess.PIPE})
        return finish(subprocess.Popen(command, **settings), text)

    def _settings(self, environment, settings):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        env = {**self.environment, **dict(environment)}
        return {"text": True, "cwd": self.home, "env": env, **pipes, **settings}


def finish(process, text=""):
    """Wait for a process; what it left behind."""
    with process:
        out, err = process.communicate(text, timeout=60)
    return Result(process.returncode, out, err)
