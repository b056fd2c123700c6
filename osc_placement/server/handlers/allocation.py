# SPDX-License-Identifier: Apache-2.0
"""Allocations over HTTP: of a consumer, of several consumers at once, and on a provider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from osc_placement import codes, microversion
from osc_placement.model import canonical_uuid
from osc_placement.server import errors, policies
from osc_placement.server.candidates.query import is_uuid
from osc_placement.server.db import allocation as db
from osc_placement.server.db import names
from osc_placement.server.db.consumer import Owner
from osc_placement.server.db.tables import consumer_types, projects, users
from osc_placement.server.errors import Answer, answering
from osc_placement.server.http import Request, Schema, no_content, reply
from osc_placement.server.schemas import allocation as schemas

_CHANGED = Answer(
    errors.ConcurrentUpdate,
    409,
    "Inventory and/or allocations changed while attempting to allocate: {error}",
    codes.CONCURRENT_UPDATE,
)
CONSUMER_CHANGED = Answer(errors.ConsumerChanged, 409, "{error}", codes.CONCURRENT_UPDATE)
UNFIT = Answer(errors.InventoryUnfit, 409, "Unable to allocate inventory: {error}")
PROVIDER_MISSING = Answer(
    errors.ProviderNotFound, 400, "Allocation for resource provider '{error.uuid}' that does not exist."
)


def list_consumer_allocations(request: Request) -> Any:
    """GET /allocations/{consumer_uuid}: what it holds, by provider; nothing, if nobody knows it."""
    request.authorize(policies.ALLOCATION_LIST)
    held = request.database.read(db.load_of_consumer, request.path["consumer_uuid"])
    by_provider: dict[str, Any] = {}
    for item in held:
        of_provider = by_provider.setdefault(item.provider_uuid, {"resources": {}})
        of_provider["resources"][item.resource_class] = item.used
        of_provider["generation"] = item.provider_generation
    body = {"allocations": by_provider} | _describe_consumer(request, held)
    return reply(request, body, modified=max((item.modified for item in held), default=None))


def _describe_consumer(request: Request, held: Sequence[db.Held]) -> dict[str, Any]:
    if not held or request.version < microversion.ALLOCATIONS_BY_PROVIDER:
        return {}
    facts: dict[str, Any] = {"project_id": held[0].project_id, "user_id": held[0].user_id}
    if request.version >= microversion.CONSUMER_GENERATIONS:
        facts["consumer_generation"] = held[0].consumer_generation
    if request.version >= microversion.CONSUMER_TYPES:
        facts["consumer_type"] = held[0].consumer_type or "unknown"
    return facts


def list_provider_allocations(request: Request) -> Any:
    """GET /resource_providers/{uuid}/allocations: what is held of it, by consumer."""
    request.authorize(policies.PROVIDER_ALLOCATION_LIST)
    subject = request.path["uuid"]
    missing = Answer(errors.ProviderNotFound, 404, "Resource provider '{uuid}' not found: {error}")
    with answering(missing, uuid=subject):
        provider, held = request.database.read(db.load_of_provider, subject)
    by_consumer: dict[str, Any] = {}
    for item in held:
        of_consumer = by_consumer.setdefault(item.consumer_uuid, {"resources": {}})
        of_consumer["resources"][item.resource_class] = item.used
        if request.version >= microversion.CONSUMER_GENERATIONS:
            of_consumer["consumer_generation"] = item.consumer_generation
    body = {"allocations": by_consumer, "resource_provider_generation": provider.generation}
    return reply(request, body, modified=max((item.modified for item in held), default=None))


def set_allocations(request: Request) -> Any:
    """PUT /allocations/{consumer_uuid}: these and no others."""
    request.authorize(policies.ALLOCATION_UPDATE)
    consumer_uuid = request.path["consumer_uuid"]
    if not is_uuid(consumer_uuid):
        raise errors.HTTPError(400, f"Malformed consumer_uuid: {consumer_uuid}")
    data = request.json(_put_schema(request.version))
    missing = Answer(errors.NotFound, 400, "Unable to allocate inventory for consumer {consumer}: {error}")
    answers = (PROVIDER_MISSING, missing, UNFIT, CONSUMER_CHANGED, _CHANGED)
    with answering(*answers, consumer=consumer_uuid):
        request.database.write(db.replace, read_claims(request, {consumer_uuid: data}))
    return no_content(request)


def _put_schema(version: microversion.Version) -> Schema:
    if version >= microversion.CONSUMER_TYPES:
        return schemas.PUT_1_38
    if version >= microversion.MAPPINGS:
        return schemas.PUT_1_34
    if version >= microversion.CONSUMER_GENERATIONS:
        return schemas.PUT_1_28
    if version >= microversion.ALLOCATIONS_BY_PROVIDER:
        return schemas.PUT_1_12
    if version >= microversion.CONSUMER_OWNER_REQUIRED:
        return schemas.PUT_1_8
    return schemas.PUT_1_0


def set_many_allocations(request: Request) -> Any:
    """POST /allocations: for several consumers at once, all or nothing."""
    request.authorize(policies.ALLOCATION_MANAGE)
    data = request.json(_post_schema(request.version))
    missing = Answer(errors.NotFound, 400, "Unable to allocate inventory {error}")
    with answering(PROVIDER_MISSING, missing, UNFIT, CONSUMER_CHANGED, _CHANGED):
        request.database.write(db.replace, read_claims(request, data))
    return no_content(request)


def _post_schema(version: microversion.Version) -> Schema:
    if version >= microversion.CONSUMER_TYPES:
        return schemas.POST_1_38
    if version >= microversion.MAPPINGS:
        return schemas.POST_1_34
    if version >= microversion.CONSUMER_GENERATIONS:
        return schemas.POST_1_28
    return schemas.POST_1_13


def delete_allocations(request: Request) -> Any:
    """DELETE /allocations/{consumer_uuid}: all it holds."""
    request.authorize(policies.ALLOCATION_DELETE)
    with answering(Answer(errors.AllocationsNotFound, 404, "{error}")):
        request.database.write(db.delete, request.path["consumer_uuid"])
    return no_content(request)


def read_claims(request: Request, by_consumer: Mapping[str, Any]) -> list[db.Claim]:
    """Claims from the checked body of a request, by consumer; projects, users and types come to exist."""
    by_consumer = _by_canonical_uuid(by_consumer)
    owners = _ensure_owners(request, by_consumer.values())
    return [
        db.Claim(
            consumer_uuid=consumer_uuid,
            owner=owner,
            resources=_read_resources(data["allocations"]),
            generation=data.get("consumer_generation"),
            checked=request.version >= microversion.CONSUMER_GENERATIONS,
        )
        for (consumer_uuid, data), owner in zip(by_consumer.items(), owners, strict=True)
    ]


def _read_resources(allocations: Any) -> db.Resources:
    """Amounts by class by provider, from the list of before 1.12 or the object of since."""
    if isinstance(allocations, list):
        return {canonical_uuid(item["resource_provider"]["uuid"]): item["resources"] for item in allocations}
    return {uuid: item["resources"] for uuid, item in _by_canonical_uuid(allocations).items()}


def _by_canonical_uuid(items: Mapping[str, Any]) -> dict[str, Any]:
    """The same with one spelling of each UUID, so that nothing exists twice, or is named twice here."""
    canonical = {canonical_uuid(uuid): item for uuid, item in items.items()}
    if len(canonical) < len(items):
        raise errors.HTTPError(400, "JSON does not validate: a UUID appears more than once, in two spellings")
    return canonical


def _ensure_owners(request: Request, bodies: Any) -> list[Owner]:
    """The owner each body names. Clients older than 1.8 need name none, and get the configured one."""
    default = request.service.conf.placement
    named = [
        (
            body.get("project_id") or default.incomplete_consumer_project_id,
            body.get("user_id") or default.incomplete_consumer_user_id,
            body.get("consumer_type"),
        )
        for body in bodies
    ]
    ensure = names.ensure
    project_ids = ensure(request.database, projects, "external_id", {item[0] for item in named})
    user_ids = ensure(request.database, users, "external_id", {item[1] for item in named})
    types = {item[2] for item in named if item[2] is not None}
    type_ids = ensure(request.database, consumer_types, "name", types) if types else {}
    return [Owner(project_ids[item[0]], user_ids[item[1]], type_ids.get(item[2])) for item in named]
