# SPDX-License-Identifier: Apache-2.0
"""Waiting for what another process or thread does."""

import time


def wait_until(condition, seconds=60):
    """Return what a condition gives as soon as that is true; fail if it is not within so many seconds."""
    give_up = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < give_up, "it did not happen in time"
        time.sleep(0.02)
    return found
