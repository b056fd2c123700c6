# SPDX-License-Identifier: Apache-2.0
"""All reads of export and apply: the whole state of a server, or the part that a document is about.

The API cannot read several providers at one moment: a change during the read may be seen or not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Final

from osc_placement import microversion
from osc_placement.api.client import PlacementClient
from osc_placement.api.concurrency import Reading, map_in_order
from osc_placement.api.consumer import Consumer
from osc_placement.batch import FACETS, Facet, ProviderState, read_state
from osc_placement.errors import PlacementError
from osc_placement.model import CUSTOM_PREFIX, PARTS, Part, Provider, ProviderRecord
from osc_placement.state.document import ConsumerEntry, Document, ProviderEntry
from osc_placement.state.plan import (
    Current,
    Leftover,
    ProviderEdit,
    match_providers,
    only,
)
from osc_placement.state.selection import (
    NoTreeSelected,
    Selection,
    find_trees,
    select_document,
    select_providers,
)

#: providers that are asked one by one who holds something of them
_FEW: Final = 100


class ChangedWhileRead(PlacementError):
    """Something was created or deleted during the read, so that the parts do not fit together."""


def read_document(
    client: PlacementClient, selection: Selection | None = None, reading: Reading | None = None
) -> Document:
    """Read what all providers hold, or those of some trees, with their allocations.

    For all trees this includes all custom classes and traits. For some trees it includes those that they use,
    and no consumer that has allocations elsewhere too. Raise NoTreeSelected if no tree is selected.
    """
    selection, reading = selection or Selection(), reading or Reading()
    client.require(microversion.NESTED_PROVIDERS)
    client.allow_concurrency(reading.concurrency)
    records = _read_records(client, PARTS, reading)
    members = {
        record.provider.uuid
        for record in records
        if selection.aggregates & (record.aggregates or frozenset())
    }
    names = {
        provider.uuid: provider.name
        for provider in select_providers(selection, (record.provider for record in records), members)
    }
    records = [record for record in records if record.provider.uuid in names]
    if selection and not records:
        raise NoTreeSelected(selection, "on the server")
    consumers = [
        consumer
        for consumer in client.read_consumers(names, reading, used=_find_used(records))
        if consumer.allocations and (not selection or names.keys() >= consumer.allocations.keys())
    ]
    return Document(
        resource_classes=_custom(_list_classes(client), selection, records, "inventories"),
        traits=_custom(client.list_traits(name=f"startswith:{CUSTOM_PREFIX}"), selection, records, "traits"),
        providers=tuple(
            ProviderEntry(
                record.provider.name,
                record.provider.uuid,
                None if (parent := record.provider.parent_provider_uuid) is None else _look_up(parent, names),
                _state(record),
            )
            for record in records
        ),
        consumers=tuple(
            ConsumerEntry(
                consumer.uuid,
                consumer.project_id or "",
                consumer.user_id or "",
                {_look_up(provider, names): amounts for provider, amounts in consumer.allocations.items()},
                None if consumer.is_untyped else consumer.consumer_type,
            )
            for consumer in sorted(consumers, key=attrgetter("uuid"))
        ),
    )


def _read_records(client: PlacementClient, want: Iterable[Part], reading: Reading) -> list[ProviderRecord]:
    return list(
        client.read_providers(
            want=want,
            concurrency=reading.concurrency,
            on_total=reading.on_total,
            on_record=reading.on_item,
        )
    )


def _custom(
    known: Iterable[str], selection: Selection, records: Sequence[ProviderRecord], part: Part
) -> tuple[str, ...]:
    """Return the custom names; for some trees, only those that they use."""
    custom = [name for name in known if name.startswith(CUSTOM_PREFIX)]
    if selection:
        used = {name for record in records for name in getattr(record, part) or ()}
        custom = [name for name in custom if name in used]
    return tuple(custom)


def _find_used(records: Iterable[ProviderRecord]) -> list[str]:
    """Return the UUIDs of the providers that have allocations."""
    return [record.provider.uuid for record in records if any((record.usages or {}).values())]


def _list_classes(client: PlacementClient) -> list[str]:
    return [document["name"] for document in client.list_resource_classes()]


def _state(record: ProviderRecord) -> ProviderState:
    return ProviderState(record.inventories, record.traits, record.aggregates)


def _look_up(uuid: str, names: Mapping[str, str]) -> str:
    if uuid not in names:
        raise ChangedWhileRead(f"Resource provider {uuid} was created while the others were read; try again")
    return names[uuid]


def read_current(
    client: PlacementClient,
    document: Document,
    *,
    prune: bool = False,
    selection: Selection | None = None,
    reading: Reading | None = None,
) -> tuple[Document, Current]:
    """Read what a document is about: of each provider only what its entry describes.

    Return it with the part of the document that is about the selected trees, which may be in the document or
    on the server. With ``prune`` also read what those trees have and the whole document does not name.
    """
    selection, reading = selection or Selection(), reading or Reading()
    client.allow_concurrency(reading.concurrency)
    providers = [Provider.from_json(found) for found in client.list_providers()]
    classes, traits = _list_classes(client), client.list_traits()
    members: set[str] = set()
    if selection.aggregates:
        condition = "in:" + ",".join(sorted(selection.aggregates))
        members = {found["uuid"] for found in client.list_providers(member_of=[condition])}
    selected = select_providers(selection, providers, members)
    part = select_document(selection, document, selected)
    leftover = Leftover()
    if prune:
        concerned = [*selected, *find_trees(part, providers, selected)]
        leftover = _read_leftover(client, document, concerned, selection, len(providers), reading)
        if not selection:
            leftover = replace(
                leftover,
                resource_classes=_unlisted(document, "resource_classes", classes),
                traits=_unlisted(document, "traits", traits),
            )
    matched = match_providers(part, providers)
    entries = [entry for entry in part.providers if entry.name in matched]
    wanted = {matched[entry.name].uuid: ProviderEdit(entry).facets for entry in entries}
    return part, Current(
        resource_classes=frozenset(classes),
        traits=frozenset(traits),
        providers=tuple(providers),
        states=_read_parts(client, wanted, list(matched.values()), len(providers), reading),
        consumers={
            consumer.uuid: consumer
            for consumer in client.read_each_consumer([entry.uuid for entry in part.consumers], reading)
        },
        leftover=leftover,
    )


def _read_parts(
    client: PlacementClient,
    wanted: Mapping[str, tuple[Facet, ...]],
    providers: Sequence[Provider],
    number: int,
    reading: Reading,
) -> dict[str, tuple[Provider, ProviderState]]:
    """Read some facets of providers, by UUID; in bulk if these are most of the server's ``number``."""
    if 2 * len(providers) > number:
        parts = [part for part in PARTS if any(part in facets for facets in wanted.values())]
        records = _read_records(client, parts, reading)
        return {
            record.provider.uuid: (record.provider, only(wanted[record.provider.uuid], _state(record)))
            for record in records
            if record.provider.uuid in wanted
        }
    reading.on_total(len(providers))
    states = map_in_order(
        lambda provider: read_state(client, provider, wanted[provider.uuid]),
        providers,
        threads=reading.concurrency,
        on_result=reading.on_item,
    )
    return {provider.uuid: (provider, state) for provider, state in states}


def _read_leftover(
    client: PlacementClient,
    document: Document,
    owned: Sequence[Provider],
    selection: Selection,
    number: int,
    reading: Reading,
) -> Leftover:
    """Return the providers and consumers of the selected trees that the document does not name."""
    uuids = {entry.uuid for entry in document.providers}
    names = {entry.name for entry in document.providers if entry.uuid is None}
    gone = [provider for provider in owned if provider.uuid not in uuids and provider.name not in names]
    if "providers" not in document.sections:
        gone = []
    consumers: list[Consumer] = []
    if "allocations" in document.sections:
        inside = {provider.uuid for provider in owned}
        consumers = read_unnamed(client, document, inside, reading)
        if any(consumer.project_id is None for consumer in consumers):
            consumers = client.read_each_consumer([consumer.uuid for consumer in consumers], reading)
        consumers = [
            consumer
            for consumer in consumers
            if consumer.allocations and (not selection or inside >= consumer.allocations.keys())
        ]
    states = _read_parts(client, {provider.uuid: FACETS for provider in gone}, gone, number, reading)
    return Leftover(
        providers=tuple(gone),
        consumers=tuple(consumers),
        states={uuid: state for uuid, (_, state) in states.items()},
    )


def read_unnamed(
    client: PlacementClient, document: Document, providers: Collection[str], reading: Reading
) -> list[Consumer]:
    """Return the consumers that hold something of these providers and that the document does not name.

    They may have nothing but their UUID, and what they hold of these providers.
    """
    records = _read_records(client, ["usages"], reading)
    used = _find_used(record for record in records if record.provider.uuid in providers)
    named = {entry.uuid for entry in document.consumers}
    found = client.read_consumers(providers, reading, used=used, whole=False)
    return sorted((each for each in found if each.uuid not in named), key=attrgetter("uuid"))


def count_unnamed(
    client: PlacementClient, document: Document, providers: Collection[str], reading: Reading
) -> int:
    """Return how many consumers hold something of these providers and are not named by the document.

    Few providers are asked one by one; of many, the usages of the whole cloud tell which ones are used.
    """
    if len(providers) > _FEW:
        return len(read_unnamed(client, document, providers, reading))
    named = {entry.uuid for entry in document.consumers}
    holders = client.read_consumers(sorted(providers), reading, whole=False, by_provider=True)
    return sum(holder.uuid not in named for holder in holders)


def _unlisted(document: Document, section: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return the custom names that a section does not have; none if the document has no such section."""
    if section not in document.sections:
        return ()
    listed = frozenset(getattr(document, section))
    return tuple(sorted(name for name in known if name.startswith(CUSTOM_PREFIX) and name not in listed))
