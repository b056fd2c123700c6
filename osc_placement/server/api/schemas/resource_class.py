# SPDX-License-Identifier: Apache-2.0
"""Bodies about resource classes."""

from osc_placement.server.api.schemas.fragments import CUSTOM_NAME_PATTERN, record

#: the body of POST, the body of the old PUT that renamed a class, and the schema of a name in a path
CUSTOM_CLASS = record(
    {"name": {"type": "string", "pattern": CUSTOM_NAME_PATTERN, "maxLength": 255}}, required=("name",)
)
