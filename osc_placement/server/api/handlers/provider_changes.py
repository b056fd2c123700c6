# SPDX-License-Identifier: Apache-2.0
"""Changes of many providers over HTTP, each like a PUT request with its own answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from osc_placement.model import canonical_uuid
from osc_placement.server import errors, policies
from osc_placement.server.api.handlers import aggregate, inventory, trait
from osc_placement.server.api.http import Request, Schema, check, describe_error, reply
from osc_placement.server.api.schemas import aggregate as aggregate_schemas
from osc_placement.server.api.schemas import inventory as inventory_schemas
from osc_placement.server.api.schemas import provider_changes as schemas
from osc_placement.server.api.schemas import trait as trait_schemas
from osc_placement.server.db import provider_changes as db
from osc_placement.server.errors import Answer, answering


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a change: its policy rule, its schema, and the answers to its errors."""

    rule: str
    schema: Schema
    answers: tuple[Answer, ...]


_PARTS: Final[Mapping[str, _Part]] = {
    "inventories": _Part(policies.INVENTORY_UPDATE, inventory_schemas.PUT_ALL, inventory.SET_ANSWERS),
    "traits": _Part(policies.PROVIDER_TRAIT_UPDATE, trait_schemas.PUT_OF_PROVIDER, trait.SET_ANSWERS),
    "aggregates": _Part(policies.AGGREGATE_UPDATE, aggregate_schemas.PUT_1_19, aggregate.SET_ANSWERS),
}


def change_providers(request: Request) -> Any:
    """POST /-/providers: replace inventories, traits or aggregates of many, each whole or not at all."""
    _authorize_any(request)
    changes = request.json(schemas.POST)["changes"]
    for name, part in _PARTS.items():
        if any(name in change for change in changes):
            request.authorize(part.rule)
    by_uuid = {canonical_uuid(change["uuid"]): change for change in changes}
    if len(by_uuid) < len(changes):
        raise errors.HTTPError(400, "No resource provider may have more than one change.")
    wanted: dict[str, db.Wanted] = {}
    verdicts: db.Verdicts = {}
    for uuid, change in by_uuid.items():
        try:
            wanted[uuid] = _read(uuid, change)
        except errors.HTTPError as error:
            verdicts[uuid] = error
    may_reserve_all = inventory.may_reserve_all(request)
    if wanted:
        verdicts |= request.database.write(db.apply, list(wanted.values()), may_reserve_all=may_reserve_all)
    return reply(
        request, {"results": [_tell(request, uuid, by_uuid[uuid], verdicts[uuid]) for uuid in by_uuid]}
    )


def _authorize_any(request: Request) -> None:
    """Raise Forbidden if the caller may not change any part; single parts are checked with the body.

    :raises errors.Forbidden: the caller may change nothing
    """
    for part in _PARTS.values():
        try:
            return request.authorize(part.rule)
        except errors.Forbidden as error:
            refusal = error
    raise refusal


def _read(uuid: str, change: Mapping[str, Any]) -> db.Wanted:
    """Return the change; :raises errors.HTTPError: 400 if a part of it could not be the body of a PUT."""
    generation = change["resource_provider_generation"]
    for name, part in _PARTS.items():
        if name in change:
            check({name: change[name], "resource_provider_generation": generation}, part.schema)
    inventories = change.get("inventories")
    return db.Wanted(
        uuid,
        generation,
        None if inventories is None else inventory.read_inventories(inventories),
        change.get("traits"),
        change.get("aggregates"),
    )


def _tell(
    request: Request, uuid: str, change: Mapping[str, Any], verdict: int | errors.PlacementError
) -> dict[str, Any]:
    if isinstance(verdict, int):
        return {"uuid": change["uuid"], "resource_provider_generation": verdict}
    answers = [answer for name, part in _PARTS.items() if name in change for answer in part.answers]
    try:
        with answering(*answers, uuid=uuid):
            raise verdict
    except errors.PlacementError as error:
        if error.status == 409:
            request.service.metrics.conflicted(error.code)
        return {"uuid": change["uuid"], **describe_error(request, error)}
