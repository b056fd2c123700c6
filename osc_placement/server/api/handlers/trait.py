# SPDX-License-Identifier: Apache-2.0
"""Traits, and those of a provider, over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from osc_placement import codes
from osc_placement.server import errors
from osc_placement.server.api import schemas
from osc_placement.server.api.http import Request, check, find_latest, no_content, reply
from osc_placement.server.db import trait as db
from osc_placement.server.errors import Answer, answering

if TYPE_CHECKING:
    from datetime import datetime


def _reply(request: Request, traits: Sequence[db.Trait], **more: Any) -> Any:
    return _reply_with(request, {trait.name: trait.modified for trait in traits}, **more)


def _reply_with(request: Request, times: Mapping[str, datetime | None], **more: Any) -> Any:
    """Answer with traits, which are given by the times of their last modification."""
    body = {"traits": list(times), **more}
    return reply(request, body, modified=find_latest(times.values()))


def list_traits(request: Request, parameters: Mapping[str, str]) -> Any:
    """GET /traits: all, or those of certain names, or those that some provider has, or none."""
    filters: dict[str, Any] = {}
    if "name" in parameters:
        operator, colon, value = parameters["name"].partition(":")
        if not colon:
            raise errors.HTTPError(
                400,
                "Badly formatted name parameter. Expected name query string parameter in form: "
                f'?name=[in|startswith]:[name1,name2|prefix]. Got: "{parameters["name"]}"',
            )
        # another operator filters nothing
        if operator == "in":
            filters["names"] = value.split(",")
        elif operator == "startswith":
            filters["prefix"] = value
    if "associated" in parameters:
        associated = parameters["associated"].lower()
        if associated not in ("true", "false"):
            raise errors.HTTPError(400, 'The query parameter "associated" only accepts "true" or "false"')
        filters["associated"] = associated == "true"
    try:
        traits = request.database.read(db.load_all, **filters)
    except errors.Unstorable:
        # the names of traits are ASCII
        filters["names"] = [name for name in filters.get("names", ()) if name.isascii()]
        traits = request.database.read(db.load_all, **{**filters, "prefix": None})
    return _reply(request, traits)


def show_trait(request: Request) -> Any:
    """GET /traits/{name}: 204 if there is such a trait."""
    with answering(Answer(errors.TraitNotFound, 404, "{error}")):
        trait = request.database.read(db.load, request.path["name"])
    return no_content(request, modified=trait.modified, dated=True)


def create_trait(request: Request) -> Any:
    """PUT /traits/{name}: 201 if it was created, 204 if it was there."""
    name = request.path["name"]
    try:
        check(name, schemas.CUSTOM_TRAIT)
    except errors.HTTPError:
        raise errors.HTTPError(
            400,
            "The trait is invalid. A valid trait must be no longer than 255 characters, start with the "
            'prefix "CUSTOM_" and use following characters: "A"-"Z", "0"-"9" and "_"',
        ) from None
    trait, is_new = request.database.write(db.ensure, name)
    location = request.link("traits", name)
    return no_content(
        request, status=201 if is_new else 204, location=location, modified=trait.modified, dated=True
    )


def delete_trait(request: Request) -> Any:
    """DELETE /traits/{name}."""
    with answering(Answer(errors.TraitNotFound, 404, "{error}")):
        request.database.write(db.delete, request.path["name"])
    return no_content(request)


def list_provider_traits(request: Request) -> Any:
    """GET /resource_providers/{uuid}/traits."""
    if (known := request.find_known()) is not None:
        loaded, node = known
        times = {name: loaded.names.trait_times[name] for name in node.traits}
        return _reply_with(request, times, resource_provider_generation=node.generation)
    uuid = request.path["uuid"]
    missing = Answer(errors.ProviderNotFound, 404, "No resource provider with uuid {uuid} found: {error}")
    with answering(missing, uuid=uuid):
        provider, traits = request.database.read(db.load_of, uuid)
    return _reply(request, traits, resource_provider_generation=provider.generation)


#: the answers to errors of a replacement
SET_ANSWERS = (
    Answer(
        errors.ProviderChanged,
        409,
        "Resource provider's generation already changed. Please update the generation and try again.",
        codes.CONCURRENT_UPDATE,
    ),
    Answer(errors.TraitNotFound, 400, "No such trait {error.name}"),
)


def set_provider_traits(request: Request, data: Any) -> Any:
    """PUT /resource_providers/{uuid}/traits: these and no others."""
    with answering(*SET_ANSWERS):
        generation, traits = request.database.write(
            db.replace, request.path["uuid"], data["traits"], generation=data["resource_provider_generation"]
        )
    return _reply(request, traits, resource_provider_generation=generation)


def delete_provider_traits(request: Request) -> Any:
    """DELETE /resource_providers/{uuid}/traits: all of them."""
    request.database.write(db.replace, request.path["uuid"], ())
    return no_content(request)
