# SPDX-License-Identifier: Apache-2.0
"""Queries for allocation candidates, a constant per range of microversions."""

from osc_placement.server.api.schemas.fragments import TEXT, Schema, extend, record

_LIMIT: Schema = {
    "type": ["integer", "string"],
    "pattern": "^[1-9][0-9]*$",
    "minimum": 1,
    "minLength": 1,
}

LIST_1_10 = record({"resources": TEXT}, required=("resources",))
LIST_1_16 = extend(LIST_1_10, {"limit": _LIMIT})
LIST_1_17 = extend(LIST_1_16, {"required": TEXT})
LIST_1_21 = extend(LIST_1_17, {"member_of": TEXT})


def _with_groups(suffix: str, *parameters: str) -> Schema:
    """Return the schema of parameters that may occur once per request group, with the group's suffix."""
    patterns = {f"^{parameter}({suffix})?$": TEXT for parameter in parameters}
    policy = {"type": "string", "enum": ["none", "isolate"]}
    return record({"limit": _LIMIT, "group_policy": policy}, patternProperties=patterns)


LIST_1_25 = _with_groups("[1-9][0-9]*", "resources", "required", "member_of")
LIST_1_31 = _with_groups("[1-9][0-9]*", "resources", "required", "member_of", "in_tree")
LIST_1_33 = _with_groups("[a-zA-Z0-9_-]{1,64}", "resources", "required", "member_of", "in_tree")
#: equivalent to other text schemas, but written as error messages quote it
_TEXT: Schema = {"type": ["string"]}
LIST_1_35 = extend(LIST_1_33, {"root_required": _TEXT})
LIST_1_36 = extend(LIST_1_35, {"same_subtree": _TEXT})
