# SPDX-License-Identifier: Apache-2.0
"""Placement as a migration sees it: trees of providers, who shares with whom, and who holds what."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from osc_placement import microversion
from osc_placement.api.client import PlacementClient
from osc_placement.api.concurrency import map_in_order
from osc_placement.errors import NotFound
from osc_placement.model import Inventory, ProviderRecord

SHARING: Final = "MISC_SHARES_VIA_AGGREGATE"
#: what a compute node has, and a provider of another service need not
_HOST_CLASSES: Final = frozenset(("VCPU", "PCPU", "MEMORY_MB"))
#: amounts by class, by the UUID of the provider
Claims = Mapping[str, Mapping[str, int]]
Holdings = Mapping[str, Claims]
#: project and user
Owner = tuple[str, str]


@dataclass(frozen=True)
class Landscape:
    """The providers by UUID, what each consumer holds of them, and whose it is where the server told."""

    records: Mapping[str, ProviderRecord]
    held: Holdings = field(default_factory=dict)
    owners: Mapping[str, Owner] = field(default_factory=dict)
    trees: Mapping[str, tuple[str, ...]] = field(init=False)
    _sharing: Mapping[str, tuple[str, ...]] = field(init=False)

    def __post_init__(self) -> None:
        trees: dict[str, list[str]] = defaultdict(list)
        sharing: dict[str, list[str]] = defaultdict(list)
        for uuid, record in self.records.items():
            trees[record.provider.root_provider_uuid or uuid].append(uuid)
            if SHARING in (record.traits or ()):
                for aggregate in record.aggregates or ():
                    sharing[aggregate].append(uuid)
        object.__setattr__(self, "trees", {root: tuple(members) for root, members in trees.items()})
        object.__setattr__(self, "_sharing", {key: tuple(members) for key, members in sharing.items()})

    def root(self, uuid: str) -> str:
        """The root of the tree that a provider is in."""
        return self.records[uuid].provider.root_provider_uuid or uuid

    def reach(self, uuid: str) -> tuple[str, ...]:
        """The providers that an instance on this one may use: those of its tree, and who shares with it."""
        tree = self.trees[self.root(uuid)]
        aggregates = {each for member in tree for each in self.records[member].aggregates or ()}
        sharing = (each for key in sorted(aggregates) for each in self._sharing.get(key, ()))
        return tuple(dict.fromkeys((*tree, *sharing)))

    @property
    def hosts(self) -> frozenset[str]:
        """The roots of trees that look like those of compute nodes, or did when there were no trees."""
        return frozenset(root for root, tree in self.trees.items() if any(map(self._is_of_host, tree)))

    def _is_of_host(self, uuid: str) -> bool:
        record = self.records[uuid]
        classes = _HOST_CLASSES.intersection(record.inventories or ())
        return bool(classes) and SHARING not in (record.traits or ())

    def inventory(self, uuid: str, resource: str) -> Inventory | None:
        """What a provider has of a class."""
        return (self.records[uuid].inventories or {}).get(resource)

    def name(self, uuid: str) -> str:
        """The name of a provider, or its UUID if it is not there."""
        record = self.records.get(uuid)
        return record.provider.name if record else uuid

    @property
    def names(self) -> dict[str, str]:
        """The names of all providers, by UUID."""
        return {uuid: record.provider.name for uuid, record in self.records.items()}

    def usages(self) -> dict[tuple[str, str], int]:
        """What is held of each class of each provider."""
        used: dict[tuple[str, str], int] = defaultdict(int)
        for claims in self.held.values():
            for provider, amounts in claims.items():
                for resource, amount in amounts.items():
                    used[provider, resource] += amount
        return used


def read_landscape(client: PlacementClient, concurrency: int) -> Landscape:
    """Read all providers, and all that is held of them."""
    client.require(microversion.CONSUMER_GENERATIONS, "a look at allocations")
    found = client.read_providers(want=("inventories", "traits", "aggregates"), concurrency=concurrency)
    records = {record.provider.uuid: record for record in found}
    at_once = client.list_consumers()
    if at_once is None:
        return Landscape(records, _read_holdings(client, records, concurrency))
    held = {consumer["uuid"]: _read_claims(consumer["allocations"]) for consumer in at_once}
    return Landscape(records, held, {consumer["uuid"]: _read_owner(consumer) for consumer in at_once})


def _read_holdings(client: PlacementClient, uuids: Iterable[str], concurrency: int) -> Holdings:
    client.allow_concurrency(concurrency)

    def read(uuid: str) -> tuple[str, dict[str, dict[str, int]]]:
        return uuid, _read_consumers(client, uuid)

    held: dict[str, dict[str, Mapping[str, int]]] = defaultdict(dict)
    for uuid, consumers in map_in_order(read, list(uuids), threads=concurrency):
        for consumer, amounts in consumers.items():
            held[consumer][uuid] = amounts
    return dict(held)


def _read_owner(consumer: Mapping[str, Any]) -> Owner:
    """PERF: of 100,000 consumers most have the project and user of another: one string for all."""
    return sys.intern(consumer["project_id"]), sys.intern(consumer["user_id"])


def _read_claims(allocations: Mapping[str, Any]) -> Claims:
    return {sys.intern(provider): entry["resources"] for provider, entry in allocations.items()}


def _read_consumers(client: PlacementClient, uuid: str) -> dict[str, dict[str, int]]:
    try:
        allocations = client.list_provider_allocations(uuid)["allocations"]
    except NotFound:  # it was deleted since it was listed, which it can only be with nothing held of it
        return {}
    return {consumer: entry["resources"] for consumer, entry in allocations.items()}


def sum_claims(claims: Claims) -> dict[str, int]:
    """Amounts by class, over all providers."""
    total: dict[str, int] = defaultdict(int)
    for amounts in claims.values():
        for resource, amount in amounts.items():
            total[resource] += amount
    return dict(total)


def iterate_amounts(claims: Claims) -> Iterator[tuple[str, str, int]]:
    """Provider, class, amount."""
    for provider, amounts in claims.items():
        for resource, amount in amounts.items():
            yield provider, resource, amount
