# SPDX-License-Identifier: Apache-2.0
"""Count the transactions of each writer, with what the last of them changed (see `writers`)."""

import sqlalchemy as sa
from alembic import op

revision = "f4c9d2a7e018"
down_revision = "e3f8b1c7d926"


def upgrade() -> None:
    # servers of the previous release neither read nor write this table. It is there already if an earlier
    # upgrade was interrupted on MariaDB, which has no transactions for schemas
    if sa.inspect(op.get_bind()).has_table("oscp_writers"):
        return
    op.create_table(
        "oscp_writers",
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("changed_at", sa.BigInteger, nullable=False),
        sa.Column("recent", sa.Text, nullable=False),
    )
