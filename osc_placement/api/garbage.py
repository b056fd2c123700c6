# SPDX-License-Identifier: Apache-2.0
"""Garbage collection while a whole cloud is read."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Disable garbage collection in the block.

    PERF: hundreds of thousands of objects are made and kept. Searching them for cycles, of which there are
    none, takes as long as making them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
