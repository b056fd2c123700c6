# SPDX-License-Identifier: Apache-2.0
"""The filters of ``GET /resource_providers``, each provider judged by itself. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from osc_placement.candidates.plan import having
from osc_placement.candidates.query import Membership, Traits
from osc_placement.candidates.sets import Mask, slots_in
from osc_placement.candidates.snapshot import Snapshot


def select(
    snapshot: Snapshot, *, membership: Membership, traits: Traits, resources: Mapping[str, int]
) -> Sequence[int]:
    """Return the slots of providers with the traits and aggregates, and free capacity for all resources.

    Sets are intersected first; then amounts are compared for the remaining providers, at O(1) each.
    """
    found = _find(snapshot, membership, traits, resources)
    if not resources:
        return range(len(snapshot.nodes)) if found == snapshot.everything else list(slots_in(found))
    return list(_with_free_capacity(snapshot, slots_in(found), resources))


def _with_free_capacity(
    snapshot: Snapshot, slots: Iterable[int], resources: Mapping[str, int]
) -> Iterator[int]:
    needs = [(name, snapshot.free_capacity(name), amount) for name, amount in resources.items()]
    for slot in slots:
        stocks = snapshot.nodes[slot].stocks
        if all(
            amount <= free[slot] and stocks[name].inventory.fits_unit(amount) for name, free, amount in needs
        ):
            yield slot


def _find(snapshot: Snapshot, membership: Membership, traits: Traits, resources: Mapping[str, int]) -> Mask:
    mask = having(snapshot, traits) & ~snapshot.in_any_aggregate(membership.forbidden)
    for name in resources:
        mask &= snapshot.with_free_capacity(name)
    for any_of in membership.required:
        mask &= snapshot.in_any_aggregate(any_of)
    return mask
