# SPDX-License-Identifier: Apache-2.0
"""Placement as migrations read it: trees of providers, sharing providers, and allocations."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from osc_placement import microversion
from osc_placement.api.client import PlacementClient
from osc_placement.api.concurrency import Reading
from osc_placement.migrate.nova.facts import ComputeNode
from osc_placement.migrate.problem import Problem, Reason
from osc_placement.model import Inventory, ProviderRecord

SHARING: Final = "MISC_SHARES_VIA_AGGREGATE"
#: classes of compute nodes, which sharing providers do not have
_HOST_CLASSES: Final = frozenset(("VCPU", "PCPU", "MEMORY_MB"))
#: amounts by class, by the UUID of the provider
Claims = Mapping[str, Mapping[str, int]]
Holdings = Mapping[str, Claims]
#: project and user
Owner = tuple[str, str]


@dataclass(frozen=True)
class CloudView:
    """The providers of placement by UUID, the allocations of consumers, and their owners if known."""

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
        """Return the root of the tree that a provider is in."""
        return self.records[uuid].provider.root_provider_uuid or uuid

    def reach(self, uuid: str) -> tuple[str, ...]:
        """Return the providers that an instance on this one may use: its tree, and sharing providers."""
        tree = self.trees[self.root(uuid)]
        aggregates = {each for member in tree for each in self.records[member].aggregates or ()}
        sharing = (each for key in sorted(aggregates) for each in self._sharing.get(key, ()))
        return tuple(dict.fromkeys((*tree, *sharing)))

    @property
    def hosts(self) -> frozenset[str]:
        """Return the roots of trees that look like those of compute nodes."""
        return frozenset(root for root, tree in self.trees.items() if any(map(self._is_of_host, tree)))

    def _is_of_host(self, uuid: str) -> bool:
        record = self.records[uuid]
        classes = _HOST_CLASSES.intersection(record.inventories or ())
        return bool(classes) and SHARING not in (record.traits or ())

    def inventory(self, uuid: str, resource: str) -> Inventory | None:
        """Return the inventory of a class on a provider; None if it has none."""
        return (self.records[uuid].inventories or {}).get(resource)

    def name(self, uuid: str) -> str:
        """Return the name of a provider, or its UUID if it is not there."""
        record = self.records.get(uuid)
        return record.provider.name if record else uuid

    @property
    def names(self) -> dict[str, str]:
        """Return the names of all providers, by UUID."""
        return {uuid: record.provider.name for uuid, record in self.records.items()}

    def usages(self) -> dict[tuple[str, str], int]:
        """Return the sum of allocations by provider and class."""
        used: dict[tuple[str, str], int] = defaultdict(int)
        for claims in self.held.values():
            for provider, amounts in claims.items():
                for resource, amount in amounts.items():
                    used[provider, resource] += amount
        return used


def read_cloud(client: PlacementClient, concurrency: int) -> CloudView:
    """Read all providers, and all that is held of them."""
    client.require(microversion.CONSUMER_GENERATIONS, "a comparison of allocations")
    found = client.read_providers(want=("inventories", "traits", "aggregates"), concurrency=concurrency)
    records = {record.provider.uuid: record for record in found}
    consumers = client.read_consumers(records, Reading(concurrency), whole=False)
    held: dict[str, Claims] = {}
    owners: dict[str, Owner] = {}
    # PERF: of 100,000 consumers most have the providers, project and user of another: one string for all
    for consumer in consumers:
        claims = consumer.allocations.items()
        held[consumer.uuid] = {sys.intern(provider): amounts for provider, amounts in claims}
        if consumer.project_id and consumer.user_id:
            owners[consumer.uuid] = sys.intern(consumer.project_id), sys.intern(consumer.user_id)
    return CloudView(records, held, owners)


def sum_claims(claims: Claims) -> dict[str, int]:
    """Return amounts by class, summed over all providers."""
    total: dict[str, int] = defaultdict(int)
    for amounts in claims.values():
        for resource, amount in amounts.items():
            total[resource] += amount
    return dict(total)


def iterate_amounts(claims: Claims) -> Iterator[tuple[str, str, int]]:
    """Yield provider, class and amount."""
    for provider, amounts in claims.items():
        for resource, amount in amounts.items():
            yield provider, resource, amount


def find_provider(
    host: str, node: ComputeNode, records: Mapping[str, ProviderRecord]
) -> ProviderRecord | Problem:
    """Return the provider of a compute node, or the problem that it has none."""
    subject = f"host {host}" if node.name == host else f"host {host}, node {node.name}"
    if node.uuid is None:
        text = "its compute node has no UUID yet; start nova-compute of Queens or later once"
        return Problem(Reason.NO_COMPUTE_NODE, subject, text)
    if node.uuid not in records:
        return Problem(Reason.NO_PROVIDER, subject, f"placement has no resource provider {node.uuid}")
    return records[node.uuid]
