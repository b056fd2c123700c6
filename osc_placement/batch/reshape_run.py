# SPDX-License-Identifier: Apache-2.0
"""Reshaping for real: what a plan needs is read, and the plan is sent as one transaction."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from osc_placement import microversion
from osc_placement.api.client import PlacementClient
from osc_placement.api.concurrency import CONCURRENCY, map_in_order
from osc_placement.api.retry import retry
from osc_placement.batch.execute import Recorder
from osc_placement.batch.plan import Change, Outcome, Plan, Report, Result
from osc_placement.batch.reshape import ReshapePlan, World
from osc_placement.batch.reshape_record import changes_of, plan_steps
from osc_placement.batch.undo import ReshapeUndo, undo_of
from osc_placement.batch.writers.reshape import MayNotReshape
from osc_placement.errors import (
    ANSWER_LOST,
    Forbidden,
    OutcomeUnknown,
    PlacementError,
    Unconfirmed,
    is_outcome_unknown,
)
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

    def read(_attempt: int) -> World:
        world = _read_once(client, providers, classes)
        if not _is_consistent(world, classes):
            raise _Inconsistent("the allocations change while they are read; try again when less is going on")
        return world

    return retry(read, after=lambda error: isinstance(error, _Inconsistent))


class _Inconsistent(PlacementError):
    """Providers and consumers were read at different moments, and do not agree."""


def _is_consistent(world: World, classes: Mapping[str, frozenset[str]]) -> bool:
    """Return whether consumers, which are read after the providers, hold what these say they hold."""
    return all(
        consumer.allocations.get(provider, {}) == world.holdings[provider].get(uuid, {})
        for uuid, consumer in world.consumers.items()
        for provider in classes
    )


def _read_once(
    client: PlacementClient, providers: Sequence[str], classes: Mapping[str, frozenset[str]]
) -> World:
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
    found = map_in_order(lambda uuid: client.read_consumer(uuid, _version(client)), consumers)
    return World(
        {provider.uuid: provider for provider, _, _ in read},
        {provider.uuid: inventories for provider, inventories, _ in read},
        holdings,
        dict(zip(consumers, found, strict=True)),
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


def _version(client: PlacementClient) -> Version:
    """Return the highest version that leaves the types of consumers alone."""
    return min(client.version, microversion.REPARENTING)


class NotKnown(PlacementError):
    """The answer was lost, and then nothing could be read either."""

    def __init__(self, reason: Exception) -> None:
        self.reason = reason
        super().__init__(f"it is not known whether it was done, as it cannot be read back: {reason}")


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

    def run(attempt: int) -> ReshapePlan:
        nonlocal plan
        if attempt > 1:
            plan = make_plan(read())
        before_write(plan)
        try:
            client.reshape(plan.to_json(), _version(client))
        except ANSWER_LOST as error:
            if not _is_done(plan, read, error):
                raise
        return plan

    return retry(run)


def _is_done(plan: ReshapePlan, read: Callable[[], World], error: Exception) -> bool:
    try:
        world = read()
    except Exception as unread:  # whatever it is, the answer stays lost
        raise NotKnown(error) from unread
    return undo_of(changes_of(plan)).reverse().is_done(world)


@dataclass(frozen=True, slots=True)
class Task:
    """A reshape to carry out: its plan, and how to make it again when somebody else was faster."""

    title: str
    plan: ReshapePlan
    read: Callable[[], World]
    make_plan: Planner

    @property
    def steps(self) -> Plan:
        """The plan as that of a run."""
        return plan_steps(self.title, changes_of(self.plan))


def plan_task(client: PlacementClient, undo: ReshapeUndo, title: str) -> Task | None:
    """Plan the undo of a reshape, or the reverse of it; return None if it is done already."""
    read = functools.partial(read_world, client, undo.providers, undo.classes)
    world = read()
    return None if undo.is_done(world) else Task(title, undo.plan(world), read, undo.plan)


def execute_reshape(
    client: PlacementClient, task: Task, recorder: Recorder, on_write: Callable[[], None] = lambda: None
) -> tuple[ReshapePlan, Report]:
    """Carry a task out; the plan that was, and an outcome for each provider and consumer.

    ``on_write`` is called before a request that may write.
    """
    run = _Run(task, recorder, on_write)
    error: Exception | None = None
    try:
        run_reshape(client, task.plan, task.read, task.make_plan, run.begin)
    except Unconfirmed as failure:
        error = failure
    except Forbidden as failure:
        error = MayNotReshape(failure)
    except Exception as failure:  # the report tells of it
        error = failure
    return run.plan, run.end(error)


class _Run:
    """What is kept of a reshape while it is carried out."""

    def __init__(self, task: Task, recorder: Recorder, on_write: Callable[[], None]) -> None:
        self.plan = task.plan
        self._title = task.title
        self._recorder = recorder
        self._on_write = on_write
        self._steps = {change.uuid: change for change in changes_of(task.plan)}

    def begin(self, plan: ReshapePlan) -> None:
        """Keep a plan that is about to be sent; what it leaves out of an earlier one is not changed."""
        if plan is not self.plan:
            self.plan = plan
            nothing = (Change(step.subject, step.before, step.before) for step in self._steps.values())
            self._steps = {change.uuid: change for change in (*nothing, *changes_of(plan))}
            for change in self._steps.values():
                self._recorder.plan_again(change)
        self._on_write()

    def end(self, error: Exception | None) -> Report:
        """Keep how it ended, for all alike."""
        outcomes = tuple(_end(change, error) for change in self._steps.values())
        halted = _summarize(error) if error else ""
        for outcome in outcomes:
            try:
                self._recorder.end(outcome)
            except PlacementError as failure:  # what is done is done
                halted = halted or str(failure)
        return Report(plan_steps(self._title, self._steps.values()), outcomes, halted=halted)


def _summarize(error: Exception) -> str:
    """Return in a line how it failed, and that nothing was changed if that is certain."""
    if is_outcome_unknown(error):
        return str(OutcomeUnknown(error))
    return str(error) if isinstance(error, NotKnown) else f"nothing was changed: {error}"


def _end(change: Change, error: Exception | None) -> Outcome:
    if not change.facets:
        return Outcome(change, Result.UNCHANGED)
    return Outcome(change, Result.FAILED if error else Result.APPLIED, 1, error=error)
