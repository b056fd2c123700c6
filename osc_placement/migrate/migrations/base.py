# SPDX-License-Identifier: Apache-2.0
"""What a migration is, what it finds, and what a command of migrations ends with. Pure.

A migration compares nova with placement and makes a plan (osc_placement/batch/plan.py); it writes nothing.
Carrying the plan out, with journal, resume, undo and throttle, is for runner.py, which knows none by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from osc_placement.api.client import PlacementClient
from osc_placement.batch.plan import Plan
from osc_placement.migrate.nova.source import BareMetalSource, Source
from osc_placement.migrate.problem import Problem, Reason


@dataclass(frozen=True, slots=True)
class Assessment:
    """What a migration would do, and what it would leave alone.

    :ivar names: what people call the UUIDs in the plan, of providers and aggregates
    :ivar classes: the custom resource classes that the plan needs placement to have
    :ivar notes: what is under way by right, and hinders nothing
    """

    plan: Plan
    problems: Sequence[Problem] = field(default_factory=tuple)
    names: Mapping[str, str] = field(default_factory=dict)
    classes: frozenset[str] = frozenset()
    notes: Sequence[str] = ()

    @property
    def refusal(self) -> str:
        """Why the plan may be shown and not carried out; empty if it may."""
        return next((str(each) for each in self.problems if each.reason is Reason.TOO_MANY), "")


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
