# SPDX-License-Identifier: Apache-2.0
"""A program for a shell: has a fork server, whose socket it inherits, run the command; ends as that does.

The first argument is the number of the socket, the others are those of the program. SIGTERM is passed on.
Imports next to nothing, as it is started for each command.
"""

import json
import os
import signal
import socket
import sys


def main():
    """Hand over what this process was given; the command's exit status."""
    descriptor, *arguments = sys.argv[1:]
    environment = dict(os.environ)
    # openstacksdk looks for it where the fork server was when that was loaded
    environment.setdefault("OS_CLIENT_CONFIG_FILE", os.path.abspath("clouds.yaml"))
    request = {
        "arguments": arguments,
        "directory": os.getcwd(),
        "environment": environment,
        "session": False,
    }
    ours, theirs = socket.socketpair()
    with socket.socket(fileno=int(descriptor)) as control, theirs:
        socket.send_fds(control, [json.dumps(request).encode()], [0, 1, 2, theirs.fileno()])
    with ours.makefile() as told:
        pid = int(told.readline())
        signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
        status = int(told.readline())
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
