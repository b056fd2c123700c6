# SPDX-License-Identifier: Apache-2.0
"""Commands of a page of the documentation, typed into a shell on a terminal of the usual width."""

import contextlib
import re
import shutil
import subprocess

from tests.functional.commands.pty_run import run_on_terminal
from tests.functional.test_readme import Shell

RUN = re.compile(r"\d{8}T\d{6}-\w{6}")


@contextlib.contextmanager
def shell_with(nova_conf, directory):
    """A shell in a home directory, which has nova.conf in one of its usual places."""
    home = directory / "home"
    (home / ".nova").mkdir(parents=True)
    shutil.copy(nova_conf, home / ".nova/nova.conf")
    shell = Shell(home, ["placement-migrate"])
    try:
        yield shell
    finally:
        shell.stop()


class Typed:
    """Commands that are typed into a shell on a terminal."""

    def __init__(self, shell):
        self._settings = shell.settings()

    def start(self, command, *, endpoint, environment, **streams):
        """Begin a command."""
        env = {**self._settings["env"], **dict(environment)}
        del env["COLUMNS"]
        return subprocess.Popen(["sh", "-c", command], **{**self._settings, **streams, "env": env})


def type_into(shell, command):
    """Run a command on a terminal of the usual width; what it shows."""
    shown, status = run_on_terminal(Typed(shell), command, columns=80, environment={"TERM": "dumb"})
    assert status == 0, shown
    return shown


def with_runs_of(text, other):
    """A text with the ids of runs that another has, in their order."""
    ids = dict(zip(dict.fromkeys(RUN.findall(text)), dict.fromkeys(RUN.findall(other)), strict=False))
    return RUN.sub(lambda found: ids.get(found[0], found[0]), text)
