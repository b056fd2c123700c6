# SPDX-License-Identifier: Apache-2.0
"""Resource providers over HTTP."""

from __future__ import annotations

import uuid
from typing import Any

from osc_placement import codes, microversion
from osc_placement.model import canonical_uuid
from osc_placement.server import errors, policies
from osc_placement.server.candidates import query
from osc_placement.server.db import provider as db
from osc_placement.server.db import provider_list
from osc_placement.server.errors import Answer, answering
from osc_placement.server.http import Request, Schema, no_content, reply
from osc_placement.server.schemas import resource_provider as schemas

_LINKS = (
    ("inventories", microversion.MIN),
    ("usages", microversion.MIN),
    ("aggregates", microversion.PROVIDER_AGGREGATES),
    ("traits", microversion.TRAITS),
    ("allocations", microversion.ALLOCATIONS_LINK),
)


def _serialize(request: Request, provider: db.Provider) -> dict[str, Any]:
    url = request.link("resource_providers", provider.uuid)
    links = [{"rel": "self", "href": url}]
    links += [{"rel": rel, "href": f"{url}/{rel}"} for rel, since in _LINKS if request.version >= since]
    data: dict[str, Any] = {
        "uuid": provider.uuid,
        "name": provider.name,
        "generation": provider.generation,
        "links": links,
    }
    if request.version >= microversion.NESTED_PROVIDERS:
        data["parent_provider_uuid"] = provider.parent_provider_uuid
        data["root_provider_uuid"] = provider.root_provider_uuid
    return data


def list_providers(request: Request) -> Any:
    """GET /resource_providers: those that pass all filters."""
    request.authorize(policies.PROVIDER_LIST)
    filters = _parse_filters(request)
    unknown = (
        Answer(errors.ResourceClassNotFound, 400, "Invalid resource class in resources parameter: {error}"),
        Answer(errors.TraitNotFound, 400, 'Invalid trait(s) in "required" parameter: {error}'),
    )
    with answering(*unknown):
        providers = request.database.read(provider_list.load_all, filters)
    body = {"resource_providers": [_serialize(request, provider) for provider in providers]}
    return reply(request, body, modified=max((provider.modified for provider in providers), default=None))


def _parse_filters(request: Request) -> provider_list.Filters:
    parameters = request.query(_list_schema(request.version))
    resources = parameters.get("resources")
    try:
        return provider_list.Filters(
            name=parameters.get("name"),
            uuid=canonical_uuid(parameters.get("uuid", "")),
            in_tree=canonical_uuid(parameters.get("in_tree", "")),
            membership=query.parse_membership(request.values("member_of"), request.version),
            traits=query.parse_traits(request.values("required"), request.version),
            resources={} if resources is None else query.parse_resources(resources),
        )
    except query.BadQuery as error:
        raise errors.HTTPError(400, str(error)) from error


def _list_schema(version: microversion.Version) -> Schema:
    if version >= microversion.LIST_BY_TRAITS:
        return schemas.LIST_1_18
    if version >= microversion.NESTED_PROVIDERS:
        return schemas.LIST_1_14
    if version >= microversion.LIST_BY_RESOURCES:
        return schemas.LIST_1_4
    if version >= microversion.LIST_BY_AGGREGATE:
        return schemas.LIST_1_3
    return schemas.LIST_1_0


def create_provider(request: Request) -> Any:
    """POST /resource_providers: with the UUID given, or a new one."""
    request.authorize(policies.PROVIDER_CREATE)
    nested = request.version >= microversion.NESTED_PROVIDERS
    data = request.json(schemas.POST_1_14 if nested else schemas.POST_1_0)
    new_uuid = canonical_uuid(data.get("uuid") or str(uuid.uuid4()))
    refused = Answer(errors.TreeRefused, 400, 'Unable to create resource provider "{name}", {uuid}: {error}')
    with answering(refused, name=data["name"], uuid=new_uuid):
        if not data["name"]:
            raise errors.TreeRefused("create", "name is required")
        parent_uuid = _with_canonical_parent(data).get("parent_provider_uuid")
        provider = request.database.write(
            db.create, uuid=new_uuid, name=data["name"], parent_uuid=parent_uuid
        )
    location = request.link("resource_providers", new_uuid)
    if request.version < microversion.CREATED_PROVIDER_IN_BODY:
        return no_content(request, status=201, location=location)
    response = reply(request, _serialize(request, provider), modified=provider.modified)
    response.location = location
    return response


def _with_canonical_parent(data: dict[str, Any]) -> dict[str, Any]:
    parent_uuid = data.get("parent_provider_uuid")
    return data if parent_uuid is None else data | {"parent_provider_uuid": canonical_uuid(parent_uuid)}


def show_provider(request: Request) -> Any:
    """GET /resource_providers/{uuid}."""
    request.authorize(policies.PROVIDER_SHOW)
    provider = request.database.read(db.load, request.path["uuid"])
    return reply(request, _serialize(request, provider), modified=provider.modified)


def update_provider(request: Request) -> Any:
    """PUT /resource_providers/{uuid}: rename it, and from 1.14 give it a place in a tree."""
    request.authorize(policies.PROVIDER_UPDATE)
    subject = request.path["uuid"]
    nested = request.version >= microversion.NESTED_PROVIDERS
    data = request.json(
        schemas.PUT_1_14 if nested else schemas.PUT_1_0,
        of=lambda: request.database.read(db.load, subject),
    )
    answers = (
        Answer(errors.TreeRefused, 400, "Unable to save resource provider {uuid}: {error}"),
        Answer(errors.DuplicateProvider, 409, "{error}", codes.DUPLICATE_NAME),
    )
    with answering(*answers, uuid=subject):
        reparenting_allowed = request.version >= microversion.REPARENTING
        provider = request.database.write(
            db.update, subject, _with_canonical_parent(data), reparenting_allowed=reparenting_allowed
        )
    return reply(request, _serialize(request, provider), modified=provider.modified)


def delete_provider(request: Request) -> Any:
    """DELETE /resource_providers/{uuid}."""
    request.authorize(policies.PROVIDER_DELETE)
    answers = (
        Answer(
            errors.ProviderInUse,
            409,
            "Unable to delete resource provider {uuid}: {error}",
            codes.PROVIDER_IN_USE,
        ),
        Answer(
            errors.ProviderHasChildren,
            409,
            "Unable to delete parent resource provider {uuid}: It has child resource providers.",
            codes.CANNOT_DELETE_PARENT,
        ),
        Answer(errors.ProviderNotFound, 404, "No resource provider with uuid {uuid} found for delete"),
    )
    with answering(*answers, uuid=request.path["uuid"]):
        request.database.write(db.delete, request.path["uuid"])
    return no_content(request)
