# SPDX-License-Identifier: Apache-2.0
"""What every command owes to who uses it: narrow terminals, closed pipes, Ctrl-C, files that are wrong."""

import contextlib
import re
import signal
import subprocess
import threading
import uuid

import pytest
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from osc_placement.api.client import PlacementClient
from tests.functional import servers
from tests.functional.commands.proxy import proxy_to
from tests.functional.commands.pty_run import run_on_terminal

PROVIDER = ("resource", "provider")
CONSUMER = str(uuid.UUID(int=1))
OTHER = str(uuid.UUID(int=2))
OWNER = ("--project-id", "project", "--user-id", "user")

LOOKS = {
    "tree": (*PROVIDER, "tree"),
    "capacity": (*PROVIDER, "capacity"),
    "capacity fit": (*PROVIDER, "capacity", "--fit", "VCPU=1"),
    "headroom": (*PROVIDER, "headroom", "--each-host"),
    "devices": (*PROVIDER, "device", "list"),
    "export": (*PROVIDER, "export"),
    "top": ("resource", "usage", "top"),
    "explain": ("allocation", "candidate", "explain", "--resource", "VCPU=1"),
    "candidates": ("allocation", "candidate", "list", "--resource", "VCPU=1"),
}
#: commands that write, with what the request is that writes
WRITES = {
    "claim": (
        ("allocation", "candidate", "claim", OTHER, "--resource", "VCPU=1", *OWNER),
        ("PUT", f"/allocations/{OTHER}"),
    ),
    "move": (
        (*PROVIDER, "allocation", "move", CONSUMER, OTHER),
        ("POST", "/allocations"),
    ),
    "reshape": (
        (*PROVIDER, "reshape", "--from", "a-host", "--to", "b-host", "--resource", "VCPU=1", "--yes"),
        ("POST", "/reshaper"),
    ),
}
MAYBE = "Interrupted while the change was under way; to see whether it was done:"
#: commands that read a file, up to the name of the file
FILES = {
    "apply": (*PROVIDER, "apply", "--file"),
    "reshape": (*PROVIDER, "reshape", "--yes", "--file"),
    "batch apply": (*PROVIDER, "batch", "apply", "--yes"),
    "config generate": (*PROVIDER, "config", "generate", "--state"),
    "config prune": (*PROVIDER, "config", "prune", "--yes"),
    "providers": (*PROVIDER, "batch", "trait", "add", "HW_CPU_X86_AVX", "--yes", "--providers-file"),
}
#: what may be in a file, or not be
TEXTS = {
    "missing": None,
    "empty": "",
    "not YAML": "a: [\n",
    "wrong schema": "- {what: 1}\n",
    "not text": b"\xff\xfe\x00",
    "another shape": "42\n",
}


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory):
    """A server of its own: commands here look at everything there is, and reshape."""
    with servers.running(tmp_path_factory.mktemp("manners"), "--allow-admin-reshape") as server:
        yield server.url


@pytest.fixture(scope="module")
def cloud(endpoint):
    """Two hosts with long names, and one consumer."""
    client = PlacementClient(Session(auth=Token(endpoint, "admin")))
    for name in ("a-host", "b-host", "c-" + "long-" * 30 + "host"):
        made = client.create_provider(name)["uuid"]
        client.set_inventories(made, {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 4096}}, 0)
        if name == "b-host":
            held = {made: {"resources": {"VCPU": 1}}}
    owner = {"project_id": "project", "user_id": "user", "consumer_generation": None}
    client.set_allocations(CONSUMER, {"allocations": held, "consumer_type": "INSTANCE", **owner})
    return client


@pytest.mark.parametrize("name", LOOKS)
def test_commands_work_at_60_columns_and_without_colour(openstack, cloud, name):
    """At 60 columns all is there, and with NO_COLOR nothing is coloured."""
    shown, status = run_on_terminal(openstack, *LOOKS[name], environment={"NO_COLOR": "1"})
    assert status == 0
    assert "a-host" in shown or name in (
        "top",
        "devices",
        "explain",
        "candidates",
    )
    assert re.search(r"\x1b\[[\d;]*m", shown) is None


def test_error_of_the_command_line_is_broken_between_words(openstack, cloud):
    """On a terminal; a pipe gets it in one line, and the command that shows the usage in another."""
    command = (*PROVIDER, "capacity", "--by", "host")
    shown, status = run_on_terminal(openstack, *command)
    piped = openstack.run(*command)
    assert (status, piped.status, len(piped.err.splitlines())) == (2, 2, 2)
    assert len(piped.err.splitlines()[0]) > 60 >= max(map(len, shown.splitlines()))
    assert shown.split() == piped.err.split()


@pytest.mark.parametrize("name", LOOKS)
def test_closed_pipe_ends_a_command_without_an_error(openstack, cloud, name):
    """As `| head -1` does: nothing on standard error."""
    with openstack.start(*LOOKS[name], stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == ""


@contextlib.contextmanager
def held_up(endpoint, is_held):
    """The URL of a server that never answers some requests, and an event for when one has come."""
    come, leave = threading.Event(), threading.Event()

    def interfere(method, path):
        if is_held(method, path):
            come.set()
            leave.wait(60)

    with proxy_to(endpoint, interfere) as url:
        try:
            yield url, come
        finally:
            leave.set()


def interrupt(openstack, arguments, url, come):
    """Run a command until it waits, and send it what Ctrl-C does; its status and what it said."""
    process = openstack.start(*arguments, endpoint=url, stderr=subprocess.PIPE)
    assert come.wait(60)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@pytest.mark.parametrize("name", LOOKS)
def test_ctrl_c_ends_a_reading_command_at_once(openstack, cloud, name):
    """Status 130, nothing half printed, no traceback."""
    with held_up(openstack.endpoint, lambda _method, path: path != "/") as (url, come):
        status, out, err = interrupt(openstack, LOOKS[name], url, come)
    assert (status, out, err.strip()) == (130, "", "")


@pytest.mark.parametrize("name", WRITES)
def test_ctrl_c_before_the_write_reports_no_change(openstack, cloud, name):
    """It says so, and so it is."""
    arguments, _ = WRITES[name]
    before = cloud.list_allocations(CONSUMER)
    with held_up(openstack.endpoint, lambda _method, path: path != "/") as (url, come):
        status, out, err = interrupt(openstack, arguments, url, come)
    assert (status, out, err) == (130, "", "Interrupted; nothing was changed.\n")
    assert cloud.list_allocations(CONSUMER) == before


@pytest.mark.parametrize("name", WRITES)
def test_ctrl_c_during_the_write_reports_an_unknown_result(openstack, cloud, name):
    """Nobody knows whether the server still does it, and that is what is said."""
    arguments, write = WRITES[name]
    with held_up(openstack.endpoint, lambda *request: request == write) as (url, come):
        status, out, err = interrupt(openstack, arguments, url, come)
        assert (status, out.partition("\n")[0] in ("", "before:")) == (130, True)
        assert re.fullmatch(rf"{MAYBE} openstack .*\n", err)


@pytest.mark.parametrize("content", TEXTS)
@pytest.mark.parametrize("name", FILES)
def test_invalid_file_is_a_one_line_error(openstack, cloud, tmp_path, name, content):
    """Each mistake is a line that names the file, and nothing is changed."""
    file = tmp_path / "input.yaml"
    text = TEXTS[content]
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    result = openstack.run(*FILES[name], file)
    assert (result.status, result.out) == (1, "")
    assert result.err.count("\n") == 1 or content == "wrong schema"
    assert "Traceback" not in result.err
    assert name == "providers" or all(str(file) in line for line in result.err.splitlines())
