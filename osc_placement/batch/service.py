# SPDX-License-Identifier: Apache-2.0
"""Create, resume and undo a run: what the commands of ``openstack`` and ``placement-migrate`` call.

A `Job` says what will be done. It is made from a plan, or by `resume` or `undo`, which write nothing to the
server. `start` writes its journal and creates the resource classes that it needs, and `carry_out` does it.
`plan_resume` plans what is left of a run, and `judge_capacity` and `guard_devices` refuse changes that would
take capacity or devices from consumers.
"""

from __future__ import annotations

import contextlib
import pathlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Literal

from osc_placement import microversion
from osc_placement.api.client import PlacementClient
from osc_placement.api.concurrency import CONCURRENCY
from osc_placement.api.names import UnknownResourceClass, UnknownTraits
from osc_placement.batch.advice import advise, refuse_each_dropped
from osc_placement.batch.attempt import is_overtaken_for
from osc_placement.batch.capacity import is_shrinking
from osc_placement.batch.device import (
    DeviceInUse,
    MayBeUsedAgain,
    is_releasing,
    refuse_planned_again,
    require_unused,
)
from osc_placement.batch.execute import execute_atomically, execute_plan, execute_reshape, require_versions
from osc_placement.batch.facets import Facet, ProviderState, holds
from osc_placement.batch.gate import Gate
from osc_placement.batch.holdings import Overtaken, is_half_written
from osc_placement.batch.journal import file as journal
from osc_placement.batch.journal.file import Journal
from osc_placement.batch.journal.run import Header, JournalError, Run, Undone, find_undone
from osc_placement.batch.merge import merge, rebase
from osc_placement.batch.plan import (
    APPLY,
    FOUND_DONE,
    Change,
    Edit,
    Outcome,
    Plan,
    Reading,
    Report,
    Subject,
    count_changes,
    plan_change,
    refuse_gone,
    settle_name,
)
from osc_placement.batch.repeat import Recorded, edits_of
from osc_placement.batch.reshape import KIND as RESHAPE
from osc_placement.batch.reshape import ReshapePlan
from osc_placement.batch.reshape_run import Task, plan_steps, plan_task
from osc_placement.batch.select import read_states, read_usages
from osc_placement.batch.stages import find_temporary_inventories
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
    has_inventories,
    name_refused,
    plan_undo,
    read_now,
    undo_of,
)
from osc_placement.batch.writers.reshape import MayNotReshape, require_right
from osc_placement.errors import PlacementError
from osc_placement.terminal.lines import list_names
from osc_placement.terminal.values import NONE


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
    used = journal.identify_server(endpoint)
    if recorded != used:
        raise WrongServer(recorded, used)


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
    :ivar control: path of the control file; None is the one beside the journal
    """

    concurrency: int = CONCURRENCY
    rate: float = 0.0
    max_failures: int | None = None
    canary: int = 0
    control: pathlib.Path | None = None

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

    def describe_resume(self, started: Pace) -> str:
        """Return in a sentence how a run is resumed that was started with another pace, or with this one.

        It has what is no default, and what differs from how the run was started; it is empty if there is
        neither.
        """
        same = ", as the run was started" if self == started else ""
        told = {*self.list_options(), *self.list_options(started)}
        options = " ".join(each for each in self._options.values() if each in told)
        return f"Resuming with {options}{same}" if options else ""

    def list_options(self, known: Pace | None = None) -> list[str]:
        """Return the options for this rate, concurrency and limit, without those that are known."""
        known = known or Pace()
        return [text for name, text in self._options.items() if getattr(self, name) != getattr(known, name)]

    @property
    def _options(self) -> dict[str, str]:
        """Return the options of a resume for this pace, by the name of the field."""
        return {
            "rate": f"--throttle {f'{self.rate:g}' if self.rate else NONE}",
            "concurrency": f"--concurrency {self.concurrency}",
            "max_failures": f"--max-failures {NONE if self.max_failures is None else self.max_failures}",
        }


@dataclass(frozen=True, slots=True)
class Job:
    """A run that is prepared: what will be done, how it is sent, and what its journal says of it.

    :ivar selection: the selection in words
    :ivar kind: empty for a batch; else APPLY or RESHAPE, which decide how it is resumed and undone, or
        "migration" for one of ``placement-migrate``
    :ivar is_atomic: whether all changes are made in one transaction
    :ivar reshape: the transaction, if it is a reshape
    :ivar undoes: ID of the run that is undone
    :ivar classes: resource classes that are created first; an undo leaves them
    :ivar resumed: the open journal of the run that is resumed
    :ivar can_be_undone: whether that run may have made changes before that are not undone
    :ivar pace: what that journal keeps for a resume
    """

    plan: Plan
    selection: str = ""
    kind: str = ""
    is_atomic: bool = False
    reshape: Task | None = None
    undoes: str | None = None
    classes: frozenset[str] = frozenset()
    resumed: Journal | None = None
    can_be_undone: bool = False
    pace: Pace | None = None

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_error: object) -> None:
        if self.resumed is not None:
            self.resumed.close()

    @property
    def is_needed(self) -> bool:
        """Return whether there is anything to write or, of a run that is resumed, to record."""
        return bool(self.plan.changes or (self.resumed is not None and self.plan.steps))


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a run; ``reshape`` is the plan that was carried out, if it was a reshape."""

    report: Report
    reshape: ReshapePlan | None = None


def judge_capacity(
    client: PlacementClient,
    plan: Plan,
    readings: Sequence[Reading] | None = None,
    *,
    aggregates: Sequence[str] = (),
    allow_overcommitted: bool = False,
    concurrency: int = CONCURRENCY,
) -> Plan:
    """Read the usages that `advise` needs, and return the plan with its warnings and refusals.

    :param readings: what the plan was made of, where their usages may be known; else those are read
    """
    if readings is None:
        readings = [Reading(step.subject, step.before) for step in plan.changes]
    shrinking = {step.uuid for step in plan.changes if is_shrinking(step)}
    concerned = [reading for reading in readings if reading.subject.uuid in shrinking]
    known = read_usages(client, concerned, concurrency=concurrency)
    unknown = {reading.subject.uuid: reading.error for reading in known if reading.error is not None}
    return advise(
        replace(plan, unreadable={**plan.unreadable, **unknown}),
        {reading.subject.uuid: reading.usages for reading in known if reading.usages is not None},
        aggregates=aggregates,
        allow_overcommitted=allow_overcommitted,
    )


def refuse_unknown(client: PlacementClient, plan: Plan) -> Plan:
    """Return the plan that refuses changes which add a trait or resource class that the server does not know.

    This is for saved plans, resumes and undos: the name was there when the change was planned or made, and
    somebody has deleted it since. What the plan itself creates is not missed. Raise PlacementError in place
    of refusing changes of a staged plan, as later stages may delete what these were to replace.
    """
    reasons: dict[str, list[str]] = {}
    for facet in ("inventories", "traits"):
        for uuid, error in _find_unknown(client, plan.changes, facet):
            reasons.setdefault(uuid, []).append(str(error))
    if not reasons:
        return plan
    if plan.is_staged:
        raise PlacementError(f"Nothing was changed: {'; '.join(next(iter(reasons.values())))}")
    refused = {uuid: PlacementError("; ".join(texts)) for uuid, texts in reasons.items()}
    return replace(plan, refused={**plan.refused, **refused})


def _find_unknown(
    client: PlacementClient, changes: Sequence[Change], facet: Literal["inventories", "traits"]
) -> Iterator[tuple[str, PlacementError]]:
    """Yield the UUIDs of changes that add traits or classes of inventories which the server does not know."""
    kind = "trait" if facet == "traits" else "resource class"
    created = {change.subject.name for change in changes if change.kind == kind and change.verb == "created"}
    added = {
        change.uuid: set(getattr(change.after, facet) or ())
        .difference(getattr(change.before, facet) or ())
        .difference(created)
        for change in changes
    }
    if not any(added.values()) or client.version < microversion.RESOURCE_CLASSES:
        return
    if facet == "traits":
        known = frozenset(client.list_traits())
    else:
        known = frozenset(document["name"] for document in client.list_resource_classes())
    for uuid, names in added.items():
        # a name that was right once needs no suggestion
        if unknown := sorted(names - known):
            yield uuid, UnknownTraits(unknown) if facet == "traits" else UnknownResourceClass(unknown[0])


def guard_devices(
    client: PlacementClient,
    plan: Plan,
    *,
    planned: Iterable[Change] = (),
    concurrency: int = CONCURRENCY,
) -> Plan:
    """Return the plan that refuses to release one-time-use devices that are in use, whatever its edit is.

    Usages are read now, after the inventories that were planned on: see `batch.device`. A provider whose
    usages cannot be read is not changed.

    :param planned: the same changes as they were planned before, for a run that is resumed or a saved plan;
        a device that was changed since may have been used again, and is refused too
    """
    known = {each.uuid: each.subject for each in planned}
    releasing = [step for step in plan.changes if is_releasing(step)]
    if not releasing:
        return plan
    found = read_usages(
        client, [Reading(step.subject, step.before) for step in releasing], concurrency=concurrency
    )
    unreadable: dict[str, Exception] = {}
    refused: dict[str, Exception] = {}
    changed = {
        step.uuid
        for step in releasing
        if known.get(step.uuid, step.subject).generation != step.subject.generation
    }
    asked = {each.subject.uuid for each in found if any((each.usages or {}).values())} | changed
    for step, reading in zip(_with_traits(client, releasing, asked, concurrency), found, strict=True):
        try:
            if reading.error is not None:
                raise reading.error
            require_unused(client, step, reading.usages)
            if step.uuid in changed:
                refuse_planned_again(client, step)
        except (DeviceInUse, MayBeUsedAgain) as error:
            refused[step.uuid] = error
        except Exception as error:  # whatever it is, it is about this provider only
            unreadable[step.uuid] = error
    # a journal keeps the generation of the first plan, so that the next resume refuses it as well
    steps = tuple(
        replace(step, subject=known[step.uuid])
        if isinstance(refused.get(step.uuid), MayBeUsedAgain)
        else step
        for step in plan.steps
    )
    return replace(
        plan,
        steps=steps,
        unreadable={**plan.unreadable, **unreadable},
        refused={**plan.refused, **refused},
    )


def _with_traits(
    client: PlacementClient, steps: Sequence[Change], asked: Set[str], concurrency: int
) -> list[Change]:
    """Return the steps with the traits of the providers that are asked for by UUID, if these can be read."""
    unknown = [step.subject for step in steps if step.before.traits is None and step.uuid in asked]
    if client.version < microversion.TRAITS:
        unknown = []
    found = read_states(client, unknown, ("traits",), concurrency=concurrency)
    traits = {each.subject.uuid: each.state.traits for each in found if each.state is not None}
    return [
        replace(step, before=replace(step.before, traits=traits[step.uuid])) if step.uuid in traits else step
        for step in steps
    ]


def read_run(client: PlacementClient, run_id: str, directory: pathlib.Path | None = None) -> Run:
    """Read a run; raise JournalError if it is under way, WrongServer if it is of another server.

    :param run_id: the ID, or a prefix that no other run's ID has
    """
    run = journal.read(run_id, directory)
    if run.is_running:
        raise JournalError(f"Run {run.header.id} is under way in another process")
    check_server(run.header.server, client.endpoint)
    return run


def resume(
    client: PlacementClient,
    run_id: str,
    read: ReadStates,
    *,
    dry_run: bool = False,
    allow_overcommitted: bool = False,
    drop_managed: bool = False,
    concurrency: int = CONCURRENCY,
    directory: pathlib.Path | None = None,
    command: str = RUN,
) -> Job:
    """Plan what is left of a run, in its own journal, which is locked unless it is a dry run.

    A warning says if the run was undone, and how to make these changes again. If the run protects allocated
    capacity (`keeps_capacity`), pending changes are judged again by what is allocated now, and if it keeps
    the traits that nova-compute reports (`keeps_managed`), by what it has reported since.

    :param command: the words before the verb of a command on runs, for the advice in a warning
    """
    recorder: Journal | None = None
    if dry_run:
        run = journal.read(run_id, directory)
    else:
        run, recorder = journal.reopen(run_id, directory)
    try:
        check_server(run.header.server, client.endpoint)
        kind, is_atomic = run.header.kind, bool(run.header.settings.get("atomic"))
        undone = find_undone([run, *journal.read_undos(run.header.id, directory)]).get(run.header.id)
        may_be_written = any(map(run.may_be_written, run.intents.values()))
        can_be_undone = may_be_written and not (undone and undone.is_whole)
        if kind == RESHAPE:
            require_planned(run)
            title, way_back = run.header.edit.title, undo_of(run.intents.values())
            task = plan_task(client, way_back.reverse(), title) if run.pending else None
            done = (Change(step.subject, step.after, step.after, FOUND_DONE) for step in run.pending)
            plan = _warn_of_resume(task.steps if task else plan_steps(title, done), run, undone, command)
            return Job(plan, "", kind, True, task, resumed=recorder, can_be_undone=can_be_undone)
        plan = refuse_unknown(client, plan_resume(run, read, command))
        plan = _warn_of_resume(plan, run, undone, command)
        if run.header.settings.get("keeps_capacity"):
            plan = judge_capacity(
                client, plan, allow_overcommitted=allow_overcommitted, concurrency=concurrency
            )
        if run.header.settings.get("keeps_managed") and not drop_managed:
            plan = refuse_each_dropped(plan)
        plan = guard_devices(client, plan, planned=run.pending, concurrency=concurrency)
        pace = Pace.from_settings(run.header.settings)
        return Job(
            plan,
            kind=kind,
            is_atomic=is_atomic,
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
    client: PlacementClient,
    run_id: str,
    read: ReadStates,
    *,
    force: bool = False,
    atomic: bool = False,
    concurrency: int = CONCURRENCY,
    directory: pathlib.Path | None = None,
    command: str = RUN,
) -> Job:
    """Plan the undo of a run, which is a run of its own.

    A reshape is undone in one transaction, whatever ``atomic`` says, and only if nobody changed the
    inventories since. Warn where less is left than is allocated: who asks for an undo is not refused it. Of
    an apply, whoever knows its file has to judge that.

    :param read: reads the subjects of the run's changes as they are now; not called for a reshape
    :param force: undo also where somebody else has since set what the run set, and leave what others set
    :param atomic: make all changes of the undo in one transaction
    :param command: the words before the verb of a command on runs, for the advice in a warning
    """
    run = read_run(client, run_id, directory)
    run_id = run.header.id
    selection = f"changed by run {run_id}"
    undone = find_undone([run, *journal.read_undos(run_id, directory)]).get(run_id)
    if run.header.kind != RESHAPE:
        plan = plan_undo(run, read, force=force, later=_read_later(run.header, directory), command=command)
        plan = refuse_unknown(client, plan)
        if atomic and plan.refused:
            told = f"changed since: {name_refused(plan)}; {plan.warnings[0]}" if plan.warnings else ""
            reason = told or next(iter(plan.refused.values()))
            raise PlacementError(f"Nothing was changed, as all or nothing was asked for: {reason}")
        plan = guard_devices(client, _warn_of_undo(plan, run_id, undone), concurrency=concurrency)
        if plan.is_staged:
            return Job(plan, selection, APPLY, atomic, undoes=run_id)
        plan = judge_capacity(client, plan, allow_overcommitted=True, concurrency=concurrency)
        return Job(plan, selection, is_atomic=atomic, undoes=run_id)
    title = run.header.title_of_undo
    intents = tuple(run.intents.values()) if run.is_planned else ()
    task = plan_task(client, undo_of(intents), title)
    done_already = (Change(step.subject, step.before, step.before, FOUND_UNDONE) for step in intents)
    plan = _warn_of_undo(task.steps if task else plan_steps(title, done_already), run_id, undone)
    return Job(plan, selection, RESHAPE, True, task, undoes=run_id)


def _warn_of_undo(plan: Plan, run_id: str, undone: Undone | None) -> Plan:
    """Return the plan of an undo that tells what is undone of the run already, and how much is left to do."""
    if undone is None:
        return plan
    again = len(plan.changes) + sum(isinstance(each, ChangedSince) for each in plan.refused.values())
    found = len(plan.changes) + len(plan.unreached)
    left = f"; {count_changes(found)} {'is' if found == 1 else 'are'} left to undo"
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


def _read_later(header: Header, directory: pathlib.Path | None) -> Iterator[Run]:
    """Yield runs that were started after a run and concern the same facets, the last first.

    PERF: of others only the first line is read, and of these no more than `MOST_LATER`, as each takes 0.3 s
    for 10,000 changes.
    """
    number = 0
    for later in journal.read_headers(header.server, directory):
        if isinstance(later, JournalError):
            continue
        if later.id <= header.id or number == MOST_LATER:
            return
        if not set(later.edit.facets).isdisjoint(header.edit.facets):
            number += 1
            with contextlib.suppress(JournalError):
                yield journal.read(later.id, directory)


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


def start(
    client: PlacementClient,
    job: Job,
    directory: pathlib.Path | None = None,
    pace: Pace | None = None,
) -> Journal:
    """Create resource classes, and record on the disk what will be done; return the journal.

    The journal of a new run keeps the pace for its resumes.

    Raise VersionTooLow if the version in use cannot write the plan, JournalError if it cannot be recorded,
    and PlacementError if it is a transaction that the server does not have, or does not let the caller make.
    """
    require_versions(client, job.plan)
    require_transaction(client, job)
    for name in sorted(job.classes):
        client.ensure_resource_class(name)
    if job.resumed is not None:
        job.resumed.begin(job.plan)
        return job.resumed
    settings = {
        "atomic": job.is_atomic,
        "keeps_capacity": job.plan.keeps_capacity,
        **({"keeps_managed": True} if job.plan.keeps_managed else {}),
        **({"kind": job.kind} if job.kind else {}),
        **(pace.to_settings() if pace else {}),
    }
    return journal.create(
        client.endpoint,
        job.plan,
        selection=job.selection,
        undoes=job.undoes,
        settings=settings,
        directory=directory,
    )


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
    on_write: Callable[[], None] = lambda: None,
) -> Result:
    """Do what was recorded, record how it ended, and close the journal.

    ``on_event`` is told what the control file brought about, and that canaries are as planned; ``on_pause``
    whether the run is paused; ``on_write`` is called before a reshape is sent.
    """
    pace = pace or Pace()
    reshape: ReshapePlan | None = None
    try:
        if job.reshape is not None:
            reshape, report = execute_reshape(client, job.reshape, recorder, on_write)
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
                control=pace.control or recorder.control,
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
        return Result(recorder.end_sitting(report), reshape)
    finally:
        recorder.close()


def plan_resume(run: Run, read: ReadStates, command: str = RUN) -> Plan:
    """Plan what is left of a run; a provider that has what was planned comes with nothing to change.

    :param command: the words before the verb of a command on runs, for the advice in a warning
    """
    if run.header.kind == RESHAPE:
        raise OtherKind(run)
    require_planned(run)
    pending = run.pending
    edit = run.header.edit
    if run.header.undoes and type(edit) is Recorded:
        # an undo never writes over others, also where its journal has no more than the title of its edit
        edit = UndoEdit(edit.title, edit.facets, force=False)
    edits = edits_of(edit, pending)
    steps: list[Change] = []
    unreadable: dict[str, Exception] = {}
    refused: dict[str, Exception] = {}
    changed: list[ChangedSince] = []
    overwritten: list[str] = []
    written: dict[str, Set[Facet]] = {}
    temporary = find_temporary_inventories(tuple(run.intents.values())) if run.header.kind == APPLY else {}
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
        state = settle_name(reading.state, change.subject, change.before.identity)
        if is_overtaken_for(edits.get(change.uuid, edit), change, reading.subject, state):
            unreadable[change.uuid] = Overtaken(reading.subject.name)
            steps.append(change)
            continue
        try:
            if has_inventories(state, temporary.get(change.uuid)):
                step = replace(change, subject=reading.subject)
            else:
                step = _resume_step(change, edits.get(change.uuid, edit), reading.subject, state)
                if _overwrites(step, change, state) and not isinstance(edit, UndoEdit):
                    overwritten.append(change.subject.name)
            steps.append(step)
            written[step.uuid] = {
                facet for facet in step.facets if getattr(step.before, facet) != getattr(state, facet)
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
    left = {step.uuid for step in steps}
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
        done=tuple(change for uuid, change in run.intents.items() if uuid not in left),
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
        f"{len(names):,} of {count_changes(number)} {verb} what was set since the run was planned, on "
        f"{list_names(names, MOST_NAMES)}"
    )


def _resume_step(change: Change, edit: Edit, subject: Subject, state: ProviderState) -> Change:
    if not change.facets:
        return plan_change(edit, subject, state)
    if holds(state, change.after, change.compared_facets):
        return Change(subject, change.after, change.after, FOUND_DONE)
    if holds(state, change.before, change.facets) or is_half_written(change, state):
        return replace(change, subject=subject)
    again = plan_change(edit, subject, state)
    return rebase(change, again, change.facets) if again.facets else again
