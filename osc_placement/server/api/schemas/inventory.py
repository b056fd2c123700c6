# SPDX-License-Identifier: Apache-2.0
"""Bodies about inventories; the same at every microversion."""

from osc_placement.model import MAX_AMOUNT, MAX_RATIO
from osc_placement.server.api.schemas.fragments import GENERATION, NAME_PATTERN, record


def _amount(minimum: int) -> dict[str, object]:
    return {"type": "integer", "maximum": MAX_AMOUNT, "minimum": minimum}


_FIELDS = {
    "total": _amount(1),
    "reserved": _amount(0),
    "min_unit": _amount(1),
    "max_unit": _amount(1),
    "step_size": _amount(1),
    "allocation_ratio": {"type": "number", "maximum": MAX_RATIO},
}
_WITH_GENERATION = {"resource_provider_generation": GENERATION, **_FIELDS}

POST = record(
    {**_WITH_GENERATION, "resource_class": {"type": "string", "pattern": NAME_PATTERN}},
    required=("total", "resource_class"),
)
PUT_ONE = record(_WITH_GENERATION, required=("total", "resource_provider_generation"))
#: one inventory among several
RECORD = record(_WITH_GENERATION, required=("total",))
#: inventories by resource class, for PUT and the reshaper; error messages quote the schema, so values of
#: names that are not classes are not described here, but validated as a `RECORD` separately
PUT_ALL = record(
    {
        "resource_provider_generation": GENERATION,
        "inventories": {"type": "object", "patternProperties": {NAME_PATTERN: RECORD}},
    },
    required=("resource_provider_generation", "inventories"),
)
