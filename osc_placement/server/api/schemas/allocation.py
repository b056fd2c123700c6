# SPDX-License-Identifier: Apache-2.0
"""Bodies about allocations, a constant per range of microversions.

``PUT_*`` describe the allocations of one consumer, ``POST_*`` those of several consumers by UUID.
"""

from osc_placement.server.api.schemas.fragments import (
    EXTERNAL_ID,
    GENERATION,
    NAME_PATTERN,
    UUID,
    UUID_PATTERN,
    Schema,
    extend,
    record,
)

_RESOURCES: Schema = {
    "type": "object",
    "minProperties": 1,
    "patternProperties": {NAME_PATTERN: {"type": "integer", "minimum": 1}},
    "additionalProperties": False,
}
_OWNER: Schema = {"project_id": EXTERNAL_ID, "user_id": EXTERNAL_ID}


def _closed(properties: Schema, required: tuple[str, ...]) -> Schema:
    """Return a record that, as the reference's, reports additional properties before missing ones."""
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "required": list(required),
    }


_LISTED: Schema = record(
    {"resource_provider": _closed({"uuid": UUID}, ("uuid",)), "resources": _RESOURCES},
    required=("resource_provider", "resources"),
)


def _by_provider(minimum: int) -> Schema:
    of_provider = record({"generation": GENERATION, "resources": _RESOURCES}, required=("resources",))
    return {
        "type": "object",
        "minProperties": minimum,
        "patternProperties": {UUID_PATTERN: of_provider},
        "additionalProperties": False,
    }


def _by_consumer(schema: Schema) -> Schema:
    return {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": False,
        "patternProperties": {UUID_PATTERN: schema},
    }


PUT_1_0 = record(
    {"allocations": {"type": "array", "minItems": 1, "items": _LISTED}}, required=("allocations",)
)
PUT_1_8 = extend(PUT_1_0, _OWNER, required=("project_id", "user_id"))
_REQUIRED = ("allocations", "project_id", "user_id")
PUT_1_12 = _closed({"allocations": _by_provider(1), **_OWNER}, _REQUIRED)
_DELETABLE = _closed({"allocations": _by_provider(0), **_OWNER}, _REQUIRED)
PUT_1_28 = extend(
    _DELETABLE,
    {"consumer_generation": {"type": ["integer", "null"], "additionalProperties": False}},
    required=("consumer_generation",),
)
#: the providers that satisfied each request group: accepted and ignored
_MAPPINGS: Schema = {
    "type": "object",
    "minProperties": 1,
    "patternProperties": {"[a-zA-Z0-9_-]{1,64}": {"type": "array", "minItems": 1, "items": UUID}},
}
PUT_1_34 = extend(PUT_1_28, {"mappings": _MAPPINGS})
PUT_1_38 = extend(
    PUT_1_34,
    {"consumer_type": {"type": "string", "pattern": NAME_PATTERN, **EXTERNAL_ID}},
    required=("consumer_type",),
)

POST_1_13 = _by_consumer(_DELETABLE)
POST_1_28 = _by_consumer(PUT_1_28)
POST_1_34 = _by_consumer(PUT_1_34)
POST_1_38 = _by_consumer(PUT_1_38)
