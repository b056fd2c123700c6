# SPDX-License-Identifier: Apache-2.0
"""Two states of a provider side by side, in words: only what differs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from osc_placement.batch.plan import FACETS, ProviderState
from osc_placement.model import INVENTORY_FIELDS, Inventory


def describe_difference(before: ProviderState, after: ProviderState) -> tuple[list[str], list[str]]:
    """What is only in ``before`` and what is only in ``after``.

    A trait or aggregate by its name; of an inventory the fields that change (``VCPU:allocation_ratio=4.0``),
    and its total alone where the class comes or goes.
    """
    gone: list[str] = []
    come: list[str] = []
    for facet in FACETS:
        old, new = getattr(before, facet), getattr(after, facet)
        if old == new:
            continue
        if facet == "inventories":
            gone += _only_in(old or {}, new or {})
            come += _only_in(new or {}, old or {})
        else:
            gone += sorted((old or frozenset()) - (new or frozenset()))
            come += sorted((new or frozenset()) - (old or frozenset()))
    return gone, come


def _only_in(these: Mapping[str, Inventory], those: Mapping[str, Inventory]) -> Iterable[str]:
    for name in sorted(these):
        inventory, other = these[name], those.get(name)
        if other is None:
            yield f"{name}:total={inventory.total}"
            continue
        for field in INVENTORY_FIELDS:
            if getattr(inventory, field) != getattr(other, field):
                yield f"{name}:{field}={getattr(inventory, field)}"
