# SPDX-License-Identifier: Apache-2.0
"""The loop that tries again after a generation conflict: how often, how long it waits, and what ends it."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from osc_placement.errors import Conflict

Value = TypeVar("Value")

MAX_ATTEMPTS: Final = 10
_FIRST_PAUSE: Final = 0.02  # seconds; doubles with every attempt up to
_LONGEST_PAUSE: Final = 1.0


def is_conflict(error: Exception) -> bool:
    """Return whether somebody else changed a provider or consumer since it was read."""
    return isinstance(error, Conflict) and error.concurrent_update


def retry(
    attempt: Callable[[int], Value],
    *,
    after: Callable[[Exception], bool] = is_conflict,
    stop: threading.Event | None = None,
) -> Value:
    """Call ``attempt`` until it succeeds, MAX_ATTEMPTS times at most, and return its value.

    It is given its number, the first of which is 1, and from the second on has to read again what it writes.
    Raise what it raises at the last attempt, or at once where ``after`` says that another one does not help.
    Setting ``stop`` ends the pauses; whether it ends the attempts is for ``attempt`` to say.
    """
    for number in range(1, MAX_ATTEMPTS):
        try:
            return attempt(number)
        except Exception as error:
            if not after(error):
                raise
        # longer every time, and at random, so that writers in step fall out of it
        longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**number)
        (stop or threading.Event()).wait(random.uniform(longest / 2, longest))
    return attempt(MAX_ATTEMPTS)
