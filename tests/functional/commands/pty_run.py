# SPDX-License-Identifier: Apache-2.0
"""A command whose output goes to a terminal of a given size."""

import fcntl
import os
import pty
import select
import struct
import termios

#: seconds after which something is taken not to come
_PATIENCE = 60


class WholeTerminal:
    """A terminal that is all three streams of a command."""

    def __init__(self, openstack, *arguments, columns=60, rows=40, environment=(), endpoint=None):
        self.master, theirs = pty.openpty()
        self.resize(columns, rows)
        streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
        self.process = openstack.start(
            *arguments, **streams, endpoint=endpoint, environment=environment, start_new_session=True
        )
        os.close(theirs)
        self._bytes = b""

    @property
    def shown(self):
        """All that was shown so far."""
        return self._bytes.decode(errors="ignore").replace("\r\n", "\n")

    def resize(self, columns, rows):
        """Give the terminal another size."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def write(self, text):
        """Type some text."""
        os.write(self.master, text.encode())

    def read_until(self, text, since=0):
        """Read until this text is shown behind the first ``since`` characters; return where it ends."""
        while text not in self.shown[since:]:
            if not self._read():
                self.process.kill()
                raise AssertionError(f"{text!r} is not shown: {self.shown[since:]!r}")
        return since + self.shown[since:].index(text) + len(text)

    def finish(self):
        """Read all there is; return it with the exit status."""
        while self._read():
            pass
        os.close(self.master)
        return self.shown, self.process.wait(60)

    def _read(self):
        if not select.select([self.master], [], [], _PATIENCE)[0]:
            # such as a question that nobody answers
            self.process.kill()
            raise AssertionError(f"nothing comes any more: {self.shown!r}")
        try:
            part = os.read(self.master, 65536)
        except OSError:
            # how Linux says that the other end is closed
            part = b""
        self._bytes += part
        return part


def run_on_terminal(openstack, *arguments, columns=60, environment=(), answer=""):
    """Run a command on a terminal of its own; what it shows, and its exit status."""
    terminal = WholeTerminal(openstack, *arguments, columns=columns, environment=environment)
    terminal.write(answer)
    return terminal.finish()
