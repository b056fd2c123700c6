# SPDX-License-Identifier: Apache-2.0
"""The microversions of the placement API, and a name for each threshold that the code compares with.

This module imports nothing of the project, and both client and server import it, so that they cannot
disagree.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_FORMAT = re.compile(r"^(\d+)\.(\d+)$", re.ASCII)


class Version(NamedTuple):
    """A microversion; orders as the API orders it (1.9 before 1.10)."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


def parse(text: str) -> Version:
    """Read a version such as ``1.25``; raise ValueError if it is not two numbers with a dot between them."""
    match = _FORMAT.match(text)
    if match is None:
        raise ValueError(f"invalid version number {text}")
    return Version(int(match[1]), int(match[2]))


MIN = Version(1, 0)
PROVIDER_AGGREGATES = Version(1, 1)  # GET and PUT /resource_providers/{uuid}/aggregates
RESOURCE_CLASSES = Version(1, 2)  # /resource_classes
LIST_BY_AGGREGATE = Version(1, 3)  # member_of on GET /resource_providers
LIST_BY_RESOURCES = Version(1, 4)  # resources on GET /resource_providers
DELETE_INVENTORIES = Version(1, 5)  # DELETE /resource_providers/{uuid}/inventories
TRAITS = Version(1, 6)  # /traits and /resource_providers/{uuid}/traits
PUT_RESOURCE_CLASS_WITHOUT_BODY = Version(1, 7)  # PUT creates or confirms; before, it renamed
CONSUMER_OWNER_REQUIRED = Version(1, 8)  # project_id and user_id in PUT /allocations/{consumer}
TOTAL_USAGES = Version(1, 9)  # GET /usages
ALLOCATION_CANDIDATES = Version(1, 10)  # GET /allocation_candidates
ALLOCATIONS_LINK = Version(1, 11)  # "allocations" among a provider's links
ALLOCATIONS_BY_PROVIDER = Version(1, 12)  # allocations are a dict by provider, and show project and user
POST_ALLOCATIONS = Version(1, 13)  # POST /allocations: several consumers at once
NESTED_PROVIDERS = Version(1, 14)  # parent and root of a provider, in_tree
LAST_MODIFIED = Version(1, 15)  # last-modified and cache-control headers
CANDIDATES_LIMIT = Version(1, 16)  # limit on GET /allocation_candidates
CANDIDATES_TRAITS = Version(1, 17)  # required on GET /allocation_candidates, traits in its summaries
LIST_BY_TRAITS = Version(1, 18)  # required on GET /resource_providers
AGGREGATES_WITH_GENERATION = Version(1, 19)  # provider generation in the aggregates of a provider
CREATED_PROVIDER_IN_BODY = Version(1, 20)  # POST /resource_providers answers 200 with the provider
CANDIDATES_BY_AGGREGATE = Version(1, 21)  # member_of on GET /allocation_candidates
FORBIDDEN_TRAITS = Version(1, 22)  # required=!TRAIT
ERROR_CODES = Version(1, 23)  # errors[].code
REPEATED_MEMBER_OF = Version(1, 24)  # member_of several times: all of them must hold
GRANULAR_CANDIDATES = Version(1, 25)  # numbered request groups, group_policy
RESERVED_UP_TO_TOTAL = Version(1, 26)  # reserved may equal total
SUMMARIES_OF_ALL_CLASSES = Version(1, 27)  # provider summaries hold every class, not only those asked for
CONSUMER_GENERATIONS = Version(1, 28)  # consumer_generation in allocations
NESTED_CANDIDATES = Version(1, 29)  # candidates from nested providers
RESHAPER = Version(1, 30)  # POST /reshaper
CANDIDATES_IN_TREE = Version(1, 31)  # in_tree on GET /allocation_candidates
FORBIDDEN_AGGREGATES = Version(1, 32)  # member_of=!uuid and !in:
NAMED_GROUPS = Version(1, 33)  # request groups named by letters too
MAPPINGS = Version(1, 34)  # mappings of groups to providers
ROOT_REQUIRED = Version(1, 35)  # root_required on GET /allocation_candidates
SAME_SUBTREE = Version(1, 36)  # same_subtree, and groups without resources
REPARENTING = Version(1, 37)  # the parent of a provider may change or be removed
CONSUMER_TYPES = Version(1, 38)  # consumer_type in allocations and usages
ANY_TRAITS = Version(1, 39)  # required=in:A,B
MAX = ANY_TRAITS

ALL: tuple[Version, ...] = tuple(Version(1, minor) for minor in range(MAX.minor + 1))
