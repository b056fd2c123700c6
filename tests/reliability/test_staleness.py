# SPDX-License-Identifier: Apache-2.0
"""A short run of `staleness`; ``python -m tests.reliability.staleness --seconds 600`` is a long one."""

import importlib.util
import subprocess
import sys

from tests import databases


def test_nobody_sees_anything_old(backend):
    """Whatever three servers do to one database, and though connections are cut, a worker sees the truth."""
    if importlib.util.find_spec("placement") is None:
        databases.skip_or_fail("openstack-placement is not installed (extra 'reference')")
    # a process of its own: the reference leaves its marks on it
    command = [sys.executable, "-m", "tests.reliability.staleness", "--backend", backend, "--seconds", "5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 stale" in done.stdout
