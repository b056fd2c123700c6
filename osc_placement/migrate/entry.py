# SPDX-License-Identifier: Apache-2.0
"""Where ``placement-migrate`` begins: what it needs is in an extra, which may not be installed."""

from __future__ import annotations

import sys


def main() -> int:
    """Run one command and return its exit status."""
    try:
        from osc_placement.migrate.main import main as run

        return run()
    except ModuleNotFoundError as error:
        print(
            f"placement-migrate: {error.name} is not installed: run pip install 'osc-placement[migrate]'",
            file=sys.stderr,
        )
        return 1
