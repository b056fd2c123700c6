# SPDX-License-Identifier: Apache-2.0
"""Trying something in a child of this process, which goes on if a database hangs."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_SUCCESS: Final = b"+"
#: what ends the child as it would end any program, whatever this process does at it
_ENDING: Final = (signal.SIGALRM, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)


def find_failure(operation: Callable[[], object], seconds: int) -> str | None:
    """Why an operation fails, None if it does not; what it changes in memory is lost.

    :param seconds: when it is taken to hang, and ended
    """
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        _try(operation, seconds, writer)
    os.close(writer)
    with open(reader, "rb") as answer:
        said = answer.read()
    # whoever takes notice of all children may have been first
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)
    if said == _SUCCESS:
        return None
    return said.decode() or f"The database has not answered for {seconds} seconds"


def _try(operation: Callable[[], object], seconds: int, writer: int) -> None:
    """Be the child: say how it went, and end without what this process does at its end."""
    try:
        for number in _ENDING:
            signal.signal(number, signal.SIG_DFL)
        # the system itself ends what hangs, also if this process is no longer
        signal.alarm(seconds)
        os.write(writer, _run(operation))
    finally:
        os._exit(0)


def _run(operation: Callable[[], object]) -> bytes:
    try:
        operation()
    except Exception as error:
        return (str(error) or type(error).__name__).encode()
    return _SUCCESS
