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
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


def compile_schema(schema: Any) -> Match:
    """Return a function that accepts only values that match a schema of a body, though not all of them.

    It never accepts a value whose schema has a keyword that is not known here.
    """
    members = {name: compile_schema(each) for name, each in schema.get("properties", {}).items()}
    patterns = {
        pattern: compile_schema(each) for pattern, each in schema.get("patternProperties", {}).items()
    }
    matches = []
    if members or patterns or "additionalProperties" in schema:
        is_open = schema.get("additionalProperties", True)
        if not isinstance(is_open, bool):
            return _never
        matches.append(_match_members(members, patterns, is_open=is_open and not patterns))
    for keyword, value in schema.items():
        if keyword in ("properties", "patternProperties", "additionalProperties"):
            continue
        if keyword not in _KEYWORDS:
            return _never
        matches.append(_KEYWORDS[keyword](value))
    return lambda value: all(match(value) for match in matches)


def _never(_value: Any) -> bool:
    return False


def _match_members(members: Mapping[str, Match], patterns: Mapping[str, Match], *, is_open: bool) -> Match:
    """Match an object; a name that is neither a member nor matches a pattern needs an open schema."""
    compiled = [(_compile_pattern(pattern), match) for pattern, match in patterns.items()]

    def match(value: Any) -> bool:
        if not isinstance(value, dict):
            return True  # what is no object has no members, and its type is for "type" to say
        for name, each in value.items():
            found = [matches for pattern, matches in compiled if pattern.search(name)]
            if name in members:
                found.append(members[name])
            if not (found or is_open) or not all(matches(each) for matches in found):
                return False
        return True

    return match


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    # in JSON Schema, "$" matches the end of the text; in Python, also before a final newline
    return re.compile(pattern.replace("$", r"\Z"))


def _match_type(names: Any) -> Match:
    matches = [_TYPES[name] for name in ([names] if isinstance(names, str) else names)]
    return matches[0] if len(matches) == 1 else lambda value: any(match(value) for match in matches)


def _match_items(schema: Any) -> Match:
    match = compile_schema(schema)
    return lambda value: isinstance(value, list) and all(map(match, value))


def _match_any(schemas: Any) -> Match:
    matches = [compile_schema(schema) for schema in schemas]
    return lambda value: any(match(value) for match in matches)


def _match_pattern(pattern: str) -> Match:
    compiled = _compile_pattern(pattern)
    return lambda value: isinstance(value, str) and compiled.search(value) is not None


def _are_unique(value: Any) -> bool:
    are_texts = isinstance(value, list) and all(isinstance(each, str) for each in value)
    return are_texts and len(set(value)) == len(value)


def _is_uuid(value: Any) -> bool:
    return isinstance(value, str) and is_uuid(value)


def _has_length(value: Any) -> bool:
    return isinstance(value, str | list | dict)


_KEYWORDS: Final[Mapping[str, Callable[[Any], Match]]] = {
    "type": _match_type,
    "items": _match_items,
    "anyOf": _match_any,
    "pattern": _match_pattern,
    "format": lambda name: _is_uuid if name == "uuid" else _never,
    "required": lambda names: lambda value: isinstance(value, dict) and all(name in value for name in names),
    "uniqueItems": lambda _unique: _are_unique,
    "minimum": lambda least: lambda value: _TYPES["number"](value) and value >= least,
    "maximum": lambda most: lambda value: _TYPES["number"](value) and value <= most,
    **dict.fromkeys(
        ("minLength", "minItems", "minProperties"),
        lambda least: lambda value: _has_length(value) and len(value) >= least,
    ),
    **dict.fromkeys(
        ("maxLength", "maxItems", "maxProperties"),
        lambda most: lambda value: _has_length(value) and len(value) <= most,
    ),
}
