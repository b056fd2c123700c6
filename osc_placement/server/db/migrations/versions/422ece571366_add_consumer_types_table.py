# SPDX-License-Identifier: Apache-2.0
"""Consumers may have a type."""

import sqlalchemy as sa
from alembic import op

revision = "422ece571366"
down_revision = "b5c396305c25"


def upgrade() -> None:
    op.create_table(
        "consumer_types",
        sa.Column("created_at", sa.DateTime),
        sa.Column("updated_at", sa.DateTime),
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.Unicode(255), nullable=False),
        sa.UniqueConstraint("name", name="uniq_consumer_types0name"),
    )
    reference = sa.ForeignKey("consumer_types.id", name="consumers_consumer_type_id_fkey")
    # SQLite cannot add a constraint to a table; "batch" makes a new one there
    with op.batch_alter_table("consumers") as consumers:
        consumers.add_column(sa.Column("consumer_type_id", sa.Integer, reference))
    op.create_index("consumers_consumer_type_id_idx", "consumers", ["consumer_type_id"])
