# SPDX-License-Identifier: Apache-2.0
"""The `openstack` command for tests: run quickly in one process, or as people do."""

import json
import os
import pathlib
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


class OpenStack:
    """Commands against one endpoint; `run` uses an interpreter that is kept, `start` makes a process."""

    def __init__(self, endpoint, home):
        self.endpoint = endpoint
        self.home = home
        self.environment = {
            "PATH": os.defpath,
            "LANG": "C.UTF-8",
            "HOME": str(home),
            "TERM": "xterm",
            "NO_PROXY": "127.0.0.1",
        }
        self._driver = None

    def options(self, endpoint):
        """The global options that lead to an endpoint."""
        endpoint = endpoint or self.endpoint
        return ["--os-auth-type", "admin_token", "--os-token", "admin", "--os-endpoint", endpoint]

    def run(self, *arguments, endpoint=None, version="1"):
        """Run one command."""
        if self._driver is None:
            self._driver = self._popen([sys.executable, HERE / "parity_driver.py"])
        options = [*self.options(endpoint), "--os-placement-api-version", version]
        self._driver.stdin.write(json.dumps([[*options, *map(str, arguments)]]) + "\n")
        self._driver.stdin.flush()
        (done,) = json.loads(self._driver.stdout.readline())
        return Result(done["status"], done["stdout"], done["stderr"])

    def start(self, *arguments, endpoint=None, **settings):
        """Begin one command as a process of its own."""
        return self._popen([PROGRAM, *self.options(endpoint), *map(str, arguments)], **settings)

    def run_process(self, *arguments, endpoint=None, text=""):
        """Run one command as a process of its own, with this text on its standard input."""
        with self.start(*arguments, endpoint=endpoint, stderr=subprocess.PIPE) as process:
            out, err = process.communicate(text, timeout=60)
        return Result(process.returncode, out, err)

    def _popen(self, command, **settings):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        return subprocess.Popen(
            command, text=True, cwd=self.home, env=self.environment, **{**pipes, **settings}
        )

    def close(self):
        """End the interpreter that was kept."""
        if self._driver is not None:
            self._driver.communicate()
