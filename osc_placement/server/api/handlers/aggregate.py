# SPDX-License-Identifier: Apache-2.0
"""The aggregates of a provider over HTTP."""

from __future__ import annotations

from typing import Any

from osc_placement import codes, microversion
from osc_placement.server import errors
from osc_placement.server.api.http import Request, reply
from osc_placement.server.db import aggregate as db
from osc_placement.server.errors import Answer, answering


def _reply(request: Request, aggregates: list[str], generation: int | None) -> Any:
    body: dict[str, Any] = {"aggregates": aggregates}
    if request.version >= microversion.AGGREGATES_WITH_GENERATION:
        body["resource_provider_generation"] = generation
    return reply(request, body)


def list_aggregates(request: Request) -> Any:
    """GET /resource_providers/{uuid}/aggregates."""
    if (known := request.find_known()) is not None:
        _, node = known
        return _reply(request, list(node.aggregates), node.generation)
    provider, aggregates = request.database.read(db.load, request.path["uuid"])
    return _reply(request, aggregates, provider.generation)


#: the answers to errors of a replacement
SET_ANSWERS = (
    Answer(
        errors.ProviderChanged,
        409,
        "Resource provider's generation already changed. Please update the generation and try again.",
        codes.CONCURRENT_UPDATE,
    ),
    Answer(errors.ConcurrentUpdate, 409, "Update conflict: {error}", codes.CONCURRENT_UPDATE),
)


def set_aggregates(request: Request, data: Any) -> Any:
    """PUT /resource_providers/{uuid}/aggregates: these and no others; from 1.19 guarded by the generation."""
    uuid = request.path["uuid"]
    guarded = request.version >= microversion.AGGREGATES_WITH_GENERATION
    aggregates = data["aggregates"] if guarded else data
    generation = data["resource_provider_generation"] if guarded else None
    with answering(*SET_ANSWERS):
        generation = request.database.write(db.replace, uuid, aggregates, generation=generation)
    return _reply(request, aggregates, generation)
