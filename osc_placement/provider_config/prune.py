# SPDX-License-Identifier: Apache-2.0
"""The plan that removes traits and inventories that no provider configuration file names any more. Pure.

A custom trait that no file names may be a remainder of a file, or have been set by an operator through the
API, for instance to isolate an aggregate: placement does not keep who set it. So a name is removed for one
of these reasons only:

- it is named on the command line;
- the provider has OWNER_NOVA, no other part of OpenStack is known to report the name, and earlier files
  named it for the same provider, or all custom names are asked for.

All else is left alone and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from osc_placement.batch import (
    Change,
    Facet,
    Plan,
    ProviderState,
    Reading,
    Recorded,
    list_counts,
)
from osc_placement.model import Provider
from osc_placement.provider_config.compare import list_items, list_unnamed
from osc_placement.provider_config.document import Entry
from osc_placement.provider_config.ownership import Held, Kind, find_owner
from osc_placement.terminal.lines import count_providers

FACETS: tuple[Facet, ...] = ("inventories", "traits")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What tells that a name is a remainder of a file.

    :ivar earlier: entries of earlier files, by the UUID of the provider that they identify
    :ivar named: names that the command line has
    :ivar all_custom: whether every custom name counts that is not known to be somebody else's
    """

    earlier: Mapping[str, Sequence[Entry]] = field(default_factory=dict)
    named: frozenset[tuple[Kind, str]] = frozenset()
    all_custom: bool = False


@dataclass(slots=True)
class _Left:
    """Counts what is left alone, by the reason."""

    owned: Counter[str] = field(default_factory=Counter)
    not_of_nova: Counter[str] = field(default_factory=Counter)
    not_told: Counter[str] = field(default_factory=Counter)

    def warn(self) -> Iterable[str]:
        if self.not_told:
            yield (
                "left alone, as nothing tells whether a file named it or somebody else set it: "
                f"{list_counts(self.not_told)}; to remove it, name it with --trait or --resource-class, or "
                "give --previous or --all-custom"
            )
        if self.not_of_nova:
            yield (
                "left alone on resource providers without OWNER_NOVA, to which nova applied no file: "
                f"{list_counts(self.not_of_nova)}"
            )
        if self.owned:
            yield f"left to those who report it: {list_counts(self.owned)}"


def plan_prune(
    readings: Iterable[Reading],
    entries: Mapping[str, Sequence[Entry]],
    evidence: Evidence,
    title: str,
    roots: Mapping[str, str],
) -> Plan:
    """Return the plan for providers that were read with their inventories and traits.

    Each step is planned again after a conflict by what it removes: what others set meanwhile stays.

    :param entries: by the UUID of the provider that they identify
    :param roots: the name of each provider, by UUID
    """
    left = _Left()
    steps = []
    unreadable: dict[str, Exception] = {}
    read: list[Held] = []
    for reading in readings:
        provider = reading.subject
        assert isinstance(provider, Provider)
        if reading.state is None:
            assert reading.error is not None
            unreadable[provider.uuid] = reading.error
            steps.append(
                Change(provider, ProviderState(), ProviderState(), f"could not be read: {reading.error}")
            )
            continue
        read.append(hold(provider, reading.state, roots))
        removed = set(_find_removed(read[-1], entries, evidence, left))
        after = replace(
            reading.state,
            traits=frozenset(name for name in reading.state.traits or () if ("trait", name) not in removed),
            inventories={
                name: inventory
                for name, inventory in (reading.state.inventories or {}).items()
                if ("inventory", name) not in removed
            },
        )
        steps.append(Change(provider, reading.state, after, "" if removed else "has nothing to remove"))
    if unreadable and len(unreadable) == len(steps):
        raise next(iter(unreadable.values()))
    edit = Recorded(title, FACETS)
    warnings = (*_judge_named(read, entries, evidence.named), *left.warn())
    return Plan(edit, tuple(steps), unreadable, warnings=warnings)


def _judge_named(
    read: Sequence[Held], entries: Mapping[str, Sequence[Entry]], named: Iterable[tuple[Kind, str]]
) -> Iterator[str]:
    """Yield a warning for each name of the command line that no provider has, or that a file names too."""
    for item in sorted(named):
        kind, name = item
        what = f"the trait {name}" if kind == "trait" else f"inventories of {name}"
        holders = [held for held in read if name in (held.traits if kind == "trait" else held.inventories)]
        if not holders:
            yield f"none of {count_providers(len(read))} has {what}"
        places = (
            f"{entry.source}:{entry.find_line(name)}"
            for held in holders
            for entry in entries.get(held.uuid or "", ())
            if item in list_items(entry)
        )
        place = next(places, None)
        if place:
            stay = "stays" if kind == "trait" else "stay"
            yield f"{what} {stay} where a file names it, such as {place}"


def hold(provider: Provider, state: ProviderState, roots: Mapping[str, str]) -> Held:
    """Return a provider with the traits and inventories of a state."""
    return Held(
        provider.name,
        provider.uuid,
        roots.get(provider.root_provider_uuid or "", provider.name),
        provider.parent_provider_uuid is None,
        state.traits or frozenset(),
        state.inventories or {},
    )


def _find_removed(
    held: Held, entries: Mapping[str, Sequence[Entry]], evidence: Evidence, left: _Left
) -> Iterable[tuple[Kind, str]]:
    uuid = held.uuid or ""
    earlier = {item for entry in evidence.earlier.get(uuid, ()) for item in list_items(entry)}
    for item in list_unnamed(held, entries.get(uuid, ())):
        kind, name = item
        owner = find_owner(held, kind, name)
        if item in evidence.named:
            yield item
        elif owner:
            left.owned[f"{name} of {owner}"] += 1
        elif not held.has_owner_nova:
            left.not_of_nova[name] += 1
        elif item in earlier or evidence.all_custom:
            yield item
        else:
            left.not_told[name] += 1
