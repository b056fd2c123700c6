# SPDX-License-Identifier: Apache-2.0
"""A text that describes an ApplyPlan. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from osc_placement.batch import describe_difference
from osc_placement.report.summary import count_differences
from osc_placement.state.plan import ApplyPlan, ConsumerStep, Leftover, ProviderStep, plan_run


def describe_plan(plan: ApplyPlan, most: int | None = None) -> Iterator[str]:
    """Yield a line for each change: ``+`` for what is added, ``-`` for what goes, ``~`` for what changes.

    :param most: how many lines are few; if there are more, resource providers with the same change, and
        consumers with the same change, are described once, with their number. If these are still more, and
        differ in few ways, each difference is a line with its number
    """
    lines = [*_describe(plan)]
    yield from lines if most is None or len(lines) <= most else _describe(plan, few=most)


def _describe(plan: ApplyPlan, *, few: int | None = None) -> Iterator[str]:
    for name in plan.resource_classes:
        yield f"+ resource class {name}"
    for name in plan.traits:
        yield f"+ trait {name}"
    providers = [_describe_provider(step) for level in plan.levels for step in level]
    consumers = [_describe_consumer(step) for step in plan.consumers]
    if few is not None:
        groups = [
            *_describe_groups(providers, "{} {:,} resource providers, such as {}"),
            *_describe_groups(consumers, "{} allocations of {:,} consumers, such as {}"),
        ]
        steps = replace(plan, resource_classes=(), traits=(), leftover=Leftover())
        counts = count_differences(plan_run(steps, "").changes)
        are_counted = len(groups) > few and len(counts) < sum(not line.startswith(" ") for line in groups)
        yield from (f"{number:>9,}  {text}" for number, text in counts) if are_counted else groups
    else:
        for change in (*providers, *consumers):
            yield change.heading
            yield from change.details
    yield from describe_leftover(plan.leftover)


def _describe_groups(changes: Iterable[_Described], many: str) -> Iterator[str]:
    """Yield the lines of changes, the most frequent first; of those with the same details, those of one.

    :param many: the heading of several, with places for the sign, the number and a name
    """
    groups: dict[tuple[str, ...], list[_Described]] = {}
    for change in changes:
        groups.setdefault((change.sign, *change.details), []).append(change)
    for (sign, *details), group in sorted(groups.items(), key=lambda item: -len(item[1])):
        yield many.format(sign, len(group), group[0].name) if len(group) > 1 else group[0].heading
        yield from details


def describe_leftover(leftover: Leftover) -> Iterator[str]:
    """Yield a line for each thing that would be deleted."""
    yield from (f"- allocations of {consumer.uuid}" for consumer in leftover.consumers)
    for gone in leftover.levels:
        ordered = sorted(gone, key=lambda provider: (provider.name, provider.uuid))
        yield from (f"- resource provider {provider.name} ({provider.uuid})" for provider in ordered)
    yield from (f"- resource class {name}" for name in leftover.resource_classes)
    yield from (f"- trait {name}" for name in leftover.traits)


@dataclass(frozen=True, slots=True)
class _Described:
    """The text of the change of a provider or consumer.

    :ivar sign: ``+`` if it is created, ``~`` if it changes
    :ivar kind: the words before its name
    :ivar details: a line for each part that changes
    :ivar more: what else the first line says
    """

    sign: str
    kind: str
    name: str
    details: Sequence[str]
    more: str = ""

    @property
    def heading(self) -> str:
        """Return the first line."""
        return f"{self.sign} {self.kind} {self.name}{f' ({self.more})' if self.more else ''}"


def _describe_provider(step: ProviderStep) -> _Described:
    entry = step.entry
    details = []
    if step.existing and step.is_renamed:
        details += [f"    - name {step.existing.name}", f"    + name {entry.name}"]
    if step.is_moved or (step.existing is None and isinstance(entry.parent, str)):
        details.append(f"    + parent {entry.parent}" if entry.parent else "    - parent")
    gone, come = describe_difference(step.change.before, step.change.after)
    details += [*(f"    - {text}" for text in gone), *(f"    + {text}" for text in come)]
    uuid = step.existing.uuid if step.existing else entry.uuid
    return _Described("~" if step.existing else "+", "resource provider", entry.name, details, uuid or "")


def _describe_consumer(step: ConsumerStep) -> _Described:
    entry = step.entry
    details = [
        f"    + {provider}: " + ", ".join(f"{name}={amount}" for name, amount in sorted(amounts.items()))
        for provider, amounts in sorted(entry.resources.items())
    ]
    sign = "~" if step.existing.allocations else "+"
    return _Described(sign, "allocations of", entry.uuid, details, f"project {entry.project}")
