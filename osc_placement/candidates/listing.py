# SPDX-License-Identifier: Apache-2.0
"""The filters of ``GET /resource_providers``, each provider judged by itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from osc_placement.candidates.match import having
from osc_placement.candidates.query import Membership, Traits
from osc_placement.candidates.sets import slots_in
from osc_placement.candidates.snapshot import Snapshot


def select(
    snapshot: Snapshot, *, membership: Membership, traits: Traits, resources: Mapping[str, int]
) -> Sequence[int]:
    """Return the slots of providers with the traits and aggregates, and free capacity for all resources.

    Sets are intersected first; then amounts are compared for the remaining providers, at O(1) each.
    """
    found = having(snapshot, traits) & ~snapshot.in_any_aggregate(membership.unwanted)
    for name in resources:
        found &= snapshot.with_free_capacity(name)
    for any_of in membership.required:
        found &= snapshot.in_any_aggregate(any_of)
    if not resources:
        return range(len(snapshot.nodes)) if found == snapshot.everything else list(slots_in(found))
    needs = [(name, snapshot.free_capacity(name), amount) for name, amount in resources.items()]
    nodes = snapshot.nodes
    return [
        slot
        for slot in slots_in(found)
        if all(
            amount <= free[slot] and nodes[slot].stocks[name].inventory.fits_unit(amount)
            for name, free, amount in needs
        )
    ]
