# SPDX-License-Identifier: Apache-2.0
"""The processor time of processes is counted, that of their children too, and of nothing else."""

import contextlib
import os
import subprocess
import sys

import pytest

from benchmarks.processes import ProcessorMeter, find_children, is_running, kill, read_resident

#: computes for some seconds of its own processor time, and then waits
WORKER = """
import time
while time.process_time() < {seconds}:
    pass
print("done", flush=True)
time.sleep(60)
"""
#: starts another process with that program, and waits
PARENT = """
import subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[1]])
"""


@contextlib.contextmanager
def running(program, *arguments):
    """A process of this program, killed afterwards with its children."""
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            kill([process.pid, *find_children(process.pid)])


def test_meter_counts_the_time_of_children_by_group():
    """A worker that is started between the readings counts for its server, and for no other group."""
    with running(PARENT, WORKER.format(seconds=0.3)) as busy, running("import time; time.sleep(60)") as other:
        with ProcessorMeter({"server": busy.pid, "database": other.pid}) as meter:
            assert busy.stdout.readline() == "done\n"
        assert len(find_children(busy.pid)) == 1
        assert 0.2 < meter.spent["server"] < 1.5
        assert meter.spent["database"] < 0.1


def test_meter_adds_up_what_was_done_within_it():
    """A meter that is used twice has the time of both uses, and not what was between them."""
    with running(WORKER.format(seconds=0.2)) as worker:
        meter = ProcessorMeter({"server": worker.pid})
        with meter:
            worker.stdout.readline()
        spent = meter.spent["server"]
        with meter:
            pass
        assert 0 < spent <= meter.spent["server"] < spent + 0.1


def test_meter_refuses_a_worker_that_ended():
    """The time of a process that is gone cannot be read, so there is no figure."""
    with running(PARENT, WORKER.format(seconds=0)) as server:
        server.stdout.readline()
        meter = ProcessorMeter({"server": server.pid})
        meter.__enter__()
        kill(find_children(server.pid))
        server.wait(10)
        with pytest.raises(RuntimeError, match="of the server ended while it was measured"):
            meter.__exit__()


def test_resident_memory_is_read_in_mebibytes():
    """A process that holds 50 MiB has these resident, and its interpreter."""
    with running(
        "import time; held = b'x' * (50 * 2**20); print('done', flush=True); time.sleep(60)"
    ) as process:
        process.stdout.readline()
        assert 50 < read_resident(process.pid) < 150


def test_process_that_was_killed_does_not_run_before_its_parent_asks_for_it():
    """A zombie has its number still, and nothing else that others could wait for."""
    with subprocess.Popen(["sleep", "60"]) as process:
        assert is_running(process.pid)
        kill([process.pid])
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not is_running(process.pid)
    assert not is_running(process.pid)
