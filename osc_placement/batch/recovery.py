# SPDX-License-Identifier: Apache-2.0
"""What is left to do of a run, and what undoes it: plans made of a journal and of what is there now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from osc_placement.batch.difference import holds
from osc_placement.batch.journal import identify_server
from osc_placement.batch.journal.record import Undoing
from osc_placement.batch.journal.run import Run
from osc_placement.batch.plan import (
    Change,
    Edit,
    Facet,
    Plan,
    ProviderState,
    Reading,
    Subject,
    plan_change,
)
from osc_placement.batch.repeat import Recorded, edits_of
from osc_placement.batch.reshape_record import KIND
from osc_placement.batch.room import Overtaken, carry_owner, is_half_written, is_overtaken
from osc_placement.batch.takeback import FOUND_BACK, OTHERS_STAY, ChangedSince, take_back
from osc_placement.errors import PlacementError

#: who reads the facets of some providers or consumers: `select.read_states` with its client
ReadStates = Callable[[Sequence[Subject], Sequence[Facet]], Sequence[Reading]]
FOUND_DONE: Final = "was done already"
NOT_DONE: Final = "was not changed by the run"


class WrongServer(PlacementError):
    """A run belongs to another server than the one in use."""

    def __init__(self, recorded: str, used: str) -> None:
        self.recorded = recorded
        self.used = used
        super().__init__(f"This was planned for the placement at {recorded}, not for the one at {used}")


class OtherKind(PlacementError):
    """A run is of a kind that is done and undone otherwise."""

    def __init__(self, run: Run) -> None:
        self.run = run
        super().__init__(
            f"Run {run.header.id} is a {run.header.kind}; go on with it, or undo it, with: "
            "openstack resource provider batch run"
        )


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
    for change, reading in zip(pending, _read(pending, read, more), strict=True):
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
            way = f"batch run undo {run.header.undoes} --force undoes what that run changed, and no more"
            refused[change.uuid] = ChangedSince(error.name, error.gone, error.come, way)
            steps.append(change)
    return Plan(edit, tuple(steps), unreadable, refused, edits, selection=run.header.selects, goes_on=True)


def _edit_of(run: Run) -> Edit:
    """The edit of a run; an undo of before there were ways back writes over nobody either."""
    edit = run.header.edit
    if run.header.undoes and type(edit) is Recorded:
        return Undoing(edit.title, edit.facets, force=False)
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
    back, _ = take_back(change, state)
    images = {facet: getattr(back, facet) for facet in change.facets}
    return replace(again, before=replace(again.before, **images)) if again.facets else again


def plan_undo(run: Run, read: ReadStates, *, force: bool = False) -> Plan:
    """Plan the way back; a provider that somebody changed since is refused unless ``force``."""
    if run.header.kind == KIND:
        raise OtherKind(run)
    # a failure may have been written too, and whoever died could not say
    intents = list(run.intents.values()) if run.is_planned else []
    changes = [change for change in intents if run.may_be_written(change)]
    steps = [_nothing(change, NOT_DONE) for change in intents if not run.may_be_written(change)]
    unreadable, refused = {}, {}
    for change, reading in zip(changes, _read(changes, read), strict=True):
        if reading.state is None:
            unreadable[change.uuid] = reading.error or PlacementError("it could not be read")
            steps.append(Change(change.subject, change.after, change.before, "could not be read"))
            continue
        step, refusal = _undo_step(change, reading.subject, reading.state, force=force)
        steps.append(step)
        if refusal:
            refused[step.uuid] = refusal
    edit = Undoing(f"undo of {run.header.id} ({run.header.edit.title})", _facets(changes), force=force)
    return Plan(edit, tuple(steps), unreadable, refused, edits_of(edit, tuple(steps)))


def _undo_step(
    change: Change, subject: Subject, state: ProviderState, *, force: bool
) -> tuple[Change, PlacementError | None]:
    if holds(state, change.before, change.facets):
        return Change(subject, state, state, FOUND_BACK), None
    if holds(state, change.after, change.facets) or is_half_written(change, state):
        values = {facet: getattr(change.before, facet) for facet in change.facets}
        return Change(subject, state, replace(state, **values)), None
    if force:
        back, _ = take_back(change, state)
        return Change(subject, state, back, OTHERS_STAY), None
    left = {facet: getattr(change.after, facet) for facet in change.facets}
    refusal = ChangedSince.seen(subject.name, replace(state, **left), state)
    return Change(subject, change.after, change.before, "changed since"), refusal


def _nothing(change: Change, reason: str) -> Change:
    return Change(change.subject, ProviderState(), ProviderState(), reason)


def _facets(changes: Sequence[Change]) -> tuple[Facet, ...]:
    return tuple(dict.fromkeys(facet for change in changes for facet in change.facets))


def _read(changes: Sequence[Change], read: ReadStates, more: Sequence[Facet] = ()) -> Sequence[Reading]:
    facets = tuple(dict.fromkeys((*_facets(changes), *more)))
    return read([change.subject for change in changes], facets)
