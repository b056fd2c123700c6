# SPDX-License-Identifier: Apache-2.0
"""Reshaping for real: what a plan needs is read, and the plan is sent as one transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from osc_placement import microversion
from osc_placement.batch.execute import MAX_ATTEMPTS, pause_after_conflict
from osc_placement.batch.reshape import Consumer, ReshapePlan, World
from osc_placement.batch.workers import CONCURRENCY, map_in_order
from osc_placement.client import PlacementClient
from osc_placement.errors import Conflict
from osc_placement.microversion import Version
from osc_placement.model import Inventory, Provider

#: makes a plan of what is there now; called again when somebody else was faster
Planner = Callable[[World], ReshapePlan]


def read_world(
    client: PlacementClient, providers: Sequence[str], classes: Mapping[str, frozenset[str]]
) -> World:
    """Read what a plan needs.

    :param providers: UUIDs of all sources and targets
    :param classes: by the UUIDs of those from which allocations may move, the classes concerned
    """
    client.require(microversion.RESHAPER)
    client.allow_concurrency(CONCURRENCY)
    read = map_in_order(lambda uuid: _read_provider(client, uuid), tuple(providers))
    holdings = {provider.uuid: held for provider, _, held in read}
    consumers = sorted(
        {
            consumer
            for uuid, names in classes.items()
            for consumer, amounts in holdings[uuid].items()
            if names & amounts.keys()
        }
    )
    documents = map_in_order(lambda uuid: _read_consumer(client, uuid), consumers)
    return World(
        {provider.uuid: provider for provider, _, _ in read},
        {provider.uuid: inventories for provider, inventories, _ in read},
        holdings,
        dict(zip(consumers, documents, strict=True)),
    )


def _read_provider(
    client: PlacementClient, uuid: str
) -> tuple[Provider, Mapping[str, Inventory], Mapping[str, Mapping[str, int]]]:
    """Read a provider, its generation first: a later change makes the server refuse the plan."""
    provider = Provider.from_json(client.show_provider(uuid))
    inventories = client.list_inventories(uuid)["inventories"]
    allocations = client.list_provider_allocations(uuid)["allocations"]
    return (
        provider,
        {name: Inventory.from_json(fields) for name, fields in inventories.items()},
        {consumer: entry["resources"] for consumer, entry in allocations.items()},
    )


def _read_consumer(client: PlacementClient, uuid: str) -> Consumer:
    document = client.list_allocations(uuid, _version(client))
    amounts = {provider: entry["resources"] for provider, entry in document["allocations"].items()}
    return Consumer(
        document.get("consumer_generation"),
        document.get("project_id", ""),
        document.get("user_id", ""),
        amounts,
    )


def _version(client: PlacementClient) -> Version:
    """The highest version that leaves the types of consumers alone."""
    return min(client.version, microversion.REPARENTING)


def run_reshape(
    client: PlacementClient,
    plan: ReshapePlan,
    read: Callable[[], World],
    make_plan: Planner,
    before_write: Callable[[ReshapePlan], Any],
) -> ReshapePlan:
    """Carry a plan out in one transaction; the plan that was, which may have been made again.

    ``before_write`` is told of each plan that is about to be sent.
    """
    for attempt in range(1, MAX_ATTEMPTS + 1):
        before_write(plan)
        try:
            client.reshape(plan.to_json(), _version(client))
            return plan
        except Conflict as conflict:
            if not conflict.concurrent_update or attempt == MAX_ATTEMPTS:
                raise
        pause_after_conflict(attempt, threading.Event())
        plan = make_plan(read())
    raise AssertionError("the last attempt returns or raises")
