# SPDX-License-Identifier: Apache-2.0
"""Migrations: what they read, and the plan and problems that they return. Pure.

A migration compares nova with placement and makes a plan (osc_placement/batch/plan.py); it writes nothing.
migrate/runner.py carries the plan out, with journal, resume, undo and throttle, for any migration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from osc_placement.migrate.problem import Problem, Reason

if TYPE_CHECKING:
    from osc_placement.api.client import PlacementClient
    from osc_placement.batch import Plan
    from osc_placement.candidates.nova_filters import Options
    from osc_placement.migrate.migrations.constraints import HostVerdict
    from osc_placement.migrate.nova.ports import Allocation, Port
    from osc_placement.migrate.nova.source import BareMetalSource, ImageSource, NetworkSource, Source

#: removals that need no option: so many, or this share of all if that is more
_HANDFUL: Final = 5
_SHARE: Final = 0.1


def limit_removals(most: int | None, total: int) -> int:
    """Return how many of ``total`` may be removed: ``most``, or without it 5 or a tenth of all."""
    return max(_HANDFUL, int(total * _SHARE)) if most is None else most


@dataclass(frozen=True, slots=True)
class Grant:
    """The providers of a port that its binding profile does not name yet.

    :ivar allocation: as neutron has it
    """

    port: Port
    allocation: Allocation


@dataclass(frozen=True, slots=True)
class Assessment:
    """The plan of a migration, and the problems that keep it from changing more.

    :ivar names: names by the UUIDs in the plan, of providers and aggregates
    :ivar classes: the custom resource classes that the plan needs placement to have
    :ivar notes: moves under way, which are no problems
    :ivar grants: by instance, the binding profiles that are to be written after the plan
    :ivar written: the ports whose binding profiles were written, or are to be written
    :ivar way: how these are written, in the words that follow "written"
    :ivar skipped: what was not compared because of an option; empty if all was
    :ivar verdicts: by instance that holds nothing, whether its host is allowed
    :ivar is_uncorrected: whether allocations are wrong that were to be corrected, and stay so
    """

    plan: Plan
    problems: Sequence[Problem] = field(default_factory=tuple)
    names: Mapping[str, str] = field(default_factory=dict)
    classes: frozenset[str] = frozenset()
    notes: Sequence[str] = ()
    grants: Mapping[str, Sequence[Grant]] = field(default_factory=dict)
    written: Sequence[str] = ()
    way: str = ""
    skipped: str = ""
    verdicts: Mapping[str, HostVerdict] = field(default_factory=dict)
    is_uncorrected: bool = False

    @property
    def refusal(self) -> str:
        """Return why the plan may be shown and not carried out; empty if it may."""
        return next((str(each) for each in self.problems if each.reason is Reason.TOO_MANY), "")


@dataclass(frozen=True, slots=True)
class Context:
    """The services that a migration reads.

    Access to ``source`` blocks until it is open, so a migration asks placement first where it can.
    ``open_ironic`` gives None if there is no address of Ironic, and raises Unreadable if its configuration is
    wrong; only a migration that needs Ironic calls it. ``open_neutron`` and ``open_glance`` are the
    same for neutron and glance. ``read_scheduler_options`` gives None if they are not known, and says why.
    """

    open_source: Callable[[], Source]
    client: PlacementClient
    concurrency: int
    open_ironic: Callable[[], BareMetalSource | None] = lambda: None
    open_neutron: Callable[[], NetworkSource | None] = lambda: None
    open_glance: Callable[[], ImageSource | None] = lambda: None
    read_scheduler_options: Callable[[], tuple[Options | None, str]] = lambda: (None, "not read")
    #: whether neutron is read even if no provider has inventory that a port may ask for
    names_neutron: bool = False

    @property
    def source(self) -> Source:
        """Return the source of nova's facts; raise Unreadable if it cannot be opened."""
        return self.open_source()


class Migration(Protocol):
    """A comparison of nova with placement; its module says what it changes and never touches."""

    @property
    def name(self) -> str:
        """Return its name in tables and on the command line."""

    def assess(self, context: Context) -> Assessment:
        """Compare nova with placement; write nothing."""
