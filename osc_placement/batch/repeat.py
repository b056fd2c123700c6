# SPDX-License-Identifier: Apache-2.0
"""Edits made from a change: the difference of its two states is applied to a third. Pure.

A resume plans with them if somebody else changed a provider meanwhile: their changes stay, ours are added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from osc_placement.batch.plan import (
    ABSENT,
    ALL_FACETS,
    Change,
    Decision,
    Edit,
    Facet,
    JournalledEdit,
    ProviderState,
    UncheckedEdit,
    find_differing,
)
from osc_placement.model import INVENTORY_FIELDS, Inventory


@dataclass(frozen=True, slots=True)
class Repeat(UncheckedEdit):
    """An edit that applies the difference of ``before`` and ``after`` to any state."""

    title: str
    before: ProviderState
    after: ProviderState

    @classmethod
    def of(cls, change: Change, title: str = "") -> Repeat:
        """Return the edit that makes a change again."""
        return cls(title, change.before, change.after)

    @property
    def facets(self) -> tuple[Facet, ...]:
        """Return the facets that differ."""
        return find_differing(self.before, self.after)

    def decide(self, state: ProviderState) -> Decision:
        """Return the state with the difference."""
        merged = {
            facet: _MERGES[facet](getattr(self.before, facet), getattr(self.after, facet), now)
            for facet in self.facets
            if (now := getattr(state, facet)) is not None
        }
        after = replace(state, **merged)
        return Decision(after, "is as planned already" if after == state else "")


class Recorded(UncheckedEdit):
    """An edit of which only the title is known; each step of its plan is planned again by what it changed."""

    def __init__(self, title: str, facets: tuple[Facet, ...]) -> None:
        self.title = title
        self.facets = facets

    def decide(self, state: ProviderState) -> Decision:
        """Change nothing, as each step has its own edit."""
        return Decision(state)

    def edit_of(self, step: Change) -> Edit:
        """Return the edit that makes the change of a step again."""
        return Repeat.of(step, self.title)


@dataclass(frozen=True, slots=True)
class Replace(UncheckedEdit):
    """An edit that sets the facets of a change to its after-image; changes of others to them are lost.

    Of a provider that is created, only what the file describes is written: the after-image has all facets,
    and those that others gave it meanwhile are theirs.
    """

    title: str
    change: Change

    @property
    def facets(self) -> tuple[Facet, ...]:
        """Return the facets that the change writes to what it creates, else those that it knows."""
        if _is_creation(self.change):
            return self.change.facets
        return tuple(facet for facet in ALL_FACETS if getattr(self.change.after, facet) is not None)

    def decide(self, state: ProviderState) -> Decision:
        """Return the state with the facets of the change, as far as they are known."""
        wanted = {
            facet: getattr(self.change.after, facet)
            for facet in self.facets
            if getattr(state, facet) is not None or facet in ("owner", "consumer_type")
        }
        return Decision(replace(state, **wanted), "is as planned already")


def carry_planned(change: Change, again: Change) -> Change:
    """Return the later plan of a creation, with the facets that it does not write as they were planned.

    What others gave the provider meanwhile is no part of the change: an undo has to see it as theirs.
    """
    if not (_is_creation(change) and _is_creation(again)):
        return again
    kept = [facet for facet in ALL_FACETS if facet not in (*change.facets, *again.facets)]
    return replace(
        again,
        before=replace(again.before, **{facet: getattr(change.before, facet) for facet in kept}),
        after=replace(again.after, **{facet: getattr(change.after, facet) for facet in kept}),
    )


def _is_creation(change: Change) -> bool:
    return change.before.identity == ABSENT and bool(change.after.identity)


class StateEdit(Recorded, JournalledEdit):
    """The edit of an apply: each step makes the state that a file describes, whatever is there."""

    kind: ClassVar[str] = "state"

    def edit_of(self, step: Change) -> Edit:
        """Return the edit that gives the subject of a step the state that was planned."""
        return Replace(self.title, step)

    def to_json(self) -> dict[str, Any]:
        """Return the facets."""
        return {"facets": list(self.facets)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> StateEdit:
        """Return the edit of an apply with this title."""
        return cls(document["title"], tuple(document["facets"]))


def edits_of(edit: Edit, steps: tuple[Change, ...]) -> Mapping[str, Edit]:
    """Return an edit for each step, by UUID, if only the title of the edit of a plan is known."""
    if not isinstance(edit, Recorded):
        return {}
    return {step.uuid: edit.edit_of(step) for step in steps}


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
            changed = [each for each in INVENTORY_FIELDS if getattr(old, each) != getattr(new, each)]
            merged[name] = replace(now[name], **{each: getattr(new, each) for each in changed})
    return merged


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
    "identity": _merge_names,
    "consumer_type": _merge_names,
}
