# SPDX-License-Identifier: Apache-2.0
"""Changes taken back where somebody else changed the same provider since: what he set stays. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from osc_placement.api.consumer import Consumer
from osc_placement.batch.difference import describe_difference, holds, is_same_inventory
from osc_placement.batch.inventory import is_same_ratio
from osc_placement.batch.plan import Change, Decision, Facet, ProviderState
from osc_placement.batch.room import is_half_written
from osc_placement.errors import PlacementError
from osc_placement.model import INVENTORY_FIELDS, Inventory

FOUND_BACK: Final = "is as it was before"
OTHERS_STAY: Final = "changed since; what others changed stays"

#: what a facet is made of: each of these is taken back, or stays, by itself
_Cells = dict[tuple[str, ...], Any]


class ChangedSince(PlacementError):
    """Somebody changed a provider since a run did; ``way`` says what can be done about it."""

    def __init__(
        self,
        name: str,
        gone: Sequence[str],
        come: Sequence[str],
        way: str = "--force undoes what the run changed, and no more",
    ) -> None:
        self.name = name
        self.gone = tuple(gone)
        self.come = tuple(come)
        what = f"{', '.join(gone) or 'nothing'} became {', '.join(come) or 'nothing'}"
        super().__init__(f"{name} was changed since: {what}; {way}")

    @classmethod
    def seen(cls, name: str, expected: ProviderState, state: ProviderState) -> ChangedSince:
        """It has something else than was expected."""
        return cls(name, *describe_difference(expected, state))


@dataclass(frozen=True, slots=True)
class WayBack:
    """The edit of a step of an undo, for when somebody is faster: what he set is not written over.

    ``step`` is as it was planned. Without ``force``, a provider of which anything is neither as it was then
    nor as the step leaves it is refused; with it, only what nobody else has set since goes back.
    """

    title: str
    step: Change
    force: bool

    @property
    def facets(self) -> tuple[Facet, ...]:
        """What it changes."""
        return self.step.facets

    def check(self, states: Sequence[ProviderState]) -> None:
        """What was changed can be taken back."""

    def decide(self, state: ProviderState) -> Decision:
        """Say what the state shall become; :raises ChangedSince: somebody changed it, and no ``force``."""
        step = self.step
        if not (self.force or is_half_written(step, state)):
            self._refuse_strangers(state)
        back, whole = take_back(Change(step.subject, step.after, step.before), state)
        if whole:
            return Decision(back, FOUND_BACK if back == state else "")
        return Decision(back, OTHERS_STAY)

    def _refuse_strangers(self, state: ProviderState) -> None:
        images = (self.step.before, self.step.after)
        planned = {
            facet: getattr(self.step.before, facet)
            for facet in self.facets
            if not any(holds(state, image, [facet]) for image in images)
        }
        if planned:
            raise ChangedSince.seen(self.step.subject.name, replace(state, **planned), state)


def take_back(change: Change, now: ProviderState) -> tuple[ProviderState, bool]:
    """What a state becomes without a change, and whether nothing of the change had been changed since."""
    taken = {
        facet: _take_back_facet(change, facet, now)
        for facet in change.facets
        if getattr(now, facet) is not None
    }
    merged = {facet: value for facet, (value, _) in taken.items()}
    return replace(now, **merged), all(whole for _, whole in taken.values())


def _take_back_facet(change: Change, facet: Facet, now: ProviderState) -> tuple[Any, bool]:
    split, join = _FORMS[facet]
    before, after, cells = split(*(getattr(state, facet) for state in (change.before, change.after, now)))
    changed = {key for key in {*before, *after} if before.get(key) != after.get(key)}
    ours = {key for key in changed if _is_same(cells.get(key), after.get(key))}
    if facet == "allocations":
        moved = _find_moved(change, now, changed - ours, gives=not ours.isdisjoint(before))
        ours = {key for key in ours if key[0] not in moved}
    whole = all(_is_same(cells.get(key), before.get(key)) for key in changed - ours)
    for key in ours:
        cells.pop(key, None)
        cells |= {key: before[key]} if key in before else {}
    return join(cells), whole


def _find_moved(
    change: Change, now: ProviderState, strange: set[tuple[str, ...]], *, gives: bool
) -> set[str]:
    """The holders of which no allocation goes back, as that would be a second claim for an instance.

    A consumer that does not hold what a change left it with was moved on, or is gone. ``gives``: something
    would be held again, which is too much for a consumer that holds things elsewhere by now. Of a provider
    the holders are consumers, and each is seen by itself.
    """
    if not isinstance(change.subject, Consumer):
        return {key[0] for key in strange}
    left, held = change.after.allocations or {}, now.allocations or {}
    moved = strange or (gives and held.keys() != left.keys())
    return {*(change.before.allocations or {}), *left} if moved else set()


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, Inventory) and isinstance(other, Inventory):
        return is_same_inventory(one, other)
    if isinstance(one, float) and isinstance(other, float):
        return is_same_ratio(one, other)
    return bool(one == other)


Inventories = Mapping[str, Inventory]


def _split_inventories(
    before: Inventories | None, after: Inventories | None, now: Inventories
) -> list[_Cells]:
    """A class that comes or goes is one thing, and of one that stays each field."""
    before, after = before or {}, after or {}
    whole = {*before, *after, *now} - (before.keys() & after.keys())
    return [_split_fields(state, whole) for state in (before, after, now)]


def _split_fields(inventories: Inventories, whole: set[str]) -> _Cells:
    return {
        key: value
        for name, inventory in inventories.items()
        for key, value in (
            {(name,): inventory}
            if name in whole
            else {(name, field): getattr(inventory, field) for field in INVENTORY_FIELDS}
        ).items()
    }


def _join_inventories(cells: _Cells) -> dict[str, Inventory]:
    joined = {key[0]: value for key, value in cells.items() if len(key) == 1}
    for name in {key[0] for key in cells if len(key) > 1}:
        joined[name] = Inventory(**{field: cells[name, field] for field in INVENTORY_FIELDS})
    return joined


Claims = Mapping[str, Mapping[str, int]]


def _split_allocations(*states: Claims | None) -> list[_Cells]:
    return [
        {
            (holder, name): amount
            for holder, amounts in (state or {}).items()
            for name, amount in amounts.items()
        }
        for state in states
    ]


def _join_allocations(cells: _Cells) -> Claims:
    joined: dict[str, dict[str, int]] = {}
    for (holder, name), amount in cells.items():
        joined.setdefault(holder, {})[name] = amount
    return joined


def _split_names(*states: frozenset[str] | None) -> list[_Cells]:
    return [{(name,): True for name in state or ()} for state in states]


def _join_names(cells: _Cells) -> frozenset[str]:
    return frozenset(name for (name,) in cells)


def _split_owner(*states: frozenset[str] | None) -> list[_Cells]:
    """Half of one owner and half of another is nobody."""
    return [{("owner",): state} for state in states]


def _join_owner(cells: _Cells) -> frozenset[str] | None:
    owner: frozenset[str] | None = cells["owner",]
    return owner


_FORMS: Final[Mapping[Facet, tuple[Callable[..., list[_Cells]], Callable[[_Cells], Any]]]] = {
    "inventories": (_split_inventories, _join_inventories),
    "traits": (_split_names, _join_names),
    "aggregates": (_split_names, _join_names),
    "allocations": (_split_allocations, _join_allocations),
    "owner": (_split_owner, _join_owner),
}
