# SPDX-License-Identifier: Apache-2.0
"""What a command of ``placement-migrate`` may fail with, and the one line that says so. Pure."""

from __future__ import annotations

from typing import Final

from keystoneauth1 import exceptions as keystone

from osc_placement.errors import OutcomeUnknown, PlacementError, is_outcome_unknown
from osc_placement.terminal.escape import printable

#: whatever else is raised is a fault of the program
FAILURES: Final = (PlacementError, keystone.ClientException, OSError)


def explain(error: Exception) -> str:
    """An error in one line; where nobody answered, who that was and the network's own word for it."""
    told = OutcomeUnknown(error) if is_outcome_unknown(error) else error
    text = printable(" ".join(str(told).split()))
    if not isinstance(error, keystone.ConnectFailure):
        return text
    cause: BaseException = error
    while cause.__cause__ or cause.__context__:
        cause = cause.__cause__ or cause.__context__ or cause
    return f"{text.partition(': HTTP')[0]}: {getattr(cause, 'strerror', None) or cause}"
