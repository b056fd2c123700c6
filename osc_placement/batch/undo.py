# SPDX-License-Identifier: Apache-2.0
"""Undo: of a change and of a run, on what is there now. Pure.

An undo compares and restores what the run set, field by field, and leaves everything else as it is. Without
``force``, a provider or consumer is refused if somebody else has since set one of these fields. With
``force``, the fields that nobody else has set are undone, and it is refused only if there are no such fields.
A reshape is undone whole or not at all, see `reshape.RecordedReshape`.

`plan_undo` plans the undo of a run, and `UndoStep.decide` plans one step again after a conflict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import tee
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from osc_placement.api.consumer import Consumer
from osc_placement.batch.difference import (
    Difference,
    describe_difference,
    list_differences,
)
from osc_placement.batch.facets import (
    ABSENT,
    Facet,
    ProviderState,
)
from osc_placement.batch.merge import merge, settle
from osc_placement.batch.plan import (
    APPLY,
    NEW_STAYS,
    Change,
    Decision,
    Edit,
    JournalledEdit,
    Plan,
    Reading,
    Subject,
    UncheckedEdit,
    refuse_gone,
)
from osc_placement.batch.repeat import Recorded
from osc_placement.errors import PlacementError
from osc_placement.terminal.lines import list_names

if TYPE_CHECKING:  # reading a journal needs the edit of an undo
    from osc_placement.batch.journal.run import Run

FOUND_UNDONE: Final = "is as it was before"
NOT_DONE: Final = "was not changed by the run"
FORCE_HELPS: Final = "--force undoes the rest of what the run set there"
FORCE_UNNEEDED: Final = "--force makes no difference: all that is left of the run is undone without it"
#: names of refused providers that a message lists, and later runs
MOST_NAMES: Final = 10
_MOST_NAMED: Final = 3
#: later runs that are read to find which of them stands in the way of an undo
MOST_LATER: Final = 20
#: the words before the verb of a command on runs
RUN: Final = "openstack resource provider batch run"

#: reads the facets of some providers or consumers: `select.read_states` with its client
ReadStates = Callable[[Sequence[Subject], Sequence[Facet]], Sequence[Reading]]


class ChangedSince(PlacementError):
    """Somebody else has since set what a run set.

    ``remedy`` says what can be done about it, and ``has_rest`` whether ``--force`` would undo a part. With
    neither ``gone`` nor ``come``, it is there again after the run deleted it.
    """

    error_code = "changed_since"

    def __init__(
        self,
        name: str,
        gone: Sequence[str],
        come: Sequence[str],
        remedy: str = FORCE_HELPS,
        *,
        has_rest: bool = True,
    ) -> None:
        self.name = name
        self.has_rest = has_rest
        self.gone = tuple(gone)
        self.come = tuple(come)
        if gone and come:
            what = f"{', '.join(gone)} became {', '.join(come)}"
        elif gone or come:
            what = f"removed {', '.join(gone)}" if gone else f"added {', '.join(come)}"
        else:
            what = "created again"
        super().__init__(f"{name} was changed since: {what}" + (f"; {remedy}" if remedy else ""))


class Later(NamedTuple):
    """The runs that set again what changes had set.

    :ivar runs: their IDs, in the order in which they are to be undone, each with how many of these changes it
        set again; several may have set one again
    :ivar others: the number of the changes that somebody else set again, so that no undo of a run helps
    """

    runs: tuple[tuple[str, int], ...] = ()
    others: int = 0


_NOBODY: Final = Later()


def describe_refusals(
    refused: Sequence[ChangedSince],
    number: int,
    force: str = "--force",
    later: Later = _NOBODY,
    *,
    is_forced: bool = False,
    command: str = RUN,
) -> str:
    """Return in one line how many changes of ``number`` are not undone, why, and what to do.

    The rows of the plan name them. A command is at the end, so that a terminal gives it a line.

    :param force: the option, or the command, that undoes them nevertheless
    :param is_forced: whether ``--force`` was given, and undoes no part of any change
    :param command: the words before the verb of a command on runs
    """
    by = _name_later(later)
    partly = sum(each.has_rest for each in refused)
    them = "it" if len(refused) == 1 else "them"
    whose = them if partly == len(refused) else f"{partly:,} of them"
    remedies = []
    if partly:
        remedies.append(
            f"use {force}, which also undoes the parts of {whose} that are still as the run left them"
        )
    if later.runs:
        remedies.append(advise_to_undo(later.runs, command))
    none = f"no part of {them} is still as the run left it"
    reason = f"--force makes no difference: {none}" if is_forced else "" if remedies else none
    told = "; ".join(filter(None, [reason, ", or ".join(remedies)]))
    return (
        f"{len(refused):,} of {number:,} changes will not be undone, because what the run set was changed "
        f"since{by}; {told}"
    )


def advise_to_undo(later: Sequence[tuple[str, int]], command: str, *, again: bool = False) -> str:
    """Return the advice to undo later runs, as `Later` has them, before another.

    :param again: whether an undo of the other one has been tried
    """
    steps = "the later runs first, in that order" if len(later) > 1 else "the later run first"
    steps += ", then this one again" if again else ""
    begin = ", beginning with" if len(later) > 1 or again else ""
    return f"undo {steps}{begin}: {command} undo {later[0][0]}"


def describe_rests(names: Sequence[str], number: int, later: Later) -> str:
    """Return in one line which changes of ``number`` are undone in part, as something was set again since."""
    return (
        f"{len(names):,} of {number:,} changes will be undone in part: what was set since"
        f"{_name_later(later)} stays, on {list_names(names, MOST_NAMES)}"
    )


def _name_later(later: Later) -> str:
    """Return who set again what changes had set; nothing if no run did."""
    if not later.runs:
        return ""
    runs = list_names([f"run {run_id} ({changed:,})" for run_id, changed in later.runs], _MOST_NAMED)
    return f" by {runs}{f', {later.others:,} otherwise' if later.others else ''}"


def describe_rest(expected: ProviderState, now: ProviderState, step: Change | None = None) -> str:
    """Return the reason of a change that undoes a part: what was set since, which stays.

    :param expected: ``now`` with what was set since put back, as in `Merged`
    :param step: the change as it was planned, which may leave something already
    """
    found = list_differences(expected, now)
    told = ", ".join(_name_what_stays(each) for each in found)
    return f"{step.reason}, {told}" if step and step.is_partial else f"{NEW_STAYS}: {told}"


def _name_what_stays(difference: Difference) -> str:
    """Return a value that was set since, or what is gone: a trait, or the inventory of a class."""
    if difference.new is not None:
        return difference.after.removeprefix("+")
    if difference.facet == "inventories":
        return f"no inventory of {difference.name.partition(':')[0]}"
    return f"no {difference.name}"


def find_later(refused: Iterable[tuple[Change, ProviderState]], later: Iterable[Run]) -> Later:
    """Return the runs that set again what changes had set.

    The undo of each is tried on the states, and no more of them are read than are needed. Undos and the runs
    that they undo are left out, unless the others do not explain everything.

    :param refused: changes with the states of now
    :param later: runs that were started after that of the changes, the last first
    """
    refused, later = list(refused), iter(later)
    read: list[Run] = []

    def leave_undone_out() -> Iterator[Run]:
        undone: set[str] = set()
        for run in later:
            read.append(run)
            if run.header.id in undone:
                continue
            if run.header.undoes:
                undone.add(run.header.undoes)
            else:
                yield run

    found = _explain_by(refused, leave_undone_out())
    if found.others:
        found = _explain_by(refused, read)
    if found.others and len(read) == MOST_LATER:
        # those behind them, which were not read, may explain the rest
        return _explain_by(refused, read, is_part=True)
    return found


def _explain_by(
    refused: Iterable[tuple[Change, ProviderState]], later: Iterable[Run], *, is_part: bool = False
) -> Later:
    """Return the runs, as `find_later` does, whose undos leave nothing that is different.

    :param is_part: whether other runs may do the rest, so that those count that make any difference
    """
    remaining = {change.uuid: (change, state) for change, state in refused}
    #: what is different from what the change left, before and after the undo of each run
    trails = {uuid: [("", _describe_set_by_others(*pair))] for uuid, pair in remaining.items()}
    for run in later:
        for uuid, other in run.intents.items():
            if uuid not in remaining or not run.may_be_written(other):
                continue
            change, state = remaining[uuid]
            back = merge(other.back, state).target
            remaining[uuid] = change, back
            trail, difference = trails[uuid], _describe_set_by_others(change, back)
            known = [each for _, each in trail]
            if difference in known:  # nothing became of it, or a later run took it back
                del trail[known.index(difference) + 1 :]
            else:
                trail.append((run.header.id, difference))
            if not difference:
                del remaining[uuid]
        if not remaining:
            break
    # where something is left that no run explains, the undo of runs would be in vain
    left = {uuid for uuid in remaining if not (is_part and len(trails[uuid]) > 1)}
    told = (trail for uuid, trail in trails.items() if uuid not in left)
    counts = Counter(run_id for _, *steps in told for run_id, _ in steps)
    return Later(tuple(sorted(counts.items(), reverse=True)), len(left))


def _describe_set_by_others(change: Change, now: ProviderState) -> tuple[list[str], list[str]] | None:
    """Return what is different from what a change left; None if it can be undone."""
    expected = merge(change.back, now).expected
    return None if expected == now else describe_difference(expected, now)


def name_refused(plan: Plan) -> str:
    """Return the names of some subjects whose changes a plan refuses, and how many more there are."""
    return list_names([step.subject.name for step in plan.steps if step.uuid in plan.refused], MOST_NAMES)


@dataclass(frozen=True, slots=True)
class UndoStep(UncheckedEdit):
    """Plans a step of an undo again after a conflict.

    ``step`` is as it was planned. Without ``force``, a provider is refused if a field that the step changes
    is neither as it was then nor as the step leaves it; with it, what nobody else has set since is undone, if
    there is anything.
    """

    title: str
    step: Change
    force: bool

    @property
    def facets(self) -> tuple[Facet, ...]:
        """Return the facets that tell whether others changed it."""
        return self.step.compared_facets

    def decide(self, state: ProviderState) -> Decision:
        """Return the state without the change; raise ChangedSince if others changed it.

        With ``force``, raise it only if nothing is left to undo.
        """
        step = self.step
        back, expected = merge(step, state)
        if expected == state:
            # a part that was not undone when the step was planned is not undone now either
            reason = step.reason if step.is_partial else FOUND_UNDONE if back == state else ""
            return Decision(back, reason, step.is_partial)
        has_rest = back != state
        if self.force and has_rest:
            return Decision(back, describe_rest(expected, state, step), is_partial=True)
        remedy = FORCE_HELPS if has_rest else ""
        difference = describe_difference(expected, state)
        raise ChangedSince(step.subject.name, *difference, remedy, has_rest=has_rest)


class UndoEdit(Recorded, JournalledEdit):
    """The edit of the undo of a run, with ``force`` or without; each step has an edit of its own."""

    kind: ClassVar[str] = "undo"

    def __init__(self, title: str, facets: tuple[Facet, ...], *, force: bool) -> None:
        super().__init__(title, facets)
        self.force = force

    def edit_of(self, step: Change) -> Edit:
        """Return the edit of a step."""
        return UndoStep(self.title, step, self.force)

    def to_json(self) -> dict[str, Any]:
        """Return the facets, and whether the undo is forced."""
        return {"facets": list(self.facets), "force": self.force}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> UndoEdit:
        """Return the edit of the undo with this title."""
        return cls(document["title"], tuple(document["facets"]), force=document["force"])


class OtherKind(PlacementError):
    """A run is of a kind that is done and undone otherwise."""

    def __init__(self, run: Run) -> None:
        self.run = run
        super().__init__(
            f"Run {run.header.id} is a {run.header.kind}, which only a command can resume or undo: "
            f"{RUN} resume {run.header.id}, or undo {run.header.id}"
        )


def plan_undo(
    run: Run, read: ReadStates, *, force: bool = False, later: Iterable[Run] = (), command: str = RUN
) -> Plan:
    """Plan the undo of a run.

    Refuse a provider if what the run set there was changed since, with ``force`` only if nothing of it is
    left to undo; warnings of the plan say how many these are, and with ``force`` where a part is left, or
    that it makes no difference.

    :param later: the runs that were started after it, the last first; none is read unless the warning is to
        name it
    :param command: the words before the verb of a command on runs, for the advice in a warning
    """
    if run.header.is_reshape:
        raise OtherKind(run)
    # a change that failed, or has no outcome because the process died, may have been written
    intents = list(run.intents.values()) if run.is_planned else []
    changes = [change for change in intents if run.may_be_written(change)]
    steps = [
        Change(change.subject, ProviderState(), ProviderState(), NOT_DONE)
        for change in intents
        if not run.may_be_written(change)
    ]
    unreadable: dict[str, Exception] = {}
    refused: dict[str, ChangedSince] = {}
    set_by_others: list[tuple[Change, ProviderState]] = []
    parted: list[tuple[Change, ProviderState]] = []
    shown: dict[str, Change] = {}
    for change, reading in zip(changes, read_now(changes, read), strict=True):
        if reading.state is None:
            unreadable[change.uuid] = reading.error or PlacementError("it could not be read")
            steps.append(_undo_unread(change))
            continue
        state = settle(change.back, reading.state)
        step, refusal = _undo_step(change, reading.subject, state, force=force)
        step = replace(step, halves=change.halves)
        if state.inventories is not reading.state.inventories and not refusal:
            # what is planned again is compared with what is there
            step = replace(step, before=replace(step.before, inventories=reading.state.inventories))
        steps.append(step)
        if refusal:
            refused[step.uuid] = refusal
            set_by_others.append((change, state))
            shown[step.uuid] = Change(step.subject, reading.state, step.after)
        elif step.is_partial:
            parted.append((change, state))
    warnings, first = _warn_of_others(
        list(refused.values()), set_by_others, parted, len(changes), later, force=force, command=command
    )
    if force and any(step.facets for step in steps) and not (refused or parted or unreadable):
        warnings.append(FORCE_UNNEEDED)
    facets = tuple(dict.fromkeys(facet for change in changes for facet in change.facets))
    edit = UndoEdit(run.header.title_of_undo, facets, force=force)
    plan = Plan(
        edit,
        tuple(steps),
        unreadable,
        refused,
        warnings=tuple(warnings),
        is_staged=run.header.kind == APPLY,
        # by UUID, what is there of refused changes, as a row shows it; each step has what the run left
        found=shown,
        later=tuple(first),
    )
    return refuse_gone(plan)


def _undo_unread(change: Change) -> Change:
    """Return the undo of a change whose subject could not be read: the run raised a consumer's generation."""
    subject = change.subject
    if isinstance(subject, Consumer):
        subject = replace(subject, generation=None)
    return Change(subject, change.after, change.before, "could not be read")


def _warn_of_others(
    refusals: Sequence[ChangedSince],
    refused: Sequence[tuple[Change, ProviderState]],
    parted: Sequence[tuple[Change, ProviderState]],
    number: int,
    later: Iterable[Run],
    *,
    force: bool,
    command: str,
) -> tuple[list[str], list[tuple[str, int]]]:
    """Return the warnings of what others set since, and the later runs that did, with numbers of changes.

    :param refused: the changes that are refused, with what is there
    :param parted: those of which a part is undone
    :param number: of all changes of the run
    """
    warnings: list[str] = []
    later, again = tee(later)
    first: Counter[str] = Counter()
    if refused:
        found = find_later(refused, later)
        first.update(dict(found.runs))
        is_useless = force and not parted
        warnings.append(
            describe_refusals(refusals, number, later=found, is_forced=is_useless, command=command)
        )
    if parted:
        names = [change.subject.name for change, _ in parted]
        found = find_later(parted, again)
        first.update(dict(found.runs))
        warnings.append(describe_rests(names, number, found))
    return warnings, sorted(first.items(), reverse=True)


def _undo_step(
    change: Change, subject: Subject, state: ProviderState, *, force: bool
) -> tuple[Change, ChangedSince | None]:
    """Return the step that undoes a change, and why it is refused if it is."""
    back, expected = merge(change.back, state)
    if expected == state:
        return Change(subject, state, back, FOUND_UNDONE if back == state else ""), None
    has_rest = back != state
    if force and has_rest:
        return Change(subject, state, back, describe_rest(expected, state), is_partial=True), None
    is_again = change.after.identity == ABSENT and state.identity not in (None, ABSENT)
    gone, come = ([], []) if is_again else describe_difference(expected, state)
    refusal = ChangedSince(subject.name, gone, come, remedy="", has_rest=has_rest)
    # fields that already have their old value are left out of the refused step
    return Change(subject, expected, merge(change.back, expected).target), refusal


def read_now(changes: Sequence[Change], read: ReadStates, more: Sequence[Facet] = ()) -> Sequence[Reading]:
    """Read the subjects of changes: the facets that any of its kind changes, and ``more``."""
    found: dict[str, Reading] = {}
    for kind in dict.fromkeys(type(change.subject) for change in changes):
        alike = [change for change in changes if type(change.subject) is kind]
        facets = dict.fromkeys(facet for change in alike for facet in change.compared_facets)
        readings = read([change.subject for change in alike], tuple(dict.fromkeys((*facets, *more))))
        found |= {change.uuid: reading for change, reading in zip(alike, readings, strict=True)}
    return [found[change.uuid] for change in changes]
