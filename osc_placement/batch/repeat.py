# SPDX-License-Identifier: Apache-2.0
"""Edits made from a change, by which it is planned again on another state. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from osc_placement.batch.facets import ALL_FACETS, Facet, ProviderState
from osc_placement.batch.merge import merge
from osc_placement.batch.plan import Change, Decision, Edit, JournalledEdit, Plan, UncheckedEdit


@dataclass(frozen=True, slots=True)
class Repeat(UncheckedEdit):
    """An edit that makes a change again on any state, whatever others set of it since."""

    title: str
    change: Change

    @property
    def facets(self) -> tuple[Facet, ...]:
        """Return the facets that the change sets."""
        return self.change.facets

    def decide(self, state: ProviderState) -> Decision:
        """Return the state with the change."""
        after = merge(self.change, state, overwrite=True).target
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
        return Repeat(self.title, step)


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
        if self.change.is_new:
            return self.change.facets
        return tuple(self.change.after.known)

    def decide(self, state: ProviderState) -> Decision:
        """Return the state with the facets of the change, as far as they are known."""
        wanted = {
            facet: getattr(self.change.after, facet)
            for facet in self.facets
            if getattr(state, facet) is not None or facet in ("owner", "consumer_type")
        }
        after = replace(state, **wanted)
        return Decision(after, "is as planned already" if after == state else "")


def plan_staged(title: str, changes: Iterable[Change]) -> Plan:
    """Return a plan of changes that depend on each other; each makes a state, whatever is there by then."""
    changes = tuple(changes)
    facets = tuple(facet for facet in ALL_FACETS if any(facet in change.facets for change in changes))
    return Plan(StateEdit(title, facets), changes, is_staged=True)


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
