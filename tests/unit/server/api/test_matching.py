# SPDX-License-Identifier: Apache-2.0
"""The fast check accepts what is common, and nothing that jsonschema refuses."""

import copy
import random

import pytest

from osc_placement.server import errors
from osc_placement.server.api import http, schemas
from osc_placement.server.api.matching import compile_schema

UUID = "7d2590ae-fb85-4080-9306-058b4c915e3f"
INVENTORY = {"total": 8, "reserved": 0, "min_unit": 1, "max_unit": 8, "step_size": 1, "allocation_ratio": 1.5}
CLAIM = {
    "allocations": {UUID: {"resources": {"VCPU": 1, "CUSTOM_A": 2}}},
    "project_id": "p",
    "user_id": "u",
    "consumer_generation": None,
    "consumer_type": "INSTANCE",
}
#: a body that matches, by the name of a schema
BODIES = {
    "POST_PROVIDER_1_14": {"name": "host", "uuid": UUID, "parent_provider_uuid": None},
    "PUT_INVENTORIES": {"resource_provider_generation": 1, "inventories": {"VCPU": INVENTORY}},
    "INVENTORY": INVENTORY,
    "PUT_TRAITS": {"traits": ["A", "B"], "resource_provider_generation": 1},
    "PUT_AGGREGATES_1_19": {"aggregates": [UUID], "resource_provider_generation": 1},
    "CHANGE_PROVIDERS": {
        "atomic": False,
        "changes": [
            {"uuid": UUID, "resource_provider_generation": 1, "traits": []},
            {"uuid": UUID, "resource_provider_generation": None, "name": "n", "parent_provider_uuid": UUID},
        ],
    },
    "PUT_ALLOCATIONS_1_38": CLAIM,
    "POST_ALLOCATIONS_1_38": {UUID: CLAIM},
    "CUSTOM_CLASS": {"name": "CUSTOM_A"},
}
ODD = (
    None,
    True,
    0,
    -1,
    1.0,
    2**31,
    1e300,
    "",
    "x",
    "VCPU\n",
    "CUSTOM_A\n",
    f"{UUID}\n",
    [],
    [1, 1],
    {},
    {"x": 1},
)


@pytest.mark.parametrize("name", BODIES)
def test_common_body_is_accepted(name):
    """Otherwise the check would be made twice, and nothing gained."""
    assert compile_schema(getattr(schemas, name))(BODIES[name])


def find_places(value):
    """Every container below a value, with each of its keys or positions."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in list(items):
        yield value, key
        yield from find_places(each)


def mutate(body):
    """Change one place of a body: replace, remove, double or rename."""
    container, key = random.choice(list(find_places(body)))
    how = random.randrange(4)
    if how == 0:
        container[key] = copy.deepcopy(random.choice(ODD))
    elif how == 1:
        del container[key]
    elif isinstance(container, list):
        container.append(copy.deepcopy(container[key]))
    else:
        container[random.choice(["x", "VCPU\n", f"{key}\n", f" {key}", UUID.upper()])] = container[key]


@pytest.mark.parametrize("name", BODIES)
def test_nothing_is_accepted_that_jsonschema_refuses(name, monkeypatch):
    """Bodies with one to three random mistakes; some of them are none."""
    schema = getattr(schemas, name)
    match = compile_schema(schema)
    monkeypatch.setitem(http._matches, id(schema), (lambda _data: False, schema))
    refused = 0
    for _ in range(600):
        body = copy.deepcopy(BODIES[name])
        for _ in range(random.randint(1, 3)):
            if body:
                mutate(body)
        try:
            http.check(body, schema)
        except errors.HTTPError:
            refused += 1
            assert not match(body), body
    assert refused > 50


@pytest.mark.parametrize(
    "schema", [{"oneOf": [{}]}, {"enum": [1]}, {"format": "date"}, {"additionalProperties": {"type": "null"}}]
)
def test_schema_with_an_unknown_keyword_accepts_nothing(schema):
    """Jsonschema knows more than this."""
    assert not any(compile_schema({"items": schema})([value]) for value in (1, "x", {}))
