# SPDX-License-Identifier: Apache-2.0
"""A shell on a terminal, in which lines are typed."""

import os
import pty
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from tests import databases

BIN = Path(sys.executable).parent
#: stands for the programs: writes the arguments that it is given into a file
STUB = """\
#!/bin/sh
printf '%s\\n' "$@" -- >>"$CALLS"
"""


class Terminal:
    """A shell with completion and programs that only note how they are called."""

    def __init__(self, shell, home, environment=()):
        if shutil.which(shell) is None:
            databases.skip_or_fail(f"{shell} is not installed")
        self.shell = shell
        self.home = home
        stubs = home / "stubs"
        stubs.mkdir()
        for program in ("openstack", "placement-server", "placement-migrate"):
            (stubs / program).write_text(STUB)
            (stubs / program).chmod(0o755)
        self.environment = {
            "HOME": str(home),
            "ZDOTDIR": str(home),
            "PATH": f"{stubs}:{os.defpath}",
            "LANG": "C.UTF-8",
            "TERM": "xterm",
            "CALLS": str(home / "calls"),
            **dict(environment),
        }

    def read_names(self):
        """Have names of each kind read, so that what a test sees does not depend on how fast that is."""
        for words in (["resource", "provider"], ["resource", "class"], ["trait"]):
            command = [BIN / "placement-completion", "--complete", "zsh", "openstack", *words, "show", ""]
            settings = {"cwd": self.home, "env": self.environment, "capture_output": True}
            assert any(subprocess.run(command, check=False, **settings).stdout for _ in range(30)), words

    def type(self, *lines, before="", environment=()):
        """Type lines; the arguments with which programs were called, and what was shown.

        A shell reads what was typed in its own time, so that nothing has to be waited for.
        """
        calls = self.home / "calls"
        calls.write_text("")
        rc, options = (".zshrc", ["-i"]) if self.shell == "zsh" else (".bashrc", ["--noprofile", "-i"])
        (self.home / rc).write_text(f"{before}\nsource <({BIN}/placement-completion {self.shell})\n")
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [shutil.which(self.shell), *options],
            **dict.fromkeys(("stdin", "stdout", "stderr"), theirs),
            cwd=self.home,
            env={**self.environment, **dict(environment)},
            start_new_session=True,
        )
        os.close(theirs)
        # an unclosed quote has a shell wait for ever
        limit = threading.Timer(300, process.kill)
        limit.start()
        with process:
            os.write(ours, "".join(f"{line}\n" for line in [*lines, "exit"]).encode())
            shown = b"".join(iter(lambda: read(ours), b""))
        limit.cancel()
        os.close(ours)
        return [call.split("\n")[:-1] for call in calls.read_text().split("--\n")[:-1]], shown.decode()


def read(terminal):
    """What a terminal shows next; nothing if its other end is closed."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""
