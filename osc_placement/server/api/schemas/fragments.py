# SPDX-License-Identifier: Apache-2.0
"""Parts of several schemas, and two functions that make schemas.

Clients see jsonschema's messages, which quote the schema and report the first of several errors. So the order
of keywords in a schema is part of the API, like their values.
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
#: a keystone id of a project or user, which is not always a UUID
EXTERNAL_ID: Schema = {"type": "string", "minLength": 1, "maxLength": 255}


def record(properties: Schema, *, required: tuple[str, ...] = (), **keywords: Any) -> Schema:
    """Return the schema of a JSON object with these properties and no others."""
    schema: Schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    return {**schema, "additionalProperties": False, **keywords}


def extend(schema: Schema, properties: Schema, *, required: tuple[str, ...] = ()) -> Schema:
    """Return a copy of a record with more properties."""
    extended = copy.deepcopy(schema)
    extended["properties"] |= properties
    if required:
        extended["required"] = [*extended.get("required", ()), *required]
    return extended
