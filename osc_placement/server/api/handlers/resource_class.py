# SPDX-License-Identifier: Apache-2.0
"""Resource classes over HTTP."""

from __future__ import annotations

from typing import Any

from osc_placement import microversion
from osc_placement.server import errors
from osc_placement.server.api import schemas
from osc_placement.server.api.http import Request, check, find_latest, no_content, reply
from osc_placement.server.db import resource_class as db
from osc_placement.server.errors import Answer, answering


def _serialize(request: Request, name: str) -> dict[str, Any]:
    return {"name": name, "links": [{"rel": "self", "href": request.link("resource_classes", name)}]}


def list_resource_classes(request: Request) -> Any:
    """GET /resource_classes."""
    classes = request.database.read(db.load_all)
    body = {"resource_classes": [_serialize(request, item.name) for item in classes]}
    return reply(request, body, modified=find_latest(item.modified for item in classes))


def show_resource_class(request: Request) -> Any:
    """GET /resource_classes/{name}."""
    found = request.database.read(db.load, request.path["name"])
    return reply(request, _serialize(request, found.name), modified=found.modified)


def create_resource_class(request: Request, data: Any) -> Any:
    """POST /resource_classes."""
    name = data["name"]
    exists = Answer(errors.ResourceClassExists, 409, "Conflicting resource class already exists: {error}")
    with answering(exists):
        request.database.write(db.create, name)
    return no_content(request, status=201, location=request.link("resource_classes", name))


def update_resource_class(request: Request, data: Any = None) -> Any:
    """PUT /resource_classes/{name}: create it or confirm that it is there; before 1.7, rename it."""
    if request.version < microversion.PUT_RESOURCE_CLASS_WITHOUT_BODY:
        new_name = data["name"]
        with answering(Answer(errors.ResourceClassExists, 409, "Resource class already exists: {error}")):
            request.database.write(db.rename, request.path["name"], new_name)
        return reply(request, _serialize(request, new_name))
    name = request.path["name"]
    check({"name": name}, schemas.CUSTOM_CLASS)
    is_new = request.database.write(db.ensure, name)
    return no_content(request, status=201 if is_new else 204, location=request.link("resource_classes", name))


def delete_resource_class(request: Request) -> Any:
    """DELETE /resource_classes/{name}."""
    answers = (
        Answer(errors.StandardIsFixed, 400, "Error in delete resource class: {error}"),
        Answer(errors.ResourceClassInUse, 409, "Error in delete resource class: {error}"),
    )
    with answering(*answers):
        request.database.write(db.delete, request.path["name"])
    return no_content(request)
