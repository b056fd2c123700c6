# SPDX-License-Identifier: Apache-2.0
"""The resources and traits that nova requests for an instance of a flavor. Pure.

Traits are those that ``trait:NAME`` requires or forbids. What the image, the network and the volumes of an
instance add is not in its flavor; an instance that boots from a volume requests no root disk.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from osc_placement import microversion
from osc_placement.candidates import fit
from osc_placement.candidates.query import BadQuery, Traits
from osc_placement.candidates.request import CandidateRequest, Group, parse
from osc_placement.flavor import (
    GROUP_POLICY,
    Flavor,
    NoClaim,
    group_policy_of,
    groups_of,
    read_amount,
    resources_of,
    root_traits_of,
    traits_of,
)

_GROUP: Final = re.compile(r"(resources|trait)([0-9A-Za-z_-]+):")


class NotCountable(ValueError):
    """A flavor requests something that `fit` cannot count; the text goes on after the flavor's name."""


def make_request(flavor: Flavor, classes: Collection[str]) -> Group:
    """Return the request of a flavor; :raises NotCountable: it cannot be counted.

    :param classes: those that the server knows: nova ignores others in extra specs
    """
    specs = flavor.extra_specs
    for key, value in sorted(specs.items()):
        if _GROUP.match(key):
            raise NotCountable(f"has numbered request groups ({key})")
        if key.startswith("resources:") and read_amount(value) is None:
            raise NotCountable(f"has {key}={value!r}, which is no amount")
    try:
        wanted = resources_of(flavor, classes)
    except NoClaim as error:
        raise NotCountable(f"would be refused by nova, as {error}") from error
    if not wanted:
        raise NotCountable("asks for nothing")
    return fit.make_request(wanted, Traits(_traits(specs, "required"), _traits(specs, "forbidden")))


def _traits(specs: Mapping[str, str], condition: str) -> tuple[frozenset[str], ...]:
    return tuple(
        frozenset((key.removeprefix("trait:"),))
        for key, value in specs.items()
        if key.startswith("trait:") and value == condition
    )


class NotAnswerable(ValueError):
    """Nova or placement refuses the request of a flavor; the text goes on after the flavor's name."""


def make_query(flavor: Flavor, classes: Collection[str]) -> CandidateRequest:
    """Return the query for candidates that nova's scheduler sends for a flavor, with all its groups.

    The instance is one of an image without properties that boots from a disk of its host. Raise
    NotAnswerable if nova refuses the flavor, or if any placement refuses the query.

    :param classes: those that nova knows, besides custom ones
    """
    try:
        groups, traits = groups_of(flavor, classes), traits_of(flavor)
    except NoClaim as error:
        raise NotAnswerable(f"is refused by nova: {error}") from error
    suffixes = [each for each in {**groups, **traits} if groups.get(each) or traits.get(each)]
    bare = sorted(suffix for suffix in suffixes if not groups.get(suffix))
    policy = group_policy_of(flavor)
    if not suffixes:
        raise NotAnswerable("asks for nothing")
    if bare:
        names = " and ".join(
            f"group {suffix!r}" if suffix else "the group without a suffix" for suffix in bare
        )
        raise NotAnswerable(f"asks for traits and no resources in {names}, which placement refuses")
    if len([suffix for suffix in suffixes if suffix]) > 1 and policy is None:
        raise NotAnswerable(f"has several request groups and no {GROUP_POLICY}, which placement refuses")
    items = [(GROUP_POLICY, policy)] if policy else []
    for suffix in suffixes:
        amounts = ",".join(f"{name}:{amount}" for name, amount in groups[suffix].items())
        items.append((f"resources{suffix}", amounts))
        if asked := sorted(traits.get(suffix, ())):
            items.append(
                (
                    f"required{suffix}",
                    ",".join(f"{'' if is_required else '!'}{name}" for name, is_required in asked),
                )
            )
    if root := sorted(root_traits_of(flavor)):
        items.append(("root_required", ",".join(root)))
    try:
        return parse(items, microversion.SAME_SUBTREE)
    except BadQuery as error:
        raise NotAnswerable(f"is refused by placement: {error}") from error
