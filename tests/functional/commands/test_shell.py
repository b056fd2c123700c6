# SPDX-License-Identifier: Apache-2.0
"""A forked `openstack` is one that was started: what the other tests of commands rely on."""

import os
import pty
import signal
import subprocess
import threading

import pytest

from tests.functional.commands.proxy import proxy_to

LIST = ("resource", "provider", "list")


@pytest.mark.parametrize(
    "command",
    [
        (*LIST, "-f", "json"),
        ("resource", "provider", "show", "nobody"),
        ("resource", "class", "create"),
        ("resource", "provider", "apply", "-f", "-"),
        ("trait", "list", "--help"),
        ("no", "such", "command"),
    ],
)
def test_forked_command_prints_and_exits_like_a_started_one(openstack, command):
    """Both streams and the exit status are the same, with the same text on standard input."""
    forked = openstack.run(*command, text="providers: [{nam: a}]\n")
    whole = openstack.run_process(*command, text="providers: [{nam: a}]\n")
    assert forked == whole


def test_forked_command_has_its_environment_and_directory(openstack, tmp_path):
    """Variables reach the child, and a relative path begins where the command was begun."""
    environment = {"OS_PLACEMENT_API_VERSION": "1.0"}
    process = openstack.start("resource", "class", "list", environment=environment, stderr=subprocess.PIPE)
    assert process.communicate(timeout=60)[1].endswith("requires at least version 1.2\n")
    process = openstack.start("resource", "provider", "export", "-o", "here.yaml", cwd=tmp_path)
    process.communicate(timeout=60)
    assert (process.returncode, (tmp_path / "here.yaml").exists()) == (0, True)


def test_forked_command_inherits_a_terminal(openstack):
    """Who reads the terminal reads what the child prints, in the terminal's own line ends."""
    master, slave = pty.openpty()
    process = openstack.start("resource", "provider", "show", "nobody", stderr=slave, stdout=slave)
    os.close(slave)
    shown = os.read(master, 1000).decode()
    process.communicate(timeout=60)
    os.close(master)
    assert (shown.count("\r\n"), shown.count("\n"), process.returncode) == (2, 2, 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signal_ends_a_forked_command_with_its_status(openstack, number):
    """The status of a process that a signal ended says which, as for any process."""
    asked, go_on = threading.Event(), threading.Event()

    def interfere(_method, path):
        if path == "/resource_providers":
            asked.set()
            go_on.wait(30)

    with proxy_to(openstack.endpoint, interfere) as endpoint:
        process = openstack.start(*LIST, endpoint=endpoint, stderr=subprocess.PIPE)
        assert asked.wait(30)
        process.send_signal(number)
        process.communicate(timeout=30)
        go_on.set()
    assert process.returncode == (130 if number == signal.SIGINT else -number)
