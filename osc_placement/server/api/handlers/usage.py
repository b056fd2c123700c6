# SPDX-License-Identifier: Apache-2.0
"""Usages over HTTP: of a provider, and of a project."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from osc_placement import microversion
from osc_placement.server import errors
from osc_placement.server.api.http import Request, reply
from osc_placement.server.db import usage as db
from osc_placement.server.errors import Answer, answering


def show_provider_usages(request: Request) -> Any:
    """GET /resource_providers/{uuid}/usages."""
    if (known := request.find_known()) is not None:
        _, node = known
        used = {name: stock.used for name, stock in node.stocks.items()}
        return reply(request, {"resource_provider_generation": node.generation, "usages": used})
    uuid = request.path["uuid"]
    missing = Answer(errors.ProviderNotFound, 404, "No resource provider with uuid {uuid} found: {error}")
    with answering(missing, uuid=uuid):
        provider, usages = request.database.read(db.of_provider, uuid)
    return reply(request, {"resource_provider_generation": provider.generation, "usages": usages})


def find_target(request: Request) -> dict[str, str | None]:
    """Return the project that a query asks about, before the query is validated."""
    return {"project_id": request.parameters.get("project_id")}


def show_total_usages(request: Request, parameters: Mapping[str, str]) -> Any:
    """GET /usages: what a project holds; from 1.38 by consumer type."""
    if request.version < microversion.CONSUMER_TYPES:
        usages: dict[str, Any] = request.search(
            db.by_class, {}, parameters["project_id"], parameters.get("user_id")
        )
        return reply(request, {"usages": usages})
    by_type = request.search(
        db.by_consumer_type,
        {},
        parameters["project_id"],
        parameters.get("user_id"),
        parameters.get("consumer_type"),
    )
    usages = {
        type_: usage.resources | {"consumer_count": usage.consumer_count} for type_, usage in by_type.items()
    }
    return reply(request, {"usages": usages})
