# SPDX-License-Identifier: Apache-2.0
"""Stop if a provider has no root: what comes after takes for granted that it has."""

from alembic import op

from osc_placement.server.db import repair
from osc_placement.server.db.upgrade import REPAIR_FIRST, SchemaError

revision = "611cd6dffd7b"
down_revision = "b4ed3a175331"


def upgrade() -> None:
    if repair.is_root_missing(op.get_bind()):
        raise SchemaError(
            "There is at least one resource provider table record which is missing its root provider id. "
            + REPAIR_FIRST
        )
