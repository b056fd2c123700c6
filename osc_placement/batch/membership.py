# SPDX-License-Identifier: Apache-2.0
"""Edits of what a provider is a member of or has, as sets of names: traits and aggregates.

Pure. Which names the server knows is asked in select.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal, NamedTuple

from osc_placement.batch.facets import Facet, ProviderState
from osc_placement.batch.plan import Decision, JournalledEdit

Names = frozenset[str]
Verb = Literal["add", "remove", "set"]


class _Rule(NamedTuple):
    """How a verb changes a set of names, and the reasons if traits or aggregates are as it makes them."""

    change: Callable[[Names, Names], Names]
    has_already: str
    is_already: str


_RULES: Final[Mapping[Verb, _Rule]] = {
    "add": _Rule(lambda current, names: current | names, "has them already", "is a member already"),
    "remove": _Rule(lambda current, names: current - names, "has none of them", "is no member"),
    "set": _Rule(
        lambda current, names: names, "has exactly these already", "is a member of exactly these already"
    ),
}


@dataclass(frozen=True, slots=True)
class TraitEdit(JournalledEdit):
    """Add traits to what is there, remove them from it, or set them in place of it."""

    verb: Verb
    names: Names
    kind: ClassVar[str] = "trait"
    facets: ClassVar[tuple[Facet, ...]] = ("traits",)

    @property
    def title(self) -> str:
        """Return the edit in the words of the command line."""
        return f"trait {self.verb} {' '.join(sorted(self.names))}"

    def decide(self, state: ProviderState) -> Decision:
        """Say which traits the provider shall have."""
        current = state.traits or frozenset()
        rule = _RULES[self.verb]
        after = rule.change(current, self.names)
        return Decision(replace(state, traits=after), rule.has_already if after == current else "")

    def to_json(self) -> dict[str, Any]:
        """Return the verb and the names."""
        return {"verb": self.verb, "names": sorted(self.names)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> TraitEdit:
        """Return the edit with this verb and these names."""
        return cls(document["verb"], frozenset(document["names"]))


@dataclass(frozen=True, slots=True)
class AggregateEdit(JournalledEdit):
    """Make providers members of aggregates, take them out, or have them in exactly these."""

    verb: Verb
    aggregates: Names
    kind: ClassVar[str] = "aggregate"
    facets: ClassVar[tuple[Facet, ...]] = ("aggregates",)

    @property
    def title(self) -> str:
        """Return the edit in the words of the command line."""
        return f"aggregate {self.verb} {' '.join(sorted(self.aggregates))}"

    def decide(self, state: ProviderState) -> Decision:
        """Say which aggregates the provider shall be in."""
        current = state.aggregates or frozenset()
        rule = _RULES[self.verb]
        after = rule.change(current, self.aggregates)
        return Decision(replace(state, aggregates=after), rule.is_already if after == current else "")

    def to_json(self) -> dict[str, Any]:
        """Return the verb and the aggregates."""
        return {"verb": self.verb, "aggregates": sorted(self.aggregates)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> AggregateEdit:
        """Return the edit with this verb and these aggregates."""
        return cls(document["verb"], frozenset(document["aggregates"]))
