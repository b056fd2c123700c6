# SPDX-License-Identifier: Apache-2.0
"""An edit that is known by what it changed: the difference of two states, made again on a third. Pure.

What resume and undo plan with where somebody else changed a provider meanwhile: his changes stay, ours come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from osc_placement.batch.plan import ALL_FACETS, Change, Decision, Facet, ProviderState
from osc_placement.model import INVENTORY_FIELDS, Inventory


@dataclass(frozen=True, slots=True)
class Repeat:
    """Make of any state what ``before`` had to become to be ``after``."""

    title: str
    before: ProviderState
    after: ProviderState

    @classmethod
    def of(cls, change: Change, title: str = "") -> Repeat:
        """The edit that a change came from, as far as the change tells."""
        return cls(title, change.before, change.after)

    @property
    def facets(self) -> tuple[Facet, ...]:
        """What it changes."""
        return tuple(
            facet for facet in ALL_FACETS if getattr(self.before, facet) != getattr(self.after, facet)
        )

    def check(self, states: Sequence[ProviderState]) -> None:
        """A difference fits any state."""

    def decide(self, state: ProviderState) -> Decision:
        """Say what the state shall become."""
        merged = {
            facet: _MERGES[facet](getattr(self.before, facet), getattr(self.after, facet), now)
            for facet in self.facets
            if (now := getattr(state, facet)) is not None
        }
        after = replace(state, **merged)
        return Decision(after, "is as planned already" if after == state else "")


def _merge_names(before: frozenset[str], after: frozenset[str], now: frozenset[str]) -> frozenset[str]:
    return (now - (before - after)) | (after - before)


def _merge_inventories(
    before: Mapping[str, Inventory], after: Mapping[str, Inventory], now: Mapping[str, Inventory]
) -> dict[str, Inventory]:
    merged = dict(now)
    for name in {*before, *after}:
        old, new = before.get(name), after.get(name)
        if new is None:
            merged.pop(name, None)
        elif old is None:
            merged[name] = new
        elif name in now:
            merged[name] = replace(now[name], **_changed_fields(old, new))
    return merged


def _changed_fields(old: Inventory, new: Inventory) -> dict[str, Any]:
    return {
        field: getattr(new, field) for field in INVENTORY_FIELDS if getattr(old, field) != getattr(new, field)
    }


Claims = Mapping[str, Mapping[str, int]]


def _merge_allocations(before: Claims, after: Claims, now: Claims) -> Claims:
    merged = {provider: dict(amounts) for provider, amounts in now.items()}
    for provider in {*before, *after}:
        old, new = before.get(provider, {}), after.get(provider, {})
        for name in {*old, *new}:
            if old.get(name) == new.get(name):
                continue
            amounts = merged.setdefault(provider, {})
            amounts.pop(name, None)
            if name in new:
                amounts[name] = new[name]
    return {provider: amounts for provider, amounts in merged.items() if amounts}


_MERGES: Mapping[Facet, Any] = {
    "inventories": _merge_inventories,
    "traits": _merge_names,
    "aggregates": _merge_names,
    "allocations": _merge_allocations,
    "owner": _merge_names,
}
