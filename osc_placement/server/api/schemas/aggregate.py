# SPDX-License-Identifier: Apache-2.0
"""Bodies about the aggregates of a provider."""

from osc_placement.server.api.schemas.fragments import GENERATION, UUID, record

PUT_1_1 = {"type": "array", "items": UUID, "uniqueItems": True}
PUT_1_19 = record(
    {"aggregates": PUT_1_1, "resource_provider_generation": GENERATION},
    required=("aggregates", "resource_provider_generation"),
)
