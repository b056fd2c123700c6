# SPDX-License-Identifier: Apache-2.0
"""Warnings about a plan before it is carried out, and refusals for lack of capacity. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from osc_placement.api.consumer import Consumer
from osc_placement.batch.guards.capacity import Overcommitted, find_refusal
from osc_placement.batch.inventory import InventoryEdit, RatioEdit
from osc_placement.batch.plan import Plan
from osc_placement.errors import PlacementError
from osc_placement.model import Inventory, Provider, is_same_ratio
from osc_placement.terminal.lines import count_providers, list_names

#: the classes whose ratio nova-compute reports itself, and the options that make it do so
_NOVA_OPTIONS: Final = {
    "VCPU": "cpu_allocation_ratio",
    "MEMORY_MB": "ram_allocation_ratio",
    "DISK_GB": "disk_allocation_ratio",
}
_EXAMPLES: Final = 3


class ReservedAboveTotal(PlacementError):
    """A change would reserve more than the total, which no server accepts."""

    def __init__(self, inventories: Mapping[str, Inventory]) -> None:
        told = [
            f"{name} would have {inventory.reserved} reserved of a total of {inventory.total}"
            for name, inventory in inventories.items()
        ]
        super().__init__(f"{'; '.join(told)}; reserve at most the total")


def advise(plan: Plan, usages: Mapping[str, Mapping[str, int]]) -> Plan:
    """Return the plan with warnings, and with refusals for lack of capacity.

    A plan is judged by what is allocated after its own changes of allocations. What is in use is not removed
    even where a policy lets changes exceed the capacity.

    :param usages: by provider, of those that shrink at least
    """
    usages = _usages_after(plan, usages)
    found = {step.uuid: find_refusal(step, usages.get(step.uuid, {})) for step in plan.changes}
    impossible: dict[str, PlacementError] = {}
    for step in plan.changes:
        inventories = (step.after.inventories or {}).items()
        exceeded = {name: each for name, each in inventories if each.reserved > each.total}
        if exceeded:
            impossible[step.uuid] = ReservedAboveTotal(exceeded)
    allowed = {
        uuid: each
        for uuid, each in found.items()
        if plan.policy.capacity != "keep" and isinstance(each, Overcommitted) and uuid not in impossible
    }
    refused = {uuid: each for uuid, each in found.items() if each is not None and uuid not in allowed}
    # those about single providers last: a terminal shows the first
    warnings = [
        *_warn_of_ratios(plan),
        *_warn_of_additions(plan),
        *(
            f"{each.name}: {excess}"
            for each in allowed.values()
            for excess in each.excesses
            if plan.policy.capacity == "exceed"
        ),
    ]
    return replace(
        plan,
        refused={**plan.refused, **refused, **impossible},
        warnings=tuple(dict.fromkeys((*plan.warnings, *warnings))),
    )


def _warn_of_additions(plan: Plan) -> Iterator[str]:
    """Warn of classes that some of the providers have and that a total adds to the others.

    Not where a run is resumed: it may have added them itself.
    """
    if plan.goes_on or not isinstance(plan.edit, InventoryEdit):
        return
    steps = [step for step in plan.steps if step.before.inventories is not None]
    for name, fields in plan.edit.fields.items():
        lacking = sum(name not in (step.before.inventories or ()) for step in steps)
        if "total" in fields and 0 < lacking < len(steps):
            of_all = f"of {len(steps):,} {'has' if lacking == 1 else 'have'}"
            yield (
                f"{count_providers(lacking)} {of_all} no inventory of {name} and would get one with "
                f"{name}:total={fields['total']}"
            )


def _usages_after(plan: Plan, usages: Mapping[str, Mapping[str, int]]) -> Mapping[str, Mapping[str, int]]:
    """Return the usages of providers when the allocations that a plan changes are changed."""
    left = {uuid: Counter(amounts) for uuid, amounts in usages.items()}
    for step in plan.changes:
        is_consumer = isinstance(step.subject, Consumer)
        for state, sign in ((step.before, -1), (step.after, 1)):
            for key, amounts in (state.allocations or {}).items():
                # those of a provider are by consumer
                if (uuid := key if is_consumer else step.uuid) in left:
                    left[uuid].update({name: sign * amount for name, amount in amounts.items()})
    return left


def _warn_of_ratios(plan: Plan) -> Iterator[str]:
    """Warn of ratios that nova-compute overwrites, that providers lack, and that differ by aggregate."""
    aggregates = plan.selection.aggregates if plan.selection and not plan.goes_on else ()
    classes: list[str] = []
    if isinstance(plan.edit, RatioEdit):
        classes = list(plan.edit.ratios)
    elif isinstance(plan.edit, InventoryEdit):
        classes = [name for name, fields in plan.edit.fields.items() if "allocation_ratio" in fields]
    options = " or ".join(_NOVA_OPTIONS[name] for name in classes if name in _NOVA_OPTIONS)
    if options and plan.changes and not plan.goes_on:
        yield f"nova-compute overwrites this where nova.conf sets {options}"
    for name in classes:
        lacking = [
            step.subject
            for step in plan.steps
            if isinstance(step.subject, Provider)
            and step.before.inventories is not None
            and name not in step.before.inventories
        ]
        # a single root without it shares its disks, as a rule
        if len(lacking) > 1 or any(each.parent_provider_uuid for each in lacking):
            told = list_names([each.name for each in lacking], _EXAMPLES)
            yield f"No inventory of {name} on {told} (nested providers may have it)"
    selected = {
        step.uuid: [each for each in aggregates if each in (step.before.aggregates or ())]
        for step in plan.steps
    }
    for name in classes if len(aggregates) > 1 else ():
        # the ratio that the providers have in common that are in one of the selected aggregates only
        ratios: dict[str, float] = {}
        for aggregate in aggregates:
            found = [
                inventory.allocation_ratio
                for step in plan.steps
                if selected[step.uuid] == [aggregate]
                and (inventory := (step.before.inventories or {}).get(name)) is not None
            ]
            if found and all(is_same_ratio(found[0], ratio) for ratio in found):
                ratios[aggregate] = found[0]
        for step in plan.steps:
            mine = {each: ratios[each] for each in selected[step.uuid] if each in ratios}
            values = list(mine.values())
            if any(not is_same_ratio(values[0], value) for value in values[1:]):
                told = ", ".join(f"{ratio} in {aggregate}" for aggregate, ratio in mine.items())
                yield (
                    f"{step.subject.name} is in aggregates that have different ratios of {name} now: {told}; "
                    "the one given here will hold for all of them"
                )
