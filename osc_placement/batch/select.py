# SPDX-License-Identifier: Apache-2.0
"""All reads of a batch: the selected providers, and their states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, overload

from osc_placement import microversion
from osc_placement.api.concurrency import CONCURRENCY, map_in_order
from osc_placement.api.consumer import Consumer
from osc_placement.api.names import (
    UnknownResourceClass,
    UnknownTraits,
    naming_unknown,
    require_classes,
    require_traits,
)
from osc_placement.batch.facets import ABSENT, NO_GENERATION, Facet, ProviderState
from osc_placement.batch.plan import CustomName, Gone, Reading, Subject, identity_of
from osc_placement.batch.selection import NothingSelected, ProvidersMissing, Selection
from osc_placement.errors import NotFound
from osc_placement.model import Inventory, Part, Provider, ProviderRecord

if TYPE_CHECKING:
    from osc_placement.api.client import Document, PlacementClient

#: up to so many providers are read one by one rather than among all there are
_FEW: Final = 20

__all__ = [
    "NothingSelected",
    "ProvidersMissing",
    "Selection",
    "UnknownResourceClass",
    "UnknownTraits",
    "require_traits",
]


def select_providers(
    client: PlacementClient, selection: Selection, *, allow_empty: bool = False
) -> list[Provider]:
    """Return the selected providers, in the server's order; raise NothingSelected if there are none."""
    with naming_unknown(client, selection.traits, selection.resources or ()):
        providers = _list(client, selection.filters)
    return _choose(client, selection, providers, allow_empty=allow_empty)


def _list(client: PlacementClient, filters: Mapping[str, Any]) -> list[Provider]:
    return [Provider.from_json(document) for document in client.list_providers(**filters)]


def _choose(
    client: PlacementClient, selection: Selection, providers: Sequence[Provider], *, allow_empty: bool
) -> list[Provider]:
    chosen = selection.choose(providers)
    if selection.providers is not None:
        everything = _list(client, {}) if selection.filters else providers
        missing = selection.find_missing(everything)
        if missing:
            raise ProvidersMissing(missing, [provider.name for provider in everything])
    if not chosen and not allow_empty:
        raise NothingSelected(selection)
    return chosen


def read_selected(
    client: PlacementClient,
    selection: Selection,
    facets: Sequence[Facet],
    *,
    with_usages: bool = False,
    allow_empty: bool = False,
    concurrency: int = CONCURRENCY,
    on_reading: Callable[[Reading], None] | None = None,
    on_selected: Callable[[int], None] | None = None,
) -> list[Reading]:
    """Select providers and read some of what they hold: one request where the server has the bulk read.

    ``with_usages`` asks for usages too where they cost no request more.
    """
    parts: tuple[Part, ...] = (*_parts_of(facets), *(("usages",) if with_usages else ()))
    with naming_unknown(client, selection.traits, selection.resources or ()):
        records = client.read_providers_at_once(selection.filters, want=parts)
    if records is None:
        providers = select_providers(client, selection, allow_empty=allow_empty)
        if on_selected:
            on_selected(len(providers))
        return read_states(client, providers, facets, concurrency=concurrency, on_reading=on_reading)
    by_uuid = {record.provider.uuid: record for record in records}
    everything = [record.provider for record in by_uuid.values()]
    chosen = _choose(client, selection, everything, allow_empty=allow_empty)
    return [_reading_of(by_uuid[provider.uuid]) for provider in chosen]


def _parts_of(facets: Iterable[Facet]) -> tuple[Part, ...]:
    wanted = set(facets)
    parts: tuple[Part, ...] = ("inventories", "traits", "aggregates")
    return tuple(part for part in parts if part in wanted)


def _reading_of(record: ProviderRecord, *, with_identity: bool = False) -> Reading:
    provider = record.provider
    identity = identity_of(provider) if with_identity else None
    state = ProviderState(record.inventories, record.traits, record.aggregates, identity=identity)
    return Reading(provider, state, usages=record.usages)


def read_again(
    client: PlacementClient,
    subjects: Sequence[Subject],
    facets: Sequence[Facet],
    *,
    with_usages: bool = False,
    concurrency: int = CONCURRENCY,
    on_reading: Callable[[Reading], None] | None = None,
) -> list[Reading]:
    """Read providers that are known, or consumers; many at once where the server has the bulk read."""
    providers = [subject for subject in subjects if isinstance(subject, Provider)]
    if len(providers) == len(subjects) > _FEW and "allocations" not in facets:
        parts: tuple[Part, ...] = (*_parts_of(facets), *(("usages",) if with_usages else ()))
        records = client.read_providers_at_once(want=parts)
        if records is not None:
            found = {record.provider.uuid: record for record in records}
            return [
                _reading_of(found[provider.uuid], with_identity="identity" in facets)
                if provider.uuid in found
                else Reading(*_absent(provider, facets))
                if "identity" in facets
                else Reading(provider, error=Gone(provider.name))
                for provider in providers
            ]
    readings = read_states(client, subjects, facets, concurrency=concurrency, on_reading=on_reading)
    # placement says that the provider does not exist, and not a proxy that there is no such page
    readings = [
        replace(reading, error=Gone(subject.name))
        if isinstance(subject := reading.subject, Provider)
        and isinstance(error := reading.error, NotFound)
        and error.document
        else reading
        for reading in readings
    ]
    return read_usages(client, readings, concurrency=concurrency) if with_usages else readings


def read_usages(
    client: PlacementClient, readings: Sequence[Reading], *, concurrency: int = CONCURRENCY
) -> list[Reading]:
    """Return the readings with usages, which are requested if they are not known."""
    missing = {
        reading.subject.uuid for reading in readings if reading.usages is None and reading.state is not None
    }
    if len(missing) > _FEW:
        records = client.read_providers_at_once(want=("usages",)) or ()
        usages = {record.provider.uuid: record.usages for record in records}
        readings = [
            replace(reading, usages=usages.get(reading.subject.uuid))
            if reading.subject.uuid in missing
            else reading
            for reading in readings
        ]

    def read(reading: Reading) -> Reading:
        if reading.usages is not None or reading.state is None:
            return reading
        try:
            return replace(reading, usages=client.provider_usages(reading.subject.uuid))
        except Exception as error:  # whatever it is, it is about this provider only
            return replace(reading, state=None, error=error)

    client.allow_concurrency(concurrency)
    return map_in_order(read, readings, threads=concurrency)


def read_states(
    client: PlacementClient,
    subjects: Sequence[Subject],
    facets: Sequence[Facet],
    *,
    concurrency: int = CONCURRENCY,
    on_reading: Callable[[Reading], None] | None = None,
) -> list[Reading]:
    """Read some facets of providers or consumers, in their order; a failure of one is its reading.

    ``on_reading`` is called in the caller's thread, in the order in which answers come.
    """

    def read(subject: Subject) -> Reading:
        try:
            return Reading(*read_state(client, subject, facets))
        except Exception as error:  # whatever it is, it is about this provider only
            return Reading(subject, error=error)

    client.allow_concurrency(concurrency)
    return map_in_order(read, subjects, threads=concurrency, on_result=on_reading)


@overload
def read_state(
    client: PlacementClient, subject: Provider, facets: Iterable[Facet]
) -> tuple[Provider, ProviderState]: ...


@overload
def read_state(
    client: PlacementClient, subject: Subject, facets: Iterable[Facet]
) -> tuple[Subject, ProviderState]: ...


def read_state(
    client: PlacementClient, subject: Subject, facets: Iterable[Facet]
) -> tuple[Subject, ProviderState]:
    """Read some facets of one provider, or what a consumer holds; it comes back with its generation of now.

    Facets are read one by one, and somebody may write in between: the generation is that of the oldest, so a
    write on the strength of a torn reading is refused by the server.
    """
    facets = tuple(facets)
    if isinstance(subject, CustomName):
        show = client.show_trait if subject.kind == "trait" else client.show_resource_class
        try:
            show(subject.name)
        except NotFound:
            return subject, ProviderState(identity=ABSENT)
        return subject, ProviderState(identity=identity_of(subject))
    if isinstance(subject, Consumer):
        found, state = read_consumer(client, subject)
        kind = () if found.is_untyped else (found.consumer_type or "",)
        return found, replace(state, consumer_type=frozenset(kind)) if "consumer_type" in facets else state
    values: dict[str, Any] = {}
    generations = []
    if "identity" in facets:
        try:
            subject = Provider.from_json(client.show_provider(subject.uuid))
        except NotFound:
            return _absent(subject, facets)
        generations.append(subject.generation)
        values["identity"] = identity_of(subject)
    for facet in facets:
        if facet == "identity":
            continue
        try:
            document, values[facet] = _read_facet(client, subject.uuid, facet)
        except NotFound:
            if "identity" in facets:  # deleted since that was read
                return _absent(subject, facets)
            raise
        # of aggregates it is told since 1.19 only; the one of the subject may be older than what was read
        if "resource_provider_generation" in document:
            generations.append(document["resource_provider_generation"])
    generation = min(generations, default=subject.generation)
    return replace(subject, generation=generation), ProviderState(**values)


def _absent(provider: Provider, facets: Iterable[Facet]) -> tuple[Provider, ProviderState]:
    """Return a provider that does not exist, with a state that has nothing."""
    values: dict[str, Any] = {"identity": ABSENT, "inventories": {}}
    state = ProviderState(**{facet: values.get(facet, frozenset()) for facet in facets})
    return replace(provider, generation=NO_GENERATION), state


def read_consumer(client: PlacementClient, consumer: Consumer) -> tuple[Consumer, ProviderState]:
    """Read what a consumer holds; owner and type are those of now, if it holds anything."""
    client.require(microversion.CONSUMER_GENERATIONS, "a change of allocations")
    found = client.read_consumer(consumer.uuid)
    state = ProviderState(allocations=found.allocations)
    if found.project_id is None or found.user_id is None:
        return replace(consumer, generation=found.generation), state
    state = state.owned_by(found.project_id, found.user_id)
    kind = found.consumer_type or consumer.consumer_type
    return replace(found, consumer_type=kind, allocations={}), state


def _read_facet(client: PlacementClient, uuid: str, facet: Facet) -> tuple[Document, Any]:
    """Return the document of a facet of a provider, which may have the generation, and its value."""
    if facet == "inventories":
        document = client.list_inventories(uuid)
        inventories = document["inventories"].items()
        return document, {name: Inventory.from_json(fields) for name, fields in inventories}
    if facet == "traits":
        document = client.list_provider_traits(uuid)
        return document, frozenset(document["traits"])
    if facet == "aggregates":
        document = client.list_provider_aggregates(uuid)
        return document, frozenset(document["aggregates"])
    # allocations: what consumers hold of the provider
    document = client.list_provider_allocations(uuid)
    held = document["allocations"].items()
    return document, {consumer: dict(entry["resources"]) for consumer, entry in held}


def require_resource_classes(
    client: PlacementClient, readings: Iterable[Reading], names: Iterable[str]
) -> None:
    """Raise UnknownResourceClass unless the server knows all names; asks only if no provider has one."""
    known = {name for reading in readings if reading.state for name in reading.state.inventories or ()}
    require_classes(client, [name for name in names if name not in known])
