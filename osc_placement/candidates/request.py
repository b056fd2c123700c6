# SPDX-License-Identifier: Apache-2.0
"""A query for allocation candidates as a value: its groups, and what applies to all of them. Pure.

`query` parses the parts of a query string; this module assembles them and validates the whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from osc_placement import codes, microversion
from osc_placement.candidates.query import (
    BadQuery,
    Membership,
    Traits,
    parse_membership,
    parse_resources,
    parse_traits,
)
from osc_placement.microversion import Version
from osc_placement.model import canonical_uuid, is_uuid

#: the suffix of the group of parameters without a suffix, the only group that may use several providers
UNNAMED: Final = ""

ISOLATE: Final = "isolate"

_LIMIT = re.compile("[1-9][0-9]*")
_KEY = re.compile(r"^(resources|required|member_of|in_tree)([1-9][0-9]*)?$")
_NAMED_KEY = re.compile(r"^(resources|required|member_of|in_tree)([a-zA-Z0-9_-]{1,64})?$")


class NotCountable(ValueError):
    """A flavor requests something that cannot be counted; the text goes on after the flavor's name."""


@dataclass(frozen=True, slots=True)
class Group:
    """One group of the request: amounts by class, and conditions on the providers."""

    suffix: str
    resources: Mapping[str, int] = field(default_factory=dict)
    traits: Traits = field(default_factory=Traits)
    membership: Membership = field(default_factory=Membership)
    in_tree: str | None = None

    @property
    def one_provider(self) -> bool:
        """Return whether a single provider has to provide all of it."""
        return self.suffix != UNNAMED


@dataclass(frozen=True, slots=True)
class CandidateRequest:
    """All of a query.

    :ivar groups: in the order of the query
    :ivar root: traits the root of the tree must have and must not have
    :ivar same_subtrees: for each set of suffixes, the providers of those groups are below one of them
    :ivar isolated: whether different named groups need different providers
    :ivar nested: whether one tree may provide from several of its providers (1.29)
    """

    groups: Sequence[Group]
    limit: int | None = None
    isolated: bool = False
    root: Traits = field(default_factory=Traits)
    same_subtrees: Sequence[frozenset[str]] = ()
    nested: bool = True

    @property
    def classes(self) -> frozenset[str]:
        """Return every resource class that is asked for."""
        return frozenset(name for group in self.groups for name in group.resources)

    @property
    def aggregates(self) -> frozenset[str]:
        """Return every aggregate that is named."""
        return frozenset[str]().union(*(group.membership.names for group in self.groups))

    @property
    def required(self) -> frozenset[str]:
        """Return every trait that a group requires."""
        return frozenset[str]().union(*(names for group in self.groups for names in group.traits.required))

    @property
    def totals(self) -> Mapping[str, int]:
        """Return the amounts that all groups together ask for, by class."""
        totals: dict[str, int] = {}
        for group in self.groups:
            for name, amount in group.resources.items():
                totals[name] = totals.get(name, 0) + amount
        return totals


def parse(items: Sequence[tuple[str, str]], version: Version) -> CandidateRequest:
    """Read the query string of ``GET /allocation_candidates``, already matched against its schema.

    :param items: keys and values, in order, repeated ones included
    """
    limit = None
    if limits := _values(items, "limit"):
        # the first of several values counts, as in openstack-placement; the schema has checked the last
        if not _LIMIT.fullmatch(limits[0]):
            raise BadQuery(
                "Invalid query string parameters: Expected 'limit' parameter to be a number from 1 on. "
                f"Got: {limits[0]}"
            )
        # Python parses at most 4,300 digits, and a number of a hundred digits exceeds any number of results
        limit = int(limits[0][:100])
    policies = _values(items, "group_policy")
    root = _parse_root_required(_values(items, "root_required"))
    same_subtrees = [
        frozenset(suffix.strip() for suffix in value.split(",")) for value in _values(items, "same_subtree")
    ]
    if any(UNNAMED in suffixes for suffixes in same_subtrees):
        raise BadQuery(
            "Empty string (unsuffixed group) can not be specified in `same_subtree` ", codes.QUERY_BAD_VALUE
        )
    pattern = _NAMED_KEY if version >= microversion.NAMED_GROUPS else _KEY
    # of each group, the values of each parameter
    by_suffix: dict[str, dict[str, list[str]]] = {}
    for key, value in items:
        if match := pattern.match(key):
            by_suffix.setdefault(match[2] or UNNAMED, {}).setdefault(match[1], []).append(value)
    groups = [_parse_group(suffix, values, version) for suffix, values in by_suffix.items()]
    if version >= microversion.SAME_SUBTREE:
        _check_resourceless(groups, same_subtrees)
    else:
        _check_orphans(groups)
    if version >= microversion.FORBIDDEN_TRAITS:
        _check_conflicts(groups)
    if not policies and sum(group.one_provider for group in groups) > 1:
        raise BadQuery(
            'The "group_policy" parameter is required when specifying more than one "resources{N}" parameter.'
        )
    return CandidateRequest(
        groups,
        limit=limit,
        isolated=policies[:1] == [ISOLATE],
        root=root,
        same_subtrees=same_subtrees,
        nested=version >= microversion.NESTED_CANDIDATES,
    )


def _values(items: Iterable[tuple[str, str]], key: str) -> list[str]:
    return [value for name, value in items if name == key]


def _parse_group(suffix: str, values: Mapping[str, Sequence[str]], version: Version) -> Group:
    # each of several values is validated, and the last is used
    resources = [parse_resources(value) for value in values.get("resources", ())]
    trees = values.get("in_tree", ())
    for tree in trees:
        if not is_uuid(tree.strip()):
            raise BadQuery(
                "Invalid query string parameters: Expected 'in_tree' parameter to be a format of uuid. "
                f"Got: {tree}"
            )
    in_tree = canonical_uuid(trees[-1].strip()) if trees else None
    traits = parse_traits(values.get("required", ()), version)
    membership = parse_membership(values.get("member_of", ()), version, suffix=suffix)
    return Group(suffix, resources[-1] if resources else {}, traits, membership, in_tree)


def _parse_root_required(values: Sequence[str]) -> Traits:
    if len(values) > 1:
        raise BadQuery(
            "Query parameter 'root_required' may be specified only once.", codes.QUERY_DUPLICATE_KEY
        )
    if not values:
        return Traits()
    # "in:" is never accepted here, and forbidden traits always are
    traits = parse_traits(values, microversion.CONSUMER_TYPES)
    wanted = frozenset[str]().union(*traits.required)
    if conflicts := sorted(wanted & traits.unwanted):
        raise BadQuery(
            f"Conflicting required and forbidden traits found in root_required: {', '.join(conflicts)}",
            codes.QUERY_BAD_VALUE,
        )
    return traits


def _check_resourceless(groups: Sequence[Group], same_subtrees: Sequence[frozenset[str]]) -> None:
    """Raise BadQuery if a group without resources is not tied by ``same_subtree`` to one with resources."""
    suffixes = [group.suffix for group in groups]
    resourceless = [group.suffix for group in groups if not group.resources]
    if len(resourceless) == len(groups):
        raise BadQuery(
            "There must be at least one resources or resources[$S] parameter.", codes.QUERY_MISSING_VALUE
        )
    tied = frozenset[str]().union(*same_subtrees)
    if loose := [suffix for suffix in resourceless if suffix not in tied]:
        raise BadQuery(
            "Resourceless suffixed group request should be specified in `same_subtree` query param: "
            f"bad group(s) - {loose}.",
            codes.QUERY_BAD_VALUE,
        )
    if unknown := [suffix for suffix in sorted(tied) if suffix not in suffixes]:
        raise BadQuery(
            f"Real suffixes should be specified in `same_subtree`: {unknown} not found in {suffixes}.",
            codes.QUERY_BAD_VALUE,
        )


def _check_orphans(groups: Sequence[Group]) -> None:
    """Raise BadQuery if a group asks for no resources, as every group has to before 1.36."""
    bare = [group for group in groups if not group.resources]
    if orphans := [f"required{group.suffix}" for group in bare if group.traits.required]:
        raise BadQuery(
            "All traits parameters must be associated with resources.  Found the following orphaned traits "
            f"keys: {', '.join(orphans)}"
        )
    if orphans := [f"member_of{group.suffix}" for group in bare if group.membership != Membership()]:
        raise BadQuery(
            "All member_of parameters must be associated with resources. Found the following orphaned "
            f"member_of keys: {', '.join(orphans)}"
        )
    if bare:
        raise BadQuery("All request groups must specify resources.")
    if not groups:
        raise BadQuery("At least one request group (`resources` or `resources{$S}`) is required.")


def _check_conflicts(groups: Sequence[Group]) -> None:
    conflicts = [
        f"required{group.suffix}: ({', '.join(sorted(names))})"
        for group in groups
        for names in group.traits.required
        if names <= group.traits.unwanted
    ]
    if conflicts:
        raise BadQuery(
            "Conflicting required and forbidden traits found in the following traits keys: "
            f"{', '.join(sorted(conflicts))}"
        )
