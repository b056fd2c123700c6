# SPDX-License-Identifier: Apache-2.0
"""The changes that make a server's state that of a document. Pure.

Without a Leftover only inventories, traits and memberships that the file's part of a provider does not list
are removed. The Leftover is what the document does not name, if it is to be deleted.
"""

from __future__ import annotations

import uuid
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from osc_placement.api.consumer import Consumer
from osc_placement.api.names import suggest
from osc_placement.batch import (
    FACETS,
    Change,
    CustomName,
    Decision,
    Facet,
    InUse,
    Kind,
    Plan,
    ProviderState,
    Reading,
    UncheckedEdit,
    plan_staged,
)
from osc_placement.errors import PlacementError
from osc_placement.model import UNKNOWN_TYPE, Provider, is_same_ratio
from osc_placement.state.document import ConsumerEntry, Document, ProviderEntry, find_places
from osc_placement.state.node import join_mistakes

#: the state of a provider before it is created
_NOTHING: Final = ProviderState(inventories={}, traits=frozenset(), aggregates=frozenset())
_HOLDS_NOTHING: Final = ProviderState(allocations={})


class DocumentMismatch(PlacementError):
    """The document cannot become the state of this server."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """The things that the server has and a document does not name, to be deleted."""

    resource_classes: tuple[str, ...] = ()
    traits: tuple[str, ...] = ()
    providers: tuple[Provider, ...] = ()
    consumers: tuple[Consumer, ...] = ()
    #: the states of the providers, by UUID
    states: Mapping[str, ProviderState] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Return how many things there are to delete."""
        return len(self.resource_classes) + len(self.traits) + len(self.providers) + len(self.consumers)

    @property
    def levels(self) -> list[tuple[Provider, ...]]:
        """Return the providers by level, children before their parents."""
        parents = {provider.uuid: provider.parent_provider_uuid or None for provider in self.providers}
        places = find_places(parents)
        levels: dict[int, list[Provider]] = {}
        for provider in self.providers:
            levels.setdefault(places[provider.uuid][1], []).append(provider)
        return [tuple(levels[depth]) for depth in sorted(levels, reverse=True)]


@dataclass(frozen=True, slots=True)
class Current:
    """The part of the server's state that a document covers; ``states`` are those of its providers."""

    resource_classes: frozenset[str] = frozenset()
    traits: frozenset[str] = frozenset()
    providers: tuple[Provider, ...] = ()
    states: Mapping[str, tuple[Provider, ProviderState]] = field(default_factory=dict)
    consumers: Mapping[str, Consumer] = field(default_factory=dict)
    leftover: Leftover = field(default_factory=Leftover)

    @property
    def readings(self) -> list[Reading]:
        """Return all providers with what is known of their states."""
        states = {uuid: state for uuid, (_, state) in self.states.items()} | dict(self.leftover.states)
        return [Reading(each, states.get(each.uuid, ProviderState())) for each in self.providers]


@dataclass(frozen=True, slots=True)
class ProviderEdit(UncheckedEdit):
    """The edit that gives a provider the state of its entry; implements batch.plan.Edit."""

    entry: ProviderEntry

    @property
    def title(self) -> str:
        """Return the title of the edit."""
        return f"resource provider {self.entry.name}"

    @property
    def facets(self) -> tuple[Facet, ...]:
        """Return the facets that the entry describes."""
        return tuple(facet for facet in FACETS if getattr(self.entry.state, facet) is not None)

    def decide(self, state: ProviderState) -> Decision:
        """Replace what the entry describes and keep the rest."""
        wanted = {facet: getattr(self.entry.state, facet) for facet in self.facets}
        if self.entry.state.inventories is not None:
            current = state.inventories or {}
            # the server's ratio where both are equal in single precision
            wanted["inventories"] = {
                name: replace(inventory, allocation_ratio=current[name].allocation_ratio)
                if name in current
                and is_same_ratio(inventory.allocation_ratio, current[name].allocation_ratio)
                else inventory
                for name, inventory in self.entry.state.inventories.items()
            }
        return Decision(replace(state, **wanted))


@dataclass(frozen=True, slots=True)
class ProviderStep:
    """The changes to one provider; ``existing`` is None if it has to be created.

    :ivar uuid: its UUID; one that is created and has none in the document got a new one, as an undo needs it
    """

    entry: ProviderEntry
    existing: Provider | None
    uuid: str
    parent_uuid: str | None
    change: Change

    @property
    def is_moved(self) -> bool:
        """Return whether the provider gets another parent."""
        if self.existing is None or self.entry.parent is ...:
            return False
        if self.entry.parent is None or self.parent_uuid is None:
            return (self.entry.parent is None) != (self.existing.parent_provider_uuid is None)
        return self.existing.parent_provider_uuid != self.parent_uuid

    @property
    def is_renamed(self) -> bool:
        """Return whether the provider gets another name."""
        return self.existing is not None and self.existing.name != self.entry.name

    @property
    def is_needed(self) -> bool:
        """Return whether anything differs."""
        return self.existing is None or self.is_moved or self.is_renamed or bool(self.change.facets)


@dataclass(frozen=True, slots=True)
class ConsumerStep:
    """The changes to the allocations of one consumer."""

    entry: ConsumerEntry
    existing: Consumer
    is_needed: bool


@dataclass(frozen=True, slots=True)
class ApplyPlan:
    """All changes, in the order in which they have to be made.

    ``levels`` are the providers by depth: those of one level depend only on those of the levels before.
    Unchanged things are only counted.
    """

    resource_classes: tuple[str, ...]
    traits: tuple[str, ...]
    levels: tuple[tuple[ProviderStep, ...], ...]
    consumers: tuple[ConsumerStep, ...]
    #: the UUID of each provider that exists, by its name in the document
    uuids: Mapping[str, str]
    #: how many things of each kind are unchanged
    unchanged: Mapping[Kind, int]
    leftover: Leftover = field(default_factory=Leftover)

    @property
    def size(self) -> int:
        """Return how many things there are to do."""
        providers = sum(map(len, self.levels))
        named = len(self.resource_classes) + len(self.traits)
        return named + providers + len(self.consumers) + self.leftover.size

    def without(self, refused: Container[str]) -> ApplyPlan:
        """Return the plan without the changes of some subjects, by their UUIDs in the plan of the run."""

        def keep(kind: Kind, names: Iterable[str]) -> tuple[str, ...]:
            return tuple(name for name in names if f"{kind} {name}" not in refused)

        leftover = self.leftover
        return replace(
            self,
            resource_classes=keep("resource class", self.resource_classes),
            traits=keep("trait", self.traits),
            levels=tuple(tuple(step for step in level if step.uuid not in refused) for level in self.levels),
            consumers=tuple(step for step in self.consumers if step.entry.uuid not in refused),
            leftover=replace(
                leftover,
                resource_classes=keep("resource class", leftover.resource_classes),
                traits=keep("trait", leftover.traits),
                providers=tuple(gone for gone in leftover.providers if gone.uuid not in refused),
                consumers=tuple(gone for gone in leftover.consumers if gone.uuid not in refused),
            ),
        )


def plan_run(plan: ApplyPlan, title: str) -> Plan:
    """Return the plan of a run that makes all changes; it can be resumed and undone."""
    steps = [step for level in plan.levels for step in level]
    uuids = {**plan.uuids, **{step.entry.name: step.uuid for step in steps}}
    leftover = plan.leftover
    changes = (
        *(Change.creating(CustomName("resource class", name)) for name in plan.resource_classes),
        *(Change.creating(CustomName("trait", name)) for name in plan.traits),
        *(_change_provider(step, uuids) for step in steps),
        *(_change_consumer(step, uuids) for step in plan.consumers),
        *(
            Change(replace(gone, allocations={}), ProviderState(allocations=gone.allocations), _HOLDS_NOTHING)
            for gone in leftover.consumers
        ),
        *(
            Change.deleting(gone, leftover.states.get(gone.uuid, _NOTHING))
            for level in leftover.levels
            for gone in level
        ),
        *(Change.deleting(CustomName("resource class", name)) for name in leftover.resource_classes),
        *(Change.deleting(CustomName("trait", name)) for name in leftover.traits),
    )
    return plan_staged(title, changes)


def _change_provider(step: ProviderStep, uuids: Mapping[str, str]) -> Change:
    entry, existing = step.entry, step.existing
    parent = uuids[entry.parent] if isinstance(entry.parent, str) else None
    if existing is None:
        described = {facet: getattr(step.change.after, facet) for facet in ProviderEdit(entry).facets}
        new = Provider(uuids[entry.name], entry.name, 0, parent)
        return Change.creating(new, **described)
    if entry.parent is ...:
        parent = existing.parent_provider_uuid
    return step.change.and_identify(entry.name, parent)


def _change_consumer(step: ConsumerStep, uuids: Mapping[str, str]) -> Change:
    entry, existing = step.entry, step.existing
    resources = {uuids[name]: amounts for name, amounts in entry.resources.items()}
    before, after = ProviderState(allocations=existing.allocations), ProviderState(allocations=resources)
    if existing.project_id is None or existing.user_id is None:
        kind = entry.type or UNKNOWN_TYPE
        return Change(
            Consumer(entry.uuid, existing.generation, entry.project, entry.user, kind), before, after
        )
    before = before.owned_by(existing.project_id, existing.user_id)
    after = after.owned_by(entry.project, entry.user)
    if entry.type is not None:
        kinds = () if existing.is_untyped else (existing.consumer_type or "",)
        before = replace(before, consumer_type=frozenset(kinds))
        after = replace(after, consumer_type=frozenset((entry.type,)))
    kind = existing.consumer_type or UNKNOWN_TYPE
    return Change(replace(existing, consumer_type=kind, allocations={}), before, after)


def match_providers(document: Document, providers: Iterable[Provider]) -> dict[str, Provider]:
    """Match each entry with a provider of the server, by UUID or else by name; return these by entry name."""
    by_uuid, by_name = {}, {}
    for provider in providers:
        by_uuid[provider.uuid] = by_name[provider.name] = provider
    found = {
        entry.name: by_name.get(entry.name) if entry.uuid is None else by_uuid.get(entry.uuid)
        for entry in document.providers
    }
    return {name: provider for name, provider in found.items() if provider is not None}


def _find_unknown(document: Document, current: Current) -> Iterator[str]:
    """Find traits and resource classes of entries that neither the server nor the document has."""
    known = {
        "trait": current.traits.union(document.traits),
        "resource class": current.resource_classes.union(document.resource_classes),
    }
    holders: dict[tuple[str, str], list[str]] = {}
    for entry in document.providers:
        for kind, names in (("trait", entry.state.traits), ("resource class", entry.state.inventories)):
            # the standard ones are those of the server's release
            for name in sorted(set(names or ()) - known[kind]):
                holders.setdefault((kind, name), []).append(entry.name)
    for (kind, name), entries in holders.items():
        more = len(entries) - 1
        who = f"{entries[0]!r} and {more:,} more need" if more else f"{entries[0]!r} needs"
        guess = suggest([name], known[kind])
        yield f"Resource provider {who} the {kind} {name}, which this server does not know{guess}"


def _find_conflicts(document: Document, current: Current, matched: Mapping[str, Provider]) -> Iterator[str]:
    """Find entries that are one provider on the server, and those with the name of another provider."""
    by_name = {provider.name: provider for provider in current.providers}
    gone = {provider.uuid for provider in current.leftover.providers}
    entries = {provider.uuid: name for name, provider in matched.items()}
    for name, provider in matched.items():
        if entries[provider.uuid] != name:
            yield (
                f"{name!r} and {entries[provider.uuid]!r} are the same resource provider on the server, "
                f"{provider.name!r} with the UUID {provider.uuid}"
            )
    for entry in document.providers:
        holder = by_name.get(entry.name)
        if holder is not None and holder.uuid not in gone and holder.uuid not in entries:
            owner = matched.get(entry.name)
            yield (
                f"The server has a resource provider {entry.name!r} with the UUID {holder.uuid}, "
                f"not {entry.uuid}{f', which is that of {owner.name!r}' if owner else ''}"
            )


def plan_apply(document: Document, current: Current) -> ApplyPlan:
    """Compare a document with the server's state; raise DocumentMismatch if the two are incompatible."""
    matched = match_providers(document, current.providers)
    if mismatches := [*_find_unknown(document, current), *_find_conflicts(document, current, matched)]:
        raise DocumentMismatch(join_mistakes(mismatches))
    consumers = [_plan_consumer(entry, matched, current) for entry in document.consumers]
    classes = _missing(document.resource_classes, current.resource_classes)
    traits = _missing(document.traits, current.traits)
    places = find_places({entry.name: entry.parent for entry in document.providers})
    levels: dict[int, list[ProviderStep]] = {}
    for entry in document.providers:
        existing, edit = matched.get(entry.name), ProviderEdit(entry)
        if existing is None:
            provider = Provider(entry.uuid or str(uuid.uuid4()), entry.name, 0)
            state = only(edit.facets, _NOTHING)
        else:
            provider, state = current.states[existing.uuid]
        parent = matched.get(entry.parent) if isinstance(entry.parent, str) else None
        change = Change(provider, state, edit.decide(state).after)
        step = ProviderStep(entry, existing, provider.uuid, parent.uuid if parent else None, change)
        if step.is_needed:
            levels.setdefault(places[entry.name][1], []).append(step)
    return ApplyPlan(
        resource_classes=classes,
        traits=traits,
        levels=tuple(tuple(levels[depth]) for depth in sorted(levels)),
        consumers=tuple(step for step in consumers if step.is_needed),
        uuids={name: provider.uuid for name, provider in matched.items()},
        unchanged={
            "resource class": len(set(document.resource_classes)) - len(classes),
            "trait": len(set(document.traits)) - len(traits),
            "resource provider": len(document.providers) - sum(map(len, levels.values())),
            "consumer": sum(not step.is_needed for step in consumers),
        },
        leftover=current.leftover,
    )


def _missing(wanted: Iterable[str], present: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(set(wanted) - present))


def only(facets: Iterable[Facet], state: ProviderState) -> ProviderState:
    """Return the state with only these facets."""
    return ProviderState(**{facet: getattr(state, facet) for facet in facets})


def _plan_consumer(entry: ConsumerEntry, matched: Mapping[str, Provider], current: Current) -> ConsumerStep:
    existing = current.consumers.get(entry.uuid, Consumer(entry.uuid))
    if not all(name in matched for name in entry.resources):
        return ConsumerStep(entry, existing, is_needed=True)
    resources = {matched[name].uuid: amounts for name, amounts in entry.resources.items()}
    found = existing.project_id, existing.user_id, existing.allocations
    is_same = found == (entry.project, entry.user, resources) and entry.type in (None, existing.consumer_type)
    return ConsumerStep(entry, existing, not is_same)


class LeftOut(PlacementError):
    """A file does not name a provider, or a class of its inventories, from which something is allocated."""

    def __init__(self, change: Change, in_use: InUse) -> None:
        does = "does not name it, and --prune deletes what it does not name"
        if change.verb != "deleted":
            classes = " and ".join(each.resource_class for each in in_use.excesses)
            does = f"names its inventories without {classes}, and so removes what it does not name"
        super().__init__(f"in use: {in_use.told} allocated; the file {does}: name there what is to stay")


def explain_left_out(plan: Plan) -> Plan:
    """Return the plan of an apply that says of what is in use that it is the file which removes it."""
    changes = {step.uuid: step for step in plan.steps}
    refused = {
        uuid: LeftOut(changes[uuid], reason) if isinstance(reason, InUse) else reason
        for uuid, reason in plan.refused.items()
    }
    return replace(plan, refused=refused)
