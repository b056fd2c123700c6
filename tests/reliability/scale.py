# SPDX-License-Identifier: Apache-2.0
"""How long the tests here go on: a short form among all tests, and whatever `tools/reliability` asks for."""

import os
import time

ROUNDS = "OSC_PLACEMENT_RELIABILITY_ROUNDS"
MINUTES = "OSC_PLACEMENT_RELIABILITY_MINUTES"
DATABASES = "OSC_PLACEMENT_RELIABILITY_DATABASES"


def is_full():
    """Whether somebody asked for more than the short form."""
    return bool(os.environ.get(ROUNDS) or os.environ.get(MINUTES))


def rounds(short):
    """The numbers of the rounds of a test: ``short`` of them, or as many or as long as was asked for."""
    minutes = os.environ.get(MINUTES)
    if minutes:
        return _until(time.monotonic() + 60 * float(minutes))
    return iter(range(int(os.environ.get(ROUNDS) or short)))


def _until(end):
    number = 0
    while number == 0 or time.monotonic() < end:
        yield number
        number += 1


def databases(every):
    """Those of the kinds of database that were asked for; all if none were."""
    wanted = os.environ.get(DATABASES)
    return tuple(wanted.split(",")) if wanted else tuple(every)
