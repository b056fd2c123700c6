# SPDX-License-Identifier: Apache-2.0
"""Sentences on the allocations of instances, on leaving the caching scheduler, and on bare metal. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from osc_placement.batch import Change
from osc_placement.migrate.migrations.base import Assessment
from osc_placement.migrate.migrations.constraints import Admission
from osc_placement.migrate.problem import Reason

_SAFE: Final = "It is safe to leave the caching scheduler: every instance on a host holds its allocations."
_RECORDS_FIRST: Final = "Run placement-server db online_data_migrations first."
_NOT_SAFE: Final = "It is not safe yet to leave the caching scheduler: "
_HEALED: Final = "Every instance on a host holds its allocations."
_NOT_HEALED: Final = "Not every instance on a host holds its allocations yet: "

_WORDS: Final[Mapping[Reason, str]] = {
    Reason.UNKNOWN: "could not be read",
    Reason.NO_COMPUTE_NODE: "on no compute node",
    Reason.NO_PROVIDER: "on a host without resource provider",
    Reason.NO_INVENTORY: "on a host without inventory",
    Reason.NO_CLAIM: "whose claim is unknown",
    Reason.OVER_CAPACITY: "beyond the capacity of the host",
    Reason.AMBIGUOUS: "that several providers could serve",
    Reason.DEVICE: "with an accelerator that is not known",
    Reason.PORT: "with a port that asks for resources",
    Reason.BUSY: "in a task",
    Reason.CONFLICT: "that changed meanwhile",
    Reason.MISSING: "that seem to have no allocations",
    Reason.UNRECORDED: "resource providers of consumers without a record",
    Reason.UNCLAIMED: "for which nova asks placement for nothing",
    Reason.WRONG_AMOUNT: "with wrong amounts",
    Reason.WRONG_HOST: "with allocations on a wrong host",
    Reason.DOUBLED: "with allocations on two hosts",
    Reason.STUCK: "with allocations and stuck on no host",
    Reason.LOST: "with allocations and in no cell",
}

_BARE_METAL_WORDS: Final[Mapping[Reason, str]] = {
    Reason.UNKNOWN: "could not be read",
    Reason.NO_COMPUTE_NODE: "without UUID in nova",
    Reason.NO_PROVIDER: "without resource provider",
    Reason.NO_NODE: "unknown to Ironic",
    Reason.NO_CLASS: "without resource class",
    Reason.BUSY: "in a task",
    Reason.AMBIGUOUS: "that are ambiguous",
    Reason.CONFLICT: "with an instance of another class",
    Reason.WRONG_HOST: "with an instance that holds something elsewhere",
    Reason.NO_CLAIM: "with an instance without project or user",
    Reason.FOREIGN: "held by others",
    Reason.FLAVOR: "of a flavor that asks for sizes",
}


def describe_bare_metal(assessment: Assessment) -> str:
    """Say whether bare metal nodes are scheduled by their classes alone, and if not, why not."""
    nodes = len(assessment.plan.steps)
    if is_ready(assessment) and not nodes:
        return "There is no bare metal: nova has no node of it that was asked for."
    if is_ready(assessment):
        return f"Bare metal is ready: all nodes are scheduled by their classes alone, {nodes} of them."
    counts = Counter(problem.reason for problem in assessment.problems)
    changes = len(assessment.plan.changes)
    parts = [f"{changes} to be moved"] if changes else []
    parts += [f"{counts[reason]} {words}" for reason, words in _BARE_METAL_WORDS.items() if counts[reason]]
    return f"Bare metal is not ready yet: {', '.join(parts)}."


def is_ready(assessment: Assessment) -> bool:
    """Return whether nothing is missing, wrong or unknown."""
    return not assessment.plan.changes and not assessment.problems


def sort_changes(changes: Iterable[Change]) -> tuple[list[str], list[str], list[str]]:
    """Return the instances that hold nothing, lack what a port asks for, and have a wrong owner only."""
    missing, incomplete, foreign = list[str](), list[str](), list[str]()
    for change in changes:
        if "allocations" not in change.facets:
            foreign.append(change.uuid)
        else:
            (incomplete if change.before.allocations else missing).append(change.uuid)
    return missing, incomplete, foreign


def describe_readiness(assessment: Assessment) -> str:
    """Say whether the caching scheduler can be left, and if not, why not."""
    return _describe(assessment, _SAFE, _NOT_SAFE)


def describe_healing(assessment: Assessment) -> str:
    """Say whether every instance on a host holds its allocations, and if not, why not."""
    return _describe(assessment, _HEALED, _NOT_HEALED)


def _describe(assessment: Assessment, ready: str, not_ready: str) -> str:
    if is_ready(assessment):
        return " ".join(filter(None, (ready, assessment.skipped)))
    missing, incomplete, wrong = (len(each) for each in sort_changes(assessment.plan.changes))
    counts = Counter(problem.reason for problem in assessment.problems)
    parts = [f"{missing} without allocations"] if missing else []
    refused = sum(verdict.state is Admission.REFUSED for verdict in assessment.verdicts.values())
    parts += [f"{refused} on a host that is not allowed"] if refused else []
    parts += [f"{incomplete} without those of a port"] if incomplete else []
    parts += [f"{wrong} of a wrong project or user"] if wrong else []
    parts += [f"{counts[reason]} {words}" for reason, words in _WORDS.items() if counts[reason]]
    first = _RECORDS_FIRST if counts[Reason.UNRECORDED] else ""
    return " ".join(filter(None, (f"{not_ready}{', '.join(parts)}.", assessment.skipped, first)))
