# SPDX-License-Identifier: Apache-2.0
"""`placement-migrate` stopped by a signal: in good order while it writes, at once while it reads."""

import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time

import pytest

from osc_placement.migrate import commands
from tests.functional.forking import ForkedProcess, find_server
from tests.functional.migrate.nova_databases import new_uuid
from tests.functional.migrate.placement import CLAIM, held_by, hold
from tests.functional.servers import make_environment
from tests.waiting import wait_until

# what differs between databases is tested with the source
pytestmark = pytest.mark.parametrize("nova_databases", ["sqlite"], indirect=True)

PROGRAM = "from osc_placement.migrate.main import main; raise SystemExit(main())"
INSTANCES = 8


@pytest.fixture
def start(client, nova_conf, tmp_path):
    """A function that starts `placement-migrate`; what is still running in the end is killed."""
    with contextlib.ExitStack() as running:

        def run(*arguments):
            process = ForkedProcess(
                find_server("placement-migrate"),
                ["--config-file", nova_conf, *arguments],
                env=make_environment(XDG_STATE_HOME=str(tmp_path / "state")),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            running.callback(end, process)
            return process

        yield run


def end(process):
    """Kill a process, and close what it was read from."""
    process.kill()
    process.communicate()


@pytest.fixture
def stop_writing(tmp_path):
    """A function that sends a signal while a run is writing, and waits for the end; what was printed."""

    def stop(process, number):
        # of the writes, one may begin each second
        runs = tmp_path / "state/osc-placement/runs"
        wait_until(lambda: any('"record":"outcome"' in run.read_text() for run in runs.glob("*.jsonl")))
        process.send_signal(number)
        return process.communicate(timeout=30)

    return stop


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "arguments",
    [
        ("heal-allocations",),
        ("heal-allocations", "--nova-exit-codes"),
        ("online_data_migrations",),
    ],
)
def test_interrupted_healing_reports_what_was_done(
    cloud, client, add_host, start, stop_writing, migrate, arguments, number
):
    """What is done is told and what is not is left for the next run, in the status too."""
    node = add_host("h1")
    uuids = [cloud.add_instance("h1") for _ in range(INSTANCES)]
    process = start(*arguments, "--throttle", "1")
    out, _ = stop_writing(process, number)
    done = [uuid for uuid in uuids if held_by(client, uuid)]
    assert (process.returncode, 0 < len(done) < INSTANCES) == (130, True)
    told = f"| heal-allocations  | {INSTANCES}            | {len(done)}  " if "online" in arguments[0] else ""
    assert (told or f"{len(done)} applied") in out
    assert migrate("heal-allocations").returncode == 0
    assert [held_by(client, uuid) for uuid in uuids] == [{node: CLAIM}] * INSTANCES


@pytest.mark.parametrize("options", [(), ("--nova-exit-codes",)])
def test_healing_interrupted_at_binding_profiles_is_not_judged(
    cloud, client, add_host, migrate, monkeypatch, options
):
    """The status says that it was interrupted, and nobody waits for a second comparison."""
    node = add_host("h1")
    uuid = cloud.add_instance("h1")

    def interrupt(_context, assessment, _run, execution):
        execution.stop.set()
        return assessment

    monkeypatch.setattr(commands, "write_grants", interrupt)
    done = migrate("heal-allocations", *options)
    assert (done.returncode, held_by(client, uuid)) == (130, {node: CLAIM})
    assert "1 applied" in done.stdout
    assert "holds its allocations" not in done.stdout


def test_signal_before_the_result_is_printed_does_not_lose_it(cloud, client, add_host, migrate, monkeypatch):
    """Whoever stops a command still reads what it did, and how to undo it."""
    node = add_host("h1")
    uuid = cloud.add_instance("h1")
    name_next = commands.MigrateCommand.name_next

    def interrupt(command, run, title=""):
        os.kill(os.getpid(), signal.SIGTERM)
        return name_next(command, run, title)

    monkeypatch.setattr(commands.MigrateCommand, "name_next", interrupt)
    done = migrate("heal-allocations")
    assert (done.returncode, held_by(client, uuid)) == (130, {node: CLAIM})
    assert "1 applied" in done.stdout
    assert "; to undo it: placement-migrate " in done.stdout


def test_interrupted_removal_does_not_exit_with_4(cloud, client, add_host, start, stop_writing):
    """Nova-manage's 4 is for all orphans removed, and an interrupted audit has removed some."""
    node = add_host("h1")
    hold(client, cloud.add_instance("h1"), {node: CLAIM})
    orphans = [new_uuid() for _ in range(INSTANCES)]
    for orphan in orphans:
        hold(client, orphan, {node: CLAIM})
    process = start(
        "audit", "--delete", "--nova-exit-codes", "--throttle", "1", "--max-removals", str(INSTANCES)
    )
    stop_writing(process, signal.SIGTERM)
    left = [orphan for orphan in orphans if held_by(client, orphan)]
    assert (process.returncode, 0 < len(left) < INSTANCES) == (130, True)


@pytest.mark.parametrize("arguments", [("status",), ("mirror-aggregates",), ("online_data_migrations",)])
def test_ctrl_c_while_reading_ends_at_once(nova_databases, start, arguments):
    """While nothing is written nobody has to wait, not even for an answer that never comes."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        process = start("--placement-endpoint", url, *arguments)
        connection, _ = silent.accept()
        with contextlib.closing(connection):
            assert connection.recv(1024)
            time.sleep(0.3)  # a signal that comes just before the wait for the answer ends no wait
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)
    assert (process.returncode, time.monotonic() - began < 5) == (130, True)
    assert "Traceback" not in err


def test_closed_pipe_prints_no_traceback(cloud, add_host, start):
    """Whoever stops reading the output, as `head` does, gets no traceback for it."""
    add_host("h1")
    for _ in range(INSTANCES):
        cloud.add_instance("h1")
    process = start("status")
    process.stdout.close()
    process.stdout = None
    assert process.stderr.read() == ""
    assert process.wait() == 141


FULL = "placement-migrate: [Errno 28] No space left on device"


@pytest.mark.parametrize(
    ("command", "redirection", "status", "error"),
    [
        ("status", ">/dev/full", 1, f"{FULL}\n"),
        (
            "mirror-aggregates",
            ">/dev/full",
            1,
            f"{FULL}; see placement-migrate run list for what was done\n",
        ),
        ("status", ">&-", 0, ""),
    ],
)
def test_full_or_closed_output_prints_no_traceback(
    cloud, add_host, nova_conf, tmp_path, command, redirection, status, error
):
    """A full disk is one line, with the way to learn what was done; nobody listening is nobody's concern."""
    add_host("h1")
    cloud.add_aggregate("rack1", ["h1"])
    words = shlex.join([sys.executable, "-c", PROGRAM, "--config-file", str(nova_conf), command])
    environment = make_environment(XDG_STATE_HOME=str(tmp_path / "state"))
    done = subprocess.run(
        ["sh", "-c", f"{words} {redirection}"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (status, error)


def test_nova_exit_codes_with_an_unreadable_cell_report_no_absence(cloud, add_host, migrate_json):
    """With --nova-exit-codes an audit that could not read everything does not say that there are none."""
    add_host("h1")
    cloud.update(
        "api", "UPDATE cell_mappings SET database_connection = 'sqlite:////no/x' WHERE name = 'cell2'"
    )
    assert migrate_json("audit", "--nova-exit-codes")[1] == 1


@pytest.mark.parametrize("instances", [1, 0])
def test_dry_run_has_the_exit_code_of_nova_manage(cloud, add_host, migrate, instances):
    """As with nova-manage, a dry run has healed nothing, whether or not there is something to heal."""
    add_host("h1")
    for _ in range(instances):
        cloud.add_instance("h1")
    done = migrate("heal-allocations", "--dry-run", "--nova-exit-codes", "-f", "json")
    assert (len(json.loads(done.stdout)["rows"]), done.returncode) == (instances, 4)
