# SPDX-License-Identifier: Apache-2.0
"""Atomic changes, all in one request: sent, planned again after a conflict, and reverted.

Inventories, traits and aggregates go to ``POST /-/providers`` where the server is osc-placement's own, for
which the rights to change them one by one suffice. Elsewhere inventories go to ``POST /reshaper``, which
needs a right of its own, and the others cannot be changed so. Either request has the generation of each
provider, compares it under a lock, and writes nothing if one of them is refused; the client then reads all
again and repeats the whole.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from osc_placement import microversion
from osc_placement.api.concurrency import CONCURRENCY
from osc_placement.api.retry import is_conflict, retry
from osc_placement.batch.facets import FACETS, ProviderState, holds
from osc_placement.batch.merge import merge
from osc_placement.batch.plan import Change, Plan, Subject, plan_change
from osc_placement.batch.select import read_again
from osc_placement.batch.writers.bulk import write_atomically
from osc_placement.batch.writers.reshape import MayNotReshape, require_right, write_inventories
from osc_placement.errors import (
    ANSWER_LOST,
    Forbidden,
    OutcomeUnknown,
    PlacementError,
    TimedOut,
    UsageError,
    advise_on_policy,
    is_outcome_unknown,
)

if TYPE_CHECKING:
    from osc_placement.api.client import PlacementClient
    from osc_placement.batch.recorder import Recorder
    from osc_placement.batch.reselect import Reselection

#: sends changes in one request, of which all are made or none
Send = Callable[["PlacementClient", Sequence[Change]], None]


def check_atomic(plan: Plan, client: PlacementClient) -> Send:
    """Return what writes the changes of a plan in one transaction; nothing is written to find it.

    Raise PlacementError unless the server can do that, and lets the caller do it.
    """
    changed = {facet for change in plan.changes for facet in change.facets}
    if not changed.issubset(FACETS):
        raise UsageError(
            "Only inventories, traits and aggregates can be changed all or nothing; leave --atomic out"
        )
    client.require(microversion.AGGREGATES_WITH_GENERATION, "--atomic")
    if not changed:
        return write_atomically
    if plan.unreached:
        first, *unreached = plan.unreached
        name, reason = first.subject.name, str(plan.untried[first.uuid])
        told = reason if name in reason else f"{name}: {reason}"
        if unreached:
            told += f"; {len(unreached):,} more cannot be changed, --dry-run without --atomic shows them"
        raise PlacementError(f"Nothing was changed, as all or nothing was asked for: {told}")
    try:
        if client.can_change_atomically(changed):
            return write_atomically
    except Forbidden as error:
        raise PlacementError(f"Nothing was changed: {error}{advise_on_policy(error)}") from error
    others = " and ".join(facet for facet in FACETS if facet in changed - {"inventories"})
    if others:
        raise PlacementError(
            f"Nothing was changed: this placement cannot change {others} of several resource providers in "
            "one transaction; leave --atomic out"
        )
    client.require(microversion.RESHAPER, "--atomic")
    try:
        require_right(client)
    except MayNotReshape as error:
        raise PlacementError(
            "Nothing was changed: at this placement --atomic needs the right to reshape, which by default "
            "only the role 'service' has; leave --atomic out, use the credentials of a service, or set "
            "placement:reshaper:reshape to rule:admin_or_service_api in placement's policy.yaml"
        ) from error
    return write_inventories


class NotKnown(OutcomeUnknown):
    """The answer to a transaction was lost, and then nothing could be read either."""

    def __init__(self, reason: Exception) -> None:
        self.reason = reason
        PlacementError.__init__(
            self, f"it is not known whether it was done, as it cannot be read back: {reason}"
        )


class Transaction(Protocol):
    """Changes that one request makes, all or none of them.

    :ivar changes: as they were planned last, with those that have nothing to write any more
    """

    changes: Sequence[Change]

    def plan_again(self) -> Sequence[Change]:
        """Read what is there now and plan for it; return the changes that replace those planned."""

    def write(self) -> None:
        """Send the request."""

    def is_done(self) -> bool:
        """Return whether the changes are there; raise an error if that cannot be read."""


def commit(transaction: Transaction, recorder: Recorder, stop: threading.Event) -> tuple[int, bool]:
    """Make the changes of a transaction, which is planned again after a conflict.

    Return the number of attempts, and whether the answer was lost and a reading told that it is done. Raise
    NotKnown where that cannot be read, and else whatever the last attempt raised.
    """

    def attempt(number: int) -> tuple[int, bool]:
        if number > 1:
            for change in transaction.plan_again():
                recorder.plan_again(change)
        try:
            transaction.write()
        except ANSWER_LOST as error:
            try:
                is_done = transaction.is_done()
            except Exception as unread:  # whatever it is, the answer stays lost
                raise NotKnown(error) from unread
            if not is_done:
                raise
            return number, True
        return number, False

    return retry(attempt, stop=stop)


class ProvidersTransaction:
    """The changes of many providers.

    A provider that has left the selection before it is written has nothing to write.

    :ivar left: by UUID, why providers are not selected any more; shared by the parts of a run
    :param guard: judges what is planned again
    """

    def __init__(
        self,
        client: PlacementClient,
        write: Send,
        plan: Plan,
        changes: Sequence[Change],
        reselection: Reselection,
        left: dict[str, str],
        guard: Callable[[Sequence[Change]], Plan],
        concurrency: int = CONCURRENCY,
    ) -> None:
        self._client = client
        self._guard = guard
        self._write = write
        self._plan = plan
        self._reselection = reselection
        self._concurrency = concurrency
        self.left = left
        self.changes: Sequence[Change] = changes

    def drop_left(self, *, anew: bool = False) -> None:
        """Change nothing of providers that are not selected any more."""
        asked = [change for change in self.changes if change.facets]
        reasons = self._reselection.find_left(asked, anew=anew)
        for change in asked:  # one that came back is written
            self.left.pop(change.uuid, None)
        self.left |= reasons
        self.changes = [
            replace(change, after=change.before) if change.uuid in reasons else change
            for change in self.changes
        ]

    def plan_again(self) -> Sequence[Change]:
        """Read the providers and plan for them; raise PlacementError if the plan must not do that."""
        planned_on = {change.uuid: change.before for change in self.changes}
        states = _read(self._client, self.changes, self._concurrency)
        self.changes = [
            plan_change(self._plan.edit_of(change), *now)
            for change, now in zip(self.changes, states, strict=True)
        ]
        self.drop_left(anew=True)
        selected = [change for change in self.changes if change.uuid not in self.left]
        judged = self._guard(selected)
        for error in judged.unreadable.values():
            raise error
        for change in judged.unreached:
            error = judged.refused[change.uuid]
            # the row of each provider has this reason
            raise PlacementError(f"{change.subject.name}: {error}") from error
        return [
            change
            for change in selected
            if change.before != planned_on[change.uuid] and self._plan.replaces_intent(change)
        ]

    def write(self) -> None:
        """Send what changes."""
        wanted = [change for change in self.changes if change.facets]
        if wanted:
            self._write(self._client, wanted)

    def is_done(self) -> bool:
        """Read the providers; all must have what was sent, as others may have set the same of some."""
        sent = [change for change in self.changes if change.facets]
        found = zip(sent, _read(self._client, sent, self._concurrency), strict=True)
        return all(
            subject.generation != change.subject.generation and holds(state, change.after, change.facets)
            for change, (subject, state) in found
        )


def put_back(
    client: PlacementClient,
    write: Send,
    changes: Sequence[Change],
    size: int,
    concurrency: int = CONCURRENCY,
) -> tuple[dict[str, Exception], Sequence[str]]:
    """Undo changes, in requests of so many.

    Return by UUID why some were not undone, and the UUIDs of those of which something of others stays.
    """
    overtaken: list[str] = []
    left = [change for change in changes if change.facets]

    def is_worth_another(error: Exception) -> bool:
        # the next reading tells what became of a lost answer
        is_lost = is_outcome_unknown(error) and not isinstance(error, TimedOut)
        return is_lost or is_conflict(error)

    def undo(_attempt: int) -> Sequence[str]:
        found, planned = [], []
        part = left[:size]
        for change, (subject, state) in zip(part, _read(client, part, concurrency), strict=True):
            back, expected = merge(change.back, state)
            planned.append(Change(subject, state, back))
            found += [] if expected == state else [change.uuid]
        wanted = [change for change in planned if change.facets]
        if wanted:
            write(client, wanted)
        return found

    try:
        while left:
            overtaken += retry(undo, after=is_worth_another)
            left = left[size:]
    except Exception as error:  # the caller tells of it
        return {change.uuid: error for change in left}, overtaken
    return {}, overtaken


def _read(
    client: PlacementClient, changes: Sequence[Change], concurrency: int
) -> list[tuple[Subject, ProviderState]]:
    """Read what changes planned on or write; raise the error of the first provider that cannot be read."""
    subjects = [change.subject for change in changes]
    facets = [
        facet
        for facet in FACETS
        if any(getattr(change.before, facet) is not None or facet in change.facets for change in changes)
    ]
    found = []
    for reading in read_again(client, subjects, facets, concurrency=concurrency):
        if reading.state is None:
            raise reading.error or PlacementError("it could not be read")
        found.append((reading.subject, reading.state))
    return found
