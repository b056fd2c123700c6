# SPDX-License-Identifier: Apache-2.0
"""Run a plan: all writes of a batch.

A provider that somebody else changed since it was planned is read again, planned again and tried again, a
bounded number of times; any other failure is that provider's outcome and stops no other.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from osc_placement.batch.plan import Change, Edit, Facet, Outcome, Plan, Report, Result, plan_change
from osc_placement.batch.select import read_state
from osc_placement.batch.workers import CONCURRENCY, map_in_order
from osc_placement.client import Document, PlacementClient
from osc_placement.errors import Conflict

LOG = logging.getLogger(__name__)

MAX_ATTEMPTS: Final = 10
_FIRST_PAUSE: Final = 0.02  # seconds; doubles with every attempt up to
_LONGEST_PAUSE: Final = 1.0


def execute_plan(
    client: PlacementClient,
    plan: Plan,
    *,
    concurrency: int = CONCURRENCY,
    on_outcome: Callable[[Outcome], None] | None = None,
    stop: threading.Event | None = None,
) -> Report:
    """Write what the plan says; the report has an outcome for every provider in it.

    ``on_outcome`` is called in the caller's thread, in the order in which providers are done. Set ``stop``
    from another thread or a signal handler to finish what is under way and skip the rest.
    """
    stop = stop or threading.Event()

    def run(step: Change) -> Outcome:
        if step.provider.uuid in plan.unreadable:
            return Outcome(step, Result.FAILED, error=plan.unreadable[step.provider.uuid])
        return run_change(client, step, plan.edit, stop)

    client.allow_concurrency(concurrency)
    outcomes = map_in_order(run, plan.steps, threads=concurrency, on_result=on_outcome)
    skipped = any(outcome.result is Result.SKIPPED for outcome in outcomes)
    return Report(plan, tuple(outcomes), interrupted=skipped)


def run_change(
    client: PlacementClient, change: Change, edit: Edit, stop: threading.Event | None = None
) -> Outcome:
    """Make one change, planning it again with ``edit`` when somebody else was faster; raises nothing."""
    attempt = _Attempt(change)
    try:
        return _run_attempts(client, attempt, edit, stop or threading.Event())
    except Exception as error:  # whatever it is, it is about this provider only
        LOG.debug("%s was not changed", change.provider.uuid, exc_info=True)
        return attempt.end(Result.FAILED, error)


class _Attempt:
    """How far one provider is: the only thing here that moves, and seen by one thread."""

    def __init__(self, change: Change) -> None:
        self.change = change
        self.number = 0
        self.generation: int | None = None

    def end(self, result: Result, error: Exception | None = None) -> Outcome:
        return Outcome(self.change, result, self.number, self.generation, error)


def _run_attempts(client: PlacementClient, attempt: _Attempt, edit: Edit, stop: threading.Event) -> Outcome:
    while attempt.change.facets:
        if stop.is_set():
            return attempt.end(Result.SKIPPED)
        attempt.number += 1
        try:
            for generation in write_change(client, attempt.change):
                attempt.generation = generation
            return attempt.end(Result.APPLIED)
        except Conflict as conflict:
            if not conflict.concurrent_update or attempt.number == MAX_ATTEMPTS:
                raise
        pause_after_conflict(attempt.number, stop)
        attempt.change = plan_change(edit, *read_state(client, attempt.change.provider, edit.facets))
    return attempt.end(Result.UNCHANGED if attempt.generation is None else Result.APPLIED)


def write_change(client: PlacementClient, change: Change) -> Iterator[int]:
    """Write each facet that differs; yield the provider's generation after each."""
    generation = change.provider.generation
    for facet in change.facets:
        value = getattr(change.after, facet)
        document = _WRITERS[facet](client, change.provider.uuid, value, generation)
        generation = document.get("resource_provider_generation", generation)
        yield generation


def _write_inventories(
    client: PlacementClient, uuid: str, value: Mapping[str, Any], generation: int
) -> Document:
    inventories = {name: inventory.to_json() for name, inventory in value.items()}
    return client.set_inventories(uuid, inventories, generation)


def _write_traits(client: PlacementClient, uuid: str, value: frozenset[str], generation: int) -> Document:
    return client.set_provider_traits(uuid, sorted(value), generation)


def _write_aggregates(client: PlacementClient, uuid: str, value: frozenset[str], generation: int) -> Document:
    return client.set_provider_aggregates(uuid, sorted(value), generation)


_WRITERS: Final[Mapping[Facet, Callable[[PlacementClient, str, Any, int], Document]]] = {
    "inventories": _write_inventories,
    "traits": _write_traits,
    "aggregates": _write_aggregates,
}


def pause_after_conflict(attempt: int, stop: threading.Event) -> None:
    """Wait longer after every attempt, and at random, so that writers in step fall out of it."""
    longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**attempt)
    stop.wait(random.uniform(longest / 2, longest))
