# SPDX-License-Identifier: Apache-2.0
"""Tell one database from another, and one history of a provider from another (see `fingerprint`)."""

import sqlalchemy as sa
from alembic import op

revision = "e3f8b1c7d926"
down_revision = "c7d2e9a4b015"


def upgrade() -> None:
    # servers of the previous release do not write this column
    op.add_column(
        "oscp_provider_revisions",
        sa.Column("contents_at", sa.BigInteger, nullable=False, server_default="0"),
    )
    op.create_table(
        "oscp_database_identity",
        sa.Column("identity", sa.BigInteger, primary_key=True, autoincrement=False),
    )
