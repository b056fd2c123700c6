# SPDX-License-Identifier: Apache-2.0
"""How changes are sent: a module for each kind of request.

``provider`` writes one change, a facet after the other; ``bulk`` the changes of many providers, and
``consumers`` those of many consumers, in one request; ``reshape`` writes inventories and the allocations from
them in one transaction. None of them tries again: that is for ``batch.execute``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from osc_placement.errors import PlacementError

if TYPE_CHECKING:
    from osc_placement.batch.plan import Change

#: by UUID the generation afterwards, None where it is not told; or why it was not done or is not known to be
Results = Mapping[str, int | PlacementError | None]


class BulkWriter(Protocol):
    """Writes many changes in one request, at most ``size`` of them."""

    size: int

    def write(self, changes: Sequence[Change]) -> Results | None:
        """Write changes; return None if nothing was written and they have to be written one by one."""
