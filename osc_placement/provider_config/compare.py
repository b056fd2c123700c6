# SPDX-License-Identifier: Apache-2.0
"""Provider configuration files compared with placement: which provider is meant, and what differs. Pure.

A provider is found as nova finds it: by its UUID or its whole name, and $COMPUTE_NODE stands for the roots of
compute nodes that nothing else in the same directory identifies.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from osc_placement.api.names import suggest_provider
from osc_placement.model import INVENTORY_FIELDS, Provider, is_same_ratio
from osc_placement.provider_config.document import COMPUTE_NODE, ConfigFile, Entry, Level, Problem
from osc_placement.provider_config.ownership import Held, Kind, find_owner

#: the trait of the root provider of a compute node
COMPUTE_NODE_TRAIT: Final = "COMPUTE_NODE"


@dataclass(frozen=True, slots=True)
class Location:
    """The files that nova reads together; ``host`` is the one they are for, if their directory says so."""

    files: tuple[ConfigFile, ...]
    host: str | None = None

    @property
    def entries(self) -> Iterator[Entry]:
        """Yield the entries of all files."""
        for each in self.files:
            yield from each.entries


@dataclass(frozen=True, slots=True)
class Resolved:
    """The entries by the UUID of the provider that they identify, and what stands in the way of others."""

    entries: Mapping[str, Sequence[Entry]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    missing: tuple[Entry, ...] = ()


def resolve(
    locations: Iterable[Location], providers: Sequence[Provider], compute_nodes: Collection[str]
) -> Resolved:
    """Find the providers that the entries of all locations identify.

    :param compute_nodes: the UUIDs of providers with `COMPUTE_NODE_TRAIT`
    """
    by_uuid = {provider.uuid: provider for provider in providers}
    by_name = {provider.name: provider for provider in providers}
    roots = [
        provider
        for provider in providers
        if provider.uuid in compute_nodes and not provider.parent_provider_uuid
    ]
    found: dict[str, list[Entry]] = {}
    problems: list[Problem] = []
    missing: list[Entry] = []

    def complain(level: Level, entry: Entry, text: str) -> None:
        problems.append(Problem(entry.source, entry.line, level, text))

    for location in locations:
        named: dict[str, Entry] = {}
        defaults: list[Entry] = []
        for entry in location.entries:
            if entry.key == COMPUTE_NODE:
                defaults.append(entry)
                continue
            one, other = by_uuid.get(entry.key), by_name.get(entry.key)
            if one and other and one is not other:
                text = f"{entry.key} is the UUID of {one.name} and the name of another resource provider"
                complain(Level.WARNING, entry, text)
                continue
            provider = one or other
            if provider is None:
                hint = suggest_provider([entry.key], by_name) if entry.by == "name" else ""
                complain(
                    Level.WARNING, entry, f"no resource provider is {entry.key}{hint}; nova ignores the entry"
                )
                missing.append(entry)
                continue
            first = named.setdefault(provider.uuid, entry)
            if first is not entry:
                text = (
                    f"{entry.key} is the resource provider that {first.source}:{first.line} identifies as "
                    f"{first.key}; nova-compute fails at each update"
                )
                complain(Level.ERROR, entry, text)
                continue
            found.setdefault(provider.uuid, []).append(entry)
        for entry in defaults:
            meant = [root for root in roots if location.host in (None, root.name)]
            if not meant:
                where = f"named {location.host}" if location.host else "in placement"
                text = f"{COMPUTE_NODE} means no provider: no root {where} has the trait {COMPUTE_NODE_TRAIT}"
                complain(Level.WARNING, entry, text)
                missing.append(entry)
            for root in meant:
                if root.uuid not in named:
                    found.setdefault(root.uuid, []).append(entry)
    return Resolved(found, tuple(problems), tuple(missing))


class State(enum.StrEnum):
    """How a file and placement differ."""

    NO_PROVIDER = "no such provider"
    MISSING = "missing"
    DIFFERS = "differs"
    NOT_IN_FILES = "not in files"


@dataclass(frozen=True, slots=True)
class Drift:
    """One difference between files and placement.

    :ivar item: the trait, or the class and the field of an inventory
    :ivar owner: who reports what no file names, if that is known
    """

    provider: str
    uuid: str
    kind: Kind | Literal["provider"]
    item: str
    state: State
    file: int | float | str | None = None
    placement: int | float | str | None = None
    owner: str = ""
    source: str = ""
    line: int | None = None


def compare(held: Held, entries: Sequence[Entry]) -> Iterator[Drift]:
    """Yield what differs between a provider and the entries that identify it."""
    uuid = held.uuid or ""
    for entry in entries:
        place = (entry.source, entry.line)
        for name in sorted(entry.traits - held.traits):
            yield Drift(held.name, uuid, "trait", name, State.MISSING, "", None, "", *place)
        for name, wanted in sorted(entry.inventories.items()):
            there = held.inventories.get(name)
            if there is None:
                yield Drift(held.name, uuid, "inventory", name, State.MISSING, wanted.total, None, "", *place)
                continue
            for key in INVENTORY_FIELDS:
                ours, theirs = getattr(wanted, key), getattr(there, key)
                if not (is_same_ratio(ours, theirs) if key == "allocation_ratio" else ours == theirs):
                    item = f"{name}:{key}"
                    yield Drift(held.name, uuid, "inventory", item, State.DIFFERS, ours, theirs, "", *place)
    for kind, name in list_unnamed(held, entries):
        total = held.inventories[name].total if kind == "inventory" else ""
        owner = find_owner(held, kind, name)
        yield Drift(held.name, uuid, kind, name, State.NOT_IN_FILES, None, total, owner)


def list_unnamed(held: Held, entries: Iterable[Entry]) -> Iterator[tuple[Kind, str]]:
    """Yield the custom traits and classes of a provider that none of these entries names."""
    named = frozenset(item for entry in entries for item in list_items(entry))
    yield from (item for item in held.custom if item not in named)


def list_items(entry: Entry) -> Iterator[tuple[Kind, str]]:
    """Yield the traits and classes that an entry names."""
    for name in entry.traits:
        yield "trait", name
    for name in entry.inventories:
        yield "inventory", name
