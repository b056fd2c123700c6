# SPDX-License-Identifier: Apache-2.0
"""Whether an instance uses what it holds in placement, by its state in nova.

Nova claims for an instance only while it has a build request, is in state ``building`` or in a task, or has a
migration that is not over; from then on it is on the host until it is deleted or offloaded:

======== ============================= =========== ============= ========
host     vm_state                      task_state  is expected   verdict
======== ============================= =========== ============= ========
set      deleted, shelved_offloaded    none        no            UNUSED
set      in all other cases                                      PLACED
none     building, none, unknown here  any         any           PENDING
none     any                           set         any           PENDING
none     any                           any         yes           PENDING
none     any other                     none        no            UNUSED
======== ============================= =========== ============= ========

It *is expected* with a build request or such a migration.

*PENDING* becomes *STUCK* when nova has not changed the instance for some time. Such a claim is named and not
removed: the message that continues the build may wait for a nova-compute that is down. Nor is that of an
instance that nova's API database has and no cell (`Unplaced`).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from osc_placement.migrate.nova.facts import CONFIRMING, FINISHED, Instance, MigrationRecord, is_late
from osc_placement.migrate.problem import Problem, Reason

if TYPE_CHECKING:
    from osc_placement.migrate.migrations.cloud import AllocationView
    from osc_placement.migrate.nova.hosts import Moves
    from osc_placement.migrate.nova.source import Source

#: states and tasks of instances that never ran or that their owner has given up
_DELETABLE: Final = frozenset(("requested", "building", "scheduling", "deleting", "soft-deleting"))
_SET_RECORD: Final = "in the database of its cell UPDATE migrations SET status = '{}' WHERE uuid = '{}'"
#: states in which nova's resource tracker counts nothing of an instance, whatever its host is
_OFF_HOST: Final = frozenset(("deleted", "shelved_offloaded"))
#: all states of nova but ``building``
_BUILT: Final = _OFF_HOST | {
    *("active", "error", "paused", "rescued", "resized", "shelved", "soft-delete", "stopped", "suspended")
}


class Verdict(enum.Enum):
    """A verdict on what an instance holds."""

    PLACED = "it is on a host"
    PENDING = "nova may be claiming for it"
    STUCK = "nova was claiming for it, and has not changed it for long"
    UNUSED = "it uses nothing"


def judge_instance(instance: Instance, *, is_expected: bool, now: datetime, patience: float) -> Verdict:
    """Return the verdict of the table above.

    :param is_expected: whether it has a build request, or a migration that is not over
    :param patience: how many seconds nova may leave the instance unchanged
    """
    if instance.host:
        return Verdict.UNUSED if is_off_host(instance) and not is_expected else Verdict.PLACED
    if instance.vm_state in _BUILT and not instance.task_state and not is_expected:
        return Verdict.UNUSED
    return Verdict.STUCK if is_late(instance.changed_at, now, patience) else Verdict.PENDING


def is_off_host(instance: Instance) -> bool:
    """Return whether nova counts nothing of an instance, whatever its host is."""
    return instance.vm_state in _OFF_HOST and not instance.task_state


def is_arriving(instance: Instance) -> bool:
    """Return whether nova is about to run an instance on its host, and does not count it yet."""
    return instance.vm_state in _OFF_HOST and bool(instance.task_state)


@dataclass(frozen=True, slots=True)
class Halted:
    """An instance that nova has not changed for long, in a task or moving.

    What takes long, such as a cold migration of a large disk, looks the same, and so does a message that
    waits for a nova-compute which is down.

    :ivar uuid: of the instance
    :ivar doing: what it is doing, for "it is" to precede
    :ivar move: its move, if it is moving
    """

    uuid: str
    doing: str
    since: datetime | None
    vm_state: str | None = None
    task_state: str | None = None
    move: MigrationRecord | None = None

    @classmethod
    def in_task(cls, instance: Instance) -> Halted:
        """Return the instance in its task."""
        state, task = instance.vm_state, instance.task_state
        return cls(instance.uuid, f"{state}, {task}", instance.changed_at, state, task)

    @classmethod
    def in_move(cls, move: MigrationRecord) -> Halted:
        """Return the instance of a move."""
        return cls(move.instance_uuid, move.describe(), move.changed_at, move=move)

    def describe(self) -> str:
        """Say what it is doing since when, and how to end that."""
        since = f"{self.since:%Y-%m-%d %H:%M} UTC"
        hosts = " and nova-compute of its hosts is up"
        return f"it is {self.doing}, unchanged since {since}; {self.advise(hosts)}"

    def advise(self, condition: str = "") -> str:
        """Say how to find out whether it goes on, and how to end it if not, on a further condition."""
        return (
            f"openstack server event list {self.uuid} shows whether that goes on; if it does not{condition}, "
            f"end it: {self._end}; the next audit judges what it holds then"
        )

    @property
    def _end(self) -> str:
        """Return what ends it.

        No command of nova ends the record of a move, and nova passes over the deletion of what it is deleting
        already, and the confirmation of what it is confirming. What it was unshelving has no guest.
        """
        to_active = f"openstack server set --state active {self.uuid}"
        to_error = f"openstack server set --state error {self.uuid}"
        if self.move and self.move.status == CONFIRMING:
            again = f"and again openstack server resize confirm {self.uuid}"
            return f"{_SET_RECORD.format(FINISHED, self.move.uuid)}, {again}"
        if self.move:
            return f"{to_active}, and {_SET_RECORD.format('error', self.move.uuid)}"
        if self.task_state == "deleting":
            return f"{to_error}, and again openstack server delete {self.uuid}"
        if self.vm_state == "building":
            return f"openstack server delete {self.uuid}"
        return f"{to_error}, and delete or rebuild it" if self.vm_state in _OFF_HOST else to_active


class Unplaced:
    """Instances on no host that hold something, judged while the cells are read one after the other.

    :param cloud: what is held, read before anything of nova
    :param builds: when instances were requested, read before any cell
    """

    def __init__(
        self, cloud: AllocationView, builds: Mapping[str, datetime | None], moves: Moves, stuck_after: float
    ) -> None:
        self.builds = builds
        self._cloud = cloud
        self._moving = moves.moving
        self.now, self.patience = datetime.now(UTC), stuck_after
        #: requested builds, migrations that are not over, and instances that were judged
        self.known = {*builds, *(move.uuid for move in moves.records if move.uuid)}
        #: by instance that is stuck, its state, since when, and how to end it
        self._stuck = {
            uuid: ("requested", since, "")
            for uuid, since in builds.items()
            if uuid in cloud.held and since and self.is_late(since)
        }

    def judge(self, instance: Instance) -> Verdict:
        """Return the verdict on an instance of a cell; one of several cells may have it on a host."""
        uuid = instance.uuid
        self.known.add(uuid)
        self._stuck.pop(uuid, None)
        verdict = judge_instance(
            instance,
            is_expected=uuid in self.builds or uuid in self._moving,
            now=self.now,
            patience=self.patience,
        )
        if verdict is Verdict.STUCK and instance.changed_at and uuid in self._cloud.held:
            self._stuck[uuid] = (
                instance.task_state or instance.vm_state or "in no state",
                instance.changed_at,
                Halted.in_task(instance).advise(),
            )
        return verdict

    def is_late(self, since: datetime | None) -> bool:
        """Return whether nova has not changed something for longer than it may take."""
        return is_late(since, self.now, self.patience)

    def find_stuck(self, source: Source) -> Iterator[Problem]:
        """Yield a problem for each instance that is stuck, when all cells were read; may raise Unreadable."""
        # nova finds by its API an instance that is requested, or mapped to the cell that has it
        hidden = source.find_lost(self._stuck.keys() - self.builds.keys()) if self._stuck else ()
        for uuid, (state, since, advice) in sorted(self._stuck.items()):
            if uuid in hidden:
                advice = self._advise_removal(uuid)
            elif state in _DELETABLE:
                advice = f"openstack server delete {uuid} deletes it with its allocations"
            text = f"it is {state} and on no host, unchanged since {since:%Y-%m-%d %H:%M} UTC"
            yield Problem(Reason.STUCK, f"instance {uuid}", f"{text}, and {self._describe(uuid)}; {advice}")

    def find_lost(self, source: Source, uuids: AbstractSet[str]) -> tuple[AbstractSet[str], list[Problem]]:
        """Return which consumers are instances that nova has in no list, and a problem for each that is lost.

        A mapping that was changed a moment ago may be that of an instance which is being deleted. Raise
        Unreadable if nova cannot be asked for each of them.
        """
        # nova still returns some when asked for them one by one, and its mappings still name others
        found = source.find_instances(uuids)
        lost = source.find_lost(uuids - found)
        problems = [
            Problem(
                Reason.LOST,
                f"consumer {uuid}",
                f"{each.text}; it {self._describe(uuid)}; {self._advise_removal(uuid)}",
            )
            for uuid, each in sorted(lost.items())
            if each.since is None or self.is_late(each.since)
        ]
        return found | lost.keys(), problems

    def _describe(self, uuid: str) -> str:
        return f"holds resources of {', '.join(sorted(map(self._cloud.name, self._cloud.held[uuid])))}"

    def _advise_removal(self, uuid: str) -> str:
        return (
            "nova's API does not find it and so cannot delete it; if no guest of it runs there, openstack "
            f"resource provider allocation delete {uuid} deletes its allocations"
        )
