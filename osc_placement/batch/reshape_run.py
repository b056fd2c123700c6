# SPDX-License-Identifier: Apache-2.0
"""A reshape on a server: its plan is made of what is read there, and sent as one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING

from osc_placement import microversion
from osc_placement.api.concurrency import CONCURRENCY, map_in_order
from osc_placement.api.retry import retry
from osc_placement.batch.plan import FOUND_DONE, Change
from osc_placement.batch.reshape import RecordedReshape, Request, ReshapePlan, ReshapeRefused, World
from osc_placement.batch.writers.reshape import naming_right
from osc_placement.errors import PlacementError
from osc_placement.model import Inventory, Provider

if TYPE_CHECKING:
    from osc_placement.api.client import PlacementClient
    from osc_placement.microversion import Version


def read_world(client: PlacementClient, classes: Mapping[str, Set[str] | None]) -> World:
    """Read what a plan needs.

    :param classes: by the UUIDs of all providers concerned, the classes of which allocations may move from
        there; None stands for all
    """
    client.require(microversion.RESHAPER)
    client.allow_concurrency(CONCURRENCY)

    def read(_attempt: int) -> World:
        rows = map_in_order(lambda uuid: _read_provider(client, uuid), tuple(classes))
        holdings = {provider.uuid: held for provider, _, held in rows}
        consumers = sorted(
            {
                consumer
                for uuid, names in classes.items()
                for consumer, amounts in holdings[uuid].items()
                if names is None or names & amounts.keys()
            }
        )
        found = map_in_order(lambda uuid: client.read_consumer(uuid, _version(client)), consumers)
        # they are read after the providers, and have to hold what these say they hold
        for consumer in found:
            for uuid in classes:
                if consumer.allocations.get(uuid, {}) != holdings[uuid].get(consumer.uuid, {}):
                    raise _Inconsistent(
                        "the allocations change while they are read; try again when less is going on"
                    )
        return World(
            {provider.uuid: provider for provider, _, _ in rows},
            {provider.uuid: inventories for provider, inventories, _ in rows},
            holdings,
            dict(zip(consumers, found, strict=True)),
        )

    return retry(read, after=lambda error: isinstance(error, _Inconsistent))


class _Inconsistent(PlacementError):
    """Providers and consumers were read at different moments, and do not agree."""


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


def _version(client: PlacementClient) -> Version:
    """Return the highest version that leaves the types of consumers alone."""
    return min(client.version, microversion.REPARENTING)


class ReshapeTransaction:
    """A reshape that is asked for, as a transaction.

    :ivar title: that of a run
    :ivar plan: as it was made last; None: it was done already when it was first planned
    :ivar changes: of the plan, and nothing of what it leaves out of an earlier one
    """

    def __init__(self, client: PlacementClient, request: Request) -> None:
        self._client = client
        self._request = request
        self.plan = self._plan_now()
        self.changes: Sequence[Change] = self.plan.changes if self.plan else ()

    def _plan_now(self) -> ReshapePlan | None:
        """Plan on what is there now; return None if it is done already.

        Read once more before it is refused: a request that was sent earlier may be carried out while
        providers are read one after the other, of which some are then as before it and some as after it.
        """

        def plan() -> ReshapePlan | None:
            world = read_world(self._client, self._request.classes)
            self.title = self._request.describe(world)
            return None if self._request.is_done(world) else self._request.plan(world)

        try:
            return plan()
        except ReshapeRefused:
            return plan()

    def plan_again(self) -> Sequence[Change]:
        """Read what the plan needs and make it again; keep the intents if nothing is left to do."""
        nothing = [Change(step.subject, step.before, step.before) for step in self.changes]
        plan = self._plan_now()
        if plan is None:
            self.changes = [replace(change, reason=FOUND_DONE) for change in nothing]
            return ()
        self.plan = plan
        by_uuid = {change.uuid: change for change in (*nothing, *plan.changes)}
        self.changes = tuple(by_uuid.values())
        return self.changes

    def write(self) -> None:
        """Send the plan, unless it was found to be done."""
        if self.plan and any(change.facets for change in self.changes):
            with naming_right():
                self._client.reshape(self.plan.to_json(), _version(self._client))

    def is_done(self) -> bool:
        """Return whether the inventories are those of the plan."""
        sent = RecordedReshape("", self.changes)
        return sent.is_done(read_world(self._client, self._request.classes))
