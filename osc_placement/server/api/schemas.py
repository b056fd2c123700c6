# SPDX-License-Identifier: Apache-2.0
"""JSON schemas of the bodies and query strings of requests, by noun; a constant per range of microversions,
and a table of these where there are several.

Clients see jsonschema's messages, which quote the schema and report the first of several errors. So the order
of keywords in a schema is part of the API, like their values.
"""

from __future__ import annotations

import copy
from typing import Any, Final

from osc_placement import microversion
from osc_placement.microversion import Version
from osc_placement.model import MAX_AMOUNT, MAX_RATIO

Schema = dict[str, Any]
#: by first microversion, the oldest first; None for versions of a request that has no body
Schemas = dict[Version, Schema | None]

NAME_PATTERN: Final = "^[A-Z0-9_]+$"
_CUSTOM_NAME_PATTERN: Final = "^CUSTOM_[A-Z0-9_]+$"
_UUID_PATTERN: Final = "^[0-9a-fA-F-]{36}$"

_UUID: Schema = {"type": "string", "format": "uuid"}
_GENERATION: Schema = {"type": "integer"}
_TEXT: Schema = {"type": "string"}
#: equivalent, but error messages quote it as it is written
_TEXT_IN_LIST: Schema = {"type": ["string"]}
#: a keystone id of a project or user, which is not always a UUID
_EXTERNAL_ID: Schema = {"type": "string", "minLength": 1, "maxLength": 255}


def _record(properties: Schema, *, required: tuple[str, ...] = (), **keywords: Any) -> Schema:
    """Return the schema of a JSON object with these properties and no others."""
    schema: Schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    return {**schema, "additionalProperties": False, **keywords}


def _extend(schema: Schema, properties: Schema, *, required: tuple[str, ...] = ()) -> Schema:
    """Return a copy of a record with more properties."""
    extended = copy.deepcopy(schema)
    extended["properties"] |= properties
    if required:
        extended["required"] = [*extended.get("required", ()), *required]
    return extended


# Resource providers.

_PROVIDER_NAME = {"type": "string", "maxLength": 200}
_PARENT = {"parent_provider_uuid": {"anyOf": [_UUID, {"type": "null"}]}}

POST_PROVIDER_1_0 = _record({"name": _PROVIDER_NAME, "uuid": _UUID}, required=("name",))
POST_PROVIDER_1_14 = _extend(POST_PROVIDER_1_0, _PARENT)
POST_PROVIDER: Final[Schemas] = {
    microversion.MIN: POST_PROVIDER_1_0,
    microversion.NESTED_PROVIDERS: POST_PROVIDER_1_14,
}
PUT_PROVIDER_1_0 = _record({"name": _PROVIDER_NAME}, required=("name",))
PUT_PROVIDER_1_14 = _extend(PUT_PROVIDER_1_0, _PARENT)
PUT_PROVIDER: Final[Schemas] = {
    microversion.MIN: PUT_PROVIDER_1_0,
    microversion.NESTED_PROVIDERS: PUT_PROVIDER_1_14,
}

LIST_PROVIDERS_1_0 = _record({"name": _TEXT, "uuid": _UUID})
LIST_PROVIDERS_1_3 = _extend(LIST_PROVIDERS_1_0, {"member_of": _TEXT})
LIST_PROVIDERS_1_4 = _extend(LIST_PROVIDERS_1_3, {"resources": _TEXT})
LIST_PROVIDERS_1_14 = _extend(LIST_PROVIDERS_1_4, {"in_tree": _UUID})
LIST_PROVIDERS_1_18 = _extend(LIST_PROVIDERS_1_14, {"required": _TEXT})
LIST_PROVIDERS: Final[Schemas] = {
    microversion.MIN: LIST_PROVIDERS_1_0,
    microversion.LIST_BY_AGGREGATE: LIST_PROVIDERS_1_3,
    microversion.LIST_BY_RESOURCES: LIST_PROVIDERS_1_4,
    microversion.NESTED_PROVIDERS: LIST_PROVIDERS_1_14,
    microversion.LIST_BY_TRAITS: LIST_PROVIDERS_1_18,
}

#: the query of the bulk read, at any microversion
READ_PROVIDERS = _extend(LIST_PROVIDERS_1_18, {"want": {"type": "string"}})

# Resource classes, traits and aggregates.

#: the body of POST, the body of the old PUT that renamed a class, and the schema of a name in a path
CUSTOM_CLASS = _record(
    {"name": {"type": "string", "pattern": _CUSTOM_NAME_PATTERN, "maxLength": 255}}, required=("name",)
)

_TRAIT = {"type": "string", "minLength": 1, "maxLength": 255}
CUSTOM_TRAIT = {**_TRAIT, "pattern": _CUSTOM_NAME_PATTERN}
LIST_TRAITS = _record({"name": _TEXT, "associated": _TEXT})
PUT_TRAITS = _record(
    {"traits": {"type": "array", "items": _TRAIT}, "resource_provider_generation": _GENERATION},
    required=("traits", "resource_provider_generation"),
)

PUT_AGGREGATES_1_1 = {"type": "array", "items": _UUID, "uniqueItems": True}
PUT_AGGREGATES_1_19 = _record(
    {"aggregates": PUT_AGGREGATES_1_1, "resource_provider_generation": _GENERATION},
    required=("aggregates", "resource_provider_generation"),
)
PUT_AGGREGATES: Final[Schemas] = {
    microversion.PROVIDER_AGGREGATES: PUT_AGGREGATES_1_1,
    microversion.AGGREGATES_WITH_GENERATION: PUT_AGGREGATES_1_19,
}

# Inventories, the same at every microversion.

_POSITIVE = {"type": "integer", "maximum": MAX_AMOUNT, "minimum": 1}
_INVENTORY_FIELDS = {
    "resource_provider_generation": _GENERATION,
    "total": _POSITIVE,
    "reserved": {**_POSITIVE, "minimum": 0},
    "min_unit": _POSITIVE,
    "max_unit": _POSITIVE,
    "step_size": _POSITIVE,
    "allocation_ratio": {"type": "number", "maximum": MAX_RATIO},
}

POST_INVENTORY = _record(
    {**_INVENTORY_FIELDS, "resource_class": {"type": "string", "pattern": NAME_PATTERN}},
    required=("total", "resource_class"),
)
PUT_INVENTORY = _record(_INVENTORY_FIELDS, required=("total", "resource_provider_generation"))
#: one inventory among several
INVENTORY = _record(_INVENTORY_FIELDS, required=("total",))
#: inventories by resource class, for PUT and the reshaper; error messages quote the schema, so values of
#: names that are not classes are not described here, but validated as an `INVENTORY` separately
PUT_INVENTORIES = _record(
    {
        "resource_provider_generation": _GENERATION,
        "inventories": {"type": "object", "patternProperties": {NAME_PATTERN: INVENTORY}},
    },
    required=("resource_provider_generation", "inventories"),
)

# Changes of many providers. The parts of a change are validated as the bodies of their PUTs.

#: the limit on the changes of a request that is not atomic; its locks are held until all of them are done
MOST_CHANGES: Final = 1000

_ANYTHING: Schema = {}
_CHANGE = _record(
    {
        "uuid": _UUID,
        # null for a provider that does not exist yet, as for the generation of a consumer
        "resource_provider_generation": {"type": ["integer", "null"]},
        "name": _ANYTHING,
        "parent_provider_uuid": _ANYTHING,
        "inventories": _ANYTHING,
        "traits": _ANYTHING,
        "aggregates": _ANYTHING,
    },
    required=("uuid", "resource_provider_generation"),
    minProperties=3,
)
CHANGE_PROVIDERS = _record(
    {"atomic": {"type": "boolean"}, "changes": {"type": "array", "items": _CHANGE, "minItems": 1}},
    required=("changes",),
)

# Allocations: PUT has those of one consumer, POST those of several consumers by UUID.

_RESOURCES: Schema = {
    "type": "object",
    "minProperties": 1,
    "patternProperties": {NAME_PATTERN: {"type": "integer", "minimum": 1}},
    "additionalProperties": False,
}
_OWNER: Schema = {"project_id": _EXTERNAL_ID, "user_id": _EXTERNAL_ID}


def _closed(properties: Schema, *required: str) -> Schema:
    """Return a record that, as the reference's, reports additional properties before missing ones."""
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "required": list(required),
    }


def _by_provider(minimum: int) -> Schema:
    """Return the schema of allocations by UUID of provider, with the least number of providers."""
    of_provider = _record({"generation": _GENERATION, "resources": _RESOURCES}, required=("resources",))
    allocations = {
        "type": "object",
        "minProperties": minimum,
        "patternProperties": {_UUID_PATTERN: of_provider},
        "additionalProperties": False,
    }
    return _closed({"allocations": allocations, **_OWNER}, "allocations", "project_id", "user_id")


def _by_consumer(schema: Schema) -> Schema:
    return {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": False,
        "patternProperties": {_UUID_PATTERN: schema},
    }


_LISTED: Schema = _record(
    {"resource_provider": _closed({"uuid": _UUID}, "uuid"), "resources": _RESOURCES},
    required=("resource_provider", "resources"),
)
PUT_ALLOCATIONS_1_0 = _record(
    {"allocations": {"type": "array", "minItems": 1, "items": _LISTED}}, required=("allocations",)
)
PUT_ALLOCATIONS_1_8 = _extend(PUT_ALLOCATIONS_1_0, _OWNER, required=("project_id", "user_id"))
PUT_ALLOCATIONS_1_12 = _by_provider(1)
PUT_ALLOCATIONS_1_28 = _extend(
    _by_provider(0),
    {"consumer_generation": {"type": ["integer", "null"], "additionalProperties": False}},
    required=("consumer_generation",),
)
#: the providers that satisfied each request group: accepted and ignored
_MAPPINGS: Schema = {
    "type": "object",
    "minProperties": 1,
    "patternProperties": {"[a-zA-Z0-9_-]{1,64}": {"type": "array", "minItems": 1, "items": _UUID}},
}
PUT_ALLOCATIONS_1_34 = _extend(PUT_ALLOCATIONS_1_28, {"mappings": _MAPPINGS})
PUT_ALLOCATIONS_1_38 = _extend(
    PUT_ALLOCATIONS_1_34,
    {"consumer_type": {"type": "string", "pattern": NAME_PATTERN, **_EXTERNAL_ID}},
    required=("consumer_type",),
)
PUT_ALLOCATIONS: Final[Schemas] = {
    microversion.MIN: PUT_ALLOCATIONS_1_0,
    microversion.CONSUMER_OWNER_REQUIRED: PUT_ALLOCATIONS_1_8,
    microversion.ALLOCATIONS_BY_PROVIDER: PUT_ALLOCATIONS_1_12,
    microversion.CONSUMER_GENERATIONS: PUT_ALLOCATIONS_1_28,
    microversion.MAPPINGS: PUT_ALLOCATIONS_1_34,
    microversion.CONSUMER_TYPES: PUT_ALLOCATIONS_1_38,
}

POST_ALLOCATIONS_1_13 = _by_consumer(_by_provider(0))
POST_ALLOCATIONS_1_28 = _by_consumer(PUT_ALLOCATIONS_1_28)
POST_ALLOCATIONS_1_34 = _by_consumer(PUT_ALLOCATIONS_1_34)
POST_ALLOCATIONS_1_38 = _by_consumer(PUT_ALLOCATIONS_1_38)
POST_ALLOCATIONS: Final[Schemas] = {
    microversion.POST_ALLOCATIONS: POST_ALLOCATIONS_1_13,
    microversion.CONSUMER_GENERATIONS: POST_ALLOCATIONS_1_28,
    microversion.MAPPINGS: POST_ALLOCATIONS_1_34,
    microversion.CONSUMER_TYPES: POST_ALLOCATIONS_1_38,
}

# The reshaper.


def _reshape(allocations: Schema) -> Schema:
    inventories: Schema = {
        "type": "object",
        "patternProperties": {_UUID_PATTERN: PUT_INVENTORIES},
        "minProperties": 1,
        "additionalProperties": False,
    }
    # unlike POST /allocations, the reshaper may move inventory without allocations
    any_number = {**allocations, "minProperties": 0}
    return _record(
        {"inventories": inventories, "allocations": any_number}, required=("inventories", "allocations")
    )


RESHAPE_1_30 = _reshape(POST_ALLOCATIONS_1_28)
RESHAPE_1_34 = _reshape(POST_ALLOCATIONS_1_34)
RESHAPE_1_38 = _reshape(POST_ALLOCATIONS_1_38)
RESHAPE: Final[Schemas] = {
    microversion.RESHAPER: RESHAPE_1_30,
    microversion.MAPPINGS: RESHAPE_1_34,
    microversion.CONSUMER_TYPES: RESHAPE_1_38,
}

# Usages.

LIST_USAGES_1_9 = _record({"project_id": _EXTERNAL_ID, "user_id": _EXTERNAL_ID}, required=("project_id",))
LIST_USAGES_1_38 = _extend(
    LIST_USAGES_1_9,
    {"consumer_type": {"type": "string", "pattern": f"{NAME_PATTERN}|^all|^unknown$", **_EXTERNAL_ID}},
)
LIST_USAGES: Final[Schemas] = {
    microversion.TOTAL_USAGES: LIST_USAGES_1_9,
    microversion.CONSUMER_TYPES: LIST_USAGES_1_38,
}

# Allocation candidates.

_LIMIT: Schema = {
    "type": ["integer", "string"],
    "pattern": "^[1-9][0-9]*$",
    "minimum": 1,
    "minLength": 1,
}


def _with_groups(suffix: str, *parameters: str) -> Schema:
    """Return the schema of parameters that may occur once per request group, with the group's suffix."""
    patterns = {f"^{parameter}({suffix})?$": _TEXT for parameter in parameters}
    policy = {"type": "string", "enum": ["none", "isolate"]}
    return _record({"limit": _LIMIT, "group_policy": policy}, patternProperties=patterns)


LIST_CANDIDATES_1_10 = _record({"resources": _TEXT}, required=("resources",))
LIST_CANDIDATES_1_16 = _extend(LIST_CANDIDATES_1_10, {"limit": _LIMIT})
LIST_CANDIDATES_1_17 = _extend(LIST_CANDIDATES_1_16, {"required": _TEXT_IN_LIST})
LIST_CANDIDATES_1_21 = _extend(LIST_CANDIDATES_1_17, {"member_of": _TEXT_IN_LIST})
LIST_CANDIDATES_1_25 = _with_groups("[1-9][0-9]*", "resources", "required", "member_of")
LIST_CANDIDATES_1_31 = _with_groups("[1-9][0-9]*", "resources", "required", "member_of", "in_tree")
LIST_CANDIDATES_1_33 = _with_groups("[a-zA-Z0-9_-]{1,64}", "resources", "required", "member_of", "in_tree")
LIST_CANDIDATES_1_35 = _extend(LIST_CANDIDATES_1_33, {"root_required": _TEXT_IN_LIST})
LIST_CANDIDATES_1_36 = _extend(LIST_CANDIDATES_1_35, {"same_subtree": _TEXT_IN_LIST})
LIST_CANDIDATES: Final[Schemas] = {
    microversion.ALLOCATION_CANDIDATES: LIST_CANDIDATES_1_10,
    microversion.CANDIDATES_LIMIT: LIST_CANDIDATES_1_16,
    microversion.CANDIDATES_TRAITS: LIST_CANDIDATES_1_17,
    microversion.CANDIDATES_BY_AGGREGATE: LIST_CANDIDATES_1_21,
    microversion.GRANULAR_CANDIDATES: LIST_CANDIDATES_1_25,
    microversion.CANDIDATES_IN_TREE: LIST_CANDIDATES_1_31,
    microversion.NAMED_GROUPS: LIST_CANDIDATES_1_33,
    microversion.ROOT_REQUIRED: LIST_CANDIDATES_1_35,
    microversion.SAME_SUBTREE: LIST_CANDIDATES_1_36,
}
