# SPDX-License-Identifier: Apache-2.0
"""The trial of an operation in a child process, so that this process continues if a database hangs."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_SUCCESS: Final = b"+"
#: the signals that end the child by default, although this process handles them
_ENDING: Final = (signal.SIGALRM, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)


def find_failure(operation: Callable[[], object], seconds: int) -> str | None:
    """Return why an operation fails, or None; its changes in memory are lost.

    :param seconds: the time after which it is considered to hang, and ended
    """
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            for number in _ENDING:
                signal.signal(number, signal.SIG_DFL)
            # the system ends a child that hangs, also if the parent does not exist any more
            signal.alarm(seconds)
            try:
                operation()
                said = _SUCCESS
            except Exception as error:
                said = (str(error) or type(error).__name__).encode()
            os.write(writer, said)
        finally:
            # without the handlers of this process
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as answer:
        said = answer.read()
    # a handler for all children may have collected the child before
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)
    if said == _SUCCESS:
        return None
    return said.decode() or f"The database has not answered for {seconds} seconds"
