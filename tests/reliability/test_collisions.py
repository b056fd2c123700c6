# SPDX-License-Identifier: Apache-2.0
"""A short run of `collisions`, and what it calculates; with ``--exchanges 10000``, the run is a long one."""

import subprocess
import sys
import zlib
from random import Random

import pytest

from tests import databases
from tests.reliability import scale
from tests.reliability.collisions import find_membership_exchanges, solve

#: six of each kind
SHORT, LONG = 42, 10_000


@pytest.mark.usefixtures("database_url")
def test_exchanges_with_equal_checksums_are_noticed(backend):
    """Whoever makes them, of everything that an answer is made of."""
    databases.require_reference()
    # a process of its own: the reference leaves its marks on it
    command = [sys.executable, "-m", "tests.reliability.collisions", "--backend", backend]
    command += ["--exchanges", str(LONG if scale.is_long() else SHORT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=7200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert " 0 stale" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("seed", range(5))
def test_name_is_found_for_any_checksum(seed):
    """Wherever in the text the name is, and whatever is behind it."""
    random = Random(seed)
    target = random.getrandbits(32)
    found = solve(lambda bits: f"12:name-{bits}:345", target, random)
    assert set(found) <= {"0", "1"}
    assert zlib.crc32(f"12:name-{found}:345".encode()) == target


def test_made_up_exchanges_keep_the_checksums():
    """The checksums, and the products of ids, of all memberships before and after."""
    found = find_membership_exchanges(list(range(1, 25)), list(range(1, 13)))
    assert ((2, 7), (3, 6), 1, 6) in found
    for one, other, x, y in found:
        before = [(id_, x) for id_ in one] + [(id_, y) for id_ in other]
        after = [(id_, y) for id_ in one] + [(id_, x) for id_ in other]
        assert {*before}.isdisjoint(after)
        for number in (lambda a, b: zlib.crc32(f"{a}:{b}".encode()), lambda a, b: a * b):
            assert sum(number(*row) for row in before) == sum(number(*row) for row in after)
