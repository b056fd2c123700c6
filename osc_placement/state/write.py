# SPDX-License-Identifier: Apache-2.0
"""The execution of an ApplyPlan: all writes of apply.

It is done in stages: classes and traits, then the providers level by level, then allocations. The things of
one stage do not depend on each other and are written concurrently; no stage follows one in which something
failed.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

from osc_placement import microversion
from osc_placement.api.client import Document, PlacementClient
from osc_placement.api.concurrency import CONCURRENCY, map_in_order
from osc_placement.api.consumer import Consumer, describe_consumers
from osc_placement.api.retry import retry
from osc_placement.batch.execute import run_change
from osc_placement.batch.plan import EXIT_DONE, EXIT_INTERRUPTED, EXIT_PARTIAL
from osc_placement.errors import NotFound, OutcomeUnknown, is_outcome_unknown
from osc_placement.model import Provider
from osc_placement.state.plan import ApplyPlan, ConsumerStep, Kind, ProviderEdit, ProviderStep

LOG = logging.getLogger(__name__)

Done = Literal["created", "updated", "deleted", "failed", "unknown", "skipped"]
#: results of things that were tried and are not known to have succeeded
_FAILED: Final = ("failed", "unknown")


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of one step."""

    kind: Kind
    name: str
    done: Done
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class ApplyReport:
    """The results of all steps of a plan."""

    plan: ApplyPlan
    results: tuple[StepResult, ...]

    @property
    def failures(self) -> tuple[StepResult, ...]:
        """Return the results of steps that failed, or may have failed, each with its error."""
        return tuple(result for result in self.results if result.done in _FAILED)

    def count(self, kind: Kind) -> Counter[str]:
        """Count the results of a kind of thing."""
        return Counter(result.done for result in self.results if result.kind == kind)

    @property
    def exit_status(self) -> int:
        """Return the exit status for a process that did only this."""
        if self.failures:
            return EXIT_PARTIAL
        return EXIT_INTERRUPTED if any(result.done == "skipped" for result in self.results) else EXIT_DONE


@dataclass(frozen=True, slots=True)
class _Task:
    """One step to do; ``run`` returns its result, or raises."""

    kind: Kind
    name: str
    run: Callable[[], Done]


def apply_plan(
    client: PlacementClient,
    plan: ApplyPlan,
    *,
    concurrency: int = CONCURRENCY,
    on_result: Callable[[StepResult], None] | None = None,
    stop: threading.Event | None = None,
) -> ApplyReport:
    """Carry out the plan; raise VersionTooLow before the first write if the API version in use is too low.

    ``on_result`` is called in the caller's thread after each step. Set ``stop`` to finish the providers in
    progress and skip the rest.
    """
    _require_versions(client, plan)
    client.allow_concurrency(concurrency)
    writer = _Writer(client, dict(plan.uuids), stop or threading.Event())
    results: list[StepResult] = []
    for stage in writer.plan_stages(plan):
        if any(result.done in _FAILED for result in results):
            writer.stop.set()
        results += map_in_order(writer.run, stage, threads=concurrency, on_result=on_result)
    return ApplyReport(plan, tuple(results))


def _require_versions(client: PlacementClient, plan: ApplyPlan) -> None:
    moves = [step for level in plan.levels for step in level if step.is_moved and step.existing]
    if any(step.existing and step.existing.parent_provider_uuid for step in moves):
        client.require(microversion.REPARENTING, "parent")
    if any(step.entry.type is not None for step in plan.consumers):
        client.require(microversion.CONSUMER_TYPES, "type")


class _Writer:
    """The writer of all stages; it knows the UUIDs of providers by name, including those it has created."""

    def __init__(self, client: PlacementClient, uuids: dict[str, str], stop: threading.Event) -> None:
        self._client = client
        self._uuids = uuids
        self.stop = stop

    def plan_stages(self, plan: ApplyPlan) -> Iterator[list[_Task]]:
        """Yield the tasks of each stage."""
        leftover = plan.leftover
        yield [
            *(
                _Task("temporary name", provider.name, partial(self._set_aside, provider))
                for provider in plan.set_aside
            ),
            *(
                _Task("consumer", uuid, partial(self._delete, self._client.delete_allocations, uuid))
                for uuid in leftover.consumers
            ),
        ]
        yield [
            *(
                _Task("resource class", name, partial(self._create_class, name))
                for name in plan.resource_classes
            ),
            *(_Task("trait", name, partial(self._create_trait, name)) for name in plan.traits),
        ]
        for level in plan.levels:
            yield [
                _Task("resource provider", step.entry.name, partial(self._write_provider, step))
                for step in level
            ]
        yield [
            _Task("consumer", step.entry.uuid, partial(self._write_consumer, step)) for step in plan.consumers
        ]
        for gone in leftover.levels:
            yield [
                _Task(
                    "resource provider",
                    provider.name,
                    partial(self._delete, self._client.delete_provider, provider.uuid),
                )
                for provider in gone
            ]
        yield [
            *(
                _Task("resource class", name, partial(self._delete, self._client.delete_resource_class, name))
                for name in leftover.resource_classes
            ),
            *(
                _Task("trait", name, partial(self._delete, self._client.delete_trait, name))
                for name in leftover.traits
            ),
        ]

    def run(self, task: _Task) -> StepResult:
        """Do one task and return its result; never raise."""
        if self.stop.is_set():
            return StepResult(task.kind, task.name, "skipped")
        try:
            return StepResult(task.kind, task.name, task.run())
        except Exception as error:  # whatever the error is, it concerns this step only
            LOG.debug("%s %s failed", task.kind, task.name, exc_info=True)
            if is_outcome_unknown(error):
                return StepResult(task.kind, task.name, "unknown", OutcomeUnknown(error))
            return StepResult(task.kind, task.name, "failed", error)

    def _delete(self, delete: Callable[[str], None], what: str) -> Done:
        with suppress(NotFound):  # somebody else has deleted it
            delete(what)
        return "deleted"

    def _set_aside(self, provider: Provider) -> Done:
        """Give the provider a temporary name while another one takes its name; it is renamed or deleted
        later.
        """
        self._client.update_provider(provider.uuid, f"renaming-{provider.uuid}")
        return "updated"

    def _create_class(self, name: str) -> Done:
        self._client.ensure_resource_class(name)
        return "created"

    def _create_trait(self, name: str) -> Done:
        self._client.create_trait(name)
        return "created"

    def _write_provider(self, step: ProviderStep) -> Done:
        """Create or move the provider, then write its contents, even if `stop` is set meanwhile."""
        change = step.change
        if step.existing is None:
            created = Provider.from_json(self._create_provider(step))
            self._uuids[step.entry.name] = created.uuid
            change = replace(change, subject=created)
        elif step.is_moved or step.is_renamed:
            self._update_provider(step, step.existing.uuid)
        outcome = run_change(self._client, change, ProviderEdit(step.entry))
        if outcome.error is not None:
            raise outcome.error
        return "updated" if step.existing else "created"

    def _create_provider(self, step: ProviderStep) -> Document:
        parent = self._uuids[step.entry.parent] if isinstance(step.entry.parent, str) else None
        return self._client.create_provider(step.entry.name, uuid=step.entry.uuid, parent=parent)

    def _update_provider(self, step: ProviderStep, uuid: str) -> None:
        parent = step.entry.parent if step.is_moved else ...
        if isinstance(parent, str):
            parent = self._uuids[parent]
        self._client.update_provider(uuid, step.entry.name, parent=parent)

    def _write_consumer(self, step: ConsumerStep) -> Done:
        """Replace the allocations; after a conflict, try again with the current generation."""
        entry = step.entry
        resources = {self._uuids[name]: amounts for name, amounts in entry.resources.items()}
        wanted = Consumer(entry.uuid, None, entry.project, entry.user, entry.type, resources)

        def write(attempt: int) -> None:
            existing = self._client.read_consumer(entry.uuid) if attempt > 1 else step.existing
            consumer = replace(wanted, generation=existing.generation)
            documents, version = describe_consumers([consumer], self._client.version)
            self._client.set_allocations(entry.uuid, documents[entry.uuid], version)

        retry(write, stop=self.stop)
        return "updated" if step.existing.allocations else "created"
