# SPDX-License-Identifier: Apache-2.0
"""Inventories of a provider over HTTP."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from osc_placement import codes, microversion
from osc_placement.model import Inventory
from osc_placement.server import errors
from osc_placement.server.api import schemas
from osc_placement.server.api.handlers.resource_provider import after_provider
from osc_placement.server.api.http import Request, check, find_latest, no_content, reply
from osc_placement.server.db import inventory as db
from osc_placement.server.errors import Answer, answering

_PROVIDER_MISSING = Answer(
    errors.ProviderNotFound, 404, "No resource provider with uuid {uuid} found : {error}"
)
_NAME = re.compile(schemas.NAME_PATTERN)
_GENERATION_CONFLICT = Answer(
    errors.ProviderChanged, 409, "resource provider generation conflict", codes.CONCURRENT_UPDATE
)


def read_inventories(by_class: Mapping[str, Any]) -> dict[str, Inventory]:
    """Return the inventories by class from a body that matches its schema.

    The schema does not restrict names to valid ones. Invalid names turn out to be unknown classes later;
    until then their values have to be inventories.
    """
    for name, fields in by_class.items():
        if not _NAME.search(name):
            check(fields, schemas.INVENTORY)
    return {name: Inventory.from_json(fields) for name, fields in by_class.items()}


def may_reserve_all(request: Request) -> bool:
    """Return whether an inventory may reserve its total."""
    return request.version >= microversion.RESERVED_UP_TO_TOTAL


def _reply_with_one(request: Request, inventory: Inventory, generation: int | None, **more: Any) -> Any:
    body = inventory.to_json()
    if generation is not None:
        body["resource_provider_generation"] = generation
    return reply(request, body, **more)


def _reply_with_all(
    request: Request, inventories: Mapping[str, Inventory], generation: int | None, **more: Any
) -> Any:
    by_class = {name: inventory.to_json() for name, inventory in inventories.items()}
    body = {"resource_provider_generation": generation, "inventories": by_class}
    response = reply(request, body, **more)
    if not inventories:
        response.last_modified = None
    return response


def list_inventories(request: Request) -> Any:
    """GET /resource_providers/{uuid}/inventories."""
    if (known := request.find_known()) is not None:
        _, node = known
        by_class = {name: stock.inventory for name, stock in node.stocks.items()}
        return _reply_with_all(request, by_class, node.generation, modified=node.stocked)
    with answering(_PROVIDER_MISSING, uuid=request.path["uuid"]):
        provider, stored = request.database.read(db.load_of, request.path["uuid"])
    by_class = {item.resource_class: item.inventory for item in stored}
    modified = find_latest(item.modified for item in stored)
    return _reply_with_all(request, by_class, provider.generation, modified=modified)


def show_inventory(request: Request) -> Any:
    """GET /resource_providers/{uuid}/inventories/{resource_class}."""
    uuid, resource_class = request.path["uuid"], request.path["resource_class"]
    with answering(_PROVIDER_MISSING, uuid=uuid):
        provider, stored = request.database.read(db.load_of, uuid)
    for item in stored:
        if item.resource_class == resource_class:
            return _reply_with_one(request, item.inventory, provider.generation, modified=item.modified)
    raise errors.HTTPError(404, f"No inventory of class {resource_class} for {uuid}")


def create_inventory(request: Request, data: Any) -> Any:
    """POST /resource_providers/{uuid}/inventories: one more class."""
    uuid = request.path["uuid"]
    resource_class, inventory = data["resource_class"], Inventory.from_json(data)
    unable = "Unable to create inventory for resource provider {uuid}: {error}"
    answers = (
        Answer(errors.ConcurrentUpdate, 409, "Update conflict: {error}", codes.CONCURRENT_UPDATE),
        Answer(errors.ReservedTooLarge, 400, unable),
        Answer(errors.ResourceClassNotFound, 400, unable),
    )
    with answering(*answers, uuid=uuid):
        generation = request.database.write(
            db.add, uuid, resource_class, inventory, may_reserve_all=may_reserve_all(request)
        )
    response = _reply_with_one(request, inventory, generation, status=201)
    response.location = request.link("resource_providers", uuid, "inventories", resource_class)
    return response


#: the answers to errors of a replacement
SET_ANSWERS = (
    _GENERATION_CONFLICT,
    Answer(errors.ConcurrentUpdate, 409, "update conflict: {error}", codes.CONCURRENT_UPDATE),
    Answer(errors.InventoryInUse, 409, "update conflict: {error}", codes.INVENTORY_IN_USE),
    Answer(
        errors.ResourceClassNotFound,
        400,
        "Unknown resource class in inventory for resource provider {uuid}: {error}",
    ),
    Answer(errors.ReservedTooLarge, 400, "Unable to update inventory for resource provider {uuid}: {error}"),
)


def set_inventories(request: Request, data: Any) -> Any:
    """PUT /resource_providers/{uuid}/inventories: these and no others."""
    uuid = request.path["uuid"]
    with after_provider(request):
        wanted = read_inventories(data["inventories"])
    with answering(*SET_ANSWERS, uuid=uuid):
        generation = request.database.write(
            db.replace,
            uuid,
            wanted,
            generation=data["resource_provider_generation"],
            may_reserve_all=may_reserve_all(request),
        )
    return _reply_with_all(request, wanted, generation)


def update_inventory(request: Request, data: Any) -> Any:
    """PUT /resource_providers/{uuid}/inventories/{resource_class}."""
    uuid, resource_class = request.path["uuid"], request.path["resource_class"]
    inventory = Inventory.from_json(data)
    answers = (
        _GENERATION_CONFLICT,
        Answer(errors.ConcurrentUpdate, 409, "update conflict: {error}", codes.CONCURRENT_UPDATE),
        Answer(
            errors.InventoryNotFound,
            400,
            "No inventory record with resource class for resource provider {uuid}: {error}",
        ),
        Answer(
            errors.ReservedTooLarge, 400, "Unable to update inventory for resource provider {uuid}: {error}"
        ),
    )
    with answering(*answers, uuid=uuid):
        generation = request.database.write(
            db.update,
            uuid,
            resource_class,
            inventory,
            generation=data["resource_provider_generation"],
            may_reserve_all=may_reserve_all(request),
        )
    return _reply_with_one(request, inventory, generation)


def delete_inventories(request: Request) -> Any:
    """DELETE /resource_providers/{uuid}/inventories: all of them."""
    uuid = request.path["uuid"]
    changed = Answer(
        errors.ConcurrentUpdate,
        409,
        "Unable to delete inventory for resource provider {uuid} because the inventory was updated by "
        "another process. Please retry your request.",
        codes.CONCURRENT_UPDATE,
    )
    with answering(changed, uuid=uuid):
        request.database.write(db.replace, uuid, {})
    return no_content(request)


def delete_inventory(request: Request) -> Any:
    """DELETE /resource_providers/{uuid}/inventories/{resource_class}."""
    uuid, resource_class = request.path["uuid"], request.path["resource_class"]
    unable = "Unable to delete inventory of class {resource_class}: {error}"
    missing = "No inventory of class {resource_class} found for delete"
    answers = (
        # the reference has this code, although it does not fit inventory in use
        Answer(errors.InventoryInUse, 409, unable, codes.CONCURRENT_UPDATE),
        Answer(errors.ConcurrentUpdate, 409, unable, codes.CONCURRENT_UPDATE),
        Answer(errors.ResourceClassNotFound, 404, f"{missing}: {{error}}"),
        Answer(errors.InventoryNotFound, 404, f"{missing}: {missing}"),
    )
    with answering(*answers, resource_class=resource_class):
        request.database.write(db.delete, uuid, resource_class)
    return no_content(request)
