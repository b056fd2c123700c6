# SPDX-License-Identifier: Apache-2.0
"""What a migration is, what it finds, and what a command of migrations ends with. Pure.

A migration compares nova with placement and makes a plan (osc_placement/batch/plan.py); it writes nothing.
Carrying the plan out, with journal, resume, undo and throttle, is for runner.py, which knows none by name.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from osc_placement.api.client import PlacementClient
from osc_placement.batch.plan import EXIT_DONE, EXIT_INTERRUPTED, EXIT_PARTIAL, Plan, Report
from osc_placement.migrate.nova.source import BareMetalSource, Source

#: something could not be read, and what depends on it was left alone
EXIT_UNKNOWN: Final = 4
__all__ = ["EXIT_DONE", "EXIT_INTERRUPTED", "EXIT_PARTIAL", "EXIT_UNKNOWN"]


class Trouble(enum.StrEnum):
    """Why something was left alone."""

    UNKNOWN = "unknown"
    UNMAPPED_HOST = "unmapped host"
    NO_COMPUTE_NODE = "no compute node"
    NO_PROVIDER = "no resource provider"
    NO_INVENTORY = "no inventory"
    NO_CLAIM = "no readable flavor"
    OVER_CAPACITY = "over capacity"
    AMBIGUOUS = "ambiguous"
    BUSY = "in a task"
    WRONG_AMOUNT = "wrong amount"
    WRONG_HOST = "wrong host"
    DOUBLED = "held twice"
    MISSING = "no allocations"
    CONFLICT = "conflict"
    BAD_RATIO = "unreadable ratio"
    TOO_MANY = "too many removals"
    IN_USE = "in use"
    DEVICE = "accelerator"
    PORT = "port with a resource request"
    LOST = "missing in its cell"
    DUPLICATE = "duplicate provider"
    NO_NODE = "no such node in Ironic"
    NO_CLASS = "no resource class"
    FOREIGN = "held by another consumer"
    FLAVOR = "flavor asks for sizes"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that the migration leaves alone, and why; ``subject`` is what, as ``host h1``."""

    trouble: Trouble
    subject: str
    text: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.text}"


@dataclass(frozen=True, slots=True)
class Assessment:
    """What a migration would do, and what it would leave alone.

    :ivar names: what people call the UUIDs in the plan, of providers and aggregates
    :ivar classes: the custom resource classes that the plan needs placement to have
    :ivar notes: what is under way by right, and hinders nothing
    """

    plan: Plan
    findings: Sequence[Finding] = field(default_factory=tuple)
    names: Mapping[str, str] = field(default_factory=dict)
    classes: frozenset[str] = frozenset()
    notes: Sequence[str] = ()

    @property
    def refusal(self) -> str:
        """Why the plan may be shown and not carried out; empty if it may."""
        return next((str(each) for each in self.findings if each.trouble is Trouble.TOO_MANY), "")


@dataclass(frozen=True, slots=True)
class Context:
    """Whom a migration asks.

    Who wants the source waits until it is open, and so asks placement first where the order does not matter.
    ``open_ironic`` gives None where nothing says how to reach Ironic; only who needs it calls it, as its
    configuration may be wrong (Unreadable), which is nobody else's concern.
    """

    open_source: Callable[[], Source]
    client: PlacementClient
    concurrency: int
    open_ironic: Callable[[], BareMetalSource | None] = lambda: None

    @property
    def source(self) -> Source:
        """Where nova's facts come from; Unreadable if that cannot be opened."""
        return self.open_source()


class Migration(Protocol):
    """One idea: what it finds, what it changes, what it never touches is in its docstring."""

    @property
    def name(self) -> str:
        """What it is called in tables and on the command line."""

    def assess(self, context: Context) -> Assessment:
        """Compare nova with placement; write nothing."""


def exit_status(findings: Sequence[Finding], report: Report | None) -> int:
    """What a command ends with: the gravest of what happened."""
    if report is not None and report.interrupted:
        return EXIT_INTERRUPTED
    if any(finding.trouble is Trouble.UNKNOWN for finding in findings):
        return EXIT_UNKNOWN
    return EXIT_PARTIAL if findings else report.exit_status if report else EXIT_DONE
