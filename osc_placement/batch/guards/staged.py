# SPDX-License-Identifier: Apache-2.0
"""The changes of a staged plan that the server would refuse, found before anything is written.

The plan is judged by the state that it leads to. A change that is refused is not made, so the state is
another one without it, and the others are judged again: what depends on a refused change is refused too, and
the rest can be made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from osc_placement.api.concurrency import CONCURRENCY
from osc_placement.api.consumer import Consumer
from osc_placement.batch.facets import ABSENT, Facet, ProviderState, read_identity
from osc_placement.batch.guards.advice import advise
from osc_placement.batch.guards.capacity import Excess, is_shrinking
from osc_placement.batch.plan import Change, CustomName, Gone, Plan, Reading
from osc_placement.batch.select import read_again, read_usages
from osc_placement.batch.stages import find_temporary_inventories
from osc_placement.errors import NotFound, PlacementError
from osc_placement.model import ONE_TIME_USE, Inventory, Provider
from osc_placement.terminal.lines import list_names

if TYPE_CHECKING:
    from osc_placement.api.client import PlacementClient

#: how many names a refusal has
_EXAMPLES: Final = 3


class WouldFail(PlacementError):
    """The server would refuse a change."""


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


def guard_staged(
    client: PlacementClient,
    plan: Plan,
    readings: Sequence[Reading] | None = None,
    *,
    concurrency: int = CONCURRENCY,
) -> Plan:
    """Read what is not known of the surroundings of a plan, and `judge` it.

    :param readings: of all providers, with what of their states is known; None to read them as well
    """
    if not plan.changes:
        return plan
    if readings is None:
        listed = map(Provider.from_json, client.list_providers())
        readings = [Reading(provider, ProviderState()) for provider in listed]
    return judge(plan, _read_surroundings(client, plan, readings, concurrency))


def _read_surroundings(
    client: PlacementClient, plan: Plan, readings: Sequence[Reading], concurrency: int
) -> Surroundings:
    """Read what a plan is judged by and is not known: nothing if it deletes, shrinks and claims nothing."""
    known = {reading.subject.uuid: reading for reading in readings}
    claimed = {
        uuid
        for change in plan.changes
        if isinstance(change.subject, Consumer)
        for uuid in change.after.allocations or ()
        if uuid in known
    }
    shrinking = {change.uuid for change in plan.changes if is_shrinking(change) and change.uuid in known}
    deleted = {
        change.subject.kind
        for change in plan.changes
        if isinstance(change.subject, CustomName) and not change.after.identity
    }
    concerned = [known[uuid] for uuid in sorted(shrinking | claimed)]
    usages = _keep_known(read_usages(client, concerned, concurrency=concurrency))

    def read(facet: Facet, uuids: Iterable[str]) -> dict[str, Any]:
        found = {uuid: getattr(known[uuid].state, facet) for uuid in uuids}
        missing = [known[uuid].subject for uuid, value in found.items() if value is None]
        again = read_again(client, missing, [facet], concurrency=concurrency)
        found = {uuid: value for uuid, value in found.items() if value is not None}
        return found | {each.subject.uuid: getattr(each.state, facet) for each in _keep_known(again)}

    return Surroundings(
        {uuid: reading.subject for uuid, reading in known.items() if isinstance(reading.subject, Provider)},
        inventories=read("inventories", known if "resource class" in deleted else claimed),
        traits=read("traits", known if "trait" in deleted else ()),
        usages={reading.subject.uuid: reading.usages or {} for reading in usages},
    )


def _keep_known(readings: Iterable[Reading]) -> list[Reading]:
    """Return the readings but for those of providers deleted since they were listed; raise other errors."""
    kept = [reading for reading in readings if not isinstance(reading.error, NotFound | Gone)]
    for reading in kept:
        if reading.error is not None:
            raise reading.error
    return kept


def judge(plan: Plan, now: Surroundings) -> Plan:
    """Return the plan with warnings, and with what the server would refuse or would be overcommitted."""
    while True:
        after = _After(plan, now)
        refused = {**plan.refused, **dict(after.find_refusals())}
        judged = advise(replace(plan, refused=refused), now.usages)
        if len(judged.refused) == len(plan.refused):
            return replace(judged, warnings=(*judged.warnings, *_warn_of_overfull(judged)))
        # a warning may be about a change that is refused by now
        plan = replace(judged, warnings=plan.warnings)


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
