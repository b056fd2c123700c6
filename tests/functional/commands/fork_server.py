# SPDX-License-Identifier: Apache-2.0
"""Run ``openstack`` command lines as processes of their own, without the time that starting takes.

A program on its own, run by the interpreter of each plugin that is tested; it imports nothing of the project.
It loads the shell and all commands once, and then forks for each command line: the child gets the arguments,
environment, directory and standard streams that come with the request, and from there on is an ``openstack``
that has just been started, until its interpreter ends.

A request is a packet on the socket that is standard input: JSON, and with it the descriptors of the three
streams and of a socket, to which the process id of the child is written and, when it has ended, its status.
"""

import atexit
import contextlib
import gc
import importlib
import io
import json
import os
import signal
import socket
import sys
import threading
from importlib.metadata import entry_points

from cliff import command
from openstackclient import shell

LARGEST_REQUEST = 1 << 20
LOADED_GROUPS = ("cliff.formatter", "keystoneauth1.plugin", "openstack.")


def receive(control):
    """Wait for requests and return, in a child for each, its arguments; None when there are no more."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        packet, descriptors, _, _ = socket.recv_fds(control, LARGEST_REQUEST, 4)
        if not packet:
            return None
        if os.fork() == 0:
            control.close()
            *streams, told = descriptors
            if run_child(socket.socket(fileno=told), streams):
                request = json.loads(packet)
                become(request, streams)
                return request["arguments"]
        for descriptor in descriptors:
            os.close(descriptor)


def run_child(told, streams):
    """Fork the child, where the answer is True; its parent tells how it ends, and ends too."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        told.close()
        return True
    for descriptor in streams:
        os.close(descriptor)
    told.sendall(f"{child}\n".encode())
    _, status = os.waitpid(child, 0)
    told.sendall(f"{status}\n".encode())
    os._exit(0)


def become(request, streams):
    """Take on what a new process is given."""
    if request["session"]:
        os.setsid()
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    sys.stdin = sys.__stdin__ = os.fdopen(0, closefd=False)
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", closefd=False)
    error = os.fdopen(2, "wb", closefd=False, buffering=0)
    sys.stderr = sys.__stderr__ = io.TextIOWrapper(error, errors="backslashreplace", line_buffering=True)


def load_deferred(entry_point):
    """Load the module of a command of ours, which a start leaves until the command is used."""
    package, _, module = entry_point.module.rpartition(".")
    if module == "deferred":
        importlib.import_module(f"{package}.{entry_point.attr.partition('.')[0]}")


def load_everything():
    """Load what a start of ``openstack`` loads and what commands do, and fill the caches of its libraries."""
    found = entry_points()
    for group in found.groups:
        if group.startswith(LOADED_GROUPS):
            for entry_point in found.select(group=group):
                with contextlib.suppress(Exception):  # as those fail whose libraries are not installed
                    entry_point.load()
                    load_deferred(entry_point)
    command._get_distributions_by_modules()
    shell.OpenStackShell.NAME = "openstack"
    gc.freeze()


def leave(status):
    """End as the interpreter does, but for clearing what this process shares: that copies every page of it.

    It took two thirds of the time of a command. What cannot be written at the end is left to the interpreter.
    """
    threading._shutdown()
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def measure():
    """Measure the coverage of every child, where `tools/test --coverage` says with which settings."""
    settings = os.environ.get("OSC_PLACEMENT_TEST_COVERAGE")
    if settings is not None:
        import coverage  # not there in the environments of other plugins

        os.environ["COVERAGE_PROCESS_START"] = settings
        coverage.process_startup()


if __name__ == "__main__":
    measure()
    load_everything()
    arguments = receive(socket.socket(fileno=0))
    if arguments is not None:
        sys.argv = ["openstack", *arguments]
        leave(shell.main(arguments))
