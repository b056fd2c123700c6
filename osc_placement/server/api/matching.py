# SPDX-License-Identifier: Apache-2.0
"""A fast check that accepts most valid bodies, so that jsonschema has to explain the invalid ones only.

PERF: jsonschema takes some 5 microseconds for each value. It was half of the processor time of a request that
creates fifty providers. A function made of the schema once takes a twentieth of that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from osc_placement.model import is_uuid

#: says whether a value certainly matches; False means that jsonschema has to decide
Match = Callable[[Any], bool]

_TYPES: Final[Mapping[str, Match]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: _is_number(value),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


def compile_schema(schema: Any) -> Match:
    """Return a function that accepts only values that match a schema of a body, though not all of them.

    It never accepts a value whose schema has a keyword that is not known here.
    """
    members = {name: compile_schema(each) for name, each in schema.get("properties", {}).items()}
    patterns = [
        (_compile_pattern(pattern), compile_schema(each))
        for pattern, each in schema.get("patternProperties", {}).items()
    ]
    of_members = ("properties", "patternProperties", "additionalProperties")
    matches = [
        _compile_keyword(keyword, value) for keyword, value in schema.items() if keyword not in of_members
    ]
    is_open = schema.get("additionalProperties", True)
    if not isinstance(is_open, bool):
        return _never
    # a name that is neither a member nor matches a pattern needs an open schema
    admits_others = is_open and not patterns

    def match_members(value: Any) -> bool:
        if not isinstance(value, dict):
            return True  # what is no object has no members, and its type is for "type" to say
        for name, each in value.items():
            found = [match for pattern, match in patterns if pattern.search(name)]
            if name in members:
                found.append(members[name])
            if not (found or admits_others) or not all(match(each) for match in found):
                return False
        return True

    if members or patterns or not is_open:
        matches.insert(0, match_members)
    return lambda value: all(match(value) for match in matches)


def _never(_value: Any) -> bool:
    return False


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    # in JSON Schema, "$" matches the end of the text; in Python, also before a final newline
    return re.compile(pattern.replace("$", r"\Z"))


def _has_length(value: Any) -> bool:
    return isinstance(value, str | list | dict)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _compile_keyword(keyword: str, given: Any) -> Match:
    """Return a function for one keyword of a schema, which accepts no value if the keyword is unknown."""
    match keyword:
        case "type":
            types = [_TYPES[name] for name in ([given] if isinstance(given, str) else given)]
            return types[0] if len(types) == 1 else lambda value: any(is_one(value) for is_one in types)
        case "items":
            fits = compile_schema(given)
            return lambda value: isinstance(value, list) and all(map(fits, value))
        case "anyOf":
            schemas = [compile_schema(each) for each in given]
            return lambda value: any(fits(value) for fits in schemas)
        case "pattern":
            pattern = _compile_pattern(given)
            return lambda value: isinstance(value, str) and pattern.search(value) is not None
        case "format" if given == "uuid":
            return lambda value: isinstance(value, str) and is_uuid(value)
        case "required":
            return lambda value: isinstance(value, dict) and all(name in value for name in given)
        case "uniqueItems":
            # of texts only, as others may not be hashable
            return lambda value: (
                isinstance(value, list)
                and all(isinstance(each, str) for each in value)
                and len(set(value)) == len(value)
            )
        case "minimum":
            return lambda value: _is_number(value) and value >= given
        case "maximum":
            return lambda value: _is_number(value) and value <= given
        case "minLength" | "minItems" | "minProperties":
            return lambda value: _has_length(value) and len(value) >= given
        case "maxLength" | "maxItems" | "maxProperties":
            return lambda value: _has_length(value) and len(value) <= given
    return _never
