# SPDX-License-Identifier: Apache-2.0
"""Allocations over HTTP: of a consumer, of several consumers at once, and on a provider."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, Final

from osc_placement import codes, microversion
from osc_placement.model import UNKNOWN_TYPE, canonical_uuid, is_uuid
from osc_placement.server import errors
from osc_placement.server.api.http import Request, find_latest, no_content, reply, stream
from osc_placement.server.db import allocation as db
from osc_placement.server.db.consumer import Owner
from osc_placement.server.errors import Answer, answering

#: number of consumers that the bulk read encodes at a time
_PIECE: Final = 500
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
    held = request.search(db.load_of_consumer, [], request.path["consumer_uuid"])
    by_provider: dict[str, Any] = {}
    for item in held:
        of_provider = by_provider.setdefault(item.provider_uuid, {"resources": {}})
        of_provider["resources"][item.resource_class] = item.used
        of_provider["generation"] = item.provider_generation
    body: dict[str, Any] = {"allocations": by_provider}
    if held and request.version >= microversion.ALLOCATIONS_BY_PROVIDER:
        body |= {"project_id": held[0].project_id, "user_id": held[0].user_id}
        if request.version >= microversion.CONSUMER_GENERATIONS:
            body["consumer_generation"] = held[0].consumer_generation
        if request.version >= microversion.CONSUMER_TYPES:
            body["consumer_type"] = held[0].consumer_type or UNKNOWN_TYPE
    return reply(request, body, modified=find_latest(item.modified for item in held))


def list_provider_allocations(request: Request) -> Any:
    """GET /resource_providers/{uuid}/allocations: what is held of it, by consumer."""
    subject = request.path["uuid"]
    missing = Answer(errors.ProviderNotFound, 404, "Resource provider '{uuid}' not found: {error}")
    with answering(missing, uuid=subject):
        generation, held = request.database.read(db.load_of_provider, subject)
    by_consumer: dict[str, Any] = {}
    for item in held:
        of_consumer = by_consumer.setdefault(item.consumer_uuid, {"resources": {}})
        of_consumer["resources"][item.resource_class] = item.used
        if request.version >= microversion.CONSUMER_GENERATIONS:
            of_consumer["consumer_generation"] = item.consumer_generation
    body = {"allocations": by_consumer, "resource_provider_generation": generation}
    return reply(request, body, modified=find_latest(item.modified for item in held))


def read_allocations(request: Request) -> Any:
    """GET /-/allocations: what every consumer holds, and whose it is."""
    return stream(request, _render_consumers(request.database.read(db.load_all)))


def _render_consumers(rows: Sequence[Any]) -> Iterator[bytes]:
    """Yield the body of the bulk read in pieces, with a line for each consumer."""
    texts = (_render_consumer(facts, held) for facts, held in groupby(rows, key=itemgetter(0, 1, 2, 3, 4)))
    yield b'{"consumers": ['
    separator = "\n"
    while piece := ",\n".join(islice(texts, _PIECE)):
        yield f"{separator}{piece}".encode()
        separator = ",\n"
    yield b"\n]}\n"


def _render_consumer(facts: tuple[Any, ...], rows: Iterable[Any]) -> str:
    uuid, generation, project_id, user_id, consumer_type = facts
    by_provider: dict[str, dict[str, dict[str, int]]] = {}
    for *_facts, provider, resource_class, used in rows:
        by_provider.setdefault(provider, {"resources": {}})["resources"][resource_class] = used
    document = {
        "uuid": uuid,
        "consumer_generation": generation,
        "project_id": project_id,
        "user_id": user_id,
        "consumer_type": consumer_type or UNKNOWN_TYPE,
        "allocations": by_provider,
    }
    return json.dumps(document)


def check_consumer(request: Request) -> None:
    """Check the path of a consumer that gets allocations; :raises errors.HTTPError: 400, it has no UUID."""
    consumer_uuid = request.path["consumer_uuid"]
    if not is_uuid(consumer_uuid):
        raise errors.HTTPError(400, f"Malformed consumer_uuid: {consumer_uuid}")


def set_allocations(request: Request, data: Any) -> Any:
    """PUT /allocations/{consumer_uuid}: these and no others."""
    consumer_uuid = request.path["consumer_uuid"]
    missing = Answer(errors.NotFound, 400, "Unable to allocate inventory for consumer {consumer}: {error}")
    answers = (PROVIDER_MISSING, missing, UNFIT, CONSUMER_CHANGED, _CHANGED)
    with answering(*answers, consumer=consumer_uuid):
        request.service.claims.replace(read_claims(request, {consumer_uuid: data}))
    return no_content(request)


def set_many_allocations(request: Request, data: Any) -> Any:
    """POST /allocations: for several consumers at once, all or nothing."""
    missing = Answer(errors.NotFound, 400, "Unable to allocate inventory {error}")
    with answering(PROVIDER_MISSING, missing, UNFIT, CONSUMER_CHANGED, _CHANGED):
        request.service.claims.replace(read_claims(request, data))
    return no_content(request)


def delete_allocations(request: Request) -> Any:
    """DELETE /allocations/{consumer_uuid}: all it holds."""
    with answering(Answer(errors.AllocationsNotFound, 404, "{error}")):
        request.database.write(db.delete, request.path["consumer_uuid"])
    return no_content(request)


def read_claims(request: Request, by_consumer: Mapping[str, Any]) -> list[db.Claim]:
    """Return the claims in the validated body of a request.

    Clients older than 1.8 may name no owner; then it is the configured one.
    """
    default = request.service.conf.placement
    claims = []
    for consumer_uuid, data in by_canonical_uuid(by_consumer).items():
        allocations = data["allocations"]
        if isinstance(allocations, list):
            # before 1.12
            pairs = [(canonical_uuid(item["resource_provider"]["uuid"]), item) for item in allocations]
        else:
            pairs = list(by_canonical_uuid(allocations).items())
        owner = Owner(
            data.get("project_id") or default.incomplete_consumer_project_id,
            data.get("user_id") or default.incomplete_consumer_user_id,
            data.get("consumer_type"),
        )
        claims.append(
            db.Claim(
                consumer_uuid=consumer_uuid,
                owner=owner,
                resources={uuid: item["resources"] for uuid, item in pairs},
                generation=data.get("consumer_generation"),
                checked=request.version >= microversion.CONSUMER_GENERATIONS,
            )
        )
    return claims


def by_canonical_uuid(items: Mapping[str, Any]) -> dict[str, Any]:
    """Return the items with UUIDs in canonical form; raise if a UUID occurs twice."""
    canonical = {canonical_uuid(uuid): item for uuid, item in items.items()}
    if len(canonical) < len(items):
        raise errors.HTTPError(400, "JSON does not validate: a UUID appears more than once, in two spellings")
    return canonical
