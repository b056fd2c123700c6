# SPDX-License-Identifier: Apache-2.0
"""How long an answer of a service is waited for: never for ever."""

from __future__ import annotations

import copy
from typing import Final

from keystoneauth1.session import Session

#: seconds, where nobody says otherwise: as long as for an answer of placement, and more than proxies wait
PATIENCE: Final = 600.0


def limit_waiting(session: Session, seconds: float | None = None) -> Session:
    """The same session, connections and all, that waits so long, or as it did, or `PATIENCE`."""
    same = copy.copy(session)
    same.timeout = seconds or session.timeout or PATIENCE
    return same
