# SPDX-License-Identifier: Apache-2.0
"""All reads of reports: the providers of a cloud or of some trees, and who has allocated what.

The API cannot read several providers at one moment: what somebody changes meanwhile may be seen or not.
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

#: what is needed of a provider to know how full it is
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

    With ``only_capacity`` nothing of an inventory is right but its capacity, which may save requests.
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
    """The same cloud with what sharing needs: which providers lend, and the aggregates they lend to.

    Costs a request for each lender and each of its aggregates instead of two for each provider.
    """
    if client.version < microversion.LIST_BY_TRAITS:
        return cloud
    lenders = {document["uuid"] for document in client.list_providers(required=[SHARING_TRAIT])}
    lent = {
        aggregate
        for uuid in sorted(lenders)
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
            node.traits | ({SHARING_TRAIT} if node.uuid in lenders else set()),
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
