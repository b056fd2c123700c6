# SPDX-License-Identifier: Apache-2.0
"""Run the command lines of a program as processes of their own, without the time that starting takes.

A program on its own; it imports nothing of the project. Its argument is the name of a console script of the
environment, or a function as `module:function`. It loads that once, and then forks for each command line: the
child gets the arguments, environment, directory and standard streams that come with the request, and from
there on does what a process does that has just been started. What an interpreter takes from its start is that
of this one: the seed of hashes, limits, the encoding of streams, and what is printed while modules load.

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
import sys
import threading
from importlib.metadata import EntryPoint, entry_points

# as they are before a program such as nova-manage puts its own in their place
from os import fdopen, waitpid
from socket import recv_fds, socket

LARGEST_REQUEST = 1 << 20
#: the groups of entry points that openstack loads
LOADED_GROUPS = ("cliff.formatter", "keystoneauth1.plugin", "openstack.")
BOTH_SERVERS = ("placement.db_api", "placement.deploy", "psycopg2", "pymysql")
#: by program, the modules that it loads when it is used
LOADED_MODULES = {
    "placement-manage": ("placement.db.sqlalchemy.migration", "psycopg2", "pymysql"),
    "placement-migrate": ("osc_placement.migrate.commands", "osc_placement.migrate.runs", "pymysql"),
    "placement-server": ("osc_placement.server.process.serve", "psycopg2", "pymysql"),
    "placement-status": ("psycopg2", "pymysql"),
    "tests.functional.db.resident:main": BOTH_SERVERS,
    "tests.reliability.differential.__main__:main": BOTH_SERVERS,
}
#: names the settings of coverage, if that is measured
SETTINGS = os.environ.get("OSC_PLACEMENT_TEST_COVERAGE")
#: the programs of which it is, with what they load
MEASURED = ("openstack", "placement-migrate", "placement-server")


def receive(control):
    """Wait for requests and return each in a child for it; return None when there are no more."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        packet, descriptors, _, _ = recv_fds(control, LARGEST_REQUEST, 4)
        if not packet:
            return None
        if os.fork() == 0:
            control.close()
            *streams, told = descriptors
            if run_child(socket(fileno=told), streams):
                request = json.loads(packet)
                become(request, streams)
                return request
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
    _, status = waitpid(child, 0)
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
    sys.stdin = sys.__stdin__ = fdopen(0, closefd=False)
    sys.stdout = sys.__stdout__ = fdopen(1, "w", closefd=False)
    error = fdopen(2, "wb", closefd=False, buffering=0)
    sys.stderr = sys.__stderr__ = io.TextIOWrapper(error, errors="backslashreplace", line_buffering=True)


def load_deferred(entry_point):
    """Load the module of a command of ours, which a start leaves until the command is used."""
    package, _, module = entry_point.module.rpartition(".")
    if module == "deferred":
        importlib.import_module(f"{package}.{entry_point.attr.partition('.')[0]}")


def load(program):
    """Load what a program loads when it is started and used; the function that it runs."""
    (script,) = entry_points(group="console_scripts", name=program) or [EntryPoint("", program, "")]
    main = script.load()
    for module in LOADED_MODULES.get(program, ()):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    if program == "openstack":
        load_commands()
    gc.freeze()
    return main


def load_commands():
    """Load all commands of ``openstack``, and fill the caches of its libraries."""
    from cliff import command
    from openstackclient import shell

    found = entry_points()
    for group in found.groups:
        if group.startswith(LOADED_GROUPS):
            for entry_point in found.select(group=group):
                with contextlib.suppress(Exception):  # as those fail whose libraries are not installed
                    entry_point.load()
                    load_deferred(entry_point)
    command._get_distributions_by_modules()
    shell.OpenStackShell.NAME = "openstack"


def make_measurement():
    """Return a measurement of coverage with the settings that `tools/test --coverage` names; None without.

    Only files that are executed are in its data: to look for all others took most of the time of a command,
    and the process of the tests does that once.
    """
    if SETTINGS is None:
        return None
    import coverage  # not there in other environments

    root = os.path.dirname(SETTINGS)
    # the settings have paths in the clone, and a child may be in any directory
    measurement = coverage.Coverage(
        os.path.join(root, ".cache", "coverage"),
        config_file=SETTINGS,
        source=[],
        include=[os.path.join(root, "osc_placement", "*")],
    )
    # a child that was forked early may reach nothing of the package
    measurement.set_option("run:disable_warnings", ["no-data-collected"])
    return measurement


def measure(measurement):
    """Measure the coverage of this process until it ends.

    The measurement is that of the load, as one that begins anew looks again at each file that is executed.
    """
    measurement.set_option("run:patch", ["fork"])
    measurement.start()
    atexit.register(save, measurement)


def save(measurement):
    """Write what was measured."""
    measurement.stop()
    measurement.save()


def load_measured(program):
    """Load a program, and measure that; the function that it runs, and what measures forked processes."""
    measurement = make_measurement()
    if measurement is None:
        return load(program), None
    # in force, it would have every process that is forked here measured too
    measurement.set_option("run:patch", [])
    measurement.start()
    main = load(program)
    save(measurement)
    return main, measurement


def end(main):
    """Run a program, and end as the interpreter does, but for clearing what this process shares.

    To clear it is to copy every page of it, which took two thirds of the time of a command. What cannot be
    written at the end is left to the interpreter, and so is a status that is a text.
    """
    try:
        status = main() or 0
    except SystemExit as exit_:
        status = exit_.code or 0
    threading._shutdown()
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, TypeError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status & 0xFF)
    sys.exit(status)


if __name__ == "__main__":
    (program,) = sys.argv[1:]
    main, measurement = load_measured(program) if program in MEASURED else (load(program), None)
    request = receive(socket(fileno=0))
    if request is None:
        end(lambda: 0)
    # a program for a shell does not say
    if measurement is not None and request.get("measured", "serve" not in request["arguments"]):
        measure(measurement)
    sys.argv = [program, *request["arguments"]]
    end(main)
