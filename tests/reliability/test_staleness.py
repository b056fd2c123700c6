# SPDX-License-Identifier: Apache-2.0
"""Short runs of `staleness` and `acknowledged`; with ``--seconds 600``, each is a long one."""

import subprocess
import sys

import pytest

from tests import databases

# the programs make databases of their own; where there is no server, this says so and the test is skipped
pytestmark = pytest.mark.usefixtures("database_url")


@pytest.mark.parametrize("alone", [(), ("--alone",)], ids=["beside", "alone"])
def test_no_worker_answers_from_a_stale_snapshot(backend, alone):
    """Workers of several servers on one database stay up to date, although connections are cut."""
    databases.require_reference()
    # a process of its own: the reference leaves its marks on it
    assert " 0 stale" in run("staleness", backend, *alone, seconds=5)


@pytest.mark.parametrize("others", [(), ("--others",)], ids=["ours", "others"])
def test_an_acknowledged_commit_is_visible_to_every_worker(backend, others):
    """A worker shows everything acknowledged before it was asked, whatever others commit meanwhile."""
    assert " 0 missing" in run("acknowledged", backend, *others, seconds=2)


def run(program, backend, *options, seconds):
    """What a program of this directory prints; it has to end well."""
    command = [sys.executable, "-m", f"tests.reliability.{program}", "--backend", backend]
    command += ["--seconds", str(seconds), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
