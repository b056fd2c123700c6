# SPDX-License-Identifier: Apache-2.0
"""The traits that nova-compute reports, and the rule that they are not dropped unless they are named. Pure.

By the source of nova 34: the resource tracker and the drivers' capabilities give the root provider
``OWNER_NOVA``, ``COMPUTE_NODE`` and other ``COMPUTE_*`` traits, ``COMPUTE_STATUS_DISABLED`` among them; the
drivers add ``HW_CPU_*`` and ``HW_ARCH_*``. Providers of PCI devices have what their device_spec names, and
``HW_PCI_ONE_TIME_USE``. A custom trait may come from an operator as well as from device_spec, provider.yaml
or a bare metal node, which its name does not tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from osc_placement.batch.facets import ABSENT
from osc_placement.batch.membership import TraitEdit
from osc_placement.batch.plan import Change, Plan
from osc_placement.batch.repeat import StateEdit
from osc_placement.errors import PlacementError
from osc_placement.model import OWNER_NOVA
from osc_placement.terminal.lines import count_providers, list_names

_MANAGED: Final = ("COMPUTE_", "HW_")
#: names that a message lists
_MOST_NAMES: Final = 8


def find_managed(traits: Iterable[str]) -> frozenset[str]:
    """Return those of some traits that nova-compute reports, by their names."""
    return frozenset(trait for trait in traits if trait == OWNER_NOVA or trait.startswith(_MANAGED))


def find_dropped(change: Change) -> frozenset[str]:
    """Return the traits that nova-compute reports and a provider loses; none if the provider is deleted."""
    if change.after.identity == ABSENT:
        return frozenset()
    return find_managed((change.before.traits or frozenset()) - (change.after.traits or frozenset()))


class DropsManaged(PlacementError):
    """A change that was planned again would drop traits that nova-compute reports."""

    error_code = "drops_managed"

    def __init__(self, dropped: Iterable[str]) -> None:
        self.dropped = frozenset(dropped)
        super().__init__(
            f"it would lose {list_names(sorted(dropped), _MOST_NAMES)}, which nova-compute reports; "
            "--force does it all the same"
        )


def describe_dropped(changes: Iterable[Change]) -> str:
    """Return how many providers, one of them, and which of their traits are lost; or an empty text."""
    losses = {change.subject.name: dropped for change in changes if (dropped := find_dropped(change))}
    if not losses:
        return ""
    told = list_counts(Counter(trait for dropped in losses.values() for trait in dropped))
    first = min(losses)
    who = f"{first} loses" if len(losses) == 1 else f"{count_providers(len(losses))}, such as {first}, lose"
    return f"{who} traits that nova-compute reports: {told}"


def guard_managed(plan: Plan) -> Plan:
    """Return the plan that keeps traits that nova-compute reports, where its edit replaces traits.

    Nothing of a plan that drops some may be written, unless its policy allows that. Of one that goes on, or
    is made again after a conflict, the changes that drop some are refused.
    """
    edit = plan.edit
    if not (edit.verb == "set" if isinstance(edit, TraitEdit) else isinstance(edit, StateEdit)):
        return replace(plan, policy=replace(plan.policy, keeps_managed=False))
    keeps = plan.policy.keeps_managed
    if plan.goes_on:
        found = {step.uuid: find_dropped(step) for step in plan.changes if keeps}
        refused = {uuid: DropsManaged(dropped) for uuid, dropped in found.items() if dropped}
        return replace(plan, refused={**plan.refused, **refused})
    if not (told := describe_dropped(plan.changes)):
        return plan
    remedy = f"{told}; name those that are to stay as well, or give --force"
    warnings = (*plan.warnings, warn_of_dropped(told, keeps=keeps))
    return replace(plan, warnings=warnings, objection=remedy if keeps else "")


def warn_of_dropped(told: str, *, keeps: bool) -> str:
    """Return the warning about what `describe_dropped` told.

    :param keeps: whether nothing is written for that
    """
    return f"{told}{'; without --force nothing is written' if keeps else ''}"


def list_counts(counts: Counter[str]) -> str:
    """Return names with their numbers, the most frequent first; many are cut."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return list_names([f"{name} ({number:,})" for name, number in ordered], _MOST_NAMES)
