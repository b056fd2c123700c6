# SPDX-License-Identifier: Apache-2.0
"""The changes of an apply that the server would refuse, found before anything is written. Pure.

The plan is judged by the state that it leads to. A change that is refused is not made, so the state is
another one without it, and the others are judged again: what depends on a refused change is refused too, and
the rest can be made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from osc_placement.api.consumer import Consumer
from osc_placement.batch.advice import advise
from osc_placement.batch.capacity import Excess, InUse
from osc_placement.batch.device import ONE_TIME_USE
from osc_placement.batch.facets import ABSENT, read_identity
from osc_placement.batch.plan import Change, CustomName, Plan
from osc_placement.batch.repeat import StateEdit
from osc_placement.batch.stages import find_temporary_inventories
from osc_placement.errors import PlacementError
from osc_placement.model import Inventory, Provider
from osc_placement.terminal.lines import list_names

#: how many names a refusal has
_EXAMPLES: Final = 3


class WouldFail(PlacementError):
    """The server would refuse a change."""


class LeftOut(WouldFail):
    """A file does not name a provider, or a class of its inventories, from which something is allocated."""

    def __init__(self, change: Change, in_use: InUse) -> None:
        does = "does not name it, and --prune deletes what it does not name"
        if change.after.identity != ABSENT:
            classes = " and ".join(each.resource_class for each in in_use.excesses)
            does = f"names its inventories without {classes}, and so removes what it does not name"
        super().__init__(f"in use: {in_use.told} allocated; the file {does}: name there what is to stay")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The state of the server that a plan is checked against.

    :ivar providers: all providers, by UUID
    :ivar inventories: by UUID, of the providers of which the plan changes allocations; of all, if it deletes
        resource classes
    :ivar traits: by UUID, of all providers, if the plan deletes traits
    :ivar usages: by UUID, of the providers that the plan deletes, leaves less, or allocates from
    """

    providers: Mapping[str, Provider] = field(default_factory=dict)
    inventories: Mapping[str, Mapping[str, Inventory]] = field(default_factory=dict)
    traits: Mapping[str, frozenset[str]] = field(default_factory=dict)
    usages: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def judge(plan: Plan, now: Surroundings, *, allow_overcommitted: bool = False) -> Plan:
    """Return the plan with warnings, and with what the server would refuse or would be overcommitted."""
    while True:
        after = _After(plan, now)
        refused = {**plan.refused, **dict(after.find_refusals())}
        judged = advise(replace(plan, refused=refused), now.usages, allow_overcommitted=allow_overcommitted)
        if isinstance(plan.edit, StateEdit):
            judged = replace(judged, refused=dict(_explain_left_out(judged)))
        if len(judged.refused) == len(plan.refused):
            return replace(judged, warnings=(*judged.warnings, *_warn_of_overfull(judged)))
        # a warning may be about a change that is refused by now
        plan = replace(judged, warnings=plan.warnings)


def _explain_left_out(plan: Plan) -> Iterator[tuple[str, Exception]]:
    """Yield the refusals of an apply: where something in use would go, as it is the file that removes it."""
    changes = {step.uuid: step for step in plan.steps}
    for uuid, reason in plan.refused.items():
        yield uuid, LeftOut(changes[uuid], reason) if isinstance(reason, InUse) else reason


def _warn_of_overfull(plan: Plan) -> Iterator[str]:
    """Warn of providers that are created with less capacity than their consumers hold.

    A one-time-use device that is in use is no such provider: nova-compute reserves what the instance has.
    """
    changes = plan.changes
    temporary = find_temporary_inventories(changes)
    created = [change for change in changes if change.uuid in temporary]
    used: dict[str, Counter[str]] = {}
    for change in changes if created else ():
        if isinstance(change.subject, Consumer):
            for uuid, amounts in (change.after.allocations or {}).items():
                used.setdefault(uuid, Counter()).update(amounts)
    for change in created:
        if ONE_TIME_USE in (change.after.traits or ()):
            continue
        inventories = change.after.inventories or {}
        excesses = [
            str(Excess(name, used[change.uuid][name], max(0, each.capacity)))
            for name, each in inventories.items()
            if not each.has_room(0, used[change.uuid][name])
        ]
        if excesses:
            yield f"{change.subject.name}: {'; '.join(excesses)}"


class _After:
    """The state of the server when all changes are made that are not refused."""

    def __init__(self, plan: Plan, now: Surroundings) -> None:
        self._now = now
        self._changes = plan.changes
        self._by_uuid = {change.uuid: change for change in self._changes}
        self._created = {change.uuid for change in self._changes if change.is_new}
        #: of the providers that are not created, because that is refused
        self._missing = {change.uuid: change.subject.name for change in plan.unreached}
        #: name and parent of each provider that exists
        self._identities = {
            uuid: (provider.name, provider.parent_provider_uuid or None)
            for uuid, provider in now.providers.items()
        }
        for change in self._changes_of(Provider):
            if change.after.identity:
                name, parent = read_identity(change.after.identity)
                self._identities[change.uuid] = (name or "", parent)
            elif change.after.identity == ABSENT:  # None: it stays as it is
                self._identities.pop(change.uuid, None)

    def _changes_of(self, kind: type) -> list[Change]:
        return [change for change in self._changes if isinstance(change.subject, kind)]

    def find_refusals(self) -> Iterator[tuple[str, PlacementError]]:
        """Yield the UUID of each change that the server would refuse, and why."""
        changes = self._changes_of(Provider)
        created = [change for change in changes if change.after.identity and "identity" in change.facets]
        deleted = [change for change in changes if change.after.identity == ABSENT]
        holders: dict[str, list[str]] = {}
        children: dict[str | None, list[str]] = {}
        for uuid, (name, parent) in self._identities.items():
            holders.setdefault(name, []).append(uuid)
            children.setdefault(parent, []).append(name)
        for change in created:
            name, _ = self._identities[change.uuid]
            others = [uuid for uuid in holders[name] if uuid != change.uuid]
            if others:
                yield change.uuid, WouldFail(f"resource provider {others[0]} keeps the name {name}")
        for change in created:
            _, parent = self._identities[change.uuid]
            if parent is not None and parent not in self._identities:
                yield change.uuid, WouldFail(f"its parent {self._missing.get(parent, parent)} is not there")
            elif parent is not None and self._is_in_circle(change.uuid):
                name, _ = self._identities[parent]
                yield change.uuid, WouldFail(f"it would be below itself, as its parent {name} is below it")
        for change in deleted:
            if below := children.get(change.uuid):
                yield (
                    change.uuid,
                    WouldFail(
                        f"it has children that stay: {list_names(sorted(below), _EXAMPLES)}; move or delete "
                        "these first"
                    ),
                )
        yield from self._find_names_in_use()
        yield from self._find_claims_too_large()

    def _is_in_circle(self, uuid: str) -> bool:
        seen = set()
        above = self._parent_of(uuid)
        while above is not None and above not in seen:
            if above == uuid:
                return True
            seen.add(above)
            above = self._parent_of(above)
        return False

    def _parent_of(self, uuid: str) -> str | None:
        return self._identities[uuid][1] if uuid in self._identities else None

    def _find_names_in_use(self) -> Iterator[tuple[str, PlacementError]]:
        """Find resource classes and traits that are deleted while providers have them."""
        deleted = [change for change in self._changes_of(CustomName) if not change.after.identity]
        holders: dict[str, list[str]] = {change.uuid: [] for change in deleted}
        if not holders:
            return
        for uuid, (provider, _) in self._identities.items():
            change = self._by_uuid.get(uuid)
            traits = change.after.traits if change else None
            if traits is None:
                traits = self._now.traits.get(uuid, frozenset())
            had = {f"resource class {name}" for name in self._inventories_of(uuid)}
            for name in holders.keys() & had.union(f"trait {name}" for name in traits):
                holders[name].append(provider)
        for change in deleted:
            if providers := holders[change.uuid]:
                yield (
                    change.uuid,
                    WouldFail(f"resource providers have it: {list_names(sorted(providers), _EXAMPLES)}"),
                )

    def _inventories_of(self, uuid: str) -> Mapping[str, Inventory]:
        change = self._by_uuid.get(uuid)
        if change is not None and change.after.inventories is not None:
            return change.after.inventories
        return self._now.inventories.get(uuid, {})

    def _find_claims_too_large(self) -> Iterator[tuple[str, PlacementError]]:
        """Find consumers whose allocations do not fit, in the order of the plan."""
        changes = self._changes_of(Consumer)
        used = {uuid: Counter(amounts) for uuid, amounts in self._now.usages.items()}
        for change in changes:
            for uuid, amounts in (change.before.allocations or {}).items():
                used.setdefault(uuid, Counter()).subtract(amounts)
        for change in changes:
            reasons = [
                reason
                for uuid, amounts in (change.after.allocations or {}).items()
                for name, amount in amounts.items()
                if (reason := self._find_misfit(change, uuid, name, amount, used))
            ]
            if reasons:
                yield change.uuid, WouldFail("; ".join(dict.fromkeys(reasons)))
            held = change.before if reasons else change.after
            for uuid, amounts in (held.allocations or {}).items():
                used.setdefault(uuid, Counter()).update(amounts)

    def _find_misfit(
        self, change: Change, uuid: str, name: str, amount: int, used: Mapping[str, Mapping[str, int]]
    ) -> str:
        """Return why an amount cannot be allocated from a provider; nothing if it can."""
        if uuid not in self._identities:
            return f"{self._missing.get(uuid, f'resource provider {uuid}')} is not there"
        provider, _ = self._identities[uuid]
        inventory = self._inventories_of(uuid).get(name)
        if inventory is None:
            return f"{provider} has no inventory of {name}"
        if uuid in self._created:
            return ""  # it is created with room for what it has according to the file
        if not inventory.fits_unit(amount):
            return (
                f"{provider} gives {inventory.min_unit} to {inventory.max_unit} {name} in steps of "
                f"{inventory.step_size}, not {amount}"
            )
        others = used.get(uuid, {}).get(name, 0)
        # what is allocated already stays so, whatever the capacity
        is_more = amount > (change.before.allocations or {}).get(uuid, {}).get(name, 0)
        if is_more and not inventory.has_room(amount, others):
            return f"{provider} has {inventory.capacity - others} {name} free, not {amount}"
        return ""
