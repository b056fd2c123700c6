# SPDX-License-Identifier: Apache-2.0
"""Provider configuration files compared with placement: which provider is meant, and what differs. Pure.

A provider is found as nova finds it: by its UUID or its whole name, and $COMPUTE_NODE stands for the roots of
compute nodes that nothing else in the same directory identifies.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from osc_placement.api.names import suggest_provider
from osc_placement.model import INVENTORY_FIELDS, Provider, is_same_ratio
from osc_placement.provider_config.document import COMPUTE_NODE, ConfigFile, Entry, Level, Problem
from osc_placement.provider_config.ownership import Held, Kind, find_owner

#: the trait of the root provider of a compute node
COMPUTE_NODE_TRAIT: Final = "COMPUTE_NODE"
#: PERF: to how many names that no provider has similar ones are looked for, 0.1 s each among 10,000
_MOST_HINTS: Final = 5


@dataclass(frozen=True, slots=True)
class Location:
    """The files that nova reads together.

    :ivar host: the host that they are for, by the name or UUID of its root provider, if a directory says so
    """

    files: tuple[ConfigFile, ...]
    host: str | None = None

    @property
    def entries(self) -> Iterator[Entry]:
        """Yield the entries of all files."""
        for each in self.files:
            yield from each.entries


@dataclass(frozen=True, slots=True)
class Resolved:
    """The entries by the UUID of the provider that they identify, and the problems in finding it.

    :ivar missing: the entries whose provider does not exist, each with the problem
    """

    entries: Mapping[str, Sequence[Entry]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    missing: tuple[tuple[Entry, Problem], ...] = ()

    @property
    def everything(self) -> list[Problem]:
        """Return all problems."""
        return [*self.problems, *(problem for _entry, problem in self.missing)]


def resolve(
    locations: Iterable[Location],
    providers: Sequence[Provider],
    compute_nodes: Collection[str],
    *,
    own_trees: bool = False,
) -> Resolved:
    """Find the providers that the entries of all locations identify.

    :param compute_nodes: the UUIDs of providers with `COMPUTE_NODE_TRAIT`
    :param own_trees: whether entries in a directory for a host count only for the providers of its tree, as
        nova ignores the others there
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
    missing: list[tuple[Entry, Problem]] = []
    for location in locations:
        named: dict[str, Entry] = {}
        defaults: list[Entry] = []
        for entry in location.entries:
            if entry.key == COMPUTE_NODE:
                defaults.append(entry)
                continue
            meant = {each.uuid for each in (by_uuid.get(entry.key), by_name.get(entry.key)) if each}
            if not meant:
                is_asked = entry.by == "name" and len(missing) < _MOST_HINTS
                hint = suggest_provider([entry.key], by_name) if is_asked else ""
                text = f"no resource provider is {entry.key}{hint}; nova ignores the entry"
                missing.append((entry, _warn(entry, text)))
            elif len(meant) > 1:
                text = f"{entry.key} is the UUID of a resource provider and the name of another one"
                problems.append(_warn(entry, text))
            if own_trees and location.host is not None:
                roots_of = {uuid: by_uuid.get(by_uuid[uuid].root_provider_uuid or uuid) for uuid in meant}
                meant = {
                    uuid
                    for uuid, root in roots_of.items()
                    if root and location.host in (root.name, root.uuid)
                }
            for uuid in meant:
                found.setdefault(uuid, []).append(entry)
                first = named.setdefault(uuid, entry)
                if first is not entry:
                    text = (
                        f"{entry.key} is the resource provider that {first.source}:{first.line} identifies "
                        f"as {first.key}; nova-compute fails at each update"
                    )
                    problems.append(Problem(entry.source, entry.line, Level.ERROR, text))
        for entry in defaults:
            for_host = [root for root in roots if location.host in (None, root.name, root.uuid)]
            if not for_host:
                where = f"named {location.host}" if location.host else "in placement"
                text = f"{COMPUTE_NODE} means no provider: no root {where} has the trait {COMPUTE_NODE_TRAIT}"
                missing.append((entry, _warn(entry, text)))
            for root in for_host:
                if root.uuid not in named:
                    found.setdefault(root.uuid, []).append(entry)
    return Resolved(found, tuple(problems), tuple(missing))


def _warn(entry: Entry, text: str) -> Problem:
    return Problem(entry.source, entry.line, Level.WARNING, text)


class State(enum.StrEnum):
    """How a file and placement differ."""

    NO_PROVIDER = "no such provider"
    MISSING = "missing"
    DIFFERS = "differs"
    NOT_IN_FILES = "not in files"


#: in place of an amount, where there is none
PRESENT: Final = "present"
ABSENT: Final = "absent"


@dataclass(frozen=True, slots=True)
class Drift:
    """One difference between files and placement.

    :ivar item: the trait, or the class of an inventory and its field if that differs
    :ivar file: what the files say: an amount, PRESENT or ABSENT
    :ivar owner: who reports what no file names, if that is known
    """

    provider: str
    uuid: str
    kind: Kind | Literal["provider"]
    item: str
    state: State
    file: int | float | str = ABSENT
    placement: int | float | str = ABSENT
    owner: str = ""
    source: str = ""
    line: int | None = None


def compare(held: Held, entries: Sequence[Entry]) -> Iterator[Drift]:
    """Yield what differs between a provider and the entries that identify it."""
    uuid = held.uuid or ""
    for entry in entries:
        for kind, name in sorted(list_items(entry)):
            where: Any = {"source": entry.source, "line": entry.find_line(name)}
            if kind == "trait":
                if name not in held.traits:
                    yield Drift(held.name, uuid, kind, name, State.MISSING, PRESENT, **where)
                continue
            wanted, there = entry.inventories[name], held.inventories.get(name)
            if there is None:
                yield Drift(held.name, uuid, kind, name, State.MISSING, wanted.total, **where)
                continue
            for key in INVENTORY_FIELDS:
                ours, theirs = getattr(wanted, key), getattr(there, key)
                if not (is_same_ratio(ours, theirs) if key == "allocation_ratio" else ours == theirs):
                    yield Drift(held.name, uuid, kind, f"{name}:{key}", State.DIFFERS, ours, theirs, **where)
    for kind, name in list_unnamed(held, entries):
        amount = held.inventories[name].total if kind == "inventory" else PRESENT
        owner = find_owner(held, kind, name)
        yield Drift(held.name, uuid, kind, name, State.NOT_IN_FILES, ABSENT, amount, owner)


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
