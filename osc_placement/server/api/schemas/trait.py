# SPDX-License-Identifier: Apache-2.0
"""Bodies, names and queries about traits."""

from osc_placement.server.api.schemas.fragments import CUSTOM_NAME_PATTERN, GENERATION, TEXT, record

_NAME = {"type": "string", "minLength": 1, "maxLength": 255}

CUSTOM_NAME = {**_NAME, "pattern": CUSTOM_NAME_PATTERN}
LIST = record({"name": TEXT, "associated": TEXT})
PUT_OF_PROVIDER = record(
    {"traits": {"type": "array", "items": _NAME}, "resource_provider_generation": GENERATION},
    required=("traits", "resource_provider_generation"),
)
