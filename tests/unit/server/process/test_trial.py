# SPDX-License-Identifier: Apache-2.0
"""Trying something in a child."""

import time

import pytest

from osc_placement.server.process.trial import find_failure

# whoever runs the tests may have threads of its own
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def test_what_succeeds_has_no_failure_and_no_effect():
    """It is done elsewhere."""
    done = []
    assert find_failure(lambda: done.append(1), 30) is None
    assert done == []


def test_a_failure_is_told():
    """In its own words, or by its kind if it has none."""

    def fail(*given):
        raise ValueError(*given)

    assert find_failure(lambda: fail("so ein Käse"), 30) == "so ein Käse"
    assert find_failure(fail, 30) == "ValueError"


def test_what_hangs_is_given_up():
    """After the seconds that were given."""
    begun = time.monotonic()
    failure = find_failure(lambda: time.sleep(30), 1)
    assert failure == "The database has not answered for 1 seconds"
    assert 0.9 < time.monotonic() - begun < 15
