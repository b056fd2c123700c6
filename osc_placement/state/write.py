# SPDX-License-Identifier: Apache-2.0
"""Carry out an ApplyPlan: all writes of apply.

In stages: classes and traits, then the providers level by level, then allocations. The things of one stage do
not need each other, so they are done side by side; a stage in which something failed is the last one.
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
#: what was tried without success, as far as that is known
_FAILED: Final = ("failed", "unknown")


@dataclass(frozen=True, slots=True)
class Deed:
    """How one thing ended."""

    kind: Kind
    name: str
    done: Done
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class ApplyReport:
    """How everything that the plan names ended."""

    plan: ApplyPlan
    deeds: tuple[Deed, ...]

    @property
    def failures(self) -> tuple[Deed, ...]:
        """What failed, or may have failed, each with its error."""
        return tuple(deed for deed in self.deeds if deed.done in _FAILED)

    def count(self, kind: Kind) -> Counter[str]:
        """How many things of a kind ended how."""
        return Counter(deed.done for deed in self.deeds if deed.kind == kind)

    @property
    def exit_status(self) -> int:
        """What a process should end with that did this and nothing else."""
        if self.failures:
            return EXIT_PARTIAL
        return EXIT_INTERRUPTED if any(deed.done == "skipped" for deed in self.deeds) else EXIT_DONE


@dataclass(frozen=True, slots=True)
class _Task:
    """One thing to do; ``run`` says what it did, or raises."""

    kind: Kind
    name: str
    run: Callable[[], Done]


def apply_plan(
    client: PlacementClient,
    plan: ApplyPlan,
    *,
    concurrency: int = CONCURRENCY,
    on_deed: Callable[[Deed], None] | None = None,
    stop: threading.Event | None = None,
) -> ApplyReport:
    """Do what the plan says; raise VersionTooLow before the first write if the API version in use cannot.

    ``on_deed`` is called in the caller's thread as things are done; set ``stop`` to finish what is under way,
    whole providers, and skip the rest.
    """
    _require_versions(client, plan)
    client.allow_concurrency(concurrency)
    writer = _Writer(client, dict(plan.uuids), stop or threading.Event())
    deeds: list[Deed] = []
    for stage in writer.plan_stages(plan):
        if any(deed.done in _FAILED for deed in deeds):
            writer.stop.set()
        deeds += map_in_order(writer.run, stage, threads=concurrency, on_result=on_deed)
    return ApplyReport(plan, tuple(deeds))


def _require_versions(client: PlacementClient, plan: ApplyPlan) -> None:
    moves = [step for level in plan.levels for step in level if step.is_moved and step.existing]
    if any(step.existing and step.existing.parent_provider_uuid for step in moves):
        client.require(microversion.REPARENTING, "parent")
    if any(step.entry.type is not None for step in plan.consumers):
        client.require(microversion.CONSUMER_TYPES, "type")


class _Writer:
    """What the stages share: the UUIDs of providers by name, which grow as providers are created."""

    def __init__(self, client: PlacementClient, uuids: dict[str, str], stop: threading.Event) -> None:
        self._client = client
        self._uuids = uuids
        self.stop = stop

    def plan_stages(self, plan: ApplyPlan) -> Iterator[list[_Task]]:
        """Give the tasks of each stage."""
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

    def run(self, task: _Task) -> Deed:
        """Do one task; raises nothing."""
        if self.stop.is_set():
            return Deed(task.kind, task.name, "skipped")
        try:
            return Deed(task.kind, task.name, task.run())
        except Exception as error:  # whatever it is, it is about this thing only
            LOG.debug("%s %s failed", task.kind, task.name, exc_info=True)
            if is_outcome_unknown(error):
                return Deed(task.kind, task.name, "unknown", OutcomeUnknown(error))
            return Deed(task.kind, task.name, "failed", error)

    def _delete(self, delete: Callable[[str], None], what: str) -> Done:
        with suppress(NotFound):  # somebody else was faster
            delete(what)
        return "deleted"

    def _set_aside(self, provider: Provider) -> Done:
        """Give up a name that another provider is to get; the own new one comes later, or the end."""
        self._client.update_provider(provider.uuid, f"renaming-{provider.uuid}")
        return "updated"

    def _create_class(self, name: str) -> Done:
        self._client.ensure_resource_class(name)
        return "created"

    def _create_trait(self, name: str) -> Done:
        self._client.create_trait(name)
        return "created"

    def _write_provider(self, step: ProviderStep) -> Done:
        """Create or move the provider, then write what it holds, which `stop` does not prevent any more."""
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
        """Replace the allocations; when somebody else was faster, with the generation of now."""
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
