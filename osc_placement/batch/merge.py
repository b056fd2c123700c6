# SPDX-License-Identifier: Apache-2.0
"""The one merge: what becomes of a change where somebody else changed the same provider meanwhile. Pure.

A change is merged into a state of now cell by cell (see `facets`), for each cell that the change sets or
takes away; a cell that is not there, such as a trait, is as good as any other value:

- as it was before the change: it is set
- as the change leaves it: it is done
- anything else: somebody else set it since, which is a conflict, and it stays as it is

What the change does not set stays as well: a trait that somebody else added meanwhile is neither taken away
nor a conflict. Allocations are conflicts as a whole, as they are one claim, and the deletion of a provider is
one where somebody gave it something since.

An undo merges the change taken back (`Change.back`) and refuses a provider with conflicts, unless it is
forced to do the rest; a resume merges the change itself. A saved plan is stale where a merge has conflicts,
and a part of an atomic change is put back by an undo. `rebase` keeps for an undo what was there before the
run, through all later plans of a change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from osc_placement.api.consumer import Consumer
from osc_placement.batch.facets import (
    ABSENT,
    ALL_FACETS,
    FACETS,
    HANDLERS,
    Facet,
    ProviderState,
    is_same_cell,
    read_identity,
)
from osc_placement.batch.plan import Change, temporary_name


class Merged(NamedTuple):
    """The result of a merge.

    :ivar target: the state of now with the change, as far as there is no conflict
    :ivar expected: the state of now with each conflict put back to what the change was planned on; the
        differences from now are the conflicts
    """

    target: ProviderState
    expected: ProviderState


def merge(change: Change, now: ProviderState, *, overwrite: bool = False) -> Merged:
    """Merge a change into the state of now; facets that are not known of it are left out.

    :param overwrite: set cells with conflicts too, but for those that are there no more; allocations are set
        as a whole
    """
    before, after = change.before, change.after
    if now.identity == ABSENT and before.identity and after.identity:
        return Merged(now, replace(now, identity=before.identity))
    target, expected = {}, {}
    for facet in change.facets:
        if getattr(now, facet) is None:
            continue
        handler = HANDLERS[facet]
        old, new, cells = handler.split(*(getattr(state, facet) for state in (before, after, now)))
        changed = {key for key in {*old, *new} if old.get(key) != new.get(key)}
        ours = {key for key in changed if is_same_cell(cells.get(key), old.get(key))}
        conflicts = {key for key in changed - ours if not is_same_cell(cells.get(key), new.get(key))}
        if conflicts:
            put_back = {key: old[key] for key in conflicts if key in old}
            expected[facet] = handler.join(
                {key: cell for key, cell in cells.items() if key not in conflicts} | put_back
            )
        if overwrite:
            ours |= {key for key in conflicts if facet == "allocations" or key in cells or key not in old}
        elif facet == "allocations":
            holders = _find_moved_on(change, now, changed - ours, gives=not ours.isdisjoint(new))
            ours = {key for key in ours if key[0] not in holders}
            is_known = now.allocations in (before.allocations, after.allocations)
            expected[facet] = now.allocations if is_known else before.allocations
        for key in ours:
            cells.pop(key, None)
            cells |= {key: new[key]} if key in new else {}
        target[facet] = handler.join(cells)
    merged = replace(now, **target)
    if merged.identity == ABSENT != now.identity and not overwrite:
        # what others gave it would go with it
        given = {facet: getattr(before, facet) for facet in FACETS if getattr(merged, facet)}
        if given:
            return Merged(replace(merged, identity=now.identity), replace(now, **{**expected, **given}))
    return Merged(merged, replace(now, **expected))


def _find_moved_on(
    change: Change, now: ProviderState, not_ours: set[tuple[str, ...]], *, gives: bool
) -> set[str]:
    """Return the holders whose allocations are not changed, as that would be a second claim for an instance.

    A consumer that does not hold what the change was planned on was moved on, or is gone. Of a provider the
    holders are consumers, and each is judged by itself.

    :param not_ours: the amounts that the change sets and that are not as it was planned on
    :param gives: whether the change would allocate something; then nothing is changed for a consumer that
        holds from other providers meanwhile
    """
    if not isinstance(change.subject, Consumer):
        return {key[0] for key in not_ours}
    planned_on, held = change.before.allocations or {}, now.allocations or {}
    is_moved = not_ours or (gives and held.keys() != planned_on.keys())
    return {*planned_on, *(change.after.allocations or {})} if is_moved else set()


def settle(change: Change, now: ProviderState) -> ProviderState:
    """Return the state of now as if no run had ended between two writes of a change.

    What a first write leaves becomes what the change is planned on: a temporary name, whichever run gave it,
    and the halves of the change.
    """
    if read_identity(now.identity)[0] == temporary_name(change.uuid):
        now = replace(now, identity=change.before.identity)
    for half in change.halves:
        if all(HANDLERS[facet].is_same(getattr(now, facet), value) for facet, value in half.known.items()):
            now = replace(now, **{facet: getattr(change.before, facet) for facet in half.known})
    return now


def rebase(change: Change, again: Change, written: Iterable[Facet]) -> Change:
    """Return a later plan of a change with the before-images that an undo of the run needs.

    Of the facets that the run may have written, that is what is there now without what it wrote. Owners, and
    what a creation does not write, stay as they were planned: they are not read again, or others gave them to
    the provider meanwhile, and an undo has to see them as theirs. A creation stays one whatever they gave it.
    A deletion has written nothing of what differs.
    """
    again = replace(again, halves=change.halves)
    if change.after.identity == ABSENT:
        return again
    back = merge(change.back, again.before).target
    if change.is_new and again.before.identity == change.after.identity:
        back = replace(back, identity=ABSENT)
    again = replace(again, before=replace(again.before, **{facet: getattr(back, facet) for facet in written}))
    kept: list[Facet] = []
    if not isinstance(change.subject, Consumer) and change.before.owner is not None:
        kept = ["owner"]
    if change.is_new and again.is_new:
        kept = [facet for facet in ALL_FACETS if facet not in (*change.facets, *again.facets)]
    before, after = (
        {facet: getattr(state, facet) for facet in kept} for state in (change.before, change.after)
    )
    return replace(again, before=replace(again.before, **before), after=replace(again.after, **after))
