# SPDX-License-Identifier: Apache-2.0
"""The loop that tries again after a generation conflict, or after another error that its caller names.

`send_new_consumers` beside it repeats a write for consumers that another process created meanwhile.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from osc_placement.errors import ANSWER_LOST, Conflict, HttpError

Value = TypeVar("Value")

MAX_ATTEMPTS: Final = 10
_FIRST_PAUSE: Final = 0.02  # seconds; doubles with every attempt up to
_LONGEST_PAUSE: Final = 1.0
#: refusals that end by themselves or with another token: 401, and those that ask to come back later
_PASSING: Final = (401, 408, 425, 429)


def is_conflict(error: Exception) -> bool:
    """Return whether somebody else changed a provider or consumer since it was read."""
    return isinstance(error, Conflict) and error.concurrent_update


def is_permanent(error: Exception | None) -> bool:
    """Return whether the server refused a request, wrote nothing, and will refuse it again as things are."""
    return (
        isinstance(error, HttpError)
        and not isinstance(error, ANSWER_LOST)
        and not is_conflict(error)
        and error.http_status not in _PASSING
    )


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


def send_new_consumers(send: Callable[[], None], documents: Iterable[dict[str, Any]]) -> None:
    """Call ``send``, which sends the documents of consumers; again if a refused write left a new one behind.

    openstack-placement keeps such a consumer with generation 0, and shows it to nobody.
    """
    new = [document for document in documents if document["consumer_generation"] is None]
    try:
        send()
    except Conflict as conflict:
        if not new or not conflict.concurrent_update:
            raise
        for document in new:
            document["consumer_generation"] = 0
        send()
