# SPDX-License-Identifier: Apache-2.0
"""The filters of ``GET /resource_providers``, and the query for those that are evaluated in SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import sqlalchemy as sa

from osc_placement.candidates.query import Membership, Traits
from osc_placement.server.db.tables import resource_providers

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


@dataclass(frozen=True, slots=True)
class Filters:
    """The conditions of a list of providers, all of which a provider has to satisfy."""

    name: str | None = None
    uuid: str | None = None
    in_tree: str | None = None
    membership: Membership = field(default_factory=Membership)
    traits: Traits = field(default_factory=Traits)
    resources: Mapping[str, int] = field(default_factory=dict)

    @property
    def names_anything(self) -> bool:
        """Return whether the filters name traits or classes, which then have to exist."""
        return bool(self.traits.names or self.resources)


def find_ids(conn: Connection, filters: Filters) -> set[int]:
    """Return the ids of the providers that satisfy the filters on name, UUID and tree."""
    columns = resource_providers.c
    query = sa.select(columns.id)
    if filters.name:
        query = query.where(columns.name == filters.name)
    if filters.uuid:
        query = query.where(columns.uuid == filters.uuid)
    if filters.in_tree:
        tree = resource_providers.alias("tree")
        root = sa.select(tree.c.root_provider_id).where(tree.c.uuid == filters.in_tree)
        query = query.where(columns.root_provider_id.in_(root))
    return set(conn.scalars(query))
