# SPDX-License-Identifier: Apache-2.0
"""Bodies about resource classes."""

from osc_placement.server.api.schemas.fragments import CUSTOM_NAME_PATTERN, record

#: what POST takes, what PUT took to rename a class, and what a name in a path has to be like
CUSTOM_CLASS = record(
    {"name": {"type": "string", "pattern": CUSTOM_NAME_PATTERN, "maxLength": 255}}, required=("name",)
)
