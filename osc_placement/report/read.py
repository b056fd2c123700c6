# SPDX-License-Identifier: Apache-2.0
"""All reads of reports: the providers of a cloud or of some trees, and the allocations of consumers.

The API cannot read several providers at one moment: a change during the read may be seen or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from osc_placement import microversion
from osc_placement.api.client import PlacementClient
from osc_placement.api.concurrency import Reading
from osc_placement.api.consumer import Consumer
from osc_placement.model import PARTS, Part, ProviderRecord
from osc_placement.report.cloud import SHARING_TRAIT, Cloud, Node, Stock
from osc_placement.report.holdings import Holding

#: the parts of a provider from which its usage percentage is computed
STOCKS: Final[tuple[Part, ...]] = ("inventories", "usages")


def read_cloud(
    client: PlacementClient,
    want: Iterable[Part] = PARTS,
    *,
    trees: Sequence[str] = (),
    only_capacity: bool = False,
    reading: Reading | None = None,
) -> Cloud:
    """Read all providers, or those of the trees in which these providers are.

    With ``only_capacity`` only the capacity of an inventory is right, not its other fields; that may save
    requests.
    """
    reading = reading or Reading()
    conditions: Sequence[Mapping[str, Any]] = [{"in_tree": uuid} for uuid in trees] or [{}]
    records = {
        record.provider.uuid: record
        for filters in conditions
        for record in client.read_providers(
            filters,
            want=want,
            only_capacity=only_capacity,
            concurrency=reading.concurrency,
            on_total=reading.on_total,
            on_record=reading.on_item,
        )
    }
    return Cloud(_make_node(record) for record in records.values())


def _make_node(record: ProviderRecord) -> Node:
    usages = record.usages or {}
    return Node(
        record.provider,
        {
            name: Stock(inventory, usages.get(name, 0))
            for name, inventory in sorted((record.inventories or {}).items())
        },
        record.traits or frozenset(),
        record.aggregates or frozenset(),
    )


def read_sharing(client: PlacementClient, cloud: Cloud) -> Cloud:
    """Return the same cloud with the sharing providers and the members of their aggregates.

    This takes a request for each sharing provider and each of its aggregates instead of two for each
    provider.
    """
    if client.version < microversion.LIST_BY_TRAITS:
        return cloud
    sharing = {document["uuid"] for document in client.list_providers(required=[SHARING_TRAIT])}
    lent = {
        aggregate
        for uuid in sorted(sharing)
        for aggregate in client.list_provider_aggregates(uuid)["aggregates"]
    }
    aggregates: dict[str, set[str]] = {}
    for aggregate in sorted(lent):
        for document in client.list_providers(member_of=[aggregate]):
            aggregates.setdefault(document["uuid"], set()).add(aggregate)
    return Cloud(
        Node(
            node.provider,
            node.stocks,
            node.traits | ({SHARING_TRAIT} if node.uuid in sharing else set()),
            frozenset(aggregates.get(node.uuid, ())),
        )
        for node in cloud.nodes
    )


def read_holdings(client: PlacementClient, cloud: Cloud, reading: Reading | None = None) -> list[Holding]:
    """Read every consumer that has allocated something from these providers, in the order of their UUIDs."""
    client.require(microversion.ALLOCATIONS_BY_PROVIDER)
    used = [node.uuid for node in cloud.nodes if any(stock.used for stock in node.stocks.values())]
    consumers = client.read_consumers([node.uuid for node in cloud.nodes], reading, used=used)
    return [
        _make_holding(consumer)
        for consumer in sorted(consumers, key=attrgetter("uuid"))
        if consumer.allocations
    ]


def _make_holding(consumer: Consumer) -> Holding:
    total: Counter[str] = Counter()
    for amounts in consumer.allocations.values():
        total.update(amounts)
    return Holding(
        consumer.uuid,
        consumer.project_id or "",
        consumer.user_id or "",
        dict(sorted(total.items())),
        consumer.consumer_type or "",
    )
