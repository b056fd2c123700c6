# SPDX-License-Identifier: Apache-2.0
"""What a batch will do and what it did, as values: provider states, changes, a plan, outcomes, a report.

Pure. What to change is an ``Edit`` (inventory.py, membership.py); select.py reads and execute.py writes.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from osc_placement.errors import PlacementError
from osc_placement.model import Inventory, Provider

Facet = Literal["inventories", "traits", "aggregates"]
#: all facets, in the order in which they are written
FACETS: Final[tuple[Facet, ...]] = ("inventories", "traits", "aggregates")

EXIT_DONE: Final = 0
EXIT_PARTIAL: Final = 3
EXIT_INTERRUPTED: Final = 130


@dataclass(frozen=True, slots=True)
class ProviderState:
    """What a provider holds, as far as it was asked for: None is "not asked", which is not "nothing"."""

    inventories: Mapping[str, Inventory] | None = None
    traits: frozenset[str] | None = None
    aggregates: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """A provider as it was read, its generation being that of the state; or why it could not be read."""

    provider: Provider
    state: ProviderState | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What an edit makes of a state, and what there is to say about it."""

    after: ProviderState
    reason: str = ""


class Edit(Protocol):
    """An intention that holds for any provider; the same state always gives the same decision."""

    @property
    def title(self) -> str:
        """The edit in the words of the command line."""

    @property
    def facets(self) -> tuple[Facet, ...]:
        """What must be read of a provider to decide."""

    def check(self, states: Sequence[ProviderState]) -> None:
        """Raise PlacementError if the edit makes no sense for these providers taken together."""

    def decide(self, state: ProviderState) -> Decision:
        """Say what the state shall become."""


class EditRefused(PlacementError):
    """An edit makes no sense for the providers selected."""


@dataclass(frozen=True, slots=True)
class Change:
    """What one provider is and what it shall be; the two may be equal, and ``reason`` then says why."""

    provider: Provider
    before: ProviderState
    after: ProviderState
    reason: str = ""

    @property
    def facets(self) -> tuple[Facet, ...]:
        """What has to be written; empty if there is nothing to do."""
        return tuple(facet for facet in FACETS if getattr(self.before, facet) != getattr(self.after, facet))


@dataclass(frozen=True, slots=True)
class Plan:
    """What an edit means for each provider selected, in the order of the selection.

    ``steps`` has an entry for every provider; ``unreadable`` holds, by UUID, why some could not be read.
    """

    edit: Edit
    steps: tuple[Change, ...]
    unreadable: Mapping[str, Exception] = field(default_factory=dict)

    @property
    def changes(self) -> tuple[Change, ...]:
        """The steps that change something."""
        return tuple(step for step in self.steps if step.facets)

    @property
    def unchanged(self) -> tuple[Change, ...]:
        """The steps that find nothing to do."""
        return tuple(
            step for step in self.steps if not step.facets and step.provider.uuid not in self.unreadable
        )

    @property
    def summary(self) -> str:
        """The plan in one line."""
        reasons = Counter(step.reason for step in self.unchanged)
        nothing = "" if self.changes or self.unreadable else "Nothing to do: "
        return f"{nothing}{self.edit.title}: " + ", ".join(
            [f"{count_providers(len(self.changes))} to change"]
            + [f"{number} unchanged ({reason})" for reason, number in reasons.items()]
            + ([f"{len(self.unreadable)} could not be read"] if self.unreadable else [])
        )


class Result(enum.StrEnum):
    """How it ended for one provider."""

    APPLIED = "applied"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended for one provider.

    ``change`` is the last plan made for it, which another writer's interference may have renewed;
    ``attempts`` counts the writes tried, ``generation`` is the provider's after the last of them.
    """

    change: Change
    result: Result
    attempts: int = 0
    generation: int | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """An outcome for every provider selected, in the order of the selection."""

    plan: Plan
    outcomes: tuple[Outcome, ...]
    interrupted: bool = False

    @property
    def counts(self) -> Counter[Result]:
        """How many providers ended how."""
        return Counter(outcome.result for outcome in self.outcomes)

    @property
    def exit_status(self) -> int:
        """What a process should end with that did this and nothing else."""
        if self.interrupted:
            return EXIT_INTERRUPTED
        return EXIT_PARTIAL if self.counts[Result.FAILED] else EXIT_DONE

    @property
    def summary(self) -> str:
        """The report in one line."""
        counts = [f"{self.counts[result]} {result}" for result in Result if self.counts[result]]
        return f"{self.plan.edit.title}: {count_providers(len(self.outcomes))}, " + ", ".join(counts)


def make_plan(edit: Edit, readings: Iterable[Reading]) -> Plan:
    """Decide for every provider read.

    Raises PlacementError if the edit does not fit the providers at all, and the first provider's own error if
    none of them could be read.
    """
    readings = list(readings)
    states = [reading.state for reading in readings if reading.state is not None]
    unreadable = {reading.provider.uuid: reading.error for reading in readings if reading.error is not None}
    if unreadable and not states:
        raise next(iter(unreadable.values()))
    edit.check(states)
    return Plan(edit, tuple(_plan_step(edit, reading) for reading in readings), unreadable)


def _plan_step(edit: Edit, reading: Reading) -> Change:
    if reading.state is None:
        reason = f"could not be read: {reading.error}"
        return Change(reading.provider, ProviderState(), ProviderState(), reason)
    return plan_change(edit, reading.provider, reading.state)


def plan_change(edit: Edit, provider: Provider, state: ProviderState) -> Change:
    """Decide for one provider."""
    decision = edit.decide(state)
    return Change(provider, state, decision.after, decision.reason)


def count_providers(number: int) -> str:
    """A number of resource providers in words."""
    return f"{number} resource provider{'' if number == 1 else 's'}"
