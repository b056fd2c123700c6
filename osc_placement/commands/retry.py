# SPDX-License-Identifier: Apache-2.0
"""Reading, changing and writing back what somebody else may be changing at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from osc_placement.batch.execute import MAX_ATTEMPTS, pause_after_conflict
from osc_placement.errors import Conflict

Value = TypeVar("Value")


def retry_on_conflict(attempt: Callable[[], Value]) -> Value:
    """Call ``attempt``, which reads before it writes, until nobody was faster; a bounded number of times."""
    for number in range(1, MAX_ATTEMPTS):
        try:
            return attempt()
        except Conflict as conflict:
            if not conflict.concurrent_update:
                raise
        pause_after_conflict(number, threading.Event())
    return attempt()
