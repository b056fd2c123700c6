# SPDX-License-Identifier: Apache-2.0
"""The results of an apply by the kinds of things that a state file has. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final, Literal

from osc_placement.api.consumer import Consumer
from osc_placement.batch.plan import (
    EXIT_DONE,
    EXIT_INTERRUPTED,
    EXIT_PARTIAL,
    Change,
    CustomName,
    Outcome,
    Report,
    Result,
    read_identity,
)
from osc_placement.errors import OutcomeUnknown, is_outcome_unknown
from osc_placement.state.plan import Kind

Done = Literal["created", "updated", "deleted", "unchanged", "failed", "unknown", "skipped"]
#: results of things that were tried and are not known to have succeeded
_FAILED: Final = ("failed", "unknown")


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of one step."""

    kind: Kind
    name: str
    done: Done
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class ApplyReport:
    """The results of all steps of a plan; ``halted`` says why the run stopped itself, if it did."""

    results: tuple[StepResult, ...]
    halted: str = ""

    @property
    def failures(self) -> tuple[StepResult, ...]:
        """Return the results of steps that failed, or may have failed, each with its error."""
        return tuple(result for result in self.results if result.done in _FAILED)

    @property
    def is_any_skipped(self) -> bool:
        """Return whether some steps were not tried."""
        return any(result.done == "skipped" for result in self.results)

    def count(self, kind: Kind) -> Counter[str]:
        """Count the results of a kind of thing."""
        return Counter(result.done for result in self.results if result.kind == kind)

    @property
    def exit_status(self) -> int:
        """Return the exit status for a process that did only this."""
        if self.failures or self.halted:
            return EXIT_PARTIAL
        return EXIT_INTERRUPTED if self.is_any_skipped else EXIT_DONE


def list_results(report: Report) -> ApplyReport:
    """Return the results of a run that `state.plan.plan_run` planned."""
    pairs = zip(report.plan.steps, report.outcomes, strict=True)
    return ApplyReport(tuple(_result_of(step, outcome) for step, outcome in pairs), report.halted)


def _result_of(step: Change, outcome: Outcome) -> StepResult:
    subject = step.subject
    before, after = step.before.identity, step.after.identity
    kind: Kind = "resource provider"
    if isinstance(subject, Consumer):
        kind, before, after = "consumer", step.before.allocations, step.after.allocations  # type: ignore[assignment]
    elif isinstance(subject, CustomName):
        kind = subject.kind
    name = read_identity(after)[0] or subject.name if kind == "resource provider" else subject.name
    if outcome.result is Result.SKIPPED:
        return StepResult(kind, name, "skipped")
    if outcome.error is not None:
        if is_outcome_unknown(outcome.error):
            return StepResult(kind, name, "unknown", OutcomeUnknown(outcome.error))
        return StepResult(kind, name, "failed", outcome.error)
    if outcome.result is Result.UNCHANGED:
        return StepResult(kind, name, "unchanged")
    return StepResult(kind, name, "deleted" if not after else "updated" if before else "created")
