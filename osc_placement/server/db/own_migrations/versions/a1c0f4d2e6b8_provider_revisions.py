# SPDX-License-Identifier: Apache-2.0
"""Count the changes of each provider that this server makes (see `revision`)."""

import sqlalchemy as sa
from alembic import op

revision = "a1c0f4d2e6b8"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "oscp_provider_revisions",
        sa.Column("provider_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("generation_moves", sa.BigInteger, nullable=False),
        sa.Column("consumers", sa.BigInteger, nullable=False),
    )
