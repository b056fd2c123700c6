# SPDX-License-Identifier: Apache-2.0
"""Queries about usages."""

from osc_placement.server.api.schemas.fragments import EXTERNAL_ID, NAME_PATTERN, extend, record

LIST_1_9 = record({"project_id": EXTERNAL_ID, "user_id": EXTERNAL_ID}, required=("project_id",))
LIST_1_38 = extend(
    LIST_1_9,
    {"consumer_type": {"type": "string", "pattern": f"{NAME_PATTERN}|^all|^unknown$", **EXTERNAL_ID}},
)
