# SPDX-License-Identifier: Apache-2.0
"""The schema as it was when placement left nova."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "b4ed3a175331"
down_revision = None


def _id() -> sa.Column[int]:
    return sa.Column("id", sa.Integer, primary_key=True)


def _integers(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.Integer, nullable=False) for name in names]


def _create(table: str, *items: Any, **indexes: list[str]) -> None:
    """Create a table with the columns every table has, and its indexes by name."""
    timestamps = [sa.Column("created_at", sa.DateTime), sa.Column("updated_at", sa.DateTime)]
    op.create_table(table, *timestamps, *items)
    for name, columns in indexes.items():
        op.create_index(name, table, columns)


def _create_named(table: str, column: str, kind: sa.types.TypeEngine[str], *, nullable: bool = False) -> None:
    """Create a table of rows that are an id and a unique name."""
    unique = sa.UniqueConstraint(column, name=f"uniq_{table}0{column}")
    _create(table, _id(), sa.Column(column, kind, nullable=nullable), unique)


def upgrade() -> None:
    _create(
        "allocations",
        _id(),
        *_integers("resource_provider_id"),
        sa.Column("consumer_id", sa.String(36), nullable=False),
        *_integers("resource_class_id", "used"),
        allocations_resource_provider_class_used_idx=["resource_provider_id", "resource_class_id", "used"],
        allocations_resource_class_id_idx=["resource_class_id"],
        allocations_consumer_id_idx=["consumer_id"],
    )
    _create(
        "consumers",
        _id(),
        sa.Column("uuid", sa.String(36), nullable=False),
        *_integers("project_id", "user_id"),
        sa.Column("generation", sa.Integer, server_default=sa.text("0"), nullable=False),
        sa.UniqueConstraint("uuid", name="uniq_consumers0uuid"),
        consumers_project_id_user_id_uuid_idx=["project_id", "user_id", "uuid"],
        consumers_project_id_uuid_idx=["project_id", "uuid"],
    )
    _create(
        "inventories",
        _id(),
        *_integers(
            "resource_provider_id",
            "resource_class_id",
            "total",
            "reserved",
            "min_unit",
            "max_unit",
            "step_size",
        ),
        sa.Column("allocation_ratio", sa.Float, nullable=False),
        sa.UniqueConstraint(
            "resource_provider_id",
            "resource_class_id",
            name="uniq_inventories0resource_provider_resource_class",
        ),
        inventories_resource_class_id_idx=["resource_class_id"],
        inventories_resource_provider_id_idx=["resource_provider_id"],
        inventories_resource_provider_resource_class_idx=["resource_provider_id", "resource_class_id"],
    )
    _create_named("placement_aggregates", "uuid", sa.String(36), nullable=True)
    op.create_index("ix_placement_aggregates_uuid", "placement_aggregates", ["uuid"])
    _create_named("projects", "external_id", sa.String(255))
    _create_named("resource_classes", "name", sa.String(255))
    _create(
        "resource_provider_aggregates",
        sa.Column("resource_provider_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("aggregate_id", sa.Integer, primary_key=True, autoincrement=False),
        resource_provider_aggregates_aggregate_id_idx=["aggregate_id"],
    )
    _create(
        "resource_providers",
        _id(),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("name", sa.Unicode(200)),
        sa.Column("generation", sa.Integer),
        sa.Column("root_provider_id", sa.Integer),
        sa.Column("parent_provider_id", sa.Integer),
        sa.ForeignKeyConstraint(["parent_provider_id"], ["resource_providers.id"]),
        sa.ForeignKeyConstraint(["root_provider_id"], ["resource_providers.id"]),
        sa.UniqueConstraint("name", name="uniq_resource_providers0name"),
        sa.UniqueConstraint("uuid", name="uniq_resource_providers0uuid"),
        resource_providers_name_idx=["name"],
        resource_providers_parent_provider_id_idx=["parent_provider_id"],
        resource_providers_root_provider_id_idx=["root_provider_id"],
        resource_providers_uuid_idx=["uuid"],
    )
    _create_named("traits", "name", sa.Unicode(255))
    _create_named("users", "external_id", sa.String(255))
    _create(
        "resource_provider_traits",
        sa.Column("trait_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("resource_provider_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.ForeignKeyConstraint(["resource_provider_id"], ["resource_providers.id"]),
        sa.ForeignKeyConstraint(["trait_id"], ["traits.id"]),
        resource_provider_traits_resource_provider_trait_idx=["resource_provider_id", "trait_id"],
    )
