# SPDX-License-Identifier: Apache-2.0
"""Stop if an allocation has no consumer: what comes after takes for granted that it has."""

from alembic import op

from osc_placement.server.db import repair
from osc_placement.server.db.upgrade import REPAIR_FIRST, SchemaError

revision = "b5c396305c25"
down_revision = "611cd6dffd7b"


def upgrade() -> None:
    if repair.count_missing_consumers(op.get_bind()):
        raise SchemaError(
            "There is at least one allocation record which is missing a consumer record. " + REPAIR_FIRST
        )
