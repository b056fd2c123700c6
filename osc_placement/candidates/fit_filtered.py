# SPDX-License-Identifier: Apache-2.0
"""The number of times that a request fits on the hosts that the filters of nova's scheduler leave. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from osc_placement.candidates.fit import Fits, HostFit, count_request
from osc_placement.candidates.match import Admitted, make_plan
from osc_placement.candidates.node import Node
from osc_placement.candidates.nova_filters import Asked, add_filters, name_aggregates
from osc_placement.candidates.query import Membership
from osc_placement.candidates.request import UNNAMED, CandidateRequest, Group
from osc_placement.candidates.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class FilteredFits:
    """The number of times that a request fits on hosts that the filters leave.

    ``removed`` has the filter that removed a host, by the UUID of its root; such hosts have 0 in ``fits``.
    """

    fits: Fits
    removed: Mapping[str, Asked]


def count_filtered(
    snapshot: Snapshot, request: CandidateRequest, asked: Sequence[Asked], only: Collection[str] | None = None
) -> FilteredFits:
    """Count how often the request fits as `count_request` does, on the hosts that the filters leave.

    A filter removes a host whose tree it does not admit, and one on which the request fits with the filters
    before it only, as of storage that is shared from outside of the aggregates that it asks for.
    """
    fits = count_request(snapshot, request, only)
    hosts = {fit.host.uuid: fit for fit in fits.hosts}
    removed: dict[str, Asked] = {}
    for one in asked:
        left = {uuid: fit for uuid, fit in hosts.items() if uuid not in removed}
        required, forbidden = one.root.required, one.root.unwanted
        admitted = Admitted(snapshot, make_plan(snapshot, Group(UNNAMED, membership=one.membership)))
        for uuid, fit in left.items():
            own, root = frozenset(fit.host.traits), snapshot.slot_by_uuid[uuid]
            has_traits = not forbidden & own and all(names & own for names in required)
            if not has_traits or not any(snapshot.root_of[slot] == root for slot in admitted.at(root)):
                removed[uuid] = one
        if one.membership == Membership():
            continue
        request = add_filters(request, [one])
        left = {uuid: fit for uuid, fit in left.items() if uuid not in removed}
        fits = count_request(snapshot, request, left)
        now = {fit.host.uuid: fit for fit in fits.hosts}
        removed |= {
            uuid: one for uuid, fit in left.items() if uuid not in now or (fit.count and not now[uuid].count)
        }
        hosts |= now
    if removed:
        fits = count_request(snapshot, request, hosts.keys() - removed.keys())
    rows = [HostFit(fit.host, 0, (), ()) if uuid in removed else fit for uuid, fit in hosts.items()]
    return FilteredFits(Fits(rows, fits.total, fits.exact), removed)


def describe_removal(asked: Asked, host: Node, aggregate_names: Mapping[str, str]) -> str:
    """Describe why a filter removed a host."""
    traits, aggregates = frozenset(host.traits), frozenset(host.aggregates)
    missing = [" or ".join(sorted(names)) for names in asked.root.required if not names & traits]
    present = sorted(asked.root.unwanted & traits)
    parts = []
    if missing:
        parts.append(f"lacks {', '.join(missing)}")
    if present:
        parts.append(f"has {', '.join(present)}")
    for names in asked.membership.required:
        if not names & aggregates:
            parts.append(f"not in {name_aggregates(names, aggregate_names)}")
    if inside := asked.membership.unwanted & aggregates:
        parts.append(f"in {name_aggregates(inside, aggregate_names)}")
    return f"{asked.name}: {', '.join(parts) or asked.reason}"
