# SPDX-License-Identifier: Apache-2.0
"""The entry point of ``placement-migrate``, which says which extra to install if a library is missing."""

from __future__ import annotations

import gc
import sys
from typing import Final

#: objects made before the next garbage collection
_COLLECTION_THRESHOLD: Final = 200_000


def main() -> int:
    """Run one command and return its exit status.

    PERF: of half a second that a run without work took, a tenth went into looking for garbage, of which
    there is next to none, and the same again at the end of the process, which frees everything anyway.
    """
    gc.set_threshold(_COLLECTION_THRESHOLD)
    try:
        from osc_placement.migrate.main import main as run

        return run()
    except ModuleNotFoundError as error:
        print(
            f"placement-migrate: {error.name} is not installed: run pip install 'osc-placement[migrate]'",
            file=sys.stderr,
        )
        return 1
    finally:
        gc.freeze()
