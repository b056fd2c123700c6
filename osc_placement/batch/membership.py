# SPDX-License-Identifier: Apache-2.0
"""Edits of what a provider is a member of or has, as sets of names: traits and aggregates.

Pure. Which names the server knows is asked in select.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal

from osc_placement.batch.plan import Decision, Facet, ProviderState, UncheckedEdit

Names = frozenset[str]
Verb = Literal["add", "remove", "set"]

_VERBS: Final[Mapping[Verb, Callable[[Names, Names], Names]]] = {
    "add": lambda current, names: current | names,
    "remove": lambda current, names: current - names,
    "set": lambda current, names: names,
}
_ALREADY: Final[Mapping[Verb, str]] = {
    "add": "has them already",
    "remove": "has none of them",
    "set": "has exactly these already",
}
_MEMBER_ALREADY: Final[Mapping[Verb, str]] = {
    "add": "is a member already",
    "remove": "is no member",
    "set": "is a member of exactly these already",
}


@dataclass(frozen=True, slots=True)
class TraitEdit(UncheckedEdit):
    """Add traits to what is there, remove them from it, or set them in place of it."""

    verb: Verb
    names: Names
    facets: ClassVar[tuple[Facet, ...]] = ("traits",)

    @property
    def title(self) -> str:
        """Return the edit in the words of the command line."""
        return f"trait {self.verb} {' '.join(sorted(self.names))}"

    def decide(self, state: ProviderState) -> Decision:
        """Say which traits the provider shall have."""
        current = state.traits or frozenset()
        after = _VERBS[self.verb](current, self.names)
        return Decision(replace(state, traits=after), _ALREADY[self.verb] if after == current else "")


@dataclass(frozen=True, slots=True)
class AggregateEdit(UncheckedEdit):
    """Make providers members of aggregates, take them out, or have them in exactly these."""

    verb: Verb
    aggregates: Names
    facets: ClassVar[tuple[Facet, ...]] = ("aggregates",)

    @property
    def title(self) -> str:
        """Return the edit in the words of the command line."""
        return f"aggregate {self.verb} {' '.join(sorted(self.aggregates))}"

    def decide(self, state: ProviderState) -> Decision:
        """Say which aggregates the provider shall be in."""
        current = state.aggregates or frozenset()
        after = _VERBS[self.verb](current, self.aggregates)
        reason = _MEMBER_ALREADY[self.verb] if after == current else ""
        return Decision(replace(state, aggregates=after), reason)
