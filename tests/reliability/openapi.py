# SPDX-License-Identifier: Apache-2.0
"""An OpenAPI description of the API at its newest microversion, made of the url table and the schemas.

``python -m tests.reliability.openapi`` prints what openapi.json holds.
"""

import copy
import json
import pathlib
import re

from osc_placement import microversion
from osc_placement.server.api import routes, schemas
from osc_placement.server.api.http import SERVICE_TYPE

FILE = pathlib.Path(__file__).with_name("openapi.json")


def _describe_changes():
    """Changes of many providers, with what is checked of each part of a change by itself."""
    schema = copy.deepcopy(schemas.CHANGE_PROVIDERS)
    parts = schema["properties"]["changes"]["items"]["properties"]
    for name, body in (
        ("name", schemas.POST_PROVIDER_1_14),
        ("parent_provider_uuid", schemas.POST_PROVIDER_1_14),
        ("inventories", schemas.PUT_INVENTORIES),
        ("traits", schemas.PUT_TRAITS),
        ("aggregates", schemas.PUT_AGGREGATES_1_19),
    ):
        parts[name] = body["properties"][name]
    return schema


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
        "parameters": [
            *_list_path_parameters(operation),
            *_list_query_parameters(_newest(endpoint.query) or {}),
            _version(),
        ],
        "responses": {"default": {"description": "What the description says, or an error."}},
    }
    if endpoint.is_public:
        described["security"] = []
    if (body := _newest(endpoint.body)) is not None:
        content = {"application/json": {"schema": _describe_changes() if "/-/" in operation else body}}
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


def _newest(by_version):
    """The schema of the newest microversion, or None."""
    return [None, *by_version.values()][-1]


def _list_query_parameters(schema):
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
