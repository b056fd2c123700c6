# SPDX-License-Identifier: Apache-2.0
"""Pieces that the schemas of several nouns are made of, and two ways of making one schema from another.

Clients see jsonschema's complaints, which quote the schema and, of several faults, tell the first: so the
order of keywords in a schema is part of the API, like their values.
"""

from __future__ import annotations

import copy
from typing import Any

Schema = dict[str, Any]

NAME_PATTERN = "^[A-Z0-9_]+$"
CUSTOM_NAME_PATTERN = "^CUSTOM_[A-Z0-9_]+$"
UUID_PATTERN = "^[0-9a-fA-F-]{36}$"

UUID: Schema = {"type": "string", "format": "uuid"}
GENERATION: Schema = {"type": "integer"}
TEXT: Schema = {"type": "string"}
#: keystone's ids of projects and users; not always UUIDs
EXTERNAL_ID: Schema = {"type": "string", "minLength": 1, "maxLength": 255}


def record(properties: Schema, *, required: tuple[str, ...] = (), **keywords: Any) -> Schema:
    """A JSON object with these properties and no others."""
    schema: Schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    return {**schema, "additionalProperties": False, **keywords}


def extend(schema: Schema, properties: Schema, *, required: tuple[str, ...] = ()) -> Schema:
    """A copy of a record that has more properties."""
    extended = copy.deepcopy(schema)
    extended["properties"] |= properties
    if required:
        extended["required"] = [*extended.get("required", ()), *required]
    return extended
