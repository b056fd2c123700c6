# SPDX-License-Identifier: Apache-2.0
"""The values of a batch: states of providers, changes, a plan, outcomes, a report.

Pure. What to change is an ``Edit`` (inventory.py, membership.py); select.py reads and execute.py writes.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol

# a name of this module's, too: it is what a change may be about
from osc_placement.api.consumer import Consumer as Consumer
from osc_placement.batch.facets import (
    ABSENT,
    NO_GENERATION,
    Facet,
    ProviderState,
    describe_identity,
    find_differing,
    read_identity,
)
from osc_placement.errors import PlacementError
from osc_placement.model import Provider

if TYPE_CHECKING:
    from osc_placement.batch.selection import Selection

#: the reason for which a change that was recorded before is not made
FOUND_DONE: Final = "was done already"
#: the reason of a change that undoes a part, and leaves what was set again since
NEW_STAYS: Final = "changed since; what was set since stays"
#: the kinds of runs, in the settings of their journals, that are resumed and undone otherwise: of a plan
#: whose steps depend on each other, such as that of a state file, and of a reshape
APPLY: Final = "apply"
RESHAPE: Final = "reshape"
#: the format of a file with a saved plan
SAVED: Final = "osc-placement-plan"

EXIT_DONE: Final = 0
EXIT_PARTIAL: Final = 3
EXIT_INTERRUPTED: Final = 130


#: what a change may be about
Kind = Literal["resource class", "trait", "resource provider", "consumer"]


@dataclass(frozen=True, slots=True)
class CustomName:
    """A custom trait or resource class, of which a change says whether it exists."""

    kind: Literal["trait", "resource class"]
    name: str

    @property
    def uuid(self) -> str:
        """Return what tells it from all other subjects of a run."""
        return f"{self.kind} {self.name}"

    @property
    def generation(self) -> None:
        """Return None: a name has no generation."""


#: whom a change is about
Subject = Provider | Consumer | CustomName


def identity_of(subject: Provider | CustomName) -> frozenset[str]:
    """Return the identity that a provider or name has now."""
    return describe_identity(subject.name, getattr(subject, "parent_provider_uuid", None))


def _nothing_of(subject: Provider | CustomName) -> ProviderState:
    """Return the state of a provider or name that does not exist."""
    if isinstance(subject, CustomName):
        return ProviderState(identity=ABSENT)
    return ProviderState({}, frozenset(), frozenset(), identity=ABSENT)


def temporary_name(uuid: str) -> str:
    """Return the name that a provider has while another one takes its name."""
    return f"renaming-{uuid}"


def set_owner(consumer: Consumer, owner: frozenset[str] | None) -> Consumer:
    """Return the consumer with an owner that `describe_owner` made; None keeps the one it has."""
    values = dict(text.split("=", 1) for text in owner or ())
    return replace(
        consumer,
        project_id=values.get("project_id", consumer.project_id),
        user_id=values.get("user_id", consumer.user_id),
    )


@dataclass(frozen=True, slots=True)
class Reading:
    """A provider or consumer as it was read, with the generation of the state; or why it could not be."""

    subject: Subject
    state: ProviderState | None = None
    error: Exception | None = None
    usages: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The state that an edit makes of another, with the reason if it changes nothing.

    It ``is_partial`` if it undoes a part, and leaves what was set again since.
    """

    after: ProviderState
    reason: str = ""
    is_partial: bool = False


class Edit(Protocol):
    """A rule that turns the state of any provider into another; equal states give equal decisions.

    It leaves its own result as it is, since a resume may apply it to a state that has it already.
    """

    @property
    def title(self) -> str:
        """Return the edit in the words of the command line."""

    @property
    def facets(self) -> tuple[Facet, ...]:
        """Return the facets that must be read of a provider to decide."""

    def check(self, states: Sequence[ProviderState]) -> None:
        """Raise PlacementError if the edit makes no sense for these providers taken together."""

    def decide(self, state: ProviderState) -> Decision:
        """Return the state that this edit makes of a state."""

    def edit_of(self, step: Change) -> Edit:
        """Return the edit that plans a step of its plan again, which may be this one."""


class UncheckedEdit:
    """The base of edits that fit any providers, and plan each of them again as they planned it."""

    __slots__ = ()

    def edit_of(self: Edit, step: Change) -> Edit:
        """Return this edit."""
        return self

    def check(self, states: Sequence[ProviderState]) -> None:
        """Do nothing."""


class JournalledEdit(UncheckedEdit):
    """The base of edits that journals and saved plans contain as a whole, so that they are planned again.

    Each is in `EDITS` of journal/record.py.

    :cvar kind: its name there
    """

    __slots__ = ()
    kind: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the edit."""
        raise NotImplementedError

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Edit:
        """Return the edit that has these fields."""
        raise NotImplementedError


class EditRefused(PlacementError):
    """An edit makes no sense for the providers selected."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The things that a plan may take away; a journal keeps it for the resumes of its run.

    :ivar capacity: a change that leaves less than is allocated is refused ("keep"), made with a warning
        ("exceed"), or left to the server, which refuses what is in use only ("ignore")
    :ivar keeps_managed: whether an edit that replaces traits must leave those that nova-compute reports
    """

    capacity: Literal["keep", "exceed", "ignore"] = "ignore"
    keeps_managed: bool = False

    @classmethod
    def for_operator(cls, *, force: bool = False) -> Policy:
        """Return the policy of commands, which take away only what ``--force`` allows."""
        return cls("exceed") if force else cls("keep", keeps_managed=True)


@dataclass(frozen=True, slots=True)
class Change:
    """The states of a provider or consumer before and after; if they are equal, ``reason`` says why.

    It ``is_partial`` if it undoes a part, and leaves what was set again since. Where
    inventories are written twice, ``halves`` has what the first writes leave.
    """

    subject: Subject
    before: ProviderState
    after: ProviderState
    reason: str = ""
    is_partial: bool = False
    halves: tuple[ProviderState, ...] = ()

    @classmethod
    def creating(cls, subject: Provider | CustomName, reason: str = "", **facets: Any) -> Change:
        """Return the creation of a provider that gets these facets, or of a name."""
        if isinstance(subject, Provider):
            subject = replace(subject, generation=NO_GENERATION)
        nothing = _nothing_of(subject)
        return cls(subject, nothing, replace(nothing, identity=identity_of(subject), **facets), reason)

    @classmethod
    def deleting(cls, subject: Provider | CustomName, state: ProviderState | None = None) -> Change:
        """Return the deletion of a provider in this state, or of a name."""
        return cls(
            subject, replace(state or ProviderState(), identity=identity_of(subject)), _nothing_of(subject)
        )

    def and_identify(self, name: str, parent: str | None) -> Change:
        """Return the change of a provider that also gives it this name and parent."""
        assert isinstance(self.subject, Provider)
        before = replace(self.before, identity=identity_of(self.subject))
        after = replace(self.after, identity=describe_identity(name, parent))
        return replace(self, before=before, after=after)

    @property
    def back(self) -> Change:
        """Return the change that takes this one back."""
        return Change(self.subject, self.after, self.before, halves=self.halves)

    @property
    def facets(self) -> tuple[Facet, ...]:
        """Return the facets that have to be written; none if there is nothing to do."""
        return find_differing(self.before, self.after)

    @property
    def compared_facets(self) -> tuple[Facet, ...]:
        """Return the facets that tell whether the change was made, and whether others changed the same.

        For what is created or deleted, these are all that are known: a deletion takes what others added.
        """
        if "identity" in self.facets and ABSENT in (self.before.identity, self.after.identity):
            return tuple(self.after.known)
        return self.facets

    @property
    def is_new(self) -> bool:
        """Return whether a provider or a name does not exist before, and does after."""
        return self.before.identity == ABSENT and bool(self.after.identity)

    @property
    def is_creation(self) -> bool:
        """Return whether a provider is created."""
        is_new = isinstance(self.subject, Provider) and self.subject.generation == NO_GENERATION
        return is_new and bool(self.after.identity)

    @property
    def kind(self) -> Kind:
        """Return what kind of thing it is about."""
        if isinstance(self.subject, CustomName):
            return self.subject.kind
        return "consumer" if isinstance(self.subject, Consumer) else "resource provider"

    @property
    def verb(self) -> Literal["created", "deleted", "updated"]:
        """Return what becomes of it; a consumer exists while something is allocated to it."""
        facet = "allocations" if isinstance(self.subject, Consumer) else "identity"
        before, after = getattr(self.before, facet), getattr(self.after, facet)
        if before == after or None in (before, after):
            return "updated"
        return "deleted" if not after else "updated" if before else "created"

    @property
    def uuid(self) -> str:
        """Return the UUID of the provider or consumer."""
        return self.subject.uuid

    @property
    def name_after(self) -> str:
        """Return the name that the subject has after the change, or had until then."""
        return read_identity(self.after.identity)[0] or self.subject.name


class Gone(PlacementError):
    """A provider was deleted since it was planned."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"resource provider {name} does not exist any more")


@dataclass(frozen=True)
class Plan:
    """The changes that an edit makes on the selected providers, in the order of the selection.

    ``steps`` has an entry for every provider; ``unreadable`` holds, by UUID, why some could not be read, and
    ``refused`` why some must not be changed. ``edits`` has, by UUID, what plans steps again instead of
    `Edit.edit_of`.
    ``warnings`` is what an expert would say before it is carried out. ``policy`` holds for what is planned
    again, too. ``objection`` says why nothing of the plan may be written, and is empty if some may.
    ``selection`` is judged again before a provider is written, if there is one. It
    ``goes_on`` where a run was begun: what somebody else was faster with may be what that run wrote last.
    ``written`` has, by UUID, the facets of which it was found to have written a part. ``is_staged``: the
    steps depend on each other, and are made in the stages that `batch.stages` finds. ``found`` has, by UUID,
    the refused changes of an undo with what is there now in place of what was expected, and ``later`` the
    runs that set again what it was to restore, in the order in which they are to be undone, each with how
    many of these changes it set again.
    """

    edit: Edit
    steps: tuple[Change, ...]
    unreadable: Mapping[str, Exception] = field(default_factory=dict)
    refused: Mapping[str, Exception] = field(default_factory=dict)
    edits: Mapping[str, Edit] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    policy: Policy = Policy()
    objection: str = ""
    selection: Selection | None = None
    goes_on: bool = False
    is_staged: bool = False
    written: Mapping[str, Set[Facet]] = field(default_factory=dict)
    found: Mapping[str, Change] = field(default_factory=dict)
    later: tuple[tuple[str, int], ...] = ()

    @cached_property
    def untried(self) -> Mapping[str, Exception]:
        """Return, by UUID, why steps will not be tried; PERF: it is looked up for every step."""
        return {**self.unreadable, **self.refused}

    @cached_property
    def _by_uuid(self) -> Mapping[str, Change]:
        return {step.uuid: step for step in self.steps}

    def require_allowed(self) -> None:
        """Raise PlacementError if nothing of the plan may be written."""
        if self.objection:
            raise PlacementError(f"Nothing was changed: {self.objection}")

    def show(self, step: Change) -> Change:
        """Return a step as people are shown it, from what is there now."""
        return self.found.get(step.uuid, step)

    def edit_of(self, step: Change) -> Edit:
        """Return the edit that plans a step again after a conflict, however often it was since."""
        return self.edits.get(step.uuid) or self.edit.edit_of(self._by_uuid[step.uuid])

    def end_untried(self, step: Change) -> Outcome:
        """Return the outcome of a step that cannot be carried out, or has nothing to change."""
        error = self.untried.get(step.uuid)
        if error is None:
            return Outcome(step, Result.UNCHANGED)
        refused = step.uuid in self.refused
        return Outcome(step, Result.FAILED, error=error, untouched=not self.goes_on, refused=refused)

    def end(self) -> Report:
        """Return the report of a plan that has nothing to write."""
        return Report(self, tuple(map(self.end_untried, self.steps)))

    def replaces_intent(self, again: Change) -> bool:
        """Return whether a change that was planned again replaces the one planned.

        Not where a run goes on and nothing is left to do: a request that it sent before it died may have
        been carried out since, and the intent kept then has what undo needs.
        """
        return bool(again.facets) or not self.goes_on

    @property
    def changes(self) -> tuple[Change, ...]:
        """Return the steps that change something."""
        return tuple(step for step in self.steps if step.facets and step.uuid not in self.untried)

    @property
    def unreached(self) -> tuple[Change, ...]:
        """Return the steps that are intended and will not be tried; a journal keeps them for a resume."""
        return tuple(step for step in self.steps if step.uuid in self.untried)

    @property
    def unchanged(self) -> tuple[Change, ...]:
        """Return the steps that change nothing."""
        return tuple(step for step in self.steps if not step.facets and step.uuid not in self.untried)

    @property
    def partial(self) -> int:
        """Return how many changes undo a part and leave what was set again since."""
        return sum(step.is_partial for step in self.changes)


class Result(enum.StrEnum):
    """The kind of the outcome of a change."""

    APPLIED = "applied"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    SKIPPED = "skipped"


#: the word for what failed without being tried, because the plan refused it
REFUSED: Final = "refused"
#: the word for what was applied in part, as an undo leaves what was set again since
IN_PART: Final = "in part"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a change.

    :ivar change: the change as it was planned last, which may have been after a conflict
    :ivar attempts: number of writes that were tried; ``generation`` is that of the provider after the last
    :ivar note: why it was skipped, or how it is known to be applied although the answer was lost
    :ivar untouched: whether it is certain that nothing of it was or will be written; it failed, was skipped,
        or its provider is not selected any more
    :ivar rejected: whether the server refused it for a reason that stays, so that a repetition is refused
    :ivar refused: whether it failed because the plan refused it, and was not tried
    """

    change: Change
    result: Result
    attempts: int = 0
    generation: int | None = None
    error: Exception | None = None
    note: str = ""
    untouched: bool = False
    rejected: bool = False
    refused: bool = False

    @property
    def word(self) -> str:
        """Return the result as people and the rows of commands are told it."""
        if self.is_partial:
            return IN_PART
        return REFUSED if self.refused else str(self.result)

    @property
    def is_partial(self) -> bool:
        """Return whether the change was applied in part, as what was set again since stays."""
        return self.result is Result.APPLIED and self.change.is_partial


def for_changes(plan: Plan, call: Callable[[Outcome], None]) -> Callable[[Outcome], None]:
    """Return a function that calls ``call`` with each outcome of a step that the plan changes."""
    changing = {change.uuid for change in plan.changes}

    def tell(outcome: Outcome) -> None:
        if outcome.change.uuid in changing:
            call(outcome)

    return tell


@dataclass(frozen=True, slots=True)
class Report:
    """An outcome for every provider selected, in the order of the selection.

    ``interrupted``: somebody stopped the run before its end; ``halted`` says why the run itself did.
    """

    plan: Plan
    outcomes: tuple[Outcome, ...]
    interrupted: bool = False
    halted: str = ""

    @property
    def is_untouched(self) -> bool:
        """Return whether nothing was written, so that there is nothing to undo."""
        return all(outcome.untouched or outcome.result is Result.UNCHANGED for outcome in self.outcomes)

    @property
    def wrote_nothing(self) -> bool:
        """Return whether this attempt wrote nothing; one before it may have, if the run is resumed."""
        return all(
            outcome.untouched or outcome.refused or outcome.result is Result.UNCHANGED
            for outcome in self.outcomes
        )

    @property
    def is_refused(self) -> bool:
        """Return whether a resume would be refused again, as things are.

        The plan refused all that was not done, or the server refused it and nothing was written at all.
        """
        if self.interrupted:
            return False
        refused = self.plan.refused
        pending = [
            outcome
            for outcome in self.outcomes
            if outcome.result not in (Result.APPLIED, Result.UNCHANGED) and outcome.change.uuid not in refused
        ]
        if not pending:
            return not self.halted
        return self.is_untouched and all(outcome.rejected for outcome in pending)

    @property
    def counts(self) -> Counter[Result]:
        """Return the number of providers by result."""
        return Counter(outcome.result for outcome in self.outcomes)

    @property
    def partial(self) -> int:
        """Return how many changes were applied in part, as what was set again since stays."""
        return sum(outcome.is_partial for outcome in self.outcomes)

    @property
    def is_failed(self) -> bool:
        """Return whether a change failed or the run stopped itself, as when it cannot write its journal."""
        return bool(self.counts[Result.FAILED] or self.halted)

    @property
    def exit_status(self) -> int:
        """Return the exit status of a process that did this and nothing else."""
        if self.interrupted:
            return EXIT_INTERRUPTED
        return EXIT_PARTIAL if self.is_failed or self.partial else EXIT_DONE


def make_plan(edit: Edit, readings: Iterable[Reading], selection: Selection | None = None) -> Plan:
    """Decide for every provider read; ``selection`` is judged again before each is written.

    Raises PlacementError if the edit does not fit the providers at all, and the first provider's own error if
    none of them could be read.
    """
    readings = list(readings)
    states = [reading.state for reading in readings if reading.state is not None]
    unreadable = {reading.subject.uuid: reading.error for reading in readings if reading.error is not None}
    if unreadable and not states:
        raise next(iter(unreadable.values()))
    edit.check(states)
    steps = tuple(
        plan_change(edit, reading.subject, reading.state)
        if reading.state is not None
        else Change(reading.subject, ProviderState(), ProviderState(), f"could not be read: {reading.error}")
        for reading in readings
    )
    return Plan(edit, steps, unreadable, selection=selection)


def refuse_gone(plan: Plan) -> Plan:
    """Return the plan with providers that were deleted refused: no resume will ever read them."""
    gone = {uuid: error for uuid, error in plan.unreadable.items() if isinstance(error, Gone)}
    if not gone:
        return plan
    others = {uuid: error for uuid, error in plan.unreadable.items() if uuid not in gone}
    return replace(plan, unreadable=others, refused={**gone, **plan.refused})


def plan_change(edit: Edit, subject: Subject, state: ProviderState) -> Change:
    """Decide for one provider or consumer."""
    decision = edit.decide(state)
    return Change(subject, state, decision.after, decision.reason, decision.is_partial)
