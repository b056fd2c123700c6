# SPDX-License-Identifier: Apache-2.0
"""The runs that replace a provider by that of its machine's compute node.

They are three, each with a journal, so that each can be resumed and undone: the last one first. What is
allocated moves in one of them, by one request, ``POST /reshaper``. One provider is replaced after the other,
so that a command that dies leaves one machine at most between two runs; the next comparison finds which.

The server compares the generations of both providers and of every consumer that moves with those that the
reshape was planned on. If an instance was built, moved or deleted meanwhile, it writes nothing, and the whole
is read and planned again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from osc_placement.batch.plan import APPLY, FACETS
from osc_placement.batch.reshape import KIND as RESHAPE
from osc_placement.batch.reshape import ReshapeRefused, World
from osc_placement.batch.reshape_run import Task, read_world
from osc_placement.batch.select import read_state
from osc_placement.batch.service import Job
from osc_placement.batch.writers.reshape import require_right
from osc_placement.migrate.migrations.providers import Repair, plan_move, plan_staged

if TYPE_CHECKING:
    from osc_placement.api.client import PlacementClient


def iterate_jobs(client: PlacementClient, repair: Repair) -> Iterator[Job]:
    """Yield the runs of a repair; each is planned when those before it are done.

    Raise PlacementError if the caller may not reshape, before the first of them, or if what is there does not
    fit any more, before the one that is concerned.
    """
    require_right(client)
    if repair.preparation.changes:
        yield Job(repair.preparation, kind=APPLY)
    move = _plan_move(client, repair)
    if move is not None:
        yield move
    yield _plan_removal(client, repair)


def _plan_move(client: PlacementClient, repair: Repair) -> Job | None:
    """Return the reshape on what is there now; None if the old provider has nothing."""
    old, new = repair.old.uuid, repair.right.uuid

    def read() -> World:
        classes = frozenset(client.list_inventories(old)["inventories"])
        return read_world(client, (old, new), {old: classes})

    world = read()
    if not (world.inventories[old] or world.holdings[old]):
        return None
    title = f"provider {world.name(new)}: move inventories and allocations of {old} to {new}"
    task = Task(title, plan_move(world, old, new), read, lambda again: plan_move(again, old, new))
    return Job(task.steps, kind=RESHAPE, is_atomic=True, reshape=task)


def _plan_removal(client: PlacementClient, repair: Repair) -> Job:
    """Return the deletion of an old provider; raise ReshapeRefused if it has anything again."""
    provider, state = read_state(client, repair.old, ("identity", *FACETS))
    if not state.identity:
        raise ReshapeRefused(f"Resource provider {provider.name} was deleted by somebody else meanwhile")
    if state.inventories:
        raise ReshapeRefused(
            f"{provider.name} got inventories again, so it was not deleted; is its nova-compute running?"
        )
    title = f"provider {provider.name}: delete it, as {repair.right.uuid} is in its place"
    change = replace(repair.removal, subject=provider, before=state)
    return Job(plan_staged(title, [change]), kind=APPLY)
