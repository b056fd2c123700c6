# SPDX-License-Identifier: Apache-2.0
"""The conditions that nova's scheduler adds to a request before it asks placement, by request filter. Pure.

The scheduler of nova 34 calls `NAMES` in this order. A filter adds traits that the root of a tree must have
or must not have, or aggregates that the providers must be in or must not be in. Most of them read the flavor,
the image, the project or the availability zone, and some are enabled in nova.conf only.

An older nova lacks some of them, and its release is not known here. A nova that has a filter needs an
os-traits that has its traits, so a filter is off if placement does not know one of those that it asks for.

Not modelled is the filter that needs the networks of an instance: it is named as unknown, so a count is too
high by the hosts that it would remove. The filters that nova calls with the candidates it got
(ComputeFilter, NUMATopologyFilter and so on) read the state of hosts, which placement does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from osc_placement.candidates.flavor import chosen_setting, tpm_version, true_setting
from osc_placement.candidates.image import UNKNOWN_IMAGE, Image
from osc_placement.candidates.node import DISABLED_TRAIT
from osc_placement.candidates.query import Membership, Traits
from osc_placement.candidates.request import CandidateRequest
from osc_placement.flavor import Flavor, NoClaim
from osc_placement.model import OWNER_NOVA

#: the trait of the providers that nova-compute owns
#: the trait of the compute nodes among them
NODE_TRAIT: Final = "COMPUTE_NODE"
#: the filter that removes hosts which may be enabled again
STATUS_FILTER: Final = "compute_status_filter"
ZONE_KEY: Final = "availability_zone"
NO_NOVA_CONF: Final = "no nova.conf"
AGGREGATES_UNREAD: Final = "the host aggregates of the compute service cannot be read"
_PROJECT_KEY: Final = "filter_tenant_id"
_TRAIT_KEY: Final = "trait:"
#: the traits that follow from properties of an image
_IMAGE_PREFIXES: Final = {
    "hw_cdrom_bus": "COMPUTE_STORAGE_BUS",
    "hw_disk_bus": "COMPUTE_STORAGE_BUS",
    "hw_video_model": "COMPUTE_GRAPHICS_MODEL",
    "hw_vif_model": "COMPUTE_NET_VIF_MODEL",
    "hw_architecture": "HW_ARCH",
    "hw_emulation_architecture": "COMPUTE_ARCH",
    "hw_viommu_model": "COMPUTE_VIOMMU",
}
_SOUND_MODELS: Final = ("sb16", "es1370", "pcspk", "ac97", "ich6", "ich9", "usb", "virtio")
_ENCRYPTION_FORMATS: Final = ("plain", "luks", "luksv2")
#: more aggregates are not named one by one
_FEW: Final = 2
_SECRET_SECURITIES: Final = ("user", "host", "deployment")


@dataclass(frozen=True, slots=True)
class Options:
    """The options of nova.conf that request filters read; the defaults are nova's.

    ``default_schedule_zone`` is in ``[DEFAULT]``, the others are in ``[scheduler]``.
    """

    limit_tenants_to_placement_aggregate: bool = False
    placement_aggregate_required_for_tenants: bool = False
    query_placement_for_image_type_support: bool = False
    enable_isolated_aggregate_filtering: bool = False
    image_metadata_prefilter: bool = False
    query_placement_for_routed_network_aggregates: bool = False
    default_schedule_zone: str | None = None


@dataclass(frozen=True, slots=True)
class HostAggregate:
    """A host aggregate of the compute service."""

    uuid: str
    name: str
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Boot:
    """What is known of the instance that is to be booted, and of the cloud.

    :ivar required: the traits that the groups of the flavor and the image require
    :ivar traits: those that placement knows
    :ivar aggregates: None if they cannot be read
    :ivar remote_managed_port: whether it is known to have a port of the vNIC type remote-managed
    :ivar owner_gap: why not every nova-compute service reports `OWNER_NOVA`; empty if all do
    """

    flavor: Flavor
    required: Collection[str] = ()
    image: Image = UNKNOWN_IMAGE
    volume_root: bool = False
    project: str | None = None
    zone: str | None = None
    traits: Collection[str] = ()
    aggregates: Sequence[HostAggregate] | None = ()
    owner_gap: str = ""
    remote_managed_port: bool = False


class State(Enum):
    """The state of a request filter for a request; one that is idle is enabled, and asks for nothing."""

    APPLIED = "applied"
    IDLE = "idle"
    OFF = "off"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request filter asks for; ``reason`` says why it asks for nothing, or for what it does.

    :ivar unknown: the traits for which it is off, as placement does not know them
    """

    name: str
    state: State
    reason: str
    root: Traits = field(default_factory=Traits)
    membership: Membership = field(default_factory=Membership)
    unknown: frozenset[str] = frozenset()

    def describe(self, name: Callable[[Collection[str]], str]) -> str:
        """Describe what it asks for, and why; ``name`` gives the names of aggregates."""
        conditions = [
            *(f"root has {' or '.join(sorted(traits))}" for traits in self.root.required),
            *(f"root has no {' or '.join(sorted(traits))}" for traits in self.root.forbidden),
            *(f"in {name(uuids)}" for uuids in self.membership.required),
            *(f"not in {name(uuids)}" for uuids in self.membership.forbidden),
        ]
        return f"{', '.join(conditions)} ({self.reason})" if conditions else self.reason


class Refused(NoClaim):
    """A request filter of nova's scheduler refuses the request, so no host is chosen."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"nova's {name} refuses the request: {reason}")


def ask_filters(boot: Boot, options: Options | None, forced: Collection[str] = ()) -> list[Asked]:
    """Return what each request filter asks for, in nova's order; raise Refused if one refuses the request.

    :param options: None if they are not known
    :param forced: filters that are on, whatever the options say
    """
    found = []
    for name, ask in _FILTERS.items():
        switch = SWITCHES.get(name)
        if name not in forced:
            if switch and options is None:
                found.append(Asked(name, State.UNKNOWN, "there is no nova.conf"))
                continue
            if switch and not getattr(options, switch):
                found.append(Asked(name, State.OFF, "not enabled in nova.conf"))
                continue
            if name == "owner_nova_filter" and boot.owner_gap:
                found.append(Asked(name, State.OFF, boot.owner_gap))
                continue
        try:
            one = replace(ask(boot, options), name=name)
        except Refused:
            raise
        except NoClaim as error:
            raise Refused(name, str(error)) from error
        unknown = one.root.names.difference(boot.traits)
        if unknown and name not in forced:
            one = Asked(name, State.OFF, _describe_unknown(unknown), unknown=unknown)
        found.append(one)
    return found


def list_applied(asked: Iterable[Asked]) -> list[Asked]:
    """Return the filters that ask for something."""
    return [one for one in asked if one.state is State.APPLIED]


def _describe_unknown(traits: Collection[str]) -> str:
    return f"the placement service has no trait {' or '.join(sorted(traits))}"


def describe_owner_gap(traits: Collection[str], nodes: int, without: int) -> str:
    """Return why nova does not yet require `OWNER_NOVA`; empty if it does.

    Nova requires it when all its compute services are of a release that reports it, so it is judged by the
    compute nodes in placement, and by those ``without`` the trait among them.
    """
    if OWNER_NOVA not in traits or NODE_TRAIT not in traits:
        return _describe_unknown((OWNER_NOVA,))
    if without:
        return f"{without} compute nodes do not report {OWNER_NOVA}"
    return "" if nodes else f"no compute node reports {OWNER_NOVA}"


def needs_aggregates(options: Options | None, forced: Collection[str], *, has_project: bool = False) -> bool:
    """Return whether a filter reads the host aggregates, besides the one for the zone of a request."""
    known = options or Options()
    return bool(
        known.enable_isolated_aggregate_filtering
        or known.default_schedule_zone
        or (known.limit_tenants_to_placement_aggregate and has_project)
        or READ_AGGREGATES.intersection(forced)
    )


def add_filters(request: CandidateRequest, asked: Iterable[Asked]) -> CandidateRequest:
    """Return a request with the conditions that filters add; those on aggregates are of the unnamed group."""
    root, groups = request.root, list(request.groups)
    for one in asked:
        root = root.plus(one.root)
        for place, group in enumerate(groups):
            if not group.one_provider:
                groups[place] = replace(group, membership=group.membership.plus(one.membership))
    return replace(request, root=root, groups=groups)


def _idle(reason: str) -> Asked:
    return Asked("", State.IDLE, reason)


def _unknown(reason: str) -> Asked:
    return Asked("", State.UNKNOWN, reason)


def _need_traits(reason: str, *names: str) -> Asked:
    """Return an answer that requires traits of the root."""
    return Asked("", State.APPLIED, reason, root=Traits(tuple(frozenset((name,)) for name in names)))


def _need_aggregates(reason: str, aggregates: Iterable[HostAggregate]) -> Asked:
    """Return an answer that requires one of some aggregates."""
    uuids = frozenset(aggregate.uuid for aggregate in aggregates)
    return Asked("", State.APPLIED, reason, membership=Membership((uuids,)))


_NO_AGGREGATES: Final = _unknown(AGGREGATES_UNREAD)


def _require_tenant_aggregate(boot: Boot, options: Options | None) -> Asked:
    if boot.project is None:
        return _unknown("it depends on the project, which is not given")
    if boot.aggregates is None:
        return _NO_AGGREGATES
    found = [
        aggregate
        for aggregate in boot.aggregates
        if any(
            key.startswith(_PROJECT_KEY) and value == boot.project
            for key, value in aggregate.metadata.items()
        )
    ]
    if found:
        return _need_aggregates(f"project {boot.project}", found)
    reason = f"no aggregate has {_PROJECT_KEY}={boot.project}"
    if options is None:
        return _unknown(f"{reason}, and there is no nova.conf, which may require one")
    if options.placement_aggregate_required_for_tenants:
        raise Refused(
            "require_tenant_aggregate",
            f"{reason}, and [scheduler]/placement_aggregate_required_for_tenants is true",
        )
    return _idle(reason)


def _map_az_to_placement_aggregate(boot: Boot, options: Options | None) -> Asked:
    zone = boot.zone or (options and options.default_schedule_zone)
    if options is None and not zone:
        return _unknown("there is no nova.conf, which may have a default_schedule_zone")
    if not zone:
        return _idle("no availability zone is requested")
    if boot.aggregates is None:
        return _NO_AGGREGATES
    found = [aggregate for aggregate in boot.aggregates if aggregate.metadata.get(ZONE_KEY) == zone]
    if not found:
        return _idle(f"no aggregate has {ZONE_KEY}={zone}")
    return _need_aggregates(f"availability zone {zone}", found)


def _require_image_type_support(boot: Boot, _options: Options | None) -> Asked:
    if boot.volume_root:
        return _idle("the instance boots from a volume")
    disk_format = boot.image.disk_format
    if not disk_format:
        return _unknown("it depends on the disk format of the image, which is not given")
    trait = f"COMPUTE_IMAGE_TYPE_{disk_format.upper()}"
    if trait not in boot.traits:
        return _idle(f"there is no trait {trait}")
    return _need_traits(f"disk format {disk_format}", trait)


def _compute_status_filter(_boot: Boot, _options: Options | None) -> Asked:
    root = Traits((), (frozenset((DISABLED_TRAIT,)),))
    return Asked("", State.APPLIED, "disabled compute services", root=root)


def _isolate_aggregates(boot: Boot, _options: Options | None) -> Asked:
    if boot.aggregates is None:
        return _NO_AGGREGATES
    admitted = {f"{_TRAIT_KEY}{trait}" for trait in boot.required}
    found = [
        aggregate
        for aggregate in boot.aggregates
        if any(
            key.startswith(_TRAIT_KEY) and value == "required" and key not in admitted
            for key, value in aggregate.metadata.items()
        )
    ]
    if not found:
        return _idle("no aggregate is isolated from this request")
    uuids = frozenset(aggregate.uuid for aggregate in found)
    return Asked("", State.APPLIED, "isolated aggregates", membership=Membership((), (uuids,)))


def _transform_image_metadata(boot: Boot, _options: Options | None) -> Asked:
    if not boot.image.is_known:
        return _unknown("it depends on the properties of the image, which are not given")
    traits = []
    for key, prefix in _IMAGE_PREFIXES.items():
        if value := boot.image.properties.get(key):
            trait = f"{prefix}_{value.replace('-', '_').upper()}"
            if trait not in boot.traits:
                return _idle(f"there is no trait {trait}, for which nova leaves out the others too")
            traits.append(trait)
    if not traits:
        return _idle("no property of the image has a trait")
    return _need_traits("properties of the image", *dict.fromkeys(traits))


def _accelerators_filter(boot: Boot, _options: Options | None) -> Asked:
    profile = boot.flavor.extra_specs.get("accel:device_profile")
    if not profile:
        return _idle("the flavor has no accel:device_profile")
    return _need_traits(f"device profile {profile}", "COMPUTE_ACCELERATORS")


def _packed_virtqueue_filter(boot: Boot, _options: Options | None) -> Asked:
    if not true_setting(boot.flavor, boot.image, "virtio_packed_ring"):
        return _idle("no packed virtqueue is requested")
    return _need_traits("packed virtqueue", "COMPUTE_NET_VIRTIO_PACKED")


def _routed_networks_filter(_boot: Boot, _options: Options | None) -> Asked:
    return _unknown("it depends on the networks of the instance")


def _remote_managed_ports_filter(boot: Boot, _options: Options | None) -> Asked:
    if not boot.remote_managed_port:
        return _unknown("it depends on the ports of the instance")
    return _need_traits("remote-managed port", "COMPUTE_REMOTE_MANAGED_PORTS")


def _ephemeral_encryption_filter(boot: Boot, _options: Options | None) -> Asked:
    if not true_setting(boot.flavor, boot.image, "ephemeral_encryption"):
        return _idle("no encryption of ephemeral storage is requested")
    trait = "COMPUTE_EPHEMERAL_ENCRYPTION"
    own = chosen_setting(boot.flavor, boot.image, "ephemeral_encryption_format", _ENCRYPTION_FORMATS)
    return _need_traits(
        "encryption of ephemeral storage", trait, *([f"{trait}_{own.upper()}"] if own else [])
    )


def _virtio_sound_filter(boot: Boot, _options: Options | None) -> Asked:
    if chosen_setting(boot.flavor, boot.image, "sound_model", _SOUND_MODELS) != "virtio":
        return _idle("no virtio sound device is requested")
    return _need_traits("virtio sound device", "COMPUTE_SOUND_MODEL_VIRTIO")


def _tpm_secret_security_filter(boot: Boot, _options: Options | None) -> Asked:
    if tpm_version(boot.flavor, boot.image) is None:
        return _idle("no TPM is requested")
    security = boot.flavor.extra_specs.get("hw:tpm_secret_security") or "user"
    if security not in _SECRET_SECURITIES:
        raise NoClaim(f"hw:tpm_secret_security {security!r} is none of {', '.join(_SECRET_SECURITIES)}")
    return _need_traits(
        f"TPM secret security {security}", f"COMPUTE_SECURITY_TPM_SECRET_SECURITY_{security.upper()}"
    )


def _owner_nova_filter(_boot: Boot, _options: Options | None) -> Asked:
    return _need_traits("providers of nova", OWNER_NOVA)


_FILTERS: Final[Mapping[str, Callable[[Boot, Options | None], Asked]]] = {
    "require_tenant_aggregate": _require_tenant_aggregate,
    "map_az_to_placement_aggregate": _map_az_to_placement_aggregate,
    "require_image_type_support": _require_image_type_support,
    STATUS_FILTER: _compute_status_filter,
    "isolate_aggregates": _isolate_aggregates,
    "transform_image_metadata": _transform_image_metadata,
    "accelerators_filter": _accelerators_filter,
    "packed_virtqueue_filter": _packed_virtqueue_filter,
    "routed_networks_filter": _routed_networks_filter,
    "remote_managed_ports_filter": _remote_managed_ports_filter,
    "ephemeral_encryption_filter": _ephemeral_encryption_filter,
    "virtio_sound_filter": _virtio_sound_filter,
    "tpm_secret_security_filter": _tpm_secret_security_filter,
    "owner_nova_filter": _owner_nova_filter,
}
#: the request filters, in the order in which nova's scheduler calls them
NAMES: Final = tuple(_FILTERS)
#: the filters that read the host aggregates
READ_AGGREGATES: Final = frozenset(
    ("require_tenant_aggregate", "map_az_to_placement_aggregate", "isolate_aggregates")
)
#: the option of ``[scheduler]`` that enables a filter; the others are always called
SWITCHES: Final = {
    "require_tenant_aggregate": "limit_tenants_to_placement_aggregate",
    "require_image_type_support": "query_placement_for_image_type_support",
    "isolate_aggregates": "enable_isolated_aggregate_filtering",
    "transform_image_metadata": "image_metadata_prefilter",
    "routed_networks_filter": "query_placement_for_routed_network_aggregates",
}


@dataclass(frozen=True, slots=True)
class Labels:
    """The filter that asks for a condition, by whether it requires or forbids, and the names in it.

    ``root`` is for traits of the root, ``membership`` for aggregates, and ``names`` has names of aggregates.
    """

    root: Mapping[tuple[bool, frozenset[str]], str] = field(default_factory=dict)
    membership: Mapping[tuple[bool, frozenset[str]], str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)


def label_conditions(asked: Iterable[Asked], aggregate_names: Mapping[str, str]) -> Labels:
    """Return the filter of each condition."""
    root: dict[tuple[bool, frozenset[str]], str] = {}
    membership: dict[tuple[bool, frozenset[str]], str] = {}
    for one in asked:
        for found, part in ((root, one.root), (membership, one.membership)):
            found |= {(True, names): one.name for names in part.required}
            found |= {(False, names): one.name for names in part.forbidden}
    return Labels(root, membership, aggregate_names)


def name_aggregates(uuids: Collection[str], names: Mapping[str, str]) -> str:
    """Return the names of aggregates, or their number if there are many."""
    if len(uuids) > _FEW:
        return f"any of {len(uuids)} aggregates"
    return f"aggregate {' or '.join(sorted(names.get(uuid, uuid) for uuid in uuids))}"
