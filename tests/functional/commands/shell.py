# SPDX-License-Identifier: Apache-2.0
"""The `openstack` command for tests: a process for each command, quickly forked or as people start it."""

import json
import os
import pathlib
import re
import subprocess
import sys
from dataclasses import dataclass

from tests.functional.forking import ForkedProcess
from tests.waiting import wait_until

PROGRAM = pathlib.Path(sys.executable).with_name("openstack")
#: the line that names a run, with the commands that resume and undo it
NAMED_RUN = re.compile(
    r"^Run (\d{8}T\d{6}-[0-9a-f]{6})(; to (resume|undo) it: openstack .* \1( --.*)?)*\n", re.MULTILINE
)


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

    @property
    def complaints(self):
        """Standard error without the line with which an apply names its run."""
        return NAMED_RUN.sub("", self.err)


class OpenStack:
    """Commands against one endpoint."""

    def __init__(self, endpoint, home, server):
        self.endpoint = endpoint
        self.home = home
        #: the directory of the journals
        self.runs = home / ".local" / "state" / "osc-placement" / "runs"
        self.server = server
        self.environment = {
            "PATH": os.defpath,
            "LANG": "C.UTF-8",
            "HOME": str(home),
            "TERM": "xterm",
            "NO_COLOR": "1",
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

    def start_run(self, *command, **settings):
        """Begin a command that starts a run; return the process and the control file of the run."""
        before = {*self.runs.glob("*.jsonl")}
        process = self.start(*command, stderr=subprocess.PIPE, **settings)
        (journal,) = wait_until(lambda: {*self.runs.glob("*.jsonl")} - before)
        return process, journal.with_suffix(".control")

    def last_run(self):
        """The run that was started last, as `batch run list` has it."""
        return self.run("resource", "provider", "batch", "run", "list", "--all-clouds", "-f", "json").json[-1]

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
