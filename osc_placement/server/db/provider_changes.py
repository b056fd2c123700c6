# SPDX-License-Identifier: Apache-2.0
"""Changes of many providers in one transaction, each of them made completely or refused completely.

Each change is checked as by the requests that create one provider and replace its inventories, traits and
aggregates, but reading and writing is done for all providers together. A refused change does not affect the
others, or, if the changes are atomic, prevents all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from osc_placement.server import errors
from osc_placement.server.db import association, inventory, names, provider, writers
from osc_placement.server.db.tables import placement_aggregates, resource_classes, resource_providers, traits

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from osc_placement.server.db.engine import Database


#: the limit on the errors in the answer to atomic changes; the number of all is beside them
MOST_TOLD: Final = 10


@dataclass(frozen=True, slots=True)
class Wanted:
    """The wanted parts of a provider, None for those that stay, and the generation they are based on.

    :ivar new: the provider, if it is to be created; it has no generation then
    """

    uuid: str
    generation: int | None
    inventories: inventory.Inventories | None = None
    traits: Collection[str] | None = None
    aggregates: Collection[str] | None = None
    new: provider.New | None = None


#: by UUID, the new generation of the provider, or the error because of which it was not changed
Verdicts = dict[str, int | errors.PlacementError]


class Refused(Exception):
    """Atomic changes were not made because of some of them, whose errors are in ``verdicts``."""

    def __init__(self, verdicts: Verdicts) -> None:
        super().__init__(f"{len(verdicts)} changes were refused")
        self.verdicts = verdicts


def change_many(
    database: Database, changes: Sequence[Wanted], *, may_reserve_all: bool, atomic: bool = False
) -> Verdicts:
    """Carry out `apply` in a transaction, and refuse by itself each change that the database cannot store.

    Such a change fails the transaction; the others are made in another one.

    :raises Refused: as `apply` does
    """

    def make(possible: Sequence[Wanted]) -> Verdicts:
        return database.write(apply, possible, may_reserve_all=may_reserve_all, atomic=atomic)

    try:
        return make(changes)
    except errors.Unstorable as error:
        # each takes two transactions or more, and the first refuses all
        most = MOST_TOLD if atomic else None
        found = itertools.islice(_find_unstorable(database, changes, may_reserve_all), most)
        refused: Verdicts = dict.fromkeys(found, error)
        if not refused:
            raise
    if atomic:
        raise Refused(refused)
    return refused | make([change for change in changes if change.uuid not in refused])


class _Tried(Exception):
    """Some changes can be stored, and are rolled back."""


def _find_unstorable(database: Database, changes: Sequence[Wanted], may_reserve_all: bool) -> Iterator[str]:
    """Yield the UUIDs of those of the changes whose values the database cannot store.

    Transactions that are rolled back try all of them, then each half of those that fail.
    """

    def try_(conn: Connection) -> None:
        # the parent may be in the other half
        roots = [replace(each, new=each.new and replace(each.new, parent_uuid=None)) for each in changes]
        apply(conn, roots, may_reserve_all=may_reserve_all)
        raise _Tried

    try:
        database.write(try_)
    except _Tried:
        return
    except errors.Unstorable:
        if len(changes) == 1:
            yield changes[0].uuid
            return
    half = len(changes) // 2
    for part in (changes[:half], changes[half:]):
        yield from _find_unstorable(database, part, may_reserve_all)


def apply(
    conn: Connection, changes: Sequence[Wanted], *, may_reserve_all: bool, atomic: bool = False
) -> Verdicts:
    """Make each of the changes that can be made; all are of different providers.

    All providers are locked until the transaction ends, and the generation of each is compared under the
    lock. The caller repeats the transaction as a whole if it loses a race, and then all is compared again.

    The generation of a provider is incremented by one for all its changes together. If a change has traits
    only, and the provider has them already, it stays. A provider that is created begins at 0.

    Names are looked up first, then providers are locked by ascending id, then custom classes, as for a change
    of one provider; new aggregates are created last. New providers are created before the classes are locked:
    nobody else sees them, so nobody who has locked a class waits for them.

    :param may_reserve_all: whether an inventory may reserve its total
    :param atomic: make all changes or, if one is refused, none
    :raises Refused: a change is refused, and ``atomic`` is true; the caller rolls the transaction back
    """
    known = names.find_known(
        conn,
        {
            (resource_providers, "uuid"): {change.uuid for change in changes if change.new is None},
            (resource_classes, "name"): {name for change in changes for name in change.inventories or ()},
            (traits, "name"): {name for change in changes for name in change.traits or ()},
            (placement_aggregates, "uuid"): {uuid for change in changes for uuid in change.aggregates or ()},
        },
    )
    new = {change.uuid: change.new for change in changes if change.new is not None}
    locked = provider.lock_with_parents(conn, new.values(), known.of(resource_providers).values())
    verdicts: Verdicts = {}
    for change in changes:
        if change.new is not None:
            classes, wanted = known.of(resource_classes), change.inventories or {}
            error: errors.PlacementError | None
            try:
                inventory.check(change.uuid, wanted, classes, may_reserve_all=may_reserve_all)
                error = _check_traits(change, known)
            except errors.PlacementError as unfit:
                error = unfit
            if error:
                verdicts[change.uuid] = error
                del new[change.uuid]
        elif change.uuid not in locked:
            verdicts[change.uuid] = errors.ProviderNotFound(change.uuid)
        elif locked[change.uuid].generation != change.generation:
            verdicts[change.uuid] = errors.ProviderChanged()
    created, refused = provider.create_many(conn, new.values(), locked)
    verdicts |= refused
    present = {**locked, **created}
    left = [change for change in changes if change.uuid not in verdicts]
    replacement = inventory.judge(
        conn,
        {present[change.uuid]: change.inventories for change in left if change.inventories is not None},
        known.of(resource_classes),
        may_reserve_all=may_reserve_all,
        created=created.keys(),
    )
    verdicts |= {each.uuid: error for each, error in replacement.refused.items()}
    for change in left:
        if change.uuid not in verdicts and (error := _check_traits(change, known)):
            verdicts[change.uuid] = error
    if atomic and verdicts:
        raise Refused(verdicts)
    allowed = {present[change.uuid]: change for change in changes if change.uuid not in verdicts}
    replacement.write(conn, [each for each, change in allowed.items() if change.inventories is not None])
    moved = _associate(conn, allowed, known, {each.id for each in created.values()})
    provider.record_created(conn, created.values())
    provider.advance_generations(conn, moved)
    return verdicts | {each.uuid: each.generation + (each in moved) for each in allowed}


def _check_traits(change: Wanted, known: names.Known) -> errors.TraitNotFound | None:
    unknown = sorted(set(change.traits or ()) - known.of(traits).keys())
    return errors.TraitNotFound(", ".join(unknown)) if unknown else None


def _associate(
    conn: Connection,
    changes: Mapping[provider.Locked, Wanted],
    known: names.Known,
    created: Collection[int],
) -> set[provider.Locked]:
    """Write traits and aggregates; return the providers whose generation has to be incremented.

    :param created: ids of the providers that this transaction created
    """
    trait_ids = known.of(traits)
    having = {
        each.id: [trait_ids[name] for name in change.traits]
        for each, change in changes.items()
        if change.traits is not None
    }
    changed = association.TRAITS.replace(conn, having, created=created)
    mentioned = {uuid for change in changes.values() for uuid in change.aggregates or ()}
    aggregate_ids = known.ensure(conn, placement_aggregates, "uuid", mentioned)
    members = {
        each.id: [aggregate_ids[uuid] for uuid in change.aggregates]
        for each, change in changes.items()
        if change.aggregates is not None
    }
    # as for a change of one provider
    writers.collide(conn, members.keys() - created)
    association.AGGREGATES.replace(conn, members, created=created)
    return {
        each
        for each, change in changes.items()
        if each.id in changed or change.inventories is not None or change.aggregates is not None
    }
