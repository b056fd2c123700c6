# SPDX-License-Identifier: Apache-2.0
"""The schemas: sound, openstack-placement's to the letter, and with the edges where they should be."""

import importlib
import json
import pkgutil

import jsonschema
import pytest

from osc_placement.model import MAX_AMOUNT, MAX_RATIO
from osc_placement.server import errors
from osc_placement.server.api import http, schemas
from osc_placement.server.api.schemas import (
    aggregate,
    allocation,
    inventory,
    resource_class,
    resource_provider,
    trait,
    usage,
)
from tests import databases

UUID = "12345678-1234-1234-1234-123456789012"


def find_schemas():
    """Every public schema of every module, by module and name."""
    for module_info in pkgutil.iter_modules(schemas.__path__):
        module = importlib.import_module(f"{schemas.__name__}.{module_info.name}")
        for name, value in vars(module).items():
            if name.isupper() and name[0] != "_" and isinstance(value, dict):
                yield pytest.param(value, id=f"{module_info.name}.{name}")


@pytest.mark.parametrize("schema", list(find_schemas()))
def test_every_schema_is_a_valid_json_schema(schema):
    """Each schema is valid JSON Schema and can be serialized as JSON."""
    jsonschema.Draft202012Validator.check_schema(schema)
    assert json.loads(json.dumps(schema)) == schema


REFERENCES = [
    (aggregate, "PUT_1_1", "PUT_AGGREGATES_SCHEMA_V1_1"),
    (aggregate, "PUT_1_19", "PUT_AGGREGATES_SCHEMA_V1_19"),
    (allocation, "PUT_1_0", "ALLOCATION_SCHEMA"),
    (allocation, "PUT_1_8", "ALLOCATION_SCHEMA_V1_8"),
    (allocation, "PUT_1_12", "ALLOCATION_SCHEMA_V1_12"),
    (allocation, "PUT_1_28", "ALLOCATION_SCHEMA_V1_28"),
    (allocation, "PUT_1_34", "ALLOCATION_SCHEMA_V1_34"),
    (allocation, "PUT_1_38", "ALLOCATION_SCHEMA_V1_38"),
    (allocation, "POST_1_13", "POST_ALLOCATIONS_V1_13"),
    (allocation, "POST_1_28", "POST_ALLOCATIONS_V1_28"),
    (allocation, "POST_1_34", "POST_ALLOCATIONS_V1_34"),
    (allocation, "POST_1_38", "POST_ALLOCATIONS_V1_38"),
    (inventory, "POST", "POST_INVENTORY_SCHEMA"),
    (inventory, "PUT_ONE", "BASE_INVENTORY_SCHEMA"),
    (resource_class, "CUSTOM_CLASS", "POST_RC_SCHEMA_V1_2"),
    (resource_class, "CUSTOM_CLASS", "PUT_RC_SCHEMA_V1_2"),
    (resource_provider, "POST_1_0", "POST_RESOURCE_PROVIDER_SCHEMA"),
    (resource_provider, "POST_1_14", "POST_RP_SCHEMA_V1_14"),
    (resource_provider, "PUT_1_0", "PUT_RESOURCE_PROVIDER_SCHEMA"),
    (resource_provider, "PUT_1_14", "PUT_RP_SCHEMA_V1_14"),
    (resource_provider, "LIST_1_0", "GET_RPS_SCHEMA_1_0"),
    (resource_provider, "LIST_1_3", "GET_RPS_SCHEMA_1_3"),
    (resource_provider, "LIST_1_4", "GET_RPS_SCHEMA_1_4"),
    (resource_provider, "LIST_1_14", "GET_RPS_SCHEMA_1_14"),
    (resource_provider, "LIST_1_18", "GET_RPS_SCHEMA_1_18"),
    (trait, "CUSTOM_NAME", "CUSTOM_TRAIT"),
    (trait, "LIST", "LIST_TRAIT_SCHEMA"),
    (trait, "PUT_OF_PROVIDER", "SET_TRAITS_FOR_RP_SCHEMA"),
    (usage, "LIST_1_9", "GET_USAGES_SCHEMA_1_9"),
    (usage, "LIST_1_38", "GET_USAGES_SCHEMA_V1_38"),
]


@pytest.mark.parametrize(("module", "ours", "theirs"), REFERENCES)
def test_a_schema_is_openstack_placements(module, ours, theirs):
    """Even the order of keywords is the same: it decides which of two complaints a client sees."""
    name = module.__name__.rsplit(".", 1)[1]
    try:
        reference = importlib.import_module(f"placement.schemas.{name}")
    except ImportError:
        databases.skip_or_fail("openstack-placement is not installed (extra 'reference')")
    assert json.dumps(getattr(module, ours)) == json.dumps(getattr(reference, theirs))


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
    (aggregate.PUT_1_1, []),
    (aggregate.PUT_1_1, [UUID]),
    (allocation.PUT_1_38, put()),
    (allocation.PUT_1_38, put(allocations={})),
    (allocation.PUT_1_38, put(consumer_generation=3)),
    (allocation.PUT_1_38, put(mappings={"": [UUID], "_A-1": [UUID]})),
    (allocation.PUT_1_38, put(consumer_type="A" * 255)),
    (allocation.PUT_1_38, put(allocations={UUID: {"generation": 1, "resources": {"VCPU": MAX_AMOUNT + 1}}})),
    (inventory.POST, {"resource_class": "VCPU", "total": 1}),
    (inventory.POST, {"resource_class": "VCPU", "total": MAX_AMOUNT, "allocation_ratio": MAX_RATIO}),
    (inventory.POST, {"resource_class": "VCPU", "total": 1.0, "reserved": 0}),
    (inventory.PUT_ALL, {"resource_provider_generation": 0, "inventories": {}}),
    (inventory.PUT_ALL, {"resource_provider_generation": 0, "inventories": {"no class": {"total": 1}}}),
    (resource_class.CUSTOM_CLASS, {"name": "CUSTOM_" + "A" * 248}),
    (resource_provider.POST_1_14, {"name": "é" * 200, "uuid": UUID, "parent_provider_uuid": None}),
    (trait.PUT_OF_PROVIDER, {"traits": ["A" * 255], "resource_provider_generation": 0}),
    (usage.LIST_1_38, {"project_id": "p", "consumer_type": "all"}),
]


@pytest.mark.parametrize(("schema", "data"), ACCEPTED)
def test_valid_bodies_are_accepted(schema, data):
    """Values up to the limits of each schema are accepted."""
    http.check(data, schema)


REFUSED = [
    (aggregate.PUT_1_1, [UUID, UUID], "has non-unique elements"),
    (aggregate.PUT_1_1, ["x"], "'x' is not a 'uuid'"),
    (aggregate.PUT_1_19, {"aggregates": []}, "'resource_provider_generation' is a required property"),
    (allocation.PUT_1_0, {"allocations": []}, "[] should be non-empty"),
    (allocation.PUT_1_12, {"allocations": {}, "project_id": "p", "user_id": "u"}, "{} should be non-empty"),
    (allocation.PUT_1_38, put(allocations={UUID: {"resources": {}}}), "{} should be non-empty"),
    (allocation.PUT_1_38, put(allocations={UUID: {"resources": {"VCPU": 0}}}), "0 is less than the minimum"),
    (allocation.PUT_1_38, put(allocations={UUID: {"resources": {"VCPU": True}}}), "True is not of type"),
    (allocation.PUT_1_38, put(allocations={"x": {"resources": {"VCPU": 1}}}), "'x' does not match any"),
    (allocation.PUT_1_38, put(allocations={UUID: {"resources": {"vcpu": 1}}}), "'vcpu' does not match any"),
    (allocation.PUT_1_38, put(project_id=""), "'' should be non-empty"),
    (allocation.PUT_1_38, put(user_id="u" * 256), "is too long"),
    (allocation.PUT_1_38, put(consumer_generation="1"), "'1' is not of type 'integer', 'null'"),
    (allocation.PUT_1_38, put(consumer_type="instance"), "does not match '^[A-Z0-9_]+$'"),
    (allocation.PUT_1_38, put(mappings={}), "{} should be non-empty"),
    (allocation.PUT_1_38, put(mappings={"a": []}), "[] should be non-empty"),
    (allocation.PUT_1_38, put(color="blue"), "('color' was unexpected)"),
    (allocation.POST_1_38, {}, "{} should be non-empty"),
    (inventory.POST, {"resource_class": "VCPU", "total": 0}, "0 is less than the minimum of 1"),
    (inventory.POST, {"resource_class": "VCPU", "total": MAX_AMOUNT + 1}, "is greater than the maximum"),
    (inventory.POST, {"resource_class": "VCPU", "total": 1, "reserved": -1}, "-1 is less than the minimum"),
    (inventory.POST, {"resource_class": "VCPU", "total": 1, "step_size": 0}, "0 is less than the minimum"),
    (inventory.POST, {"resource_class": "VCPU", "total": 1, "allocation_ratio": 3.41e38}, "is greater than"),
    (inventory.PUT_ALL, {"resource_provider_generation": 0, "inventories": {"VCPU": {}}}, "'total' is a"),
    (resource_class.CUSTOM_CLASS, {"name": "CUSTOM_" + "A" * 249}, "is too long"),
    (resource_class.CUSTOM_CLASS, {"name": "CUSTOM_"}, "does not match '^CUSTOM_[A-Z0-9_]+$'"),
    (resource_provider.POST_1_14, {"name": "x" * 201}, "is too long"),
    (resource_provider.POST_1_14, {"name": "x", "parent_provider_uuid": ""}, "'' is not a 'uuid'"),
    (trait.PUT_OF_PROVIDER, {"traits": [""], "resource_provider_generation": 0}, "'' should be non-empty"),
    (usage.LIST_1_38, {"project_id": "p", "consumer_type": "unknowns"}, "does not match"),
]


@pytest.mark.parametrize(("schema", "data", "complaint"), REFUSED)
def test_invalid_bodies_are_refused(schema, data, complaint):
    """Values just beyond the limits are refused, with the reason."""
    with pytest.raises(errors.HTTPError) as caught:
        http.check(data, schema)
    assert complaint in caught.value.message
