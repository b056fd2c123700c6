# SPDX-License-Identifier: Apache-2.0
"""Do a migration again and again, as nova changes: a full comparison each time, so nothing is ever missed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from keystoneauth1 import exceptions as keystone

from osc_placement.errors import PlacementError
from osc_placement.migrate.base import Assessment

#: compare nova with placement
Look = Callable[[], Assessment]
#: carry out what was found, and tell of it
Act = Callable[[Assessment], object]


def follow(
    look: Look, act: Act, *, interval: float, stop: threading.Event, wait: Callable[[float], object]
) -> None:
    """Look, and again after each wait of ``interval`` seconds or less, until ``stop`` is set.

    Acts when there is something to do or to tell.

    What cannot be done now, as placement or a database does not answer, is told and tried again.
    """
    told: object = None
    while not stop.is_set():
        try:
            assessment = look()
            news = [str(finding) for finding in assessment.findings]
            if assessment.plan.changes or news != told:
                act(assessment)
            told = news
        except (PlacementError, keystone.ClientException) as error:
            if str(error) != told:
                print(f"placement-migrate: {error}", file=sys.stderr, flush=True)
            told = str(error)
        wait(interval)
