# SPDX-License-Identifier: Apache-2.0
"""The selection of providers: conditions that the server evaluates, and those evaluated here. Pure."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from osc_placement import syntax
from osc_placement.api.names import SEE_AGGREGATES, suggest_provider
from osc_placement.errors import PlacementError, UsageError
from osc_placement.model import Provider, canonical_uuid, is_uuid
from osc_placement.terminal.lines import cut, list_names

_SEE_PROVIDERS: Final = "see what there is with: openstack resource provider list"
#: how much of a name is shown that no provider has; a file that is no list of names has long lines
_SHOWN: Final = 60


@dataclass(frozen=True, slots=True)
class Selection:
    """Conditions on providers; all kinds that are given must hold.

    :ivar aggregates: in any of these
    :ivar in_tree: UUID of any provider of the tree
    :ivar required: has all of these traits; of ``A,B`` one is enough
    :ivar forbidden: has none of these traits
    :ivar resources: has room for these amounts
    :ivar name: a pattern with ``*``, ``?`` and ``[...]``
    :ivar providers: is one of these, by UUID, or by a name that is not like one; each of them must exist
    :ivar everything: no condition at all, which has to be said
    """

    aggregates: tuple[str, ...] = ()
    in_tree: str | None = None
    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    resources: Mapping[str, int] | None = None
    name: str | None = None
    providers: tuple[str, ...] | None = None
    everything: bool = False

    def __post_init__(self) -> None:
        for aggregate in self.aggregates:
            if not is_uuid(aggregate):
                raise UsageError(f"An aggregate must be given by its UUID, not {aggregate!r}")
        if not (self.everything or self._phrases()):
            raise UsageError(
                "Say which resource providers to change, with --aggregate, --name or other conditions; "
                "--all changes all there are"
            )

    def __str__(self) -> str:
        return " and ".join(self._phrases()) or "there"

    def describe_left(self) -> str:
        """Return why nothing is changed of a provider that left the selection; it may still meet a part."""
        phrases = self._phrases()
        return f"is no longer {'all of: ' if len(phrases) > 1 else ''}{', '.join(phrases)}"

    def _phrases(self) -> list[str]:
        amounts = ", ".join(f"{name}={amount}" for name, amount in (self.resources or {}).items())
        phrases = {
            f"in aggregate {' or '.join(self.aggregates)}": self.aggregates,
            f"in the tree of {self.in_tree}": self.in_tree,
            f"with {' and '.join(trait.replace(',', ' or ') for trait in self.required)}": self.required,
            f"without {' and '.join(self.forbidden)}": self.forbidden,
            f"with room for {amounts}": self.resources,
            f"named like {self.name}": self.name is not None,
            f"among the {len(self.providers or ())} named": self.providers is not None,
        }
        return [phrase for phrase, is_given in phrases.items() if is_given]

    @property
    def filters(self) -> dict[str, Any]:
        """Return the conditions that the server judges, as arguments of ``client.list_providers``."""
        filters = {
            "member_of": syntax.format_member_of((), self.aggregates),
            "in_tree": self.in_tree,
            "required": syntax.format_traits(self.required, self.forbidden),
            "resources": self.resources,
        }
        return {name: value for name, value in filters.items() if value}

    @property
    def has_conditions(self) -> bool:
        """Return whether there may be providers that are not selected."""
        return bool(self._phrases())

    @property
    def traits(self) -> list[str]:
        """Return every trait that the conditions name."""
        return [name for text in (*self.required, *self.forbidden) for name in text.split(",")]

    @property
    def can_be_left(self) -> bool:
        """Return whether a selected provider may leave the selection; one selected by UUID cannot."""
        others = replace(self, providers=None, everything=True)
        return bool(others._phrases() or self._named[1])

    def choose(self, providers: Sequence[Provider]) -> list[Provider]:
        """Return the providers that also meet the conditions that the server cannot evaluate."""
        chosen: Iterable[Provider] = providers
        if self.name is not None:
            chosen = [provider for provider in chosen if fnmatch.fnmatchcase(provider.name, self.name)]
        if self.providers is not None:
            uuids, names = self._named
            chosen = [provider for provider in chosen if provider.uuid in uuids or provider.name in names]
        return list(chosen)

    @property
    def _named(self) -> tuple[set[str], set[str]]:
        """Return the UUIDs and the names of providers; a text in the form of a UUID is no name."""
        texts = self.providers or ()
        uuids = {canonical_uuid(text) for text in texts if is_uuid(text)}
        return uuids, {text for text in texts if not is_uuid(text)}

    def find_missing(self, providers: Sequence[Provider]) -> list[str]:
        """Return the texts of ``providers`` that are neither UUID nor name of any of these."""
        uuids, names = {one.uuid for one in providers}, {one.name for one in providers}
        return [
            text
            for text in self.providers or ()
            if (canonical_uuid(text) not in uuids if is_uuid(text) else text not in names)
        ]


class NothingSelected(PlacementError):
    """No provider meets the conditions; placement cannot tell an unknown aggregate from an empty one."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        acceptable = "an empty aggregate is acceptable" if selection.aggregates else "that is acceptable"
        see = SEE_AGGREGATES if selection.aggregates else _SEE_PROVIDERS
        super().__init__(f"No resource provider is {selection}; give --allow-empty if {acceptable}, or {see}")


class ProvidersMissing(PlacementError):
    """Some of the providers that were named are not there.

    :param known: the names of all providers, of which those that are similar are suggested
    """

    def __init__(self, names: Sequence[str], known: Iterable[str] = ()) -> None:
        self.names = tuple(names)
        told = list_names([cut(name, _SHOWN) for name in names], 5)
        super().__init__(
            f"No resource provider has the name or UUID {told}"
            f"{suggest_provider(names[:5], known)}; nothing was changed"
        )
