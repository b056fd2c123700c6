# SPDX-License-Identifier: Apache-2.0
"""The rule that a change adds only traits and resource classes that the server knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from osc_placement import microversion
from osc_placement.api.names import UnknownResourceClass, UnknownTraits
from osc_placement.batch.plan import Change, Plan
from osc_placement.errors import PlacementError

if TYPE_CHECKING:
    from osc_placement.api.client import PlacementClient


def refuse_unknown(client: PlacementClient, plan: Plan) -> Plan:
    """Return the plan that refuses changes which add a trait or resource class that the server does not know.

    This is for saved plans, resumes and undos: the name was there when the change was planned or made, and
    somebody has deleted it since. What the plan itself creates is not missed. Raise PlacementError in place
    of refusing changes of a staged plan, as later stages may delete what these were to replace.
    """
    reasons: dict[str, list[str]] = {}
    for facet in ("inventories", "traits"):
        for uuid, error in _find_unknown(client, plan.changes, facet):
            reasons.setdefault(uuid, []).append(str(error))
    if not reasons:
        return plan
    if plan.is_staged:
        raise PlacementError(f"Nothing was changed: {'; '.join(next(iter(reasons.values())))}")
    refused = {uuid: PlacementError("; ".join(texts)) for uuid, texts in reasons.items()}
    return replace(plan, refused={**plan.refused, **refused})


def _find_unknown(
    client: PlacementClient, changes: Sequence[Change], facet: Literal["inventories", "traits"]
) -> Iterator[tuple[str, PlacementError]]:
    """Yield the UUIDs of changes that add traits or classes of inventories which the server does not know."""
    kind = "trait" if facet == "traits" else "resource class"
    created = {change.subject.name for change in changes if change.kind == kind and change.verb == "created"}
    added = {
        change.uuid: set(getattr(change.after, facet) or ())
        .difference(getattr(change.before, facet) or ())
        .difference(created)
        for change in changes
    }
    if not any(added.values()) or client.version < microversion.RESOURCE_CLASSES:
        return
    if facet == "traits":
        known = frozenset(client.list_traits())
    else:
        known = frozenset(document["name"] for document in client.list_resource_classes())
    for uuid, names in added.items():
        # a name that was right once needs no suggestion
        if unknown := sorted(names - known):
            yield uuid, UnknownTraits(unknown) if facet == "traits" else UnknownResourceClass(unknown[0])
