# SPDX-License-Identifier: Apache-2.0
"""The sets of providers that may provide what a group asks for: step 1 of `search`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from osc_placement.candidates.query import Membership, Traits
from osc_placement.candidates.request import Group
from osc_placement.candidates.sets import Mask, slots_in
from osc_placement.candidates.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Plan:
    """The anchors and providers with which one group can be satisfied at all.

    :ivar eligible: the providers that may provide all of a named group
    :ivar by_class: the providers that may provide something of each class of the unnamed group
    :ivar members: the providers in the aggregates required
    """

    group: Group
    anchors: Mask
    eligible: Mask
    by_class: Mapping[str, Mask]
    members: Mask


def make_plan(snapshot: Snapshot, group: Group) -> Plan:
    """Return the plan of one group."""
    tree = _tree_of(snapshot, group.in_tree)
    return (_plan_named if group.one_provider else _plan_unnamed)(snapshot, group, tree)


def _tree_of(snapshot: Snapshot, uuid: str | None) -> Mask:
    if uuid is None:
        return snapshot.everything
    slot = snapshot.slot_by_uuid.get(uuid)
    return 0 if slot is None else snapshot.tree(snapshot.root_of[slot])


def _plan_named(snapshot: Snapshot, group: Group, tree: Mask) -> Plan:
    members = _members(snapshot, group.membership)
    eligible = tree & members & having(snapshot, group.traits)
    eligible &= ~snapshot.in_any_aggregate(group.membership.forbidden)
    for name in group.resources:
        eligible &= snapshot.with_free_capacity(name)
    anchors = snapshot.roots_of(eligible)
    for slot in slots_in(eligible & snapshot.sharing):
        anchors |= snapshot.anchors_of(slot)
    return Plan(group, anchors, eligible, {}, members)


def _plan_unnamed(snapshot: Snapshot, group: Group, tree: Mask) -> Plan:
    """Return the plan of the group whose classes and traits may come from several providers."""
    members = _members(snapshot, group.membership)
    allowed = tree & ~snapshot.with_any_trait(group.traits.forbidden)
    allowed &= ~snapshot.in_any_aggregate(group.membership.forbidden)
    by_class = {name: allowed & snapshot.with_free_capacity(name) for name in group.resources}
    # a provider that shares with a tree from outside is not in the tree
    sharing = snapshot.sharing & members if group.in_tree is None else 0
    anchors = snapshot.roots & ~snapshot.in_any_aggregate(group.membership.forbidden)
    for mask in by_class.values():
        anchors &= _reach(snapshot, mask, members, sharing)
    providers = 0
    for mask in by_class.values():
        providers |= mask
    for any_of in group.traits.required:
        having = providers & snapshot.with_any_trait(any_of)
        anchors &= _reach(snapshot, having, members, sharing)
    return Plan(group, anchors, 0, by_class, members)


def _reach(snapshot: Snapshot, providers: Mask, members: Mask, sharing: Mask) -> Mask:
    """Return the anchors at which some of these providers may be used.

    A provider is counted as in the required aggregates if its root is.
    """
    anchors = snapshot.roots_of(providers & members) | (snapshot.roots_of(providers) & members)
    for slot in slots_in(providers & sharing):
        anchors |= snapshot.anchors_of(slot)
    return anchors


def having(snapshot: Snapshot, traits: Traits) -> Mask:
    """Return the providers that have all the traits required, each by itself, and none forbidden."""
    mask = snapshot.everything & ~snapshot.with_any_trait(traits.forbidden)
    for any_of in traits.required:
        mask &= snapshot.with_any_trait(any_of)
    return mask


def _members(snapshot: Snapshot, membership: Membership) -> Mask:
    """Return the providers that are in all the aggregates required, whatever is forbidden."""
    mask = snapshot.everything
    for any_of in membership.required:
        mask &= snapshot.in_any_aggregate(any_of)
    return mask
