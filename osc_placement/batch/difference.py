# SPDX-License-Identifier: Apache-2.0
"""Two states of a provider side by side, in words: only what differs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from osc_placement.batch.facets import ALL_FACETS, HANDLERS, Facet, ProviderState


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that differs between two states: a trait, a field of an inventory, an allocated amount.

    :ivar name: the name of a trait or aggregate, or of what has a value: ``VCPU:allocation_ratio``
    :ivar old: the value before: "" of what has none, None if it was not there
    :ivar new: the value after, likewise
    """

    facet: Facet
    name: str
    old: str | None
    new: str | None

    @property
    def names_subject(self) -> bool:
        """Return whether this is the name of the provider, or of the custom trait or class, itself."""
        return (self.facet, self.name) == ("identity", "name")

    @property
    def before(self) -> str:
        """Return the name and the value before: with a minus if it goes, "" if it comes."""
        return self._side(self.old, "-" if self.new is None else "")

    @property
    def after(self) -> str:
        """Return the name and the value after: with a plus if it comes, "" if it goes."""
        return self._side(self.new, "+" if self.old is None else "")

    def __str__(self) -> str:
        if self.old is None or self.new is None:
            return self.before or self.after
        return f"{self.name} from {self.old} to {self.new}"

    def _side(self, value: str | None, sign: str) -> str:
        return "" if value is None else f"{sign}{self.name}={value}" if value else f"{sign}{self.name}"


def list_differences(
    before: ProviderState, after: ProviderState, names: Mapping[str, str] | None = None
) -> list[Difference]:
    """Return what differs between two states, by facet.

    Of an inventory these are the fields that change. Where the class comes, it is one item, with the fields
    that have no default value behind the total; where it goes, its total alone.
    ``names`` replace UUIDs of aggregates and providers.
    """
    found = []
    for facet in ALL_FACETS:
        old, new = getattr(before, facet), getattr(after, facet)
        if old == new:
            continue
        handler = HANDLERS[facet]
        was, will = handler.describe(old, new), handler.describe(new, old, comes=True)
        if facet == "inventories":
            items = sorted(was | will, key=lambda name: name.partition(":")[0])
        else:
            items = [*sorted(was), *sorted(will.keys() - was.keys())]
        for item in items:
            if was.get(item) != will.get(item):
                uuid, colon, rest = item.partition(":")
                name = f"{(names or {}).get(uuid, uuid)}{colon}{rest}"
                found.append(Difference(facet, name, was.get(item), will.get(item)))
    return found


def describe_difference(
    before: ProviderState, after: ProviderState, names: Mapping[str, str] | None = None
) -> tuple[list[str], list[str]]:
    """Return what is only in ``before`` and what is only in ``after``.

    A trait or aggregate by its name; of an inventory the fields that change (``VCPU:allocation_ratio=4.0``),
    and the class as one item where it comes or goes (``VCPU:total=8 reserved=1``); an allocation with the
    UUID of its provider. ``names`` replace UUIDs of aggregates and providers.
    """
    found = list_differences(before, after, names)
    return (
        [each.before.removeprefix("-") for each in found if each.before],
        [each.after.removeprefix("+") for each in found if each.after],
    )
