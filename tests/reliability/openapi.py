# SPDX-License-Identifier: Apache-2.0
"""An OpenAPI description of the API at its newest microversion, made of the url table and the schemas.

``python -m tests.reliability.openapi`` prints what openapi.json holds.
"""

import copy
import json
import pathlib
import re

from osc_placement import microversion
from osc_placement.server.api import routes
from osc_placement.server.api.http import SERVICE_TYPE
from osc_placement.server.api.schemas import (
    aggregate,
    allocation,
    allocation_candidate,
    inventory,
    provider_changes,
    reshaper,
    resource_class,
    resource_provider,
    trait,
    usage,
)

FILE = pathlib.Path(__file__).with_name("openapi.json")


def _describe_changes():
    """Changes of many providers, with what is checked of each part of a change by itself."""
    schema = copy.deepcopy(provider_changes.POST)
    parts = schema["properties"]["changes"]["items"]["properties"]
    for name, put in (
        ("inventories", inventory.PUT_ALL),
        ("traits", trait.PUT_OF_PROVIDER),
        ("aggregates", aggregate.PUT_1_19),
    ):
        parts[name] = put["properties"][name]
    return schema


#: the schemas of bodies, by operation
BODIES = {
    "POST /resource_classes": resource_class.CUSTOM_CLASS,
    "POST /resource_providers": resource_provider.POST_1_14,
    "PUT /resource_providers/{uuid}": resource_provider.PUT_1_14,
    "POST /resource_providers/{uuid}/inventories": inventory.POST,
    "PUT /resource_providers/{uuid}/inventories": inventory.PUT_ALL,
    "PUT /resource_providers/{uuid}/inventories/{resource_class}": inventory.PUT_ONE,
    "PUT /resource_providers/{uuid}/aggregates": aggregate.PUT_1_19,
    "PUT /resource_providers/{uuid}/traits": trait.PUT_OF_PROVIDER,
    "POST /allocations": allocation.POST_1_38,
    "PUT /allocations/{consumer_uuid}": allocation.PUT_1_38,
    "POST /-/providers": _describe_changes(),
    "POST /reshaper": reshaper.POST_1_38,
}
#: the schemas of query strings, by operation
QUERIES = {
    "GET /resource_providers": resource_provider.LIST_1_18,
    "GET /allocation_candidates": allocation_candidate.LIST_1_36,
    "GET /traits": trait.LIST,
    "GET /usages": usage.LIST_1_38,
}
#: one group of an allocation candidate, beside the one without a suffix
SUFFIX = "_GROUP"


def list_operations():
    """Every operation of the url table."""
    return [f"{method} {path}" for path, methods in routes.ROUTES.items() for method in methods]


def describe():
    """The whole description."""
    paths = {}
    for operation in list_operations():
        method, _, path = operation.partition(" ")
        paths.setdefault(path, {})[method.lower()] = _describe_operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Placement", "version": str(microversion.MAX)},
        "security": [{"token": []}],
        "components": {
            "securitySchemes": {"token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}}
        },
        "paths": paths,
    }


def _describe_operation(operation):
    endpoint = routes.ROUTES[operation.partition(" ")[2]][operation.partition(" ")[0]]
    described = {
        "operationId": endpoint.handler.__name__,
        "description": (endpoint.handler.__doc__ or "").strip(),
        # the key by which other OpenStack projects tell the first microversion
        "x-openstack": {"min-ver": str(endpoint.since)},
        "parameters": [*_list_path_parameters(operation), *_list_query_parameters(operation), _version()],
        "responses": {"default": {"description": "What the description says, or an error."}},
    }
    if endpoint.is_public:
        described["security"] = []
    if operation in BODIES:
        content = {"application/json": {"schema": BODIES[operation]}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _version():
    version = {"type": "string", "const": f"{SERVICE_TYPE} {microversion.MAX}"}
    return {"name": "OpenStack-API-Version", "in": "header", "required": True, "schema": version}


def _list_path_parameters(operation):
    for name in re.findall(r"{(\w+)}", operation):
        is_uuid = name.endswith("uuid")
        schema = {"type": "string", "format": "uuid"} if is_uuid else {"type": "string", "minLength": 1}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _list_query_parameters(operation):
    schema = QUERIES.get(operation, {})
    properties = dict(schema.get("properties", {}))
    for pattern, value in schema.get("patternProperties", {}).items():
        name = re.match(r"\^(\w+)", pattern)[1]
        properties |= {name: value, f"{name}{SUFFIX}": value}
    for name, value in properties.items():
        required = name in schema.get("required", ())
        yield {"name": name, "in": "query", "required": required, "schema": value}


def to_text():
    """The description as it is checked in."""
    return json.dumps(describe(), indent=1) + "\n"


if __name__ == "__main__":
    print(to_text(), end="")
