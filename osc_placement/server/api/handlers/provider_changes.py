# SPDX-License-Identifier: Apache-2.0
"""Changes of many providers over HTTP, each like a POST and PUTs of its own, or all or none of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from osc_placement.model import canonical_uuid
from osc_placement.server import errors, policies
from osc_placement.server.api import schemas
from osc_placement.server.api.handlers import aggregate, inventory, resource_provider, trait
from osc_placement.server.api.http import Request, check, describe_error, reply
from osc_placement.server.db import provider_changes as db
from osc_placement.server.errors import Answer, answering


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a change: its policy rule, its schema, and the answers to its errors.

    :ivar more: the other members of a change that the schema describes
    """

    rule: str
    schema: schemas.Schema
    answers: tuple[Answer, ...]
    more: tuple[str, ...] = ("resource_provider_generation",)


_PARTS: Final[Mapping[str, _Part]] = {
    "name": _Part(
        policies.PROVIDER_CREATE,
        schemas.POST_PROVIDER_1_14,
        resource_provider.CREATE_ANSWERS,
        more=("uuid", "parent_provider_uuid"),
    ),
    "inventories": _Part(policies.INVENTORY_UPDATE, schemas.PUT_INVENTORIES, inventory.SET_ANSWERS),
    "traits": _Part(policies.PROVIDER_TRAIT_UPDATE, schemas.PUT_TRAITS, trait.SET_ANSWERS),
    "aggregates": _Part(policies.AGGREGATE_UPDATE, schemas.PUT_AGGREGATES_1_19, aggregate.SET_ANSWERS),
}


def authorize_any(request: Request) -> None:
    """Tell a caller that may change no part nothing about the body; :raises errors.Forbidden:."""
    for part in _PARTS.values():
        try:
            request.authorize(part.rule)
            return
        except errors.Forbidden as error:
            refusal = error
    raise refusal


def change_providers(request: Request, body: Any) -> Any:
    """POST /-/providers: create many, or replace what they have, each whole or all or none."""
    changes, atomic = body["changes"], body.get("atomic", False)
    for name, part in _PARTS.items():
        if any(name in change for change in changes):
            request.authorize(part.rule)
    by_uuid = {canonical_uuid(change["uuid"]): change for change in changes}
    if len(by_uuid) < len(changes):
        raise errors.HTTPError(400, "No resource provider may have more than one change.")
    if len(changes) > schemas.MOST_CHANGES and not atomic:
        raise errors.HTTPError(
            400, f"At most {schemas.MOST_CHANGES} resource providers can be changed unless atomic is true."
        )
    for change in changes:
        if ("name" in change) is not (change["resource_provider_generation"] is None):
            raise errors.HTTPError(
                400,
                "A change with a name creates a resource provider, and its resource_provider_generation must "
                "be null; any other change must have neither.",
            )
        if "parent_provider_uuid" in change and "name" not in change:
            raise errors.HTTPError(
                400, "A change can have a parent_provider_uuid only if it creates a resource provider."
            )
    wanted: list[db.Wanted] = []
    verdicts: db.Verdicts = {}
    for uuid, change in by_uuid.items():
        try:
            wanted.append(_read(uuid, change))
        except errors.PlacementError as error:
            verdicts[uuid] = error
    # what no schema allows needs no transaction to be refused
    if wanted and not (atomic and verdicts):
        try:
            verdicts |= db.change_many(
                request.database,
                wanted,
                may_reserve_all=inventory.may_reserve_all(request),
                atomic=atomic,
            )
        except db.Refused as error:
            verdicts = error.verdicts
    if atomic and any(not isinstance(verdict, int) for verdict in verdicts.values()):
        return _refuse(request, by_uuid, verdicts)
    return reply(
        request, {"results": [_tell(request, uuid, by_uuid[uuid], verdicts[uuid]) for uuid in by_uuid]}
    )


def _read(uuid: str, change: Mapping[str, Any]) -> db.Wanted:
    """Return what a change wants; :raises errors.PlacementError: the POST or PUT of a part would be refused.

    A part of a provider that is created is checked as that of one at generation 0.
    """
    generation = change["resource_provider_generation"]
    document = {**change, "resource_provider_generation": generation or 0}
    for name, part in _PARTS.items():
        if name in change:
            check({each: document[each] for each in (name, *part.more) if each in document}, part.schema)
    inventories = change.get("inventories")
    return db.Wanted(
        uuid,
        generation,
        None if inventories is None else inventory.read_inventories(inventories),
        change.get("traits"),
        change.get("aggregates"),
        resource_provider.read_new(document, uuid) if "name" in change else None,
    )


def _refuse(request: Request, by_uuid: Mapping[str, Mapping[str, Any]], verdicts: db.Verdicts) -> Any:
    """Answer atomic changes of which some cannot be made; the errors have the UUIDs of their providers.

    The status is 409 whatever they are, so that no 404 is taken for that of a server without the route.
    Errors that a client can mend by reading again come last, as such a client looks at the first.
    """
    refused = [uuid for uuid in by_uuid if uuid in verdicts]
    told = sorted(refused, key=lambda uuid: isinstance(verdicts[uuid], errors.ConcurrentUpdate))
    found = [_tell(request, uuid, by_uuid[uuid], verdicts[uuid]) for uuid in told[: db.MOST_TOLD]]
    documents = [{"uuid": each["uuid"], **each["errors"][0]} for each in found]
    return reply(request, {"errors": documents, "refused": len(refused)}, status=409)


def _tell(
    request: Request, uuid: str, change: Mapping[str, Any], verdict: int | errors.PlacementError
) -> dict[str, Any]:
    """Return the result of a change: the new generation, or the error that the PUT would have."""
    if isinstance(verdict, int):
        return {"uuid": change["uuid"], "resource_provider_generation": verdict}
    answers = [answer for name, part in _PARTS.items() if name in change for answer in part.answers]
    try:
        with answering(*answers, uuid=uuid, name=change.get("name")):
            raise verdict
    except errors.PlacementError as error:
        if error.status == 409:
            request.service.metrics.conflicted(error.code)
        return {"uuid": change["uuid"], **describe_error(request, error)}
