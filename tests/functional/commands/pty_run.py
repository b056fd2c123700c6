# SPDX-License-Identifier: Apache-2.0
"""A command whose output goes to a terminal of a given size."""

import fcntl
import os
import pty
import struct
import termios


def run_on_terminal(openstack, *arguments, columns=60, environment=(), answer=""):
    """Run a command on a terminal of its own; what it shows, and its exit status."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    process = openstack.start(*arguments, **streams, environment=environment, start_new_session=True)
    os.close(theirs)
    os.write(ours, answer.encode())
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            # how Linux says that the other end is closed
            part = b""
        if not part:
            break
        shown += part
    os.close(ours)
    return shown.decode().replace("\r\n", "\n"), process.wait(60)
