# SPDX-License-Identifier: Apache-2.0
"""The schemas: sound, openstack-placement's to the letter, and with the edges where they should be."""

import importlib
import json

import jsonschema
import pytest

from osc_placement.model import MAX_AMOUNT, MAX_RATIO
from osc_placement.server import errors
from osc_placement.server.api import http, schemas
from osc_placement.server.api.schemas import (
    CUSTOM_CLASS,
    LIST_USAGES_1_38,
    POST_ALLOCATIONS_1_38,
    POST_INVENTORY,
    POST_PROVIDER_1_14,
    PUT_AGGREGATES_1_1,
    PUT_ALLOCATIONS_1_0,
    PUT_ALLOCATIONS_1_38,
    PUT_INVENTORIES,
    PUT_TRAITS,
)
from tests import databases

UUID = "12345678-1234-1234-1234-123456789012"

#: every schema by name
SCHEMAS = {
    name: value
    for name, value in vars(schemas).items()
    if name.isupper() and isinstance(value, dict) and all(isinstance(key, str) for key in value)
}


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_every_schema_is_a_valid_json_schema(schema):
    """Each schema is valid JSON Schema and can be serialized as JSON."""
    jsonschema.Draft202012Validator.check_schema(schema)
    assert json.loads(json.dumps(schema)) == schema


REFERENCES = [
    ("PUT_AGGREGATES_1_1", "aggregate", "PUT_AGGREGATES_SCHEMA_V1_1"),
    ("PUT_AGGREGATES_1_19", "aggregate", "PUT_AGGREGATES_SCHEMA_V1_19"),
    ("PUT_ALLOCATIONS_1_0", "allocation", "ALLOCATION_SCHEMA"),
    ("PUT_ALLOCATIONS_1_8", "allocation", "ALLOCATION_SCHEMA_V1_8"),
    ("PUT_ALLOCATIONS_1_12", "allocation", "ALLOCATION_SCHEMA_V1_12"),
    ("PUT_ALLOCATIONS_1_28", "allocation", "ALLOCATION_SCHEMA_V1_28"),
    ("PUT_ALLOCATIONS_1_34", "allocation", "ALLOCATION_SCHEMA_V1_34"),
    ("PUT_ALLOCATIONS_1_38", "allocation", "ALLOCATION_SCHEMA_V1_38"),
    ("POST_ALLOCATIONS_1_13", "allocation", "POST_ALLOCATIONS_V1_13"),
    ("POST_ALLOCATIONS_1_28", "allocation", "POST_ALLOCATIONS_V1_28"),
    ("POST_ALLOCATIONS_1_34", "allocation", "POST_ALLOCATIONS_V1_34"),
    ("POST_ALLOCATIONS_1_38", "allocation", "POST_ALLOCATIONS_V1_38"),
    ("POST_INVENTORY", "inventory", "POST_INVENTORY_SCHEMA"),
    ("PUT_INVENTORY", "inventory", "BASE_INVENTORY_SCHEMA"),
    ("CUSTOM_CLASS", "resource_class", "POST_RC_SCHEMA_V1_2"),
    ("CUSTOM_CLASS", "resource_class", "PUT_RC_SCHEMA_V1_2"),
    ("POST_PROVIDER_1_0", "resource_provider", "POST_RESOURCE_PROVIDER_SCHEMA"),
    ("POST_PROVIDER_1_14", "resource_provider", "POST_RP_SCHEMA_V1_14"),
    ("PUT_PROVIDER_1_0", "resource_provider", "PUT_RESOURCE_PROVIDER_SCHEMA"),
    ("PUT_PROVIDER_1_14", "resource_provider", "PUT_RP_SCHEMA_V1_14"),
    ("LIST_PROVIDERS_1_0", "resource_provider", "GET_RPS_SCHEMA_1_0"),
    ("LIST_PROVIDERS_1_3", "resource_provider", "GET_RPS_SCHEMA_1_3"),
    ("LIST_PROVIDERS_1_4", "resource_provider", "GET_RPS_SCHEMA_1_4"),
    ("LIST_PROVIDERS_1_14", "resource_provider", "GET_RPS_SCHEMA_1_14"),
    ("LIST_PROVIDERS_1_18", "resource_provider", "GET_RPS_SCHEMA_1_18"),
    ("LIST_CANDIDATES_1_10", "allocation_candidate", "GET_SCHEMA_1_10"),
    ("LIST_CANDIDATES_1_16", "allocation_candidate", "GET_SCHEMA_1_16"),
    ("LIST_CANDIDATES_1_17", "allocation_candidate", "GET_SCHEMA_1_17"),
    ("LIST_CANDIDATES_1_21", "allocation_candidate", "GET_SCHEMA_1_21"),
    ("LIST_CANDIDATES_1_25", "allocation_candidate", "GET_SCHEMA_1_25"),
    ("LIST_CANDIDATES_1_31", "allocation_candidate", "GET_SCHEMA_1_31"),
    ("LIST_CANDIDATES_1_33", "allocation_candidate", "GET_SCHEMA_1_33"),
    ("LIST_CANDIDATES_1_35", "allocation_candidate", "GET_SCHEMA_1_35"),
    ("LIST_CANDIDATES_1_36", "allocation_candidate", "GET_SCHEMA_1_36"),
    ("CUSTOM_TRAIT", "trait", "CUSTOM_TRAIT"),
    ("LIST_TRAITS", "trait", "LIST_TRAIT_SCHEMA"),
    ("PUT_TRAITS", "trait", "SET_TRAITS_FOR_RP_SCHEMA"),
    ("LIST_USAGES_1_9", "usage", "GET_USAGES_SCHEMA_1_9"),
    ("LIST_USAGES_1_38", "usage", "GET_USAGES_SCHEMA_V1_38"),
]


@pytest.mark.parametrize(("ours", "module", "theirs"), REFERENCES)
def test_schema_equals_openstack_placement(ours, module, theirs):
    """Even the order of keywords is the same: it decides which of two complaints a client sees."""
    try:
        reference = importlib.import_module(f"placement.schemas.{module}")
    except ImportError:
        databases.skip_or_fail("openstack-placement is not installed (extra 'reference')")
    assert json.dumps(getattr(schemas, ours)) == json.dumps(getattr(reference, theirs))


def put(**more):
    """A claim as of 1.38, with something else in it."""
    return {
        "allocations": {UUID: {"resources": {"VCPU": 1}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
        **more,
    }


ACCEPTED = [
    (PUT_AGGREGATES_1_1, []),
    (PUT_AGGREGATES_1_1, [UUID]),
    (PUT_ALLOCATIONS_1_38, put()),
    (PUT_ALLOCATIONS_1_38, put(allocations={})),
    (PUT_ALLOCATIONS_1_38, put(consumer_generation=3)),
    (PUT_ALLOCATIONS_1_38, put(mappings={"": [UUID], "_A-1": [UUID]})),
    (PUT_ALLOCATIONS_1_38, put(consumer_type="A" * 255)),
    (
        schemas.PUT_ALLOCATIONS_1_38,
        put(allocations={UUID: {"generation": 1, "resources": {"VCPU": MAX_AMOUNT + 1}}}),
    ),
    (POST_INVENTORY, {"resource_class": "VCPU", "total": 1}),
    (POST_INVENTORY, {"resource_class": "VCPU", "total": MAX_AMOUNT, "allocation_ratio": MAX_RATIO}),
    (POST_INVENTORY, {"resource_class": "VCPU", "total": 1.0, "reserved": 0}),
    (PUT_INVENTORIES, {"resource_provider_generation": 0, "inventories": {}}),
    (PUT_INVENTORIES, {"resource_provider_generation": 0, "inventories": {"no class": {"total": 1}}}),
    (CUSTOM_CLASS, {"name": "CUSTOM_" + "A" * 248}),
    (POST_PROVIDER_1_14, {"name": "é" * 200, "uuid": UUID, "parent_provider_uuid": None}),
    (PUT_TRAITS, {"traits": ["A" * 255], "resource_provider_generation": 0}),
    (LIST_USAGES_1_38, {"project_id": "p", "consumer_type": "all"}),
]


@pytest.mark.parametrize(("schema", "data"), ACCEPTED)
def test_valid_bodies_are_accepted(schema, data):
    """Values up to the limits of each schema are accepted."""
    http.check(data, schema)


REFUSED = [
    (PUT_AGGREGATES_1_1, [UUID, UUID], "has non-unique elements"),
    (PUT_AGGREGATES_1_1, ["x"], "'x' is not a 'uuid'"),
    (
        schemas.PUT_AGGREGATES_1_19,
        {"aggregates": []},
        "'resource_provider_generation' is a required property",
    ),
    (PUT_ALLOCATIONS_1_0, {"allocations": []}, "[] should be non-empty"),
    (
        schemas.PUT_ALLOCATIONS_1_12,
        {"allocations": {}, "project_id": "p", "user_id": "u"},
        "{} should be non-empty",
    ),
    (PUT_ALLOCATIONS_1_38, put(allocations={UUID: {"resources": {}}}), "{} should be non-empty"),
    (
        schemas.PUT_ALLOCATIONS_1_38,
        put(allocations={UUID: {"resources": {"VCPU": 0}}}),
        "0 is less than the minimum",
    ),
    (
        schemas.PUT_ALLOCATIONS_1_38,
        put(allocations={UUID: {"resources": {"VCPU": True}}}),
        "True is not of type",
    ),
    (
        schemas.PUT_ALLOCATIONS_1_38,
        put(allocations={"x": {"resources": {"VCPU": 1}}}),
        "'x' does not match any",
    ),
    (
        schemas.PUT_ALLOCATIONS_1_38,
        put(allocations={UUID: {"resources": {"vcpu": 1}}}),
        "'vcpu' does not match any",
    ),
    (PUT_ALLOCATIONS_1_38, put(project_id=""), "'' should be non-empty"),
    (PUT_ALLOCATIONS_1_38, put(user_id="u" * 256), "is too long"),
    (PUT_ALLOCATIONS_1_38, put(consumer_generation="1"), "'1' is not of type 'integer', 'null'"),
    (PUT_ALLOCATIONS_1_38, put(consumer_type="instance"), "does not match '^[A-Z0-9_]+$'"),
    (PUT_ALLOCATIONS_1_38, put(mappings={}), "{} should be non-empty"),
    (PUT_ALLOCATIONS_1_38, put(mappings={"a": []}), "[] should be non-empty"),
    (PUT_ALLOCATIONS_1_38, put(color="blue"), "('color' was unexpected)"),
    (POST_ALLOCATIONS_1_38, {}, "{} should be non-empty"),
    (POST_INVENTORY, {"resource_class": "VCPU", "total": 0}, "0 is less than the minimum of 1"),
    (
        schemas.POST_INVENTORY,
        {"resource_class": "VCPU", "total": MAX_AMOUNT + 1},
        "is greater than the maximum",
    ),
    (
        schemas.POST_INVENTORY,
        {"resource_class": "VCPU", "total": 1, "reserved": -1},
        "-1 is less than the minimum",
    ),
    (
        schemas.POST_INVENTORY,
        {"resource_class": "VCPU", "total": 1, "step_size": 0},
        "0 is less than the minimum",
    ),
    (
        schemas.POST_INVENTORY,
        {"resource_class": "VCPU", "total": 1, "allocation_ratio": 3.41e38},
        "is greater than",
    ),
    (
        schemas.PUT_INVENTORIES,
        {"resource_provider_generation": 0, "inventories": {"VCPU": {}}},
        "'total' is a",
    ),
    (CUSTOM_CLASS, {"name": "CUSTOM_" + "A" * 249}, "is too long"),
    (CUSTOM_CLASS, {"name": "CUSTOM_"}, "does not match '^CUSTOM_[A-Z0-9_]+$'"),
    (POST_PROVIDER_1_14, {"name": "x" * 201}, "is too long"),
    (POST_PROVIDER_1_14, {"name": "x", "parent_provider_uuid": ""}, "'' is not a 'uuid'"),
    (PUT_TRAITS, {"traits": [""], "resource_provider_generation": 0}, "'' should be non-empty"),
    (LIST_USAGES_1_38, {"project_id": "p", "consumer_type": "unknowns"}, "does not match"),
]


@pytest.mark.parametrize(("schema", "data", "complaint"), REFUSED)
def test_invalid_bodies_are_refused(schema, data, complaint):
    """Values just beyond the limits are refused, with the reason."""
    with pytest.raises(errors.HTTPError) as caught:
        http.check(data, schema)
    assert complaint in caught.value.message
