# SPDX-License-Identifier: Apache-2.0
"""Values read from nova and Ironic: aggregates, cells, services, nodes, instances, migrations.

Pure: the sources beside this module read them, the migrations compare them with placement.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from osc_placement.flavor import Flavor

#: the cell of instances that were never scheduled; nothing in it holds resources
CELL0: Final = "00000000-0000-0000-0000-000000000000"

#: states of a migration that holds nothing any more ("finished" still does: its resize awaits confirmation)
ENDED_MIGRATIONS: Final = frozenset(("confirmed", "reverted", "error", "failed", "completed", "cancelled"))
#: that of a resize until its owner confirms or reverts it
FINISHED: Final = "finished"
#: that of a resize from then on until nova-compute has confirmed it
CONFIRMING: Final = "confirming"
#: the state of its instance
RESIZED: Final = "resized"
#: that of an evacuation until nova-compute on the source is up again, and gives back what is held there
EVACUATED: Final = "done"
#: seconds after which nova has left alone what it does not change: it waits a minute for its scheduler
STUCK_AFTER: Final = 600.0
#: the scheduler hint with which nova marks a rebuild, for which the scheduler asks and claims nothing
REBUILD_HINT: Final = "_nova_check_type"
#: stands for what a port holds whose information cannot be read
UNREADABLE_PORT: Final = "a provider that cannot be read"

#: properties of an image that decide about resources
IMAGE_PROPERTIES: Final = ("hw_cpu_policy", "hw_cpu_realtime_mask", "hw_mem_encryption")


#: what nova calls the hypervisor of a compute node that is a node of Ironic
BARE_METAL: Final = "ironic"
#: how the names of hypervisors begin of which a host has several nodes
_SEVERAL_NODES: Final = (BARE_METAL, "vmware")
#: Ironic's states of a node that nova's driver gives to instances; None was there before "available"
_GIVEN_AWAY: Final = ("available", None)
_BAD_POWER: Final = ("error", None)


@dataclass(frozen=True, slots=True)
class HostAggregate:
    """A host aggregate of nova; its UUID is that of the placement aggregate that mirrors it.

    :ivar id: by which nova's client finds it; another aggregate may have the same number as its name
    """

    uuid: str
    name: str
    hosts: frozenset[str]
    metadata: Mapping[str, str] = field(default_factory=dict)
    id: int = 0


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of nova; ``database`` is its connection as it is stored, perhaps a template."""

    uuid: str
    name: str
    database: str = ""
    is_disabled: bool = False

    @property
    def label(self) -> str:
        """Return the name of the cell in messages."""
        return f"cell {self.name or self.uuid}"


@dataclass(frozen=True, slots=True)
class ComputeService:
    """The nova-compute of a host.

    :ivar is_up: whether nova takes it for running
    :ivar reports_status: whether it is new enough to keep the trait COMPUTE_STATUS_DISABLED (Train)
    """

    is_disabled: bool
    is_up: bool = True
    reports_status: bool = True


@dataclass(frozen=True, slots=True)
class ServiceGroup:
    """How nova tells whether a service is up: its options of these names, with times in seconds."""

    servicegroup_driver: str = "db"
    report_interval: int = 10
    service_down_time: int = 60

    def is_up(self, service: Mapping[Any, Any], clock: datetime | None) -> bool:
        """Return whether a service, a row of nova's, is up; one that is not known to be down is.

        ``clock`` is the time by which nova's services report, None if none of them does.
        """
        if service["forced_down"]:
            return False
        seen = parse_time(service["last_seen_up"] or service["created_at"])
        # nothing is in the database if memcached is told, or nobody
        if self.servicegroup_driver != "db" or not self.report_interval or clock is None or seen is None:
            return True
        patience = self.service_down_time
        if patience <= self.report_interval:
            patience = self.report_interval * 5 // 2
        return (clock - seen).total_seconds() <= patience


@dataclass(frozen=True, slots=True)
class ComputeNode:
    """A compute node; its UUID is that of its resource provider, None where nova has not set it yet."""

    uuid: str | None
    host: str
    name: str
    hypervisor_type: str = ""
    #: by resource class, what nova-compute last reported; None where the schema has no such column
    ratios: Mapping[str, float | None] = field(default_factory=dict)
    #: the UUID of its cell
    cell: str = ""

    @property
    def is_bare_metal(self) -> bool:
        """Return whether it is a node of Ironic; then ``name`` is its UUID there."""
        return self.hypervisor_type.lower() == BARE_METAL

    @property
    def is_only_one(self) -> bool:
        """Return whether nova-compute has one node on each host, as with all drivers but two."""
        return bool(self.hypervisor_type) and not self.hypervisor_type.lower().startswith(_SEVERAL_NODES)


@dataclass(frozen=True, slots=True)
class IronicNode:
    """A node of Ironic, as its API shows it."""

    uuid: str
    name: str = ""
    resource_class: str = ""
    provision_state: str | None = None
    power_state: str | None = None
    maintenance: bool = False
    instance_uuid: str | None = None

    @property
    def is_available(self) -> bool:
        """Return whether nova's driver would give it to an instance.

        It would not in maintenance, nor with the power state "error" or none, nor in another provision state
        than "available" (or none, as before Kilo).
        """
        return (
            not self.maintenance
            and self.power_state not in _BAD_POWER
            and self.provision_state in _GIVEN_AWAY
        )


@dataclass(frozen=True, slots=True)
class Image:
    """An image with the properties that glance shows, or that instances made of it have of it.

    :ivar uuid: empty for those of volumes from which instances boot
    """

    uuid: str
    name: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Return the name of the image in messages."""
        return f"image {self.name or self.uuid}" if self.uuid else "image of a volume"


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance that is not deleted.

    :ivar flavor_error: why its flavor cannot be read, if ``flavor`` is None
    :ivar volume_root: whether it boots from a volume, so that its root disk is not on its host
    :ivar image: properties of its image that decide about resources; None if the source does not show them
    :ivar ports: the providers of which its ports hold something, if the source shows them
    :ivar changed_at: when nova last changed it, if it is on no host or in a task, and that is known
    """

    uuid: str
    project_id: str
    user_id: str
    host: str | None
    node: str | None
    vm_state: str | None = None
    task_state: str | None = None
    flavor: Flavor | None = None
    flavor_error: str = ""
    volume_root: bool = False
    image: Mapping[str, str] | None = field(default_factory=dict)
    ports: frozenset[str] = frozenset()
    changed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """What nova's API database has of an instance that is not where it is mapped to.

    :ivar since: when it was mapped, if that is known
    """

    text: str
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class BootRequest:
    """What an instance was requested with.

    :ivar zone: the availability zone that was asked for, if one was
    :ivar gap: why the zone is not known; empty if it is
    :ivar image: the properties of its image, with its disk format; None if the source does not show them
    """

    zone: str | None = None
    gap: str = ""
    image: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class MigrationRecord:
    """A move of an instance that is not over; as a consumer, its UUID holds what is claimed on the source."""

    uuid: str | None
    instance_uuid: str
    status: str
    source_host: str | None = None
    source_node: str | None = None
    dest_host: str | None = None
    dest_node: str | None = None
    #: when nova last changed it, if that is known
    changed_at: datetime | None = None
    #: the UUID of its cell
    cell: str = ""

    @classmethod
    def from_fields(cls, fields: Mapping[Any, Any]) -> MigrationRecord:
        """Make one of a row of the database or a document of the API, which have the same names."""
        return cls(
            uuid=fields.get("uuid"),
            instance_uuid=fields["instance_uuid"],
            status=fields["status"] or "",
            source_host=fields["source_compute"],
            source_node=fields["source_node"],
            dest_host=fields["dest_compute"],
            dest_node=fields["dest_node"],
            changed_at=parse_time(fields["updated_at"] or fields["created_at"]),
        )

    @property
    def is_evacuated(self) -> bool:
        """Return whether the instance was evacuated, and its source has not been up since."""
        return self.status == EVACUATED

    def describe(self) -> str:
        """Say what its instance is doing, for "it is" to precede."""
        return f"moving from {self.source_host} to {self.dest_host} ({self.status or 'no status'})"

    def touches(self, hosts: Collection[str], nodes: Collection[str]) -> bool:
        """Return whether it is from or to one of these hosts or compute nodes."""
        return not {self.source_host, self.dest_host}.isdisjoint(hosts) or not (
            {self.source_node, self.dest_node}.isdisjoint(nodes)
        )


def is_late(since: datetime | None, now: datetime, patience: float) -> bool:
    """Return whether more seconds have passed than nova may take; not if the time is unknown."""
    return since is not None and (now - since).total_seconds() > patience


def parse_time(value: datetime | str | None) -> datetime | None:
    """Return a time of nova, which is UTC, from a column of a database or a document of the API."""
    if not value:
        return None
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def parse_ports(text: str | None) -> frozenset[str]:
    """Read from the network information of an instance the providers of which its ports hold something.

    A port whose resource request was granted has them in its binding profile: one UUID, or, since there are
    groups, one for each of them.
    """
    try:
        profiles = [port.get("profile") or {} for port in json.loads(text or "[]")]
        granted = [profile["allocation"] for profile in profiles if profile.get("allocation")]
        found = (each.values() if isinstance(each, dict) else [each] for each in granted)
        return frozenset(str(uuid) for uuids in found for uuid in uuids)
    except (ValueError, TypeError, AttributeError):
        return frozenset((UNREADABLE_PORT,))
