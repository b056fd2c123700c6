# SPDX-License-Identifier: Apache-2.0
"""The usage of a provider, and the total usage of projects and users by resource class and consumer type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from osc_placement.model import UNKNOWN_TYPE
from osc_placement.server.db import provider
from osc_placement.server.db.tables import (
    allocations,
    consumer_types,
    consumers,
    inventories,
    projects,
    resource_classes,
    users,
)

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

#: the value that asks for all consumers together, regardless of their type
ALL_TYPES = "all"


@dataclass(frozen=True, slots=True)
class Usage:
    """The total usage of the consumers of one type, and their number."""

    resources: dict[str, int]
    consumer_count: int


def of_provider(conn: Connection, uuid: str) -> tuple[provider.Provider, dict[str, int]]:
    """Return a provider, and the amount used of each class that it has inventory of.

    :raises errors.ProviderNotFound: there is no such provider
    """
    found = provider.load(conn, uuid)
    used = sa.func.coalesce(sa.func.sum(allocations.c.used), 0)
    query = (
        sa.select(resource_classes.c.name, used)
        .select_from(inventories)
        .join(resource_classes, inventories.c.resource_class_id == resource_classes.c.id)
        .outerjoin(
            allocations,
            (allocations.c.resource_provider_id == inventories.c.resource_provider_id)
            & (allocations.c.resource_class_id == inventories.c.resource_class_id),
        )
        .where(inventories.c.resource_provider_id == found.id)
        .group_by(resource_classes.c.id, resource_classes.c.name)
        .order_by(resource_classes.c.id)
    )
    return found, {name: int(amount) for name, amount in conn.execute(query)}


def _held_by(project_id: str, user_id: str | None) -> sa.FromClause:
    """Return the allocations of the consumers of a project, or of one of its users, joined."""
    query = (
        sa.select(
            allocations.c.consumer_id,
            allocations.c.resource_class_id,
            allocations.c.used,
            sa.func.coalesce(consumer_types.c.name, UNKNOWN_TYPE).label("consumer_type"),
        )
        .join(consumers, allocations.c.consumer_id == consumers.c.uuid)
        .join(projects, consumers.c.project_id == projects.c.id)
        .outerjoin(consumer_types, consumers.c.consumer_type_id == consumer_types.c.id)
        .where(projects.c.external_id == project_id)
    )
    if user_id is not None:
        query = query.join(users, consumers.c.user_id == users.c.id).where(users.c.external_id == user_id)
    return query.subquery("held")


def by_class(conn: Connection, project_id: str, user_id: str | None) -> dict[str, int]:
    """Return the usage of a project, or of one of its users, by resource class."""
    return _sum_by_class(conn, _held_by(project_id, user_id), sa.true())


def _sum_by_class(conn: Connection, held: sa.FromClause, condition: sa.ColumnElement[bool]) -> dict[str, int]:
    query = (
        sa.select(resource_classes.c.name, sa.func.sum(held.c.used))
        .join(held, held.c.resource_class_id == resource_classes.c.id)
        .where(condition)
        .group_by(resource_classes.c.id, resource_classes.c.name)
        .order_by(resource_classes.c.id)
    )
    return {name: int(amount) for name, amount in conn.execute(query)}


def by_project(conn: Connection) -> list[tuple[str, str, int]]:
    """Return project, resource class and usage, of all projects that have allocations, in order."""
    query = (
        sa.select(projects.c.external_id, resource_classes.c.name, sa.func.sum(allocations.c.used))
        .join(consumers, consumers.c.project_id == projects.c.id)
        .join(allocations, allocations.c.consumer_id == consumers.c.uuid)
        .join(resource_classes, allocations.c.resource_class_id == resource_classes.c.id)
        .group_by(projects.c.external_id, resource_classes.c.name)
        .order_by(projects.c.external_id, resource_classes.c.name)
    )
    return [(project, name, int(amount)) for project, name, amount in conn.execute(query)]


def by_consumer_type(
    conn: Connection, project_id: str, user_id: str | None, consumer_type: str | None
) -> dict[str, Usage]:
    """Return the usage by consumer type: of each type with allocations, or of the one requested.

    :param consumer_type: a type's name, `UNKNOWN_TYPE`, `ALL_TYPES`, or None for each by itself
    """
    held = _held_by(project_id, user_id)
    counts = sa.select(held.c.consumer_type, sa.func.count(held.c.consumer_id.distinct()))
    counts = counts.group_by(held.c.consumer_type).order_by(held.c.consumer_type)
    by_type: dict[str, int] = dict(conn.execute(counts).all())
    if consumer_type == ALL_TYPES:
        everything = _sum_by_class(conn, held, sa.true())
        return {ALL_TYPES: Usage(everything, sum(by_type.values()))} if everything else {}
    return {
        type_: Usage(_sum_by_class(conn, held, held.c.consumer_type == type_), count)
        for type_, count in by_type.items()
        if consumer_type in (None, type_)
    }
