# SPDX-License-Identifier: Apache-2.0
"""Two states of a provider side by side, in words: only what differs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from osc_placement.batch.plan import ALL_FACETS, Facet, ProviderState
from osc_placement.model import INVENTORY_FIELDS, Inventory, is_same_ratio


def describe_difference(before: ProviderState, after: ProviderState) -> tuple[list[str], list[str]]:
    """Return what is only in ``before`` and what is only in ``after``.

    A trait or aggregate by its name; of an inventory the fields that change (``VCPU:allocation_ratio=4.0``),
    and its total alone where the class comes or goes; an allocation with the UUID of its provider.
    """
    gone: list[str] = []
    come: list[str] = []
    for facet in ALL_FACETS:
        old, new = getattr(before, facet), getattr(after, facet)
        if old == new:
            continue
        if facet == "inventories":
            gone += _only_in(old or {}, new or {})
            come += _only_in(new or {}, old or {})
        elif facet == "allocations":
            gone += sorted(_amounts(old) - _amounts(new))
            come += sorted(_amounts(new) - _amounts(old))
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


def _amounts(allocations: Mapping[str, Mapping[str, int]] | None) -> set[str]:
    return {
        f"{provider}:{name}={amount}"
        for provider, amounts in (allocations or {}).items()
        for name, amount in amounts.items()
    }


def holds(now: ProviderState, wanted: ProviderState, facets: Iterable[Facet]) -> bool:
    """Return whether a state that was read is the one wanted, as far as every database keeps it."""
    return all(_is_same(facet, getattr(now, facet), getattr(wanted, facet)) for facet in facets)


def _is_same(facet: Facet, now: Any, wanted: Any) -> bool:
    if facet != "inventories" or now is None or wanted is None:
        return bool(now == wanted)
    return now.keys() == wanted.keys() and all(
        is_same_inventory(inventory, wanted[name]) for name, inventory in now.items()
    )


def is_same_inventory(one: Inventory, other: Inventory) -> bool:
    """Return whether two inventories are equal to every database."""
    return (
        is_same_ratio(one.allocation_ratio, other.allocation_ratio)
        and replace(one, allocation_ratio=other.allocation_ratio) == other
    )
