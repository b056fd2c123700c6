# SPDX-License-Identifier: Apache-2.0
"""Resume: what is left to do of a run, planned from its journal and from what is there now."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from osc_placement.batch.difference import holds
from osc_placement.batch.journal import identify_server
from osc_placement.batch.journal.run import Run
from osc_placement.batch.plan import (
    Change,
    Edit,
    Plan,
    ProviderState,
    Subject,
    plan_change,
)
from osc_placement.batch.repeat import Recorded, edits_of
from osc_placement.batch.reshape_record import KIND
from osc_placement.batch.room import Overtaken, carry_owner, is_half_written, is_overtaken
from osc_placement.batch.undo import (
    ChangedSince,
    OtherKind,
    ReadStates,
    UndoEdit,
    plan_undo,
    read_now,
    undo_change,
)
from osc_placement.errors import PlacementError

__all__ = [
    "ChangedSince",
    "NotPlanned",
    "OtherKind",
    "ReadStates",
    "WrongServer",
    "check_server",
    "plan_resume",
    "plan_undo",
    "require_planned",
]

FOUND_DONE: Final = "was done already"


class WrongServer(PlacementError):
    """A run belongs to another server than the one in use."""

    def __init__(self, recorded: str, used: str) -> None:
        self.recorded = recorded
        self.used = used
        super().__init__(f"This was planned for the placement at {recorded}, not for the one at {used}")


class NotPlanned(PlacementError):
    """A run did not reach something, and only the command that began it can plan it."""

    def __init__(self, name: str, title: str) -> None:
        self.name = name
        super().__init__(f"{name} was not reached by the run; to change it, give the command again: {title}")


def check_server(recorded: str, endpoint: str) -> None:
    """Raise WrongServer unless the server that something was planned for has this address."""
    used = identify_server(endpoint)
    if recorded != used:
        raise WrongServer(recorded, used)


def require_planned(run: Run) -> None:
    """Raise PlacementError unless all that a run is to do is known."""
    if not run.is_planned:
        raise PlacementError(
            f"Run {run.header.id} died before its first write, so nothing was changed; "
            f"give its command again: {run.header.edit.title}"
        )


def plan_resume(run: Run, read: ReadStates) -> Plan:
    """Plan what is left of a run; a provider that has what was planned comes with nothing to change."""
    if run.header.kind == KIND:
        raise OtherKind(run)
    require_planned(run)
    pending = run.pending
    edit = _edit_of(run)
    edits = edits_of(edit, pending)
    steps: list[Change] = []
    unreadable: dict[str, Exception] = {}
    refused: dict[str, Exception] = {}
    # what could not be read when it was planned, its edit has to decide on
    more = () if all(change.facets for change in pending) else edit.facets
    for change, reading in zip(pending, read_now(pending, read, more), strict=True):
        if reading.state is None:
            unreadable[change.uuid] = reading.error or PlacementError("it could not be read")
            steps.append(change)
            continue
        if not change.facets and type(edit) is Recorded:
            refused[change.uuid] = NotPlanned(change.subject.name, edit.title)
            steps.append(change)
            continue
        if is_overtaken(change, reading.state):
            unreadable[change.uuid] = Overtaken(reading.subject.name)
            steps.append(change)
            continue
        try:
            steps.append(_resume_step(change, edits.get(change.uuid, edit), reading.subject, reading.state))
        except ChangedSince as error:
            remedy = f"batch run undo {run.header.undoes} --force undoes what that run changed, and no more"
            refused[change.uuid] = ChangedSince(error.name, error.gone, error.come, remedy)
            steps.append(change)
    return Plan(edit, tuple(steps), unreadable, refused, edits, selection=run.header.selects, goes_on=True)


def _edit_of(run: Run) -> Edit:
    """Return the edit of a run; that of an undo never writes over others, also where its journal has none."""
    edit = run.header.edit
    if run.header.undoes and type(edit) is Recorded:
        return UndoEdit(edit.title, edit.facets, force=False)
    return edit


def _resume_step(change: Change, edit: Edit, subject: Subject, state: ProviderState) -> Change:
    if not change.facets:
        return plan_change(edit, subject, state)
    if holds(state, change.after, change.facets):
        return Change(subject, change.after, change.after, FOUND_DONE)
    if holds(state, change.before, change.facets) or is_half_written(change, state):
        return replace(change, subject=subject)
    again = carry_owner(change, plan_change(edit, subject, state))
    # what was written already keeps the before-image that undo needs, but for what others set in it since
    back, _ = undo_change(change, state)
    images = {facet: getattr(back, facet) for facet in change.facets}
    return replace(again, before=replace(again.before, **images)) if again.facets else again
