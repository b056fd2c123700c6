# SPDX-License-Identifier: Apache-2.0
"""Allocation ratios from the metadata of host aggregates to the inventories of their hosts.

Finds hosts in aggregates with ``cpu_allocation_ratio``, ``ram_allocation_ratio`` or
``disk_allocation_ratio``, which the scheduler's filters read until Ocata. Sets the ratio of the inventory; of
two aggregates that disagree the lower or higher counts if ``conflict`` says so, and neither otherwise. Never
touches anything else of an inventory, nor a class that the provider has no inventory of; nor leaves less than
is allocated, unless ``force``, nor nothing at all.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from osc_placement.batch import (
    Change,
    Edit,
    Plan,
    Policy,
    ProviderState,
    RatioEdit,
    Recorded,
    find_excesses,
    plan_change,
)
from osc_placement.migrate.migrations.base import Assessment, Context
from osc_placement.migrate.migrations.cloud import find_providers, name_node
from osc_placement.migrate.nova.facts import ComputeNode, HostAggregate
from osc_placement.migrate.nova.hosts import Hosts, find_strangers, read_hosts
from osc_placement.migrate.nova.shard import WHOLE, Shard
from osc_placement.migrate.problem import Problem, Reason
from osc_placement.model import MAX_RATIO, ProviderRecord, is_same_ratio

NAME: Final = "carry-ratios"
KEYS: Final[Mapping[str, str]] = {
    "cpu_allocation_ratio": "VCPU",
    "ram_allocation_ratio": "MEMORY_MB",
    "disk_allocation_ratio": "DISK_GB",
}
#: what nova-compute starts with where nothing is configured: then it leaves the ratio to placement
_INITIAL: Final[Mapping[str, tuple[float, ...]]] = {
    "VCPU": (0.0, 4.0, 16.0),
    "MEMORY_MB": (0.0, 1.0, 1.5),
    "DISK_GB": (0.0, 1.0),
}
_CHOICES: Final[Mapping[str, Callable[[Iterable[float]], float]]] = {"min": min, "max": max}


@dataclass(frozen=True, slots=True)
class CarryRatios:
    """The migration; ``hosts`` narrows it, empty means all."""

    hosts: frozenset[str] = frozenset()
    conflict: Literal["min", "max"] | None = None
    shard: Shard = WHOLE
    force: bool = False
    name: str = NAME

    def assess(self, context: Context) -> Assessment:
        """Read both sides and compare."""
        records = context.client.read_providers(
            want=("inventories", "usages"), concurrency=context.concurrency
        )
        aggregates = context.source.list_aggregates()
        hosts = read_hosts(context.source)
        return self.compare(aggregates, hosts, {record.provider.uuid: record for record in records})

    def compare(
        self, aggregates: Iterable[HostAggregate], hosts: Hosts, records: Mapping[str, ProviderRecord]
    ) -> Assessment:
        """Compare the metadata with the inventories, by UUID of the provider. Pure."""
        aggregates = list(aggregates)
        members = {host for aggregate in aggregates for host in aggregate.hosts}
        strangers = find_strangers(hosts, self.hosts, members)
        problems = strangers if self.hosts else list(hosts.problems)
        said = _collect(aggregates, problems)
        steps: list[Change] = []
        edits: dict[str, Edit] = {}
        for host in sorted(said):
            if not self.shard.has(host) or (self.hosts and host not in self.hosts):
                continue
            ratios = self._agree(host, said[host], problems)
            edit = RatioEdit(ratios)
            for node, record in find_providers(host, hosts, records, problems) if ratios else ():
                before = ProviderState(inventories=record.inventories or {})
                step = plan_change(edit, record.provider, before)
                step = replace(step, reason=_warn(node, record, ratios) or step.reason)
                usages = record.usages or {}
                if problem := self._object(host, step, usages):
                    problems.append(problem)
                    continue
                told = [str(excess) for excess in find_excesses(step, usages)]
                reason = "; ".join(filter(None, [*told, step.reason]))
                steps.append(replace(step, reason=reason) if told else step)
                edits[step.uuid] = edit
        title = Recorded("ratios of host aggregates", ("inventories",))
        policy = Policy("exceed" if self.force else "keep")
        return Assessment(Plan(title, tuple(steps), edits=edits, policy=policy), tuple(problems))

    def _object(self, host: str, step: Change, usages: Mapping[str, int]) -> Problem | None:
        """Return why the ratios of a host stay unchanged; None if they may change."""
        subject = name_node(host, step.subject.name)
        before, after = step.before.inventories or {}, step.after.inventories or {}
        for name, each in after.items():
            if each != before[name] and each.capacity < 1 <= each.total - each.reserved:
                text = f"with the ratio {each.allocation_ratio:g} of its aggregates it would have no {name}"
                return Problem(Reason.BAD_RATIO, subject, f"{text} at all")
        excesses = () if self.force else find_excesses(step, usages)
        told = "; ".join(map(str, excesses))
        text = f"{told}; placement-migrate carry-ratios --force sets it all the same"
        return Problem(Reason.OVER_CAPACITY, subject, text) if excesses else None

    def _agree(
        self, host: str, said: Mapping[str, Mapping[str, float]], problems: list[Problem]
    ) -> dict[str, float]:
        """Return the ratio of each class, and note a problem for each on which the aggregates disagree."""
        ratios = {}
        for resource, by_aggregate in said.items():
            values = set(by_aggregate.values())
            if len(values) == 1 or self.conflict:
                ratios[resource] = _CHOICES[self.conflict or "min"](values)
                continue
            names = ", ".join(f"{name} {value:g}" for name, value in sorted(by_aggregate.items()))
            text = (
                f"its aggregates disagree on the ratio of {resource}: {names}; --conflict min or max decides"
            )
            problems.append(Problem(Reason.CONFLICT, f"host {host}", text))
        return ratios


def _collect(
    aggregates: Iterable[HostAggregate], problems: list[Problem]
) -> dict[str, dict[str, dict[str, float]]]:
    """Return by host and class the ratio that each aggregate gives."""
    said: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for aggregate in aggregates:
        for key, resource in KEYS.items():
            text = aggregate.metadata.get(key)
            if text is None:
                continue
            try:
                ratio = float(text)
            except ValueError:
                ratio = math.nan
            if not 0 < ratio <= MAX_RATIO:
                reason = f"its {key} is {text!r}, which is no ratio"
                problems.append(Problem(Reason.BAD_RATIO, f"aggregate {aggregate.name}", reason))
                continue
            for host in aggregate.hosts:
                said[host][resource][aggregate.name] = ratio
    return said


def _warn(node: ComputeNode, record: ProviderRecord, ratios: Mapping[str, float]) -> str:
    """Say where the configuration of nova-compute will put the old ratio back, as far as that shows."""
    notes = []
    for resource, wanted in ratios.items():
        reported = node.ratios.get(resource)
        inventory = (record.inventories or {}).get(resource)
        if reported is None or inventory is None or reported in _INITIAL[resource]:
            continue
        is_in_force = is_same_ratio(inventory.allocation_ratio, reported)
        if is_in_force and not is_same_ratio(reported, wanted):
            notes.append(f"nova-compute seems to set {resource} to {reported:g}, and would again")
    return "; ".join(notes)
