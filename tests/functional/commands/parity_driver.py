# SPDX-License-Identifier: Apache-2.0
"""Run ``openstack`` command lines one after another in one process: starting one takes most of a second.

A program on its own: it is run by the interpreter of each of the plugins that test_parity.py compares, and
imports nothing of the project. A request is a JSON line, a list of argument lists; the answer is a JSON line,
a list of {stdout, stderr, status}.
"""

import json
import logging
import os
import sys
import tempfile

from cliff.commandmanager import CommandManager
from openstackclient.shell import OpenStackShell
from osc_lib.clientmanager import ClientCache, ClientManager


def main():
    """Answer one request after another."""
    sys.argv[0] = OpenStackShell.NAME = "openstack"
    remember_commands()
    with os.fdopen(os.dup(1), "w") as answers:
        for line in sys.stdin:
            answers.write(json.dumps([run(argv) for argv in json.loads(line)]) + "\n")
            answers.flush()


def remember_commands():
    """Look for the commands of each group once: that took every line a quarter of its time."""
    known = {}
    look_for = CommandManager.load_commands

    def load_commands(manager, group):
        if group not in known:
            before, manager.commands = manager.commands, {}
            look_for(manager, group)
            manager.group_list.pop()
            known[group], manager.commands = manager.commands, before
        if known[group].keys() & manager.commands.keys():
            look_for(manager, group)  # which warns of a command that is there twice
            return
        manager.group_list.append(group)
        manager.commands.update(known[group])

    CommandManager.load_commands = load_commands


def run(argv):
    """Run one command line, as if this process had just begun."""
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        os.dup2(stdout.fileno(), 1)
        os.dup2(stderr.fileno(), 2)
        try:
            status = OpenStackShell().run(argv)
        except SystemExit as end:
            status = end.code or 0
        sys.stdout.flush()
        sys.stderr.flush()
        forget()
        return {"stdout": text_of(stdout), "stderr": text_of(stderr), "status": status}


def forget():
    """Drop what a command leaves behind in its process: where it logs to, and the clients it made."""
    logging.getLogger().handlers.clear()
    for attribute in vars(ClientManager).values():
        if isinstance(attribute, ClientCache):
            attribute._handle = None


def text_of(file):
    """Read a file from its beginning."""
    file.seek(0)
    return file.read().decode()


if __name__ == "__main__":
    main()
