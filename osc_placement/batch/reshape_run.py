# SPDX-License-Identifier: Apache-2.0
"""A reshape on a server: its plan is made of what is read there, and sent as one transaction."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from osc_placement import microversion
from osc_placement.api.concurrency import CONCURRENCY, map_in_order
from osc_placement.api.retry import retry
from osc_placement.batch.plan import FOUND_DONE, Change, Plan
from osc_placement.batch.repeat import Recorded
from osc_placement.batch.reshape import ReshapePlan, ReshapeRefused, World, changes_of
from osc_placement.batch.undo import ReshapeUndo, undo_of
from osc_placement.errors import PlacementError
from osc_placement.model import Inventory, Provider

if TYPE_CHECKING:
    from osc_placement.api.client import PlacementClient
    from osc_placement.microversion import Version

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

    def read(_attempt: int) -> World:
        rows = map_in_order(lambda uuid: _read_provider(client, uuid), tuple(providers))
        holdings = {provider.uuid: held for provider, _, held in rows}
        consumers = sorted(
            {
                consumer
                for uuid, names in classes.items()
                for consumer, amounts in holdings[uuid].items()
                if names & amounts.keys()
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


@dataclass(frozen=True, slots=True)
class Task:
    """A reshape to carry out: its plan, and how to make it again when somebody else was faster.

    :ivar is_done: tells whether it was carried out already, by a request that was sent earlier
    """

    title: str
    plan: ReshapePlan
    read: Callable[[], World]
    make_plan: Planner
    is_done: Callable[[World], bool] = lambda _world: False

    @property
    def steps(self) -> Plan:
        """Return the plan as that of a run."""
        return plan_steps(self.title, changes_of(self.plan))


def plan_task(client: PlacementClient, undo: ReshapeUndo, title: str) -> Task | None:
    """Plan the undo of a reshape, or the reverse of it; return None if it is done already."""
    read = functools.partial(read_world, client, undo.providers, undo.classes)
    plan = _plan_now(read, undo.plan, undo.is_done)
    return None if plan is None else Task(title, plan, read, undo.plan, undo.is_done)


def _plan_now(
    read: Callable[[], World], make_plan: Planner, is_done: Callable[[World], bool]
) -> ReshapePlan | None:
    """Plan on what is there now; return None if it is done already.

    Read once more before it is refused: a request that was sent earlier may be carried out while providers
    are read one after the other, of which some are then as before it and some as after it.
    """

    def plan(world: World) -> ReshapePlan | None:
        return None if is_done(world) else make_plan(world)

    try:
        return plan(read())
    except ReshapeRefused:
        return plan(read())


class ReshapeTransaction:
    """A reshape that is carried out, as a transaction.

    :ivar plan: as it was made last
    :ivar changes: of the plan, and nothing of what it leaves out of an earlier one
    """

    def __init__(
        self, client: PlacementClient, task: Task, on_write: Callable[[], None] = lambda: None
    ) -> None:
        self.plan = task.plan
        self.changes: Sequence[Change] = changes_of(task.plan)
        self._client = client
        self._task = task
        self._on_write = on_write

    def plan_again(self) -> Sequence[Change]:
        """Read what the plan needs and make it again; keep the intents if nothing is left to do."""
        nothing = [Change(step.subject, step.before, step.before) for step in self.changes]
        plan = _plan_now(self._task.read, self._task.make_plan, self._task.is_done)
        if plan is None:
            self.changes = [replace(change, reason=FOUND_DONE) for change in nothing]
            return ()
        self.plan = plan
        by_uuid = {change.uuid: change for change in (*nothing, *changes_of(plan))}
        self.changes = tuple(by_uuid.values())
        return self.changes

    def write(self) -> None:
        """Send the plan, unless it was found to be done."""
        if not any(change.facets for change in self.changes):
            return
        self._on_write()
        self._client.reshape(self.plan.to_json(), _version(self._client))

    def is_done(self) -> bool:
        """Return whether the inventories are those of the plan."""
        return undo_of(changes_of(self.plan)).reverse().is_done(self._task.read())


def plan_steps(title: str, steps: Iterable[Change]) -> Plan:
    """Return the plan of a run with such changes."""
    return Plan(Recorded(title, ("inventories", "allocations")), tuple(steps))
