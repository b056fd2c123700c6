# SPDX-License-Identifier: Apache-2.0
"""The body of changes of many providers; the parts of a change are validated as the bodies of their PUTs."""

from osc_placement.server.api.schemas.fragments import GENERATION, UUID, Schema, record

#: the limit on the changes of a request, which holds its locks until all of them are done
MOST = 1000

_ANYTHING: Schema = {}
_CHANGE = record(
    {
        "uuid": UUID,
        "resource_provider_generation": GENERATION,
        "inventories": _ANYTHING,
        "traits": _ANYTHING,
        "aggregates": _ANYTHING,
    },
    required=("uuid", "resource_provider_generation"),
    minProperties=3,
)
POST = record(
    {"changes": {"type": "array", "items": _CHANGE, "minItems": 1, "maxItems": MOST}}, required=("changes",)
)
