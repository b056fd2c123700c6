# SPDX-License-Identifier: Apache-2.0
"""Bodies of the reshaper, a constant per range of microversions."""

from osc_placement.server.api.schemas import allocation, inventory
from osc_placement.server.api.schemas.fragments import UUID_PATTERN, Schema, record

_INVENTORIES: Schema = {
    "type": "object",
    "patternProperties": {UUID_PATTERN: inventory.PUT_ALL},
    "minProperties": 1,
    "additionalProperties": False,
}


def _with(allocations: Schema) -> Schema:
    # unlike POST /allocations, the reshaper may move inventory without allocations
    any_number = {**allocations, "minProperties": 0}
    return record(
        {"inventories": _INVENTORIES, "allocations": any_number}, required=("inventories", "allocations")
    )


POST_1_30 = _with(allocation.POST_1_28)
POST_1_34 = _with(allocation.POST_1_34)
POST_1_38 = _with(allocation.POST_1_38)
