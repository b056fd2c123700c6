# SPDX-License-Identifier: Apache-2.0
"""How much memory a large cloud takes."""

import pathlib
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).with_name("large_cloud.py")
MOST = 300


@pytest.mark.parametrize(("state", "changes"), [("full", 0), ("empty", 100_000)])
def test_a_hundred_thousand_instances_fit(state, changes):
    """All of them judged, or all of them to be healed, take less than 300 MiB."""
    done = subprocess.run([sys.executable, PROGRAM, state], capture_output=True, text=True, check=True)
    problems, planned, memory = done.stdout.split()
    assert (int(problems), int(planned)) == (0, changes)
    assert float(memory) < MOST
