# SPDX-License-Identifier: Apache-2.0
"""Changes of what consumers hold: room for it in the inventories, and changes overtaken by others. Pure.

Placement refuses allocations of a class that is completely reserved, even in the request that reserves it.
Such a class is written twice: with enough free capacity for its consumers, and then as planned.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from osc_placement.api.consumer import Consumer
from osc_placement.errors import PlacementError

if TYPE_CHECKING:
    from osc_placement.batch.facets import ProviderState
    from osc_placement.batch.plan import Change, Subject
    from osc_placement.model import Inventory


def make_room(state: ProviderState) -> dict[str, Inventory]:
    """Return the inventories of a state, with no more reserved than its allocations leave."""
    used: Counter[str] = Counter()
    for amounts in (state.allocations or {}).values():
        used.update(amounts)
    return {
        name: _lower_reserved(inventory, used[name]) for name, inventory in (state.inventories or {}).items()
    }


def admit(inventory: Inventory, amounts: Sequence[int]) -> Inventory:
    """Return the inventory changed as far as needed to admit allocations of these amounts together."""
    used = sum(amounts)
    inventory = _lower_reserved(inventory, used)
    if used and not inventory.has_room(0, used):
        inventory = replace(inventory, allocation_ratio=float(math.ceil(used / inventory.total)))
    if not all(inventory.fits_unit(amount) for amount in amounts):
        most = max(inventory.max_unit, *amounts)
        inventory = replace(inventory, min_unit=1, max_unit=most, step_size=1)
    return inventory


def _lower_reserved(inventory: Inventory, used: int) -> Inventory:
    if not used or inventory.has_room(0, used) or not inventory.allocation_ratio:
        return inventory
    left = inventory.total - math.ceil(used / inventory.allocation_ratio)
    return replace(inventory, reserved=max(0, min(inventory.reserved, left)))


def is_overtaken(change: Change, subject: Subject, now: ProviderState) -> bool:
    """Return whether allocations or owners are neither as before the change nor as after it.

    A new plan would join what was right for a state that is gone with what somebody knew better since: it
    might give an instance its claim twice, or take away the one it has now. What a consumer would lose it may
    have got anew, in the same amounts, if its generation is another.
    """
    is_written_since = change.subject.generation not in (None, subject.generation)
    if is_written_since and _takes(change) and now.allocations != change.after.allocations:
        return True
    watched = [facet for facet in change.facets if facet in ("allocations", "owner")]
    images = (change.before, change.after)
    known = any(all(getattr(now, facet) == getattr(image, facet) for facet in watched) for image in images)
    return bool(watched) and not known


def _takes(change: Change) -> bool:
    """Return whether a change takes something from a consumer."""
    if not isinstance(change.subject, Consumer):
        return False
    before, after = change.before.allocations or {}, change.after.allocations or {}
    return any(
        amount > after.get(provider, {}).get(resource, 0)
        for provider, amounts in before.items()
        for resource, amount in amounts.items()
    )


class Overtaken(PlacementError):
    """Somebody else changed the allocations of a consumer since they were read."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"{name} holds something else since it was looked at; look again, and plan anew")
