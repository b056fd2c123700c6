# SPDX-License-Identifier: Apache-2.0
"""A text that describes an ApplyPlan. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from osc_placement.batch.difference import describe_difference
from osc_placement.state.plan import ApplyPlan, ConsumerStep, Leftover, ProviderStep


def describe_plan(plan: ApplyPlan, most: int | None = None) -> Iterator[str]:
    """Yield a line for each change: ``+`` for what is added, ``-`` for what goes, ``~`` for what changes.

    :param most: how many lines are few; if there are more, resource providers with the same change, and
        consumers with the same change, are described once, with their number
    """
    lines = [*_describe(plan)]
    yield from lines if most is None or len(lines) <= most else _describe(plan, is_grouped=True)


def _describe(plan: ApplyPlan, *, is_grouped: bool = False) -> Iterator[str]:
    for name in plan.resource_classes:
        yield f"+ resource class {name}"
    for name in plan.traits:
        yield f"+ trait {name}"
    providers = (_describe_provider(step) for level in plan.levels for step in level)
    consumers = map(_describe_consumer, plan.consumers)
    for changes in (providers, consumers):
        if is_grouped:
            yield from _describe_groups(changes)
        else:
            for heading, details in changes:
                yield heading
                yield from details
    yield from describe_leftover(plan.leftover)


def _describe_groups(changes: Iterable[tuple[str, list[str]]]) -> Iterator[str]:
    """Yield the lines of changes, the most frequent first; of those with the same details, those of one."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for heading, details in changes:
        groups.setdefault((heading[0], *details), []).append(heading)
    for (_, *details), (first, *others) in sorted(groups.items(), key=lambda group: -len(group[1])):
        yield f"{first} and {len(others):,} more" if others else first
        yield from details


def describe_leftover(leftover: Leftover) -> Iterator[str]:
    """Yield a line for each thing that would be deleted."""
    yield from (f"- allocations of {consumer.uuid}" for consumer in leftover.consumers)
    for gone in leftover.levels:
        ordered = sorted(gone, key=lambda provider: (provider.name, provider.uuid))
        yield from (f"- resource provider {provider.name} ({provider.uuid})" for provider in ordered)
    yield from (f"- resource class {name}" for name in leftover.resource_classes)
    yield from (f"- trait {name}" for name in leftover.traits)


def _describe_provider(step: ProviderStep) -> tuple[str, list[str]]:
    """Return the line that names a resource provider, and those of what changes."""
    entry = step.entry
    uuid = step.existing.uuid if step.existing else entry.uuid
    details = []
    if step.existing and step.is_renamed:
        details += [f"    - name {step.existing.name}", f"    + name {entry.name}"]
    if step.is_moved or (step.existing is None and isinstance(entry.parent, str)):
        details.append(f"    + parent {entry.parent}" if entry.parent else "    - parent")
    gone, come = describe_difference(step.change.before, step.change.after)
    details += [*(f"    - {text}" for text in gone), *(f"    + {text}" for text in come)]
    return f"{'~' if step.existing else '+'} resource provider {entry.name}" + (
        f" ({uuid})" if uuid else ""
    ), details


def _describe_consumer(step: ConsumerStep) -> tuple[str, list[str]]:
    """Return the line that names a consumer, and those of its allocations."""
    entry = step.entry
    details = [
        f"    + {provider}: " + ", ".join(f"{name}={amount}" for name, amount in sorted(amounts.items()))
        for provider, amounts in sorted(entry.resources.items())
    ]
    sign = "~" if step.existing.allocations else "+"
    return f"{sign} allocations of {entry.uuid} (project {entry.project})", details
