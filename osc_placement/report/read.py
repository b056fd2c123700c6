# SPDX-License-Identifier: Apache-2.0
"""All reads of reports: the providers of a cloud or of some trees, and who has allocated what.

The API cannot read several providers at one moment: what somebody changes meanwhile may be seen or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from osc_placement import microversion
from osc_placement.api.client import Document, PlacementClient
from osc_placement.api.concurrency import Reading, map_in_order
from osc_placement.errors import NotFound
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
    """Read every consumer that has allocated something from these providers, in the order of their UUIDs.

    One request where the server has the bulk read. The API names consumers only provider by provider, and
    projects only consumer by consumer.
    """
    reading = reading or Reading()
    client.require(microversion.ALLOCATIONS_BY_PROVIDER)
    at_once = client.list_consumers()
    if at_once is not None:
        return _choose_holdings(at_once, {node.uuid for node in cloud.nodes})
    client.allow_concurrency(reading.concurrency)
    used = [node.uuid for node in cloud.nodes if any(stock.used for stock in node.stocks.values())]
    reading.on_total(len(used))
    found = map_in_order(
        lambda uuid: _list_consumers(client, uuid),
        used,
        threads=reading.concurrency,
        on_result=reading.on_item,
    )
    consumers = sorted({consumer for names in found for consumer in names})
    reading.on_total(len(consumers))
    read = map_in_order(
        lambda consumer: _read_holding(client, consumer),
        consumers,
        threads=reading.concurrency,
        on_result=reading.on_item,
    )
    return [holding for holding in read if holding.amounts]


def _choose_holdings(consumers: Iterable[Document], uuids: set[str]) -> list[Holding]:
    """Those who have something from these providers."""
    return [
        _make_holding(document["uuid"], document)
        for document in sorted(consumers, key=itemgetter("uuid"))
        if not uuids.isdisjoint(document["allocations"])
    ]


def _list_consumers(client: PlacementClient, uuid: str) -> Iterable[str]:
    try:
        return tuple(client.list_provider_allocations(uuid)["allocations"])
    except NotFound:
        # deleted since it was listed
        return ()


def _read_holding(client: PlacementClient, consumer: str) -> Holding:
    """Read a consumer; one that is gone since it was listed has no amounts."""
    return _make_holding(consumer, client.list_allocations(consumer))


def _make_holding(consumer: str, document: Document) -> Holding:
    amounts: dict[str, int] = {}
    for entry in document["allocations"].values():
        for name, amount in entry["resources"].items():
            amounts[name] = amounts.get(name, 0) + amount
    return Holding(
        consumer,
        document.get("project_id", ""),
        document.get("user_id", ""),
        dict(sorted(amounts.items())),
        document.get("consumer_type", ""),
    )
