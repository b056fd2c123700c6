# SPDX-License-Identifier: Apache-2.0
"""Which providers a batch is about, and what they hold now: all of its reads, and no write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from osc_placement import syntax
from osc_placement.batch.plan import Facet, ProviderState, Reading
from osc_placement.batch.workers import CONCURRENCY, map_in_order
from osc_placement.client import Document, PlacementClient
from osc_placement.errors import PlacementError, UsageError
from osc_placement.model import CUSTOM_PREFIX, Inventory, Provider


@dataclass(frozen=True, slots=True)
class Selection:
    """Conditions on providers; all kinds that are given must hold. ``aggregates``: in any of these."""

    aggregates: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for aggregate in self.aggregates:
            if not syntax.is_uuid_like(aggregate):
                raise UsageError(f"An aggregate must be given by its UUID, not {aggregate!r}")

    def __str__(self) -> str:
        return f"in aggregate {' or '.join(self.aggregates)}"


class NothingSelected(PlacementError):
    """No provider meets the conditions; placement cannot tell an unknown aggregate from an empty one."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        super().__init__(
            f"No resource provider is {selection}; check the UUID with: "
            "openstack resource provider aggregate list <provider>"
        )


class UnknownTraits(PlacementError):
    """The server does not know some traits."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        custom = [name for name in names if name.startswith(CUSTOM_PREFIX)]
        remedy = (
            f"create it first with: openstack trait create {custom[0]}"
            if custom
            else f"only traits that start with {CUSTOM_PREFIX} can be created, see: openstack trait list"
        )
        plural = "s" if len(names) > 1 else ""
        super().__init__(f"The server does not know the trait{plural} {', '.join(names)}; {remedy}")


def list_arguments(selection: Selection) -> dict[str, Any]:
    """Turn a selection into arguments of ``client.list_providers``."""
    return {"member_of": syntax.format_member_of((), selection.aggregates)}


def select_providers(client: PlacementClient, selection: Selection) -> list[Provider]:
    """The providers selected, in the server's order; NothingSelected if there are none."""
    documents = client.list_providers(**list_arguments(selection))
    if not documents:
        raise NothingSelected(selection)
    return [Provider.from_json(document) for document in documents]


def read_states(
    client: PlacementClient,
    providers: Sequence[Provider],
    facets: Sequence[Facet],
    *,
    concurrency: int = CONCURRENCY,
    on_reading: Callable[[Reading], None] | None = None,
) -> list[Reading]:
    """Read some facets of providers, in their order; a provider's failure is its reading.

    ``on_reading`` is called in the caller's thread, in the order in which answers come.
    """

    def read(provider: Provider) -> Reading:
        try:
            return Reading(*read_state(client, provider, facets))
        except Exception as error:  # whatever it is, it is about this provider only
            return Reading(provider, error=error)

    client.allow_concurrency(concurrency)
    return map_in_order(read, providers, threads=concurrency, on_result=on_reading)


def read_state(
    client: PlacementClient, provider: Provider, facets: Iterable[Facet]
) -> tuple[Provider, ProviderState]:
    """Read some facets of one provider; the provider comes back with its generation of now.

    Facets are read one by one, and somebody may write in between: the generation is that of the oldest, so a
    write on the strength of a torn reading is refused by the server.
    """
    values: dict[str, Any] = {}
    generations = []
    for facet in facets:
        document, values[facet] = _READERS[facet](client, provider.uuid)
        generations.append(document.get("resource_provider_generation", provider.generation))
    generation = min(generations, default=provider.generation)
    return replace(provider, generation=generation), ProviderState(**values)


def _read_inventories(client: PlacementClient, uuid: str) -> tuple[Document, Mapping[str, Inventory]]:
    document = client.list_inventories(uuid)
    inventories = document["inventories"].items()
    return document, {name: Inventory.from_json(fields) for name, fields in inventories}


def _read_traits(client: PlacementClient, uuid: str) -> tuple[Document, frozenset[str]]:
    document = client.list_provider_traits(uuid)
    return document, frozenset(document["traits"])


def _read_aggregates(client: PlacementClient, uuid: str) -> tuple[Document, frozenset[str]]:
    document = client.list_provider_aggregates(uuid)
    return document, frozenset(document["aggregates"])


_READERS: Final[Mapping[Facet, Callable[[PlacementClient, str], tuple[Document, Any]]]] = {
    "inventories": _read_inventories,
    "traits": _read_traits,
    "aggregates": _read_aggregates,
}


def require_traits(client: PlacementClient, names: Iterable[str]) -> None:
    """Raise UnknownTraits unless the server knows all of them."""
    wanted = sorted(set(names))
    known = set(client.list_traits(name=f"in:{','.join(wanted)}"))
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise UnknownTraits(unknown)
