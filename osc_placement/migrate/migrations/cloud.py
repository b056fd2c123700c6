# SPDX-License-Identifier: Apache-2.0
"""Placement as migrations read it: trees of providers, sharing providers, and allocations."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from osc_placement import microversion
from osc_placement.api.concurrency import Reading, map_in_order
from osc_placement.candidates.cloud import CloudView
from osc_placement.errors import NotFound, UsageError
from osc_placement.migrate.problem import Problem, Reason
from osc_placement.model import PARTS, Inventory, Part, ProviderRecord
from osc_placement.syntax import names_provider

if TYPE_CHECKING:
    from osc_placement.api.client import PlacementClient
    from osc_placement.migrate.nova.facts import ComputeNode
    from osc_placement.migrate.nova.hosts import Hosts

#: classes of compute nodes, which sharing providers do not have
_HOST_CLASSES: Final = frozenset(("VCPU", "PCPU", "MEMORY_MB"))
#: amounts by class, by the UUID of the provider
Claims = Mapping[str, Mapping[str, int]]
Holdings = Mapping[str, Claims]
#: project and user
Owner = tuple[str, str]


class AllocationView(CloudView):
    """A view of the providers of placement, with the allocations of consumers, and their owners if known."""

    def __init__(
        self,
        records: Iterable[ProviderRecord],
        held: Holdings | None = None,
        owners: Mapping[str, Owner] | None = None,
    ) -> None:
        super().__init__(records)
        self.held = held or {}
        self.owners = owners or {}

    def root(self, uuid: str) -> str:
        """Return the UUID of the root of the tree that a provider is in."""
        return self.root_of(uuid).uuid

    def tree(self, uuid: str) -> Sequence[str]:
        """Return the UUIDs of the tree that a provider is in."""
        return [node.uuid for node in self.tree_of(uuid)]

    def reach(self, uuid: str) -> Sequence[str]:
        """Return the providers that an instance on this one may use: its tree, and who shares with it."""
        return [node.uuid for node in (*self.tree_of(uuid), *self.sharing_with(uuid))]

    @cached_property
    def hosts(self) -> frozenset[str]:
        """Return the roots of trees that look like those of compute nodes."""
        like = (node for node in self.nodes if not node.shares and not _HOST_CLASSES.isdisjoint(node.stocks))
        return frozenset(self.root(node.uuid) for node in like)

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
            for provider, resource, amount in iterate_amounts(claims):
                used[provider, resource] += amount
        return used


def read_cloud(client: PlacementClient, concurrency: int, *, usages: bool = False) -> AllocationView:
    """Read all providers, with their usages if these are needed, and then all that is held of them."""
    client.require(microversion.CONSUMER_GENERATIONS, "a comparison of allocations")
    want: tuple[Part, ...] = PARTS if usages else ("inventories", "traits", "aggregates")
    found = list(client.read_providers(want=want, concurrency=concurrency))
    providers = [record.provider.uuid for record in found]
    consumers = client.read_consumers(providers, Reading(concurrency), whole=False)
    held: dict[str, Claims] = {}
    owners: dict[str, Owner] = {}
    # PERF: of 100,000 consumers most have the providers, project and user of another: one string for all
    for consumer in consumers:
        claims = consumer.allocations.items()
        held[consumer.uuid] = {sys.intern(provider): amounts for provider, amounts in claims}
        if consumer.project_id and consumer.user_id:
            owners[consumer.uuid] = sys.intern(consumer.project_id), sys.intern(consumer.user_id)
    return AllocationView(found, held, owners)


def find_unrecorded(client: PlacementClient, cloud: AllocationView, concurrency: int) -> frozenset[str]:
    """Return the providers of which more is allocated than consumers hold; their usages were read.

    The rest is of consumers without a record, which no answer names. What was released after the usage was
    read looks the same, so the usage of a suspect is read again, and then its consumers: each that is seen
    before or after the usage counts.
    """
    held = cloud.usages()
    suspects = [
        uuid
        for uuid, record in cloud.records.items()
        if any(used > held.get((uuid, name), 0) for name, used in (record.usages or {}).items())
    ]
    holders: dict[str, dict[str, Counter[str]]] = {uuid: {} for uuid in suspects}
    for consumer, claims in cloud.held.items() if suspects else ():
        for uuid in holders.keys() & claims.keys():
            holders[uuid][consumer] = Counter(claims[uuid])

    def is_short(uuid: str) -> bool:
        try:
            usages = client.provider_usages(uuid)
            now = client.list_provider_allocations(uuid)["allocations"]
        except NotFound:
            return False
        seen = holders[uuid]
        for consumer, entry in now.items():
            amounts: Counter[str] = Counter(entry["resources"])
            seen[consumer] = amounts | seen.get(consumer, amounts)
        total = sum(seen.values(), Counter[str]())
        return any(used > total[name] for name, used in usages.items())

    short = map_in_order(is_short, suspects, threads=concurrency)
    return frozenset(uuid for uuid, is_so in zip(suspects, short, strict=True) if is_so)


def choose_providers(cloud: AllocationView, names: Collection[str]) -> frozenset[str]:
    """Return the UUIDs of the providers with these names or UUIDs, all if there are none.

    Raise UsageError if placement does not have one of them.
    """
    if not names:
        return frozenset(cloud.records)
    named = {
        text: [uuid for uuid in cloud.records if names_provider(text, uuid, cloud.name(uuid))]
        for text in names
    }
    missing = [text for text, uuids in named.items() if not uuids]
    if missing:
        raise UsageError(f"Placement has no resource provider {', '.join(sorted(missing))}")
    return frozenset(uuid for uuids in named.values() for uuid in uuids)


def sum_claims(claims: Claims) -> dict[str, int]:
    """Return amounts by class, summed over all providers."""
    total: dict[str, int] = defaultdict(int)
    for _, resource, amount in iterate_amounts(claims):
        total[resource] += amount
    return dict(total)


def iterate_amounts(claims: Claims) -> Iterator[tuple[str, str, int]]:
    """Yield provider, class and amount."""
    for provider, amounts in claims.items():
        for resource, amount in amounts.items():
            yield provider, resource, amount


def name_node(host: str, node: str) -> str:
    """Return the subject of a problem with a node of a host, which often has the name of the host."""
    return f"host {host}" if node == host else f"host {host}, node {node}"


def find_providers(
    host: str, hosts: Hosts, records: Mapping[str, ProviderRecord], problems: list[Problem]
) -> Iterator[tuple[ComputeNode, ProviderRecord]]:
    """Yield the nodes of a host with their providers, and note the problems of the host and its nodes."""
    if problem := hosts.find_problem(host):
        problems.append(problem)
    problems += hosts.find_namesakes(host)
    for node in hosts.nodes_of(host):
        record = find_provider(host, node, records)
        if isinstance(record, Problem):
            problems.append(record)
        else:
            yield node, record


def find_provider(
    host: str, node: ComputeNode, records: Mapping[str, ProviderRecord]
) -> ProviderRecord | Problem:
    """Return the provider of a compute node, or the problem that it has none."""
    subject = name_node(host, node.name)
    if node.uuid is None:
        text = "its compute node has no UUID yet; start nova-compute of Queens or later once"
        return Problem(Reason.NO_COMPUTE_NODE, subject, text)
    if node.uuid not in records:
        return Problem(Reason.NO_PROVIDER, subject, f"placement has no resource provider {node.uuid}")
    return records[node.uuid]
