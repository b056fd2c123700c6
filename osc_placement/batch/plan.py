# SPDX-License-Identifier: Apache-2.0
"""The values of a batch: states of providers, changes, a plan, outcomes, a report.

Pure. What to change is an ``Edit`` (inventory.py, membership.py); select.py reads and execute.py writes.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol

# a name of this module's, too: it is what a change may be about
from osc_placement.api.consumer import Consumer as Consumer
from osc_placement.batch.facets import (
    ABSENT,
    ALL_FACETS,
    FACETS,
    NO_GENERATION,
    Facet,
    ProviderState,
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
#: the kind of a run that makes the state of a file, in the settings of its journal
APPLY: Final = "apply"
#: the format of a file with a saved plan
SAVED: Final = "osc-placement-plan"

EXIT_DONE: Final = 0
EXIT_PARTIAL: Final = 3
EXIT_INTERRUPTED: Final = 130


#: the words for what a provider or consumer can lose while it stays
_PARTS: Final[Mapping[Facet, tuple[str, str]]] = {
    "inventories": ("inventory", "inventories"),
    "traits": ("trait", "traits"),
    "aggregates": ("aggregate", "aggregates"),
    "allocations": ("allocation", "allocations"),
}

#: what a change may be about
Kind = Literal["resource class", "trait", "resource provider", "consumer"]
PLURALS: Final[Mapping[Kind, str]] = {
    "resource class": "resource classes",
    "trait": "traits",
    "resource provider": "resource providers",
    "consumer": "consumers",
}


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


def settle_name(state: ProviderState, subject: Subject, identity: frozenset[str] | None) -> ProviderState:
    """Return the state with this identity if a provider has the temporary name of a run that died."""
    if read_identity(state.identity)[0] == temporary_name(subject.uuid):
        return replace(state, identity=identity)
    return state


def temporary_name(uuid: str) -> str:
    """Return the name that a provider has while another one takes its name."""
    return f"renaming-{uuid}"


def describe_owner(project_id: str, user_id: str) -> frozenset[str]:
    """Return the owner of a consumer as states have it."""
    return frozenset((f"project_id={project_id}", f"user_id={user_id}"))


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


class UncheckedEdit:
    """The base of edits that fit any providers."""

    __slots__ = ()

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
class Change:
    """The states of a provider or consumer before and after; if they are equal, ``reason`` says why.

    It ``is_partial`` if it undoes a part, and leaves what was set again since.
    """

    subject: Subject
    before: ProviderState
    after: ProviderState
    reason: str = ""
    is_partial: bool = False

    @property
    def back(self) -> Change:
        """Return the change that takes this one back."""
        return Change(self.subject, self.after, self.before)

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
            return tuple(facet for facet in ALL_FACETS if getattr(self.after, facet) is not None)
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


class Gone(PlacementError):
    """A provider was deleted since it was planned."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"resource provider {name} does not exist any more")


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes that an edit makes on the selected providers, in the order of the selection.

    ``steps`` has an entry for every provider; ``unreadable`` holds, by UUID, why some could not be read, and
    ``refused`` why some must not be changed. ``edits`` has those of the steps that have their own.
    ``warnings`` is what an expert would say before it is carried out. With ``keeps_capacity`` what is planned
    again must not leave less than is allocated by then, and with ``keeps_managed`` not drop traits that
    nova-compute reports. ``selection`` is judged again before a provider is written, if there is one. It
    ``goes_on`` where a run was begun: what somebody else was faster with may be what that run wrote last.
    ``written`` has, by UUID, the facets of which it was found to have written a part. ``is_staged``: the
    steps depend on each other, and are made in the stages that `batch.stages` finds; ``done`` has the changes
    that the run made before it was resumed. ``found`` has, by UUID, the refused changes of an undo with what
    is there now in place of what was expected, and ``later`` the runs that set again what it was to restore,
    in the order in which they are to be undone, each with how many of these changes it set again.
    """

    edit: Edit
    steps: tuple[Change, ...]
    unreadable: Mapping[str, Exception] = field(default_factory=dict)
    refused: Mapping[str, Exception] = field(default_factory=dict)
    edits: Mapping[str, Edit] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    keeps_capacity: bool = False
    keeps_managed: bool = False
    selection: Selection | None = None
    goes_on: bool = False
    is_staged: bool = False
    done: tuple[Change, ...] = ()
    written: Mapping[str, Set[Facet]] = field(default_factory=dict)
    found: Mapping[str, Change] = field(default_factory=dict)
    later: tuple[tuple[str, int], ...] = ()
    #: by UUID, why a step will not be tried; PERF: it is looked up for every step
    untried: Mapping[str, Exception] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Merge the reasons why steps will not be tried."""
        object.__setattr__(self, "untried", {**self.unreadable, **self.refused})

    def show(self, step: Change) -> Change:
        """Return a step as people are shown it, from what is there now."""
        return self.found.get(step.uuid, step)

    def edit_of(self, step: Change) -> Edit:
        """Return the edit that plans a step again after a conflict."""
        return self.edits.get(step.uuid, self.edit)

    def end_untried(self, step: Change) -> Outcome:
        """Return the outcome of a step that cannot be carried out, or has nothing to change."""
        error = self.untried.get(step.uuid)
        if error is None:
            return Outcome(step, Result.UNCHANGED)
        refused = step.uuid in self.refused
        return Outcome(step, Result.FAILED, error=error, untouched=not self.goes_on, refused=refused)

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

    @property
    def _is_about_providers(self) -> bool:
        """Return whether each step changes one provider, so that these can be counted."""
        return not self.is_staged and all(isinstance(step.subject, Provider) for step in self.steps)

    def count(self, number: int) -> str:
        """Return a number of steps in words; those of a staged plan may be about consumers and names too."""
        return count_providers(number) if self._is_about_providers else count_changes(number)

    @property
    def question(self) -> str:
        """Return the question by which the plan is confirmed; it counts what is removed and deleted."""
        verb = "Change" if self._is_about_providers else "Make"
        removed = count_removed(self.changes)
        removing = f", removing {removed}" if removed else ""
        gone = Counter(step.kind for step in self.changes if step.verb == "deleted")
        deleting = f", deleting {count_things(gone)}" if gone else ""
        return f"{verb} {self.count(len(self.changes))}{removing}{deleting}?"

    @property
    def heading(self) -> str:
        """Return what the plan does, without numbers."""
        nothing = "" if self.changes or self.untried else "Nothing to do: "
        return f"{nothing}{self.edit.title}"

    @property
    def totals(self) -> str:
        """Return the numbers that follow the heading, without reasons."""
        return self._join_counts([f"{len(self.unchanged):,} unchanged"] if self.unchanged else [])

    @property
    def summary(self) -> str:
        """Return the plan in one line, with the reasons why providers stay as they are."""
        numbers = Counter(step.reason for step in self.unchanged)
        # not in the order of the server, which changes as it likes
        reasons = sorted((-number, reason) for reason, number in numbers.items())
        return self.heading + self._join_counts(
            [f"{-number:,} unchanged ({reason})" for number, reason in reasons]
        )

    def _join_counts(self, unchanged: Sequence[str]) -> str:
        verb = "change" if self._is_about_providers else "make"
        partial = f" ({self.partial:,} in part: {NEW_STAYS})" if self.partial else ""
        counts = [f"{self.count(len(self.changes))} to {verb}{partial}", *unchanged]
        counts += [f"{len(self.unreadable):,} could not be read"] if self.unreadable else []
        counts += [f"{len(self.refused):,} refused"] if self.refused else []
        return ": " + ", ".join(counts)


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
    def words(self) -> Mapping[str, int]:
        """Return the number of providers by result; refused and done in part are results of their own."""
        numbers = Counter(outcome.word for outcome in self.outcomes)
        order = (Result.APPLIED, IN_PART, Result.UNCHANGED, Result.FAILED, REFUSED, Result.SKIPPED)
        return {str(word): numbers[word] for word in order if numbers[word]}

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

    @property
    def heading(self) -> str:
        """Return what was done, without numbers."""
        if not self.outcomes:
            return f"Nothing to do: {self.plan.edit.title}"
        is_vain = self.wrote_nothing and self.exit_status != EXIT_DONE
        return f"{'Nothing was changed: ' if is_vain else ''}{self.plan.edit.title}"

    @property
    def totals(self) -> str:
        """Return the numbers that follow the heading, and why the run stopped itself."""
        counts = [f"{number:,} {word}" for word, number in self.words.items()]
        told = f": {self.plan.count(len(self.outcomes))}, {', '.join(counts)}" if counts else ""
        return f"{told}; {self.halted}" if self.halted else told

    @property
    def summary(self) -> str:
        """Return the report in one line."""
        return self.heading + self.totals


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


def count_changes(number: int) -> str:
    """Return a number of changes in words."""
    return f"{number:,} change{'' if number == 1 else 's'}"


def name_kind(kind: Kind, number: int) -> str:
    """Return the noun for so many things of a kind."""
    return kind if number == 1 else PLURALS[kind]


def count_things(numbers: Mapping[Kind, int]) -> str:
    """Return numbers of things in words."""
    counts = [f"{number:,} {name_kind(kind, number)}" for kind, number in numbers.items() if number]
    return ", ".join(counts) or "nothing"


def list_removed(change: Change) -> Iterator[tuple[Facet, str]]:
    """Yield what a change takes from a provider or consumer that stays: facets, with names of what goes.

    A consumer loses a class if it holds it of fewer providers.
    """
    if change.verb != "updated":
        return
    for facet in FACETS:
        before, after = getattr(change.before, facet), getattr(change.after, facet)
        if None not in (before, after):
            yield from ((facet, name) for name in sorted(set(before) - set(after)))
    if isinstance(change.subject, Consumer):
        held, kept = (
            Counter(name for amounts in (state.allocations or {}).values() for name in amounts)
            for state in (change.before, change.after)
        )
        yield from (("allocations", name) for name in sorted((held - kept).elements()))


def count_removed(changes: Iterable[Change]) -> str:
    """Return in words how much changes take from providers and consumers that stay; "" if it is nothing."""
    numbers = Counter(facet for change in changes for facet, _name in list_removed(change))
    counts = [
        f"{numbers[facet]:,} {words[numbers[facet] > 1]}" for facet, words in _PARTS.items() if numbers[facet]
    ]
    return ", ".join(counts)


def count_providers(number: int) -> str:
    """Return a number of resource providers in words."""
    return f"{number:,} resource provider{'' if number == 1 else 's'}"
