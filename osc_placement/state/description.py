# SPDX-License-Identifier: Apache-2.0
"""A text that describes an ApplyPlan. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from osc_placement.batch.difference import describe_difference
from osc_placement.state.plan import ApplyPlan, ConsumerStep, Leftover, ProviderStep


def describe_plan(plan: ApplyPlan) -> Iterator[str]:
    """Yield a line for each change: ``+`` for what is added, ``-`` for what goes, ``~`` for what changes."""
    for name in plan.resource_classes:
        yield f"+ resource class {name}"
    for name in plan.traits:
        yield f"+ trait {name}"
    for level in plan.levels:
        for step in level:
            yield from _describe_provider(step)
    for consumer in plan.consumers:
        yield from _describe_consumer(consumer)
    yield from describe_leftover(plan.leftover)


def describe_leftover(leftover: Leftover) -> Iterator[str]:
    """Yield a line for each thing that would be deleted."""
    yield from (f"- allocations of {consumer.uuid}" for consumer in leftover.consumers)
    for gone in leftover.levels:
        ordered = sorted(gone, key=lambda provider: (provider.name, provider.uuid))
        yield from (f"- resource provider {provider.name} ({provider.uuid})" for provider in ordered)
    yield from (f"- resource class {name}" for name in leftover.resource_classes)
    yield from (f"- trait {name}" for name in leftover.traits)


def _describe_provider(step: ProviderStep) -> Iterator[str]:
    entry = step.entry
    uuid = step.existing.uuid if step.existing else entry.uuid
    yield f"{'~' if step.existing else '+'} resource provider {entry.name}" + (f" ({uuid})" if uuid else "")
    if step.existing and step.is_renamed:
        yield f"    - name {step.existing.name}"
        yield f"    + name {entry.name}"
    if step.is_moved or (step.existing is None and isinstance(entry.parent, str)):
        yield f"    + parent {entry.parent}" if entry.parent else "    - parent"
    gone, come = describe_difference(step.change.before, step.change.after)
    yield from (f"    - {text}" for text in gone)
    yield from (f"    + {text}" for text in come)


def _describe_consumer(step: ConsumerStep) -> Iterator[str]:
    entry = step.entry
    yield f"{'~' if step.existing.allocations else '+'} allocations of {entry.uuid} (project {entry.project})"
    for provider, amounts in sorted(entry.resources.items()):
        yield f"    + {provider}: " + ", ".join(
            f"{name}={amount}" for name, amount in sorted(amounts.items())
        )
