# SPDX-License-Identifier: Apache-2.0
"""``openstack`` for a shell: has a fork server, whose socket it inherits, run the command; ends as that does.

Imports next to nothing, as it is started for each command.
"""

import json
import os
import socket
import sys


def main():
    """Hand over what this process was given; the command's exit status."""
    environment = dict(os.environ)
    control = socket.socket(fileno=int(environment.pop("FORK_SERVER")))
    # openstacksdk looks for it where the fork server was when that was loaded
    environment.setdefault("OS_CLIENT_CONFIG_FILE", os.path.abspath("clouds.yaml"))
    request = {
        "arguments": sys.argv[1:],
        "directory": os.getcwd(),
        "environment": environment,
        "session": False,
    }
    ours, theirs = socket.socketpair()
    with control, theirs:
        socket.send_fds(control, [json.dumps(request).encode()], [0, 1, 2, theirs.fileno()])
    with ours.makefile() as told:
        _pid, status = told
    return os.waitstatus_to_exitcode(int(status))


if __name__ == "__main__":
    sys.exit(main())
