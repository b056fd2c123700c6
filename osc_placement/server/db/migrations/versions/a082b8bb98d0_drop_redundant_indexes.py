# SPDX-License-Identifier: Apache-2.0
"""Drop the indexes that a unique constraint provides anyway."""

from alembic import op

revision = "a082b8bb98d0"
down_revision = "422ece571366"

REDUNDANT = (
    ("inventories", "inventories_resource_provider_id_idx"),
    ("inventories", "inventories_resource_provider_resource_class_idx"),
    ("placement_aggregates", "ix_placement_aggregates_uuid"),
    ("resource_providers", "resource_providers_name_idx"),
    ("resource_providers", "resource_providers_uuid_idx"),
)


def upgrade() -> None:
    for table, index in REDUNDANT:
        op.drop_index(index, table_name=table)
