# SPDX-License-Identifier: Apache-2.0
"""The pytest fixture ``placement_server``; pytest finds it by the entry point, no test has to import it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from osc_placement.server.testing import PlacementServer


@pytest.fixture
def placement_server() -> Iterator[PlacementServer]:
    """Run a placement server for a test, without authentication and with an empty database in memory."""
    # imported late, because pytest imports this file at every start, also if no test uses the fixture
    from osc_placement.server import testing

    with testing.run_server() as server:
        yield server
