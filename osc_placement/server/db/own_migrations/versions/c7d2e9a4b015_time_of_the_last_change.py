# SPDX-License-Identifier: Apache-2.0
"""Remember when each provider was changed last, to look at the last ones first (see `snapshot.changes`)."""

import sqlalchemy as sa
from alembic import op

revision = "c7d2e9a4b015"
down_revision = "a1c0f4d2e6b8"


def upgrade() -> None:
    # servers of the previous release do not write this column
    op.add_column(
        "oscp_provider_revisions",
        sa.Column("changed_at", sa.BigInteger, nullable=False, server_default="0"),
    )
    op.create_index("oscp_provider_revisions_changed_at", "oscp_provider_revisions", ["changed_at"])
