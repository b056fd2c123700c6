# SPDX-License-Identifier: Apache-2.0
"""`GET /resource_providers`: the filters of a list of providers, as SQL."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import sqlalchemy as sa

from osc_placement.model import MAX_AMOUNT
from osc_placement.server import errors
from osc_placement.server.candidates.query import Membership, Traits
from osc_placement.server.db import names
from osc_placement.server.db.provider import Provider, select_providers
from osc_placement.server.db.tables import (
    allocations,
    inventories,
    placement_aggregates,
    resource_provider_aggregates,
    resource_provider_traits,
    resource_providers,
    traits,
)

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


@dataclass(frozen=True, slots=True)
class Filters:
    """What a provider has to satisfy to be listed; all of it."""

    name: str | None = None
    uuid: str | None = None
    in_tree: str | None = None
    membership: Membership = field(default_factory=Membership)
    traits: Traits = field(default_factory=Traits)
    resources: Mapping[str, int] = field(default_factory=dict)


def load_all(conn: Connection, filters: Filters) -> list[Provider]:
    """The providers that pass the filters, by id.

    :raises errors.ResourceClassNotFound: the resources name a class that does not exist
    :raises errors.TraitNotFound: a trait named does not exist
    """
    query = select_providers.where(*_conditions(conn, filters)).order_by(resource_providers.c.id)
    return [Provider(*row) for row in conn.execute(query)]


def _conditions(conn: Connection, filters: Filters) -> list[sa.ColumnElement[bool]]:
    columns = resource_providers.c
    conditions: list[sa.ColumnElement[bool]] = []
    if filters.name:
        conditions.append(columns.name == filters.name)
    if filters.uuid:
        conditions.append(columns.uuid == filters.uuid)
    if filters.in_tree:
        tree = resource_providers.alias("tree")
        root = sa.select(tree.c.root_provider_id).where(tree.c.uuid == filters.in_tree)
        conditions.append(columns.root_provider_id.in_(root))
    _check_traits(conn, filters.traits)
    conditions += [_has_trait(group) for group in filters.traits.required]
    conditions += [_is_member(group) for group in filters.membership.required]
    if filters.traits.forbidden:
        conditions.append(~_has_trait(filters.traits.forbidden))
    if filters.membership.forbidden:
        conditions.append(~_is_member(filters.membership.forbidden))
    class_ids = names.class_ids(conn, filters.resources)
    conditions += [_has_room(class_ids[name], amount) for name, amount in filters.resources.items()]
    return conditions


def _check_traits(conn: Connection, wanted: Traits) -> None:
    known = names.find_ids(conn, traits, "name", wanted.names)
    for name in sorted(wanted.names):
        if name not in known:
            raise errors.TraitNotFound(name)


def _has_trait(any_of: Collection[str]) -> sa.ColumnElement[bool]:
    having = sa.select(resource_provider_traits.c.resource_provider_id).join(
        traits, resource_provider_traits.c.trait_id == traits.c.id
    )
    return resource_providers.c.id.in_(having.where(traits.c.name.in_(sorted(any_of))))


def _is_member(any_of: Collection[str]) -> sa.ColumnElement[bool]:
    members = sa.select(resource_provider_aggregates.c.resource_provider_id).join(
        placement_aggregates, resource_provider_aggregates.c.aggregate_id == placement_aggregates.c.id
    )
    return resource_providers.c.id.in_(members.where(placement_aggregates.c.uuid.in_(sorted(any_of))))


def _has_room(class_id: int, amount: int) -> sa.ColumnElement[bool]:
    """The condition of `model.Inventory.fits_unit` and `has_room`, as the database computes it."""
    # more than any max_unit is too much, however much; not every database can do with numbers of any size
    amount = min(amount, MAX_AMOUNT + 1)
    stock = inventories.c
    # joined as a whole: summing for each provider by itself costs PostgreSQL nine seconds on 10,000 of them
    usage = (
        sa.select(allocations.c.resource_provider_id, sa.func.sum(allocations.c.used).label("used"))
        .where(allocations.c.resource_class_id == class_id)
        .group_by(allocations.c.resource_provider_id)
        .subquery()
    )
    fitting = (
        sa.select(stock.resource_provider_id)
        .outerjoin(usage, usage.c.resource_provider_id == stock.resource_provider_id)
        .where(
            stock.resource_class_id == class_id,
            sa.func.coalesce(usage.c.used, 0) + amount
            <= (stock.total - stock.reserved) * stock.allocation_ratio,
            stock.min_unit <= amount,
            stock.max_unit >= amount,
            amount % stock.step_size == 0,
        )
    )
    return resource_providers.c.id.in_(fitting)
