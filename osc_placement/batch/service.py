# SPDX-License-Identifier: Apache-2.0
"""Create, resume and undo a run: what the commands of ``openstack`` and ``placement-migrate`` call.

A `Job` says what will be done. It is made from a plan, or by `Runs.resume` or `Runs.undo`, which write
nothing to the server. `Runs.start` writes its journal and creates the resource classes that it needs, and
`carry_out` does it. `plan_resume` plans what is left of a run.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from osc_placement.api.client import PlacementClient
from osc_placement.api.concurrency import CONCURRENCY
from osc_placement.batch.attempt import is_overtaken_for
from osc_placement.batch.execute import execute_atomically, execute_plan, execute_reshape, require_versions
from osc_placement.batch.facets import Facet, ProviderState, holds
from osc_placement.batch.gate import Gate
from osc_placement.batch.guards import guard
from osc_placement.batch.holdings import Overtaken
from osc_placement.batch.journal.file import Journal, Journals, check_server
from osc_placement.batch.journal.run import Header, JournalError, Run, Undone, find_undone
from osc_placement.batch.merge import merge, rebase, settle
from osc_placement.batch.plan import (
    APPLY,
    FOUND_DONE,
    RESHAPE,
    Change,
    Edit,
    Outcome,
    Plan,
    Policy,
    Report,
    Subject,
    plan_change,
    refuse_gone,
)
from osc_placement.batch.repeat import Recorded
from osc_placement.batch.reshape import RecordedReshape, Request
from osc_placement.batch.reshape_run import ReshapeTransaction
from osc_placement.batch.select import read_again
from osc_placement.batch.stages import note_halves
from osc_placement.batch.transaction import check_atomic
from osc_placement.batch.undo import (
    FOUND_UNDONE,
    MOST_LATER,
    MOST_NAMES,
    RUN,
    ChangedSince,
    OtherKind,
    ReadStates,
    UndoEdit,
    describe_refusals,
    name_refused,
    plan_undo,
    read_now,
)
from osc_placement.batch.writers.reshape import MayNotReshape, require_right
from osc_placement.errors import PlacementError
from osc_placement.terminal.lines import count_things, list_names


class NotPlanned(PlacementError):
    """A run did not reach something, and only the command that began it can plan it."""

    def __init__(self, name: str, title: str) -> None:
        self.name = name
        super().__init__(f"{name} was not reached by the run; to change it, give the command again: {title}")


def require_planned(run: Run) -> None:
    """Raise PlacementError unless all that a run is to do is known."""
    if not run.is_planned:
        raise PlacementError(
            f"Run {run.header.id} died before its first write, so nothing was changed; "
            f"give its command again: {run.header.edit.title}"
        )


@dataclass(frozen=True, slots=True)
class Pace:
    """The speed of a run, and the limits that stop it.

    :ivar rate: changes a second; 0 is as fast as possible
    :ivar canary: number of changes that are made and read back before the others
    """

    concurrency: int = CONCURRENCY
    rate: float = 0.0
    max_failures: int | None = None
    canary: int = 0

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Pace:
        """Return the rate, concurrency and limit that a journal keeps, which has no defaults."""
        return cls(
            concurrency=settings.get("concurrency") or CONCURRENCY,
            rate=settings.get("throttle") or 0.0,
            max_failures=settings.get("max_failures"),
        )

    def to_settings(self) -> dict[str, Any]:
        """Return what a journal keeps for a resume, without the defaults."""
        settings: dict[str, Any] = {"throttle": self.rate} if self.rate else {}
        settings |= {"concurrency": self.concurrency} if self.concurrency != CONCURRENCY else {}
        settings |= {"max_failures": self.max_failures} if self.max_failures is not None else {}
        return settings


@dataclass(frozen=True, slots=True)
class Job:
    """A run that is prepared: what will be done, how it is sent, and what its journal says of it.

    :ivar selection: the selection in words
    :ivar is_atomic: whether all changes are made in one transaction
    :ivar reshape: the transaction, if it is a reshape that is not done already
    :ivar undoes: ID of the run that is undone
    :ivar classes: resource classes that are created first; an undo leaves them
    :ivar resumed: the open journal of the run that is resumed
    :ivar can_be_undone: whether that run may have made changes before that are not undone
    :ivar pace: what that journal keeps for a resume
    """

    plan: Plan
    selection: str = ""
    _: KW_ONLY
    is_reshape: bool = False
    is_atomic: bool = False
    reshape: ReshapeTransaction | None = None
    undoes: str | None = None
    classes: frozenset[str] = frozenset()
    resumed: Journal | None = None
    can_be_undone: bool = False
    pace: Pace | None = None

    @classmethod
    def for_reshape(cls, client: PlacementClient, request: Request, done: Iterable[Change] = ()) -> Job:
        """Plan a reshape on what is there now; if nothing is left to do, ``done`` is recorded.

        Raise ReshapeRefused if it cannot be.
        """
        transaction = ReshapeTransaction(client, request)
        reshape, steps = (transaction, transaction.changes) if transaction.plan else (None, done)
        plan = Plan(Recorded(transaction.title, ("inventories", "allocations")), tuple(steps))
        return cls(plan, is_reshape=True, is_atomic=True, reshape=reshape)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_error: object) -> None:
        if self.resumed is not None:
            self.resumed.close()

    @property
    def is_needed(self) -> bool:
        """Return whether there is anything to write or, of a run that is resumed, to record."""
        return bool(self.plan.changes or (self.resumed is not None and self.plan.steps))


class Runs(Journals):
    """The runs in a directory: they are started, resumed and undone, and read and deleted as journals are."""

    def start(
        self,
        client: PlacementClient,
        job: Job,
        pace: Pace | None = None,
    ) -> Journal:
        """Create resource classes, and record on the disk what will be done; return the journal.

        The journal of a new run keeps the pace for its resumes.

        Raise VersionTooLow if the version in use cannot write the plan, JournalError if it cannot be
        recorded, and PlacementError if nothing of it may be written, or it is a transaction that the server
        does not have, or does not let the caller make.
        """
        job.plan.require_allowed()
        require_versions(client, job.plan)
        require_transaction(client, job)
        plan = note_halves(job.plan)
        for name in sorted(job.classes):
            client.ensure_resource_class(name)
        if job.resumed is not None:
            job.resumed.begin(plan)
            return job.resumed
        kind = RESHAPE if job.is_reshape else APPLY if job.plan.is_staged else ""
        settings = {
            "atomic": job.is_atomic,
            "capacity": job.plan.policy.capacity,
            **({"keeps_managed": True} if job.plan.policy.keeps_managed else {}),
            **({"kind": kind} if kind else {}),
            **(pace.to_settings() if pace else {}),
        }
        return self.create(
            client.endpoint,
            plan,
            selection=job.selection,
            undoes=job.undoes,
            settings=settings,
        )

    def resume(
        self,
        client: PlacementClient,
        run_id: str,
        read: ReadStates | None = None,
        *,
        dry_run: bool = False,
        force: bool = False,
        concurrency: int = CONCURRENCY,
        command: str = RUN,
    ) -> Job:
        """Plan what is left of a run, in its own journal, which is locked unless it is a dry run.

        A warning says if the run was undone, and how to make these changes again. Pending changes are judged
        again by the policy of the run: by what is allocated now, and what nova-compute has reported since.

        :param force: let changes exceed the capacity and drop the traits that the policy of the run keeps
        :param command: the words before the verb of a command on runs, for the advice in a warning
        """
        recorder: Journal | None = None
        if dry_run:
            run = self.read(run_id)
        else:
            run, recorder = self.reopen(run_id)
        try:
            check_server(run.header.server, client.endpoint)
            undone = find_undone([run, *self.read_undos(run.header.id)]).get(run.header.id)
            may_be_written = any(map(run.may_be_written, run.intents.values()))
            can_be_undone = may_be_written and not (undone and undone.is_whole)
            if run.header.is_reshape:
                require_planned(run)
                request = RecordedReshape(run.header.edit.title, run.intents.values())
                done = (Change(step.subject, step.after, step.after, FOUND_DONE) for step in run.pending)
                job = Job(Plan(run.header.edit, ()), is_reshape=True, is_atomic=True)
                if run.pending:
                    job = Job.for_reshape(client, request, done)
                plan = _warn_of_resume(job.plan, run, undone, command)
                return replace(job, plan=plan, resumed=recorder, can_be_undone=can_be_undone)
            policy = run.header.policy
            if force and policy.capacity == "keep":
                policy = Policy.for_operator(force=True)
            plan = plan_resume(run, read or _reader(client, concurrency), command)
            plan = guard(client, plan, policy, planned=run.pending, concurrency=concurrency)
            plan = _warn_of_resume(plan, run, undone, command)
            pace = Pace.from_settings(run.header.settings)
            return Job(
                plan,
                is_atomic=bool(run.header.settings.get("atomic")),
                undoes=run.header.undoes,
                resumed=recorder,
                can_be_undone=can_be_undone,
                pace=pace,
            )
        except BaseException:
            if recorder is not None:
                recorder.close()
            raise

    def undo(
        self,
        client: PlacementClient,
        run_id: str,
        read: ReadStates | None = None,
        *,
        force: bool = False,
        atomic: bool = False,
        concurrency: int = CONCURRENCY,
        command: str = RUN,
    ) -> Job:
        """Plan the undo of a run, which is a run of its own.

        A reshape is undone in one transaction, whatever ``atomic`` says, and only if nobody changed the
        inventories since. Warn where less is left than is allocated: who asks for an undo is not refused it.

        :param read: reads the subjects of the run's changes as they are now, and may show how far it is
        :param force: undo also where somebody else has since set what the run set, and leave what others set
        :param atomic: make all changes of the undo in one transaction
        :param command: the words before the verb of a command on runs, for the advice in a warning
        """
        run = self.read(run_id)
        if run.is_running:
            raise JournalError(f"Run {run.header.id} is under way in another process")
        check_server(run.header.server, client.endpoint)
        run_id = run.header.id
        selection = f"changed by run {run_id}"
        undone = find_undone([run, *self.read_undos(run_id)]).get(run_id)
        if not run.header.is_reshape:
            read, later = read or _reader(client, concurrency), self._read_later(run.header)
            plan = plan_undo(run, read, force=force, later=later, command=command)
            plan = guard(client, plan, Policy("exceed"), planned=(), concurrency=concurrency)
            if atomic and plan.refused:
                reason: object = next(iter(plan.refused.values()))
                if isinstance(reason, ChangedSince):
                    reason = f"changed since: {name_refused(plan)}; {plan.warnings[0]}"
                raise PlacementError(f"Nothing was changed, as all or nothing was asked for: {reason}")
            plan = _warn_of_undo(plan, run_id, undone)
            return Job(plan, selection, is_atomic=atomic, undoes=run_id)
        intents = tuple(run.intents.values()) if run.is_planned else ()
        request = RecordedReshape(run.header.title_of_undo, [change.back for change in intents])
        done_already = (Change(step.subject, step.before, step.before, FOUND_UNDONE) for step in intents)
        job = Job.for_reshape(client, request, done_already)
        plan = _warn_of_undo(job.plan, run_id, undone)
        return replace(job, plan=plan, selection=selection, undoes=run_id)

    def _read_later(self, header: Header) -> Iterator[Run]:
        """Yield runs that were started after a run and concern the same facets, the last first.

        PERF: of others only the first line is read, and of these no more than `MOST_LATER`, as each takes
        0.3 s for 10,000 changes.
        """
        number = 0
        for later in self.read_headers(header.server):
            if isinstance(later, JournalError):
                continue
            if later.id <= header.id or number == MOST_LATER:
                return
            if not set(later.edit.facets).isdisjoint(header.edit.facets):
                number += 1
                with contextlib.suppress(JournalError):
                    yield self.read(later.id)


def _reader(client: PlacementClient, concurrency: int) -> ReadStates:
    return functools.partial(read_again, client, concurrency=concurrency)


def _warn_of_undo(plan: Plan, run_id: str, undone: Undone | None) -> Plan:
    """Return the plan of an undo that tells what is undone of the run already, and how much is left to do."""
    if undone is None:
        return plan
    again = len(plan.changes) + sum(isinstance(each, ChangedSince) for each in plan.refused.values())
    found = len(plan.changes) + len(plan.unreached)
    left = f"; {count_things(found, 'change')} {'is' if found == 1 else 'are'} left to undo"
    if not found:
        left = "; nothing is left to undo"
    elif undone.is_whole:
        left = f", and what {again:,} of its changes set was set again since" if again else ""
    warning = f"Run {run_id} was {undone.state} {undone.runs}{left}"
    return replace(plan, warnings=(warning, *plan.warnings))


def _warn_of_resume(plan: Plan, run: Run, undone: Undone | None, command: str) -> Plan:
    """Return the plan of a resume that tells what it makes of an undone run, and how to redo what was undone.

    :param command: the words before the verb of a command on runs
    """
    if undone is None:
        return plan
    made = "none of these changes again"
    if plan.changes:
        made = "the changes that it had not made, and none that was undone"
    undos = [part.id for part in undone.writing] or [undone.by]
    first = ", beginning with the last undo" if len(undos) > 1 else ""
    warning = (
        f"Run {run.header.id} was {undone.state} {undone.runs}; its resume makes {made}; to make them "
        f"again{first}: {command} undo {undos[-1]}"
    )
    return replace(plan, warnings=(warning, *plan.warnings))


def require_transaction(client: PlacementClient, job: Job) -> None:
    """Raise PlacementError if a job needs a transaction that is not to be had; change nothing.

    The server may not have it, or may not let the caller make it.
    """
    if job.reshape is not None:
        try:
            require_right(client)
        except MayNotReshape as error:
            raise PlacementError(f"Nothing was changed: {error}") from error
    elif job.is_atomic:
        check_atomic(job.plan, client)


def carry_out(
    client: PlacementClient,
    job: Job,
    recorder: Journal,
    pace: Pace | None = None,
    *,
    stop: threading.Event | None = None,
    on_outcome: Callable[[Outcome], None] | None = None,
    on_event: Callable[[str], None] | None = None,
    on_pause: Callable[[bool], None] | None = None,
) -> Report:
    """Do what was recorded, record how it ended, and close the journal.

    ``on_event`` is told what the control file brought about, and that canaries are as planned; ``on_pause``
    whether the run is paused.
    """
    pace = pace or Pace()
    try:
        if job.reshape is not None:
            report = execute_reshape(client, job.reshape, job.plan, recorder)
        elif job.is_atomic:
            report = execute_atomically(
                client,
                job.plan,
                stop=stop,
                on_outcome=on_outcome,
                recorder=recorder,
                concurrency=pace.concurrency,
            )
        else:
            gate = Gate(
                rate=pace.rate,
                control=recorder.control,
                max_failures=pace.max_failures,
                on_event=on_event,
                on_pause=on_pause,
            )
            report = execute_plan(
                client,
                job.plan,
                concurrency=pace.concurrency,
                on_outcome=on_outcome,
                stop=stop,
                gate=gate,
                recorder=recorder,
                canary=pace.canary,
            )
        return recorder.end_sitting(report)
    finally:
        recorder.close()


def plan_resume(run: Run, read: ReadStates, command: str = RUN) -> Plan:
    """Plan what is left of a run; a provider that has what was planned comes with nothing to change.

    :param command: the words before the verb of a command on runs, for the advice in a warning
    """
    if run.header.is_reshape:
        raise OtherKind(run)
    require_planned(run)
    pending = run.pending
    edit = run.header.edit
    if run.header.undoes and type(edit) is Recorded:
        # an undo never writes over others, also where its journal has no more than the title of its edit
        edit = UndoEdit(edit.title, edit.facets, force=False)
    edits = {change.uuid: edit.edit_of(change) for change in pending}
    steps: list[Change] = []
    unreadable: dict[str, Exception] = {}
    refused: dict[str, Exception] = {}
    changed: list[ChangedSince] = []
    overwritten: list[str] = []
    written: dict[str, Set[Facet]] = {}
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
        state = settle(change, reading.state)
        if is_overtaken_for(edits[change.uuid], change, reading.subject, state):
            unreadable[change.uuid] = Overtaken(reading.subject.name)
            steps.append(change)
            continue
        try:
            step = _resume_step(change, edits[change.uuid], reading.subject, state)
            if _overwrites(step, change, state) and not isinstance(edit, UndoEdit):
                overwritten.append(change.subject.name)
            steps.append(step)
            written[step.uuid] = {
                facet for facet in step.facets if getattr(step.before, facet) != getattr(reading.state, facet)
            }
        except ChangedSince as error:
            changed.append(
                ChangedSince(error.name, error.gone, error.come, remedy="", has_rest=error.has_rest)
            )
            refused[change.uuid] = changed[-1]
            steps.append(change)
    warnings = []
    if changed:
        force = f"{command} undo {run.header.undoes} --force"
        warnings.append(describe_refusals(changed, len(pending), force))
    if overwritten:
        warnings.append(_describe_overwritten(overwritten, len(pending)))
    plan = Plan(
        edit,
        tuple(steps),
        unreadable,
        refused,
        edits,
        warnings=tuple(warnings),
        selection=run.header.selects,
        goes_on=True,
        is_staged=run.header.kind == APPLY,
        written=written,
    )
    return refuse_gone(plan)


def _overwrites(step: Change, change: Change, state: ProviderState) -> bool:
    """Return whether a step that was planned again changes what others have set since."""
    is_planned_again = bool(step.facets) and step.before is not change.before
    return is_planned_again and merge(change, state).expected != state


def _describe_overwritten(names: Sequence[str], number: int) -> str:
    """Return the warning about those of ``number`` changes that overwrite what others have set since."""
    verb = "overwrites" if len(names) == 1 else "overwrite"
    return (
        f"{len(names):,} of {count_things(number, 'change')} {verb} what was set since the run was planned, "
        f"on {list_names(names, MOST_NAMES)}"
    )


def _resume_step(change: Change, edit: Edit, subject: Subject, state: ProviderState) -> Change:
    if not change.facets:
        return plan_change(edit, subject, state)
    if holds(state, change.after, change.compared_facets):
        return Change(subject, change.after, change.after, FOUND_DONE)
    if holds(state, change.before, change.facets):
        return replace(change, subject=subject)
    again = plan_change(edit, subject, state)
    if not again.facets:
        return again
    return rebase(change, replace(again, reason=again.reason or change.reason), change.facets)
