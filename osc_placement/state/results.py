# SPDX-License-Identifier: Apache-2.0
"""The results of an apply by the kinds of things that a state file has. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final, Literal

from osc_placement.api.retry import is_permanent
from osc_placement.batch import (
    EXIT_DONE,
    EXIT_INTERRUPTED,
    EXIT_PARTIAL,
    Change,
    Kind,
    Outcome,
    Plan,
    Report,
    Result,
)
from osc_placement.errors import OutcomeUnknown, is_outcome_unknown

Done = Literal["created", "updated", "deleted", "unchanged", "refused", "failed", "unknown", "skipped"]
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
    def is_repeatable(self) -> bool:
        """Return whether another apply may make what this one did not; not if the server refused it all."""
        return self.is_any_skipped or not all(is_permanent(result.error) for result in self.failures)

    @property
    def is_any_skipped(self) -> bool:
        """Return whether some steps were not tried."""
        return any(result.done == "skipped" for result in self.results)

    @property
    def refusals(self) -> tuple[StepResult, ...]:
        """Return the results of steps that were refused before anything was written, each with the reason."""
        return tuple(result for result in self.results if result.done == "refused")

    def count(self, kind: Kind) -> Counter[str]:
        """Count the results of a kind of thing."""
        return Counter(result.done for result in self.results if result.kind == kind)

    @property
    def exit_status(self) -> int:
        """Return the exit status for a process that did only this."""
        if self.failures or self.refusals or self.halted:
            return EXIT_PARTIAL
        return EXIT_INTERRUPTED if self.is_any_skipped else EXIT_DONE


def list_results(report: Report) -> ApplyReport:
    """Return the results of a run that `state.plan.plan_run` planned."""
    pairs = zip(report.plan.steps, report.outcomes, strict=True)
    results = [_result_of(step, outcome) for step, outcome in pairs if step.uuid not in report.plan.untried]
    return ApplyReport((*list_refusals(report.plan), *results), report.halted)


def list_refusals(plan: Plan) -> list[StepResult]:
    """Return the results of the steps that are refused before anything is written."""
    return [
        StepResult(*_name(step), "refused", plan.untried[step.uuid])
        for step in plan.steps
        if step.uuid in plan.untried
    ]


def _name(step: Change) -> tuple[Kind, str]:
    """Return the kind and the name of what a step is about."""
    return step.kind, step.name_after


def _result_of(step: Change, outcome: Outcome) -> StepResult:
    kind, name = _name(step)
    if outcome.result is Result.SKIPPED:
        return StepResult(kind, name, "skipped")
    if outcome.error is not None:
        if is_outcome_unknown(outcome.error):
            return StepResult(kind, name, "unknown", OutcomeUnknown(outcome.error))
        return StepResult(kind, name, "failed", outcome.error)
    if outcome.result is Result.UNCHANGED:
        return StepResult(kind, name, "unchanged")
    return StepResult(kind, name, step.verb)
