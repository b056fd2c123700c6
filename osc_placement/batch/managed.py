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
from typing import TYPE_CHECKING, Final

from osc_placement.batch.facets import ABSENT
from osc_placement.batch.plan import Change, count_providers
from osc_placement.errors import PlacementError
from osc_placement.terminal.lines import list_names

if TYPE_CHECKING:
    from osc_placement.batch.plan import Plan

_MANAGED: Final = ("COMPUTE_", "HW_")
#: the trait of every provider that nova-compute reports
OWNER_NOVA: Final = "OWNER_NOVA"
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
            "--yes-drop-managed does it all the same"
        )


def require_managed(change: Change) -> None:
    """Raise DropsManaged if a change drops traits that nova-compute reports."""
    dropped = find_dropped(change)
    if dropped:
        raise DropsManaged(dropped)


def describe_dropped(changes: Iterable[Change]) -> str:
    """Return how many providers, one of them, and which of their traits are lost; or an empty text."""
    losses = {change.subject.name: dropped for change in changes if (dropped := find_dropped(change))}
    if not losses:
        return ""
    told = list_counts(Counter(trait for dropped in losses.values() for trait in dropped))
    first = min(losses)
    who = f"{first} loses" if len(losses) == 1 else f"{count_providers(len(losses))}, such as {first}, lose"
    return f"{who} traits that nova-compute reports: {told}"


def is_refused(plan: Plan) -> bool:
    """Return whether a plan drops traits that nova-compute reports, and must not."""
    return plan.keeps_managed and any(map(find_dropped, plan.changes))


def refuse_dropped(plan: Plan) -> None:
    """Raise PlacementError if a plan drops traits that nova-compute reports, and must not."""
    if is_refused(plan):
        told = describe_dropped(plan.changes)
        raise PlacementError(
            f"Nothing was changed: {told}; name those that are to stay as well, or plan again with "
            "--yes-drop-managed"
        )


def list_counts(counts: Counter[str]) -> str:
    """Return names with their numbers, the most frequent first; many are cut."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return list_names([f"{name} ({number:,})" for name, number in ordered], _MOST_NAMES)
