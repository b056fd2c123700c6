# SPDX-License-Identifier: Apache-2.0
"""Judge whether instances without allocations are on a host that nova's scheduler could have chosen.

An instance may have been booted around placement (CVE-2026-46448), and so around what its flavor, its image,
its availability zone and the isolation of host aggregates and projects ask for. The request that nova's
scheduler makes for it (candidates/flavor.py, candidates/nova_filters.py) is tried on the tree of its host
alone, with nothing used there. The host is in the aggregates that nova says it is in, whatever their mirror
in placement says.

A condition that is not met is certain. If all known ones are met, and a part of the request or the options of
nova.conf is not known, the result is unknown. Not judged are whether the host is enabled, what ports ask for,
and the filters that nova's scheduler applies to the candidates that placement returned.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from osc_placement.candidates.cloud import CloudView
from osc_placement.candidates.flavor import make_groups
from osc_placement.candidates.image import UNKNOWN_IMAGE, make_image
from osc_placement.candidates.node import Node
from osc_placement.candidates.nova_filters import (
    AGGREGATES_UNREAD,
    NAMES,
    NODE_TRAIT,
    STATUS_FILTER,
    Asked,
    Boot,
    Options,
    Refused,
    State,
    add_filters,
    ask_filters,
    describe_owner_gap,
    label_conditions,
    list_applied,
)
from osc_placement.candidates.nova_filters import HostAggregate as FilterAggregate
from osc_placement.candidates.request import CandidateRequest, NotCountable
from osc_placement.errors import PlacementError
from osc_placement.flavor import Flavor, NoClaim
from osc_placement.migrate.nova.facts import BootRequest, Cell, ComputeNode, HostAggregate, Instance
from osc_placement.migrate.nova.flavors import STANDARD_CLASSES, key_of_claim
from osc_placement.migrate.nova.source import Unreadable
from osc_placement.model import OWNER_NOVA, ProviderRecord
from osc_placement.report.explain import explain_tree

if TYPE_CHECKING:
    from osc_placement.migrate.migrations.base import Context
    from osc_placement.migrate.migrations.cloud import AllocationView

#: the filters that are not judged: a host may have been disabled since, and ports are not known here
_NOT_JUDGED: Final = (STATUS_FILTER, "remote_managed_ports_filter")

#: instances whose requests are read together
_PAGE: Final = 1000

#: an instance with its compute node
Placed = tuple[Instance, ComputeNode]


class Admission(enum.StrEnum):
    """Whether an instance may be on its host; JSON output has its value."""

    ALLOWED = "allowed"
    REFUSED = "not allowed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class HostVerdict:
    """The result of judging the host of an instance; ``text`` says why it is not allowed, or not known."""

    host: str
    state: Admission
    text: str = ""

    def __str__(self) -> str:
        if self.state is Admission.REFUSED:
            return f"nova's scheduler would not put it on {self.host}: {self.text}"
        if self.state is Admission.UNKNOWN:
            return f"it is not known whether its host is allowed: {self.text}"
        return "its host is allowed"


class Filters:
    """The request filters of nova's scheduler.

    Without anything that is known of an instance, they are asked for one without an availability zone other
    than the default of nova.conf, and of an image without properties. Those that depend on its project, disk
    format, networks and ports are left out then, and those that ask for a trait that placement does not know.

    :ivar names: the names of the host aggregates, by UUID
    :ivar gap: why the options of nova.conf are not known; empty if they are
    """

    def __init__(
        self,
        options: Options | None,
        gap: str,
        forced: frozenset[str],
        traits: frozenset[str],
        aggregates: Sequence[HostAggregate] | None,
        cloud: CloudView,
    ) -> None:
        nodes = cloud.snapshot.with_any_trait((NODE_TRAIT,))
        without = nodes & ~cloud.snapshot.with_any_trait((OWNER_NOVA,))
        self.names = {each.uuid: each.name for each in aggregates or ()}
        self._options, self._forced = options, forced
        self.gap = "" if options else gap
        self._boot = Boot(
            Flavor(0, 0, 0),
            traits=traits,
            aggregates=None
            if aggregates is None
            else [FilterAggregate(each.uuid, each.name, each.metadata) for each in aggregates],
            owner_gap=describe_owner_gap(traits, nodes.bit_count(), without.bit_count()),
        )
        asked = ask_filters(self._boot, options, forced)
        self._left_out = [one.name for one in asked if one.state is State.UNKNOWN]
        #: by filter
        self._unknown_traits: dict[str, frozenset[str]] = {}

    @property
    def note(self) -> str:
        """Return what is assumed, and which filters are left out of what was asked so far."""
        zone = self._options and self._options.default_schedule_zone
        off = [
            f"{name} (placement has no trait {' or '.join(sorted(self._unknown_traits[name]))})"
            for name in NAMES
            if name in self._unknown_traits
        ]
        return (
            f"filters of nova's scheduler{self.gap and f' ({self.gap})'}: "
            f"{f'availability zone {zone}' if zone else 'no availability zone'} and no image properties are "
            f"assumed; not applied: {', '.join([*self._left_out, *off])}"
        )

    def ask(self, flavor: Flavor, request: CandidateRequest) -> list[Asked]:
        """Return the filters that ask for something; raise NoClaim if one refuses the flavor."""
        return list_applied(self.ask_all(flavor, request))

    def ask_all(self, flavor: Flavor, request: CandidateRequest, **known: Any) -> list[Asked]:
        """Return the answer of each filter; raise NoClaim if one refuses the request.

        :param known: fields of `Boot` that are known of an instance
        """
        boot = replace(self._boot, flavor=flavor, required=request.required, **known)
        asked = ask_filters(boot, self._options, self._forced)
        for one in asked:
            if one.unknown:
                self._unknown_traits[one.name] = self._unknown_traits.get(one.name, frozenset()) | one.unknown
        return asked


class HostJudge:
    """A judge of the hosts of instances, which reads what it needs when the first are given.

    :ivar verdicts: the results by UUID of the instance
    """

    def __init__(self, context: Context, cloud: AllocationView) -> None:
        self._context, self._cloud = context, cloud
        self._aggregates: Sequence[HostAggregate] = ()
        #: by compute node, what is equal for identical trees
        self._kinds: dict[str, Hashable] = {}
        self._known: dict[Hashable, tuple[Admission, str]] = {}
        self.verdicts: dict[str, HostVerdict] = {}

    @cached_property
    def _filters(self) -> Filters:
        try:
            options, gap = self._context.read_scheduler_options()
        except PlacementError as error:
            options, gap = None, str(error)
        aggregates = None
        with suppress(Unreadable):
            aggregates = self._aggregates = self._context.source.list_aggregates()
        traits = frozenset(self._context.client.list_traits())
        return Filters(options, gap, frozenset(), traits, aggregates, self._cloud)

    def watch(self, cell: Cell, instances: Iterable[Instance], bare: list[Placed]) -> Iterator[Instance]:
        """Yield instances of a cell, and judge those that are added to ``bare`` meanwhile.

        PERF: some at a time, so that neither they nor their requests are all in memory.
        """
        try:
            for instance in instances:
                yield instance
                if len(bare) >= _PAGE:
                    self._judge_all(cell, bare)
        finally:
            # a source may find at the end that it could not read all
            self._judge_all(cell, bare)

    def _judge_all(self, cell: Cell, bare: list[Placed]) -> None:
        """Read what these instances of a cell were requested with, and judge them; empty the list."""
        placed = {instance.uuid: (instance, node) for instance, node in bare}
        bare.clear()
        if not placed:
            return
        try:
            requests = self._context.source.read_requests(cell, placed)
        except Unreadable as error:
            requests = dict.fromkeys(placed, BootRequest(gap=error.reason))
        for uuid, (instance, node) in placed.items():
            self.verdicts[uuid] = HostVerdict(node.host, *self._judge_once(instance, node, requests[uuid]))

    def _judge_once(
        self, instance: Instance, node: ComputeNode, request: BootRequest
    ) -> tuple[Admission, str]:
        """Judge an instance.

        PERF: instances that make the same request on identical hosts are judged once, unless the result
        names the host.
        """
        image = None if request.image is None else tuple(sorted(request.image.items()))
        asked = (key_of_claim(instance), instance.project_id, request.zone, request.gap, image)
        filters, uuid = self._filters, node.uuid or ""
        records = None
        if uuid not in self._kinds:
            records = self._read_tree(node)
            self._kinds[uuid] = _kind_of(records)
        kind = self._kinds[uuid]
        for key in (kind, uuid):
            if (key, asked) in self._known:
                return self._known[key, asked]
        view = CloudView(records or self._read_tree(node))
        found = _judge(filters, instance, request, view, view.root_of(uuid))
        self._known[uuid if found[0] is Admission.REFUSED else kind, asked] = found
        return found

    def _read_tree(self, node: ComputeNode) -> list[ProviderRecord]:
        """Return the tree of a compute node and what shares with it, with nothing used or reserved.

        The root is in the host aggregates of nova, and in those of a provider that shares with it.
        """
        uuid = node.uuid or ""
        sharing = self._cloud.sharing_with(uuid)
        shared = {aggregate for each in sharing for aggregate in each.aggregates}
        gone = {each.uuid for each in self._aggregates if node.host not in each.hosts} - shared
        added = {each.uuid for each in self._aggregates if node.host in each.hosts}
        records = [_clear(self._cloud.records[each]) for each in self._cloud.reach(uuid)]
        aggregates = ((records[0].aggregates or frozenset()) - gone) | added
        return [replace(records[0], aggregates=aggregates), *records[1:]]


def _kind_of(records: Sequence[ProviderRecord]) -> Hashable:
    """Return a hash of what a host of one provider has, or the UUID of the root of another one."""
    root = records[0]
    if len(records) > 1:
        return root.provider.uuid
    # PERF: not the values, which are larger than all else that is kept of a host
    return hash((root.traits, root.aggregates, frozenset((root.inventories or {}).items())))


def _clear(record: ProviderRecord) -> ProviderRecord:
    """Return a provider with nothing used or reserved."""
    inventories = record.inventories or {}
    return replace(
        record,
        usages={},
        inventories={name: replace(inventory, reserved=0) for name, inventory in inventories.items()},
    )


def _judge(
    filters: Filters, instance: Instance, request: BootRequest, view: CloudView, root: Node
) -> tuple[Admission, str]:
    """Judge an instance in the tree of a root alone."""
    if instance.flavor is None:
        return Admission.UNKNOWN, "its flavor cannot be read"
    try:
        image = UNKNOWN_IMAGE if request.image is None else make_image(request.image)
        own = make_groups(instance.flavor, STANDARD_CLASSES, image, volume_root=instance.volume_root)
        asked = filters.ask_all(
            instance.flavor,
            own,
            image=image,
            volume_root=instance.volume_root,
            project=instance.project_id,
            zone=request.zone,
        )
    except Refused as error:
        return Admission.REFUSED, str(error)
    except NotCountable as error:
        return Admission.UNKNOWN, f"its flavor {error}"
    except NoClaim as error:
        return Admission.UNKNOWN, str(error)
    applied = [one for one in list_applied(asked) if one.name not in _NOT_JUDGED]
    verdicts = explain_tree(
        view,
        add_filters(_translate_pinning(own, view.classes), applied),
        root,
        label_conditions(applied, filters.names),
    )
    # a class that is missing fails several conditions for the same reason
    unmet = {each.detail: each.text for each in reversed(verdicts) if not each.met}
    if unmet:
        return Admission.REFUSED, "; ".join(f"{unmet[detail]}: {detail}" for detail in reversed(unmet))
    gaps: dict[str, list[str]] = defaultdict(list)
    for one in asked:
        if one.state is State.UNKNOWN and one.name not in _NOT_JUDGED:
            is_of_options = filters.gap and one.reason != AGGREGATES_UNREAD
            gaps[filters.gap if is_of_options else one.reason].append(one.name)
    unknown = [f"{reason} ({', '.join(names)})" for reason, names in gaps.items()]
    unknown += [f"its availability zone: {request.gap}"] if request.gap else []
    unknown += ["the properties of its image are not shown"] if request.image is None else []
    return (Admission.UNKNOWN, "; ".join(unknown)) if unknown else (Admission.ALLOWED, "")


def _translate_pinning(request: CandidateRequest, classes: Collection[str]) -> CandidateRequest:
    """Return a request for VCPU in place of PCPU, which nova tries too, if the host has no PCPU."""
    if "PCPU" in classes:
        return request
    groups = []
    for group in request.groups:
        resources = dict(group.resources)
        if "PCPU" in resources:
            resources["VCPU"] = resources.get("VCPU", 0) + resources.pop("PCPU")
        groups.append(replace(group, resources=resources))
    return replace(request, groups=groups)
