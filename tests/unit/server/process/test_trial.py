# SPDX-License-Identifier: Apache-2.0
"""Trying something in a child."""

import time

import pytest

from osc_placement.server.process.trial import find_failure

# whoever runs the tests may have threads of its own
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def test_a_successful_trial_changes_nothing_here():
    """The operation runs in another process."""
    done = []
    assert find_failure(lambda: done.append(1), 30) is None
    assert done == []


def test_a_failed_trial_returns_the_reason():
    """The reason is the message of the error, or its class without a message."""

    def fail(*given):
        raise ValueError(*given)

    assert find_failure(lambda: fail("so ein Käse"), 30) == "so ein Käse"
    assert find_failure(fail, 30) == "ValueError"


def test_a_trial_that_hangs_is_ended():
    """It ends after the given number of seconds."""
    begun = time.monotonic()
    failure = find_failure(lambda: time.sleep(30), 1)
    assert failure == "The database has not answered for 1 seconds"
    assert 0.9 < time.monotonic() - begun < 15
