# SPDX-License-Identifier: Apache-2.0
"""What a server has, whole or as far as a document is about it: all reads of export and apply.

The API cannot read several providers at one moment: what somebody changes meanwhile may be seen or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from osc_placement import microversion
from osc_placement.batch.plan import FACETS, ProviderState
from osc_placement.batch.select import read_state
from osc_placement.batch.workers import CONCURRENCY, map_in_order
from osc_placement.client import Document as ApiDocument
from osc_placement.client import PlacementClient
from osc_placement.errors import PlacementError
from osc_placement.model import CUSTOM_PREFIX, Provider
from osc_placement.state.document import ConsumerEntry, Document, ProviderEntry
from osc_placement.state.plan import Consumer, Current, ProviderEdit, match_providers

#: how the API calls the type of a consumer that was given none
_UNKNOWN_TYPE: Final = "unknown"


class ChangedWhileRead(PlacementError):
    """Something went or came while it was read, so that the parts do not fit."""


@dataclass(frozen=True, slots=True)
class _ProviderContents:
    state: ProviderState
    consumers: frozenset[str]


def list_providers(client: PlacementClient) -> list[Provider]:
    """All providers, in the server's order."""
    return [Provider.from_json(document) for document in client.list_providers()]


def read_document(
    client: PlacementClient,
    providers: Sequence[Provider],
    *,
    concurrency: int = CONCURRENCY,
    on_provider: Callable[[object], None] | None = None,
) -> Document:
    """Read what all providers hold, with the custom classes and traits and all allocations."""
    client.require(microversion.NESTED_PROVIDERS)
    client.allow_concurrency(concurrency)
    contents = map_in_order(
        lambda provider: _read_contents(client, provider),
        providers,
        threads=concurrency,
        on_result=on_provider,
    )
    consumers = sorted(frozenset().union(*(content.consumers for content in contents)))
    read = map_in_order(lambda uuid: read_consumer(client, uuid), consumers, threads=concurrency)
    names = {provider.uuid: provider.name for provider in providers}
    return Document(
        resource_classes=tuple(name for name in _list_classes(client) if name.startswith(CUSTOM_PREFIX)),
        traits=tuple(client.list_traits(name=f"startswith:{CUSTOM_PREFIX}")),
        providers=tuple(
            _provider_entry(provider, content.state, names)
            for provider, content in zip(providers, contents, strict=True)
        ),
        consumers=tuple(
            _consumer_entry(uuid, consumer, names)
            for uuid, consumer in zip(consumers, read, strict=True)
            if consumer.resources
        ),
    )


def _list_classes(client: PlacementClient) -> list[str]:
    return [document["name"] for document in client.list_resource_classes()]


def _read_contents(client: PlacementClient, provider: Provider) -> _ProviderContents:
    _provider, state = read_state(client, provider, FACETS)
    return _ProviderContents(state, frozenset(client.list_provider_allocations(provider.uuid)["allocations"]))


def _provider_entry(provider: Provider, state: ProviderState, names: Mapping[str, str]) -> ProviderEntry:
    parent = provider.parent_provider_uuid
    return ProviderEntry(
        provider.name, provider.uuid, None if parent is None else _look_up(parent, names), state
    )


def _consumer_entry(uuid: str, consumer: Consumer, names: Mapping[str, str]) -> ConsumerEntry:
    resources = {_look_up(provider, names): amounts for provider, amounts in consumer.resources.items()}
    return ConsumerEntry(uuid, consumer.project, consumer.user, resources, consumer.type)


def _look_up(uuid: str, names: Mapping[str, str]) -> str:
    if uuid not in names:
        raise ChangedWhileRead(f"Resource provider {uuid} was created while the others were read; try again")
    return names[uuid]


def read_current(
    client: PlacementClient,
    document: Document,
    *,
    concurrency: int = CONCURRENCY,
    on_provider: Callable[[object], None] | None = None,
) -> Current:
    """Read what a document is about: of each provider only what its entry describes."""
    client.allow_concurrency(concurrency)
    providers = list_providers(client)
    matched = match_providers(document, providers)
    edits = [
        (matched[entry.name], ProviderEdit(entry)) for entry in document.providers if entry.name in matched
    ]
    states = map_in_order(
        lambda pair: read_state(client, pair[0], pair[1].facets),
        edits,
        threads=concurrency,
        on_result=on_provider,
    )
    return Current(
        resource_classes=frozenset(_list_classes(client)),
        traits=frozenset(client.list_traits()),
        providers=tuple(providers),
        states={provider.uuid: (provider, state) for provider, state in states},
        consumers=_read_consumers(client, [entry.uuid for entry in document.consumers], concurrency),
    )


def _read_consumers(client: PlacementClient, uuids: Iterable[str], concurrency: int) -> dict[str, Consumer]:
    uuids = list(uuids)
    read = map_in_order(lambda uuid: read_consumer(client, uuid), uuids, threads=concurrency)
    return dict(zip(uuids, read, strict=True))


def read_consumer(client: PlacementClient, uuid: str) -> Consumer:
    """Read a consumer; without allocations it does not exist, and is a Consumer without generation."""
    answer = client.list_allocations(uuid)
    if not answer["allocations"]:
        return Consumer()
    kind = answer.get("consumer_type", _UNKNOWN_TYPE)
    return Consumer(
        generation=answer.get("consumer_generation"),
        project=answer["project_id"],
        user=answer["user_id"],
        type=None if kind == _UNKNOWN_TYPE else kind,
        resources=_amounts_by_provider(answer),
    )


def _amounts_by_provider(answer: ApiDocument) -> dict[str, dict[str, int]]:
    return {provider: entry["resources"] for provider, entry in answer["allocations"].items()}
