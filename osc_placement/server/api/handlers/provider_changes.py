# SPDX-License-Identifier: Apache-2.0
"""Changes of many providers over HTTP, each like a PUT with its own answer, or all or none of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from osc_placement.model import canonical_uuid
from osc_placement.server import errors, policies
from osc_placement.server.api import schemas
from osc_placement.server.api.handlers import aggregate, inventory, trait
from osc_placement.server.api.http import Request, check, describe_error, reply
from osc_placement.server.db import provider_changes as db
from osc_placement.server.errors import Answer, answering


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a change: its policy rule, its schema, and the answers to its errors."""

    rule: str
    schema: schemas.Schema
    answers: tuple[Answer, ...]


_PARTS: Final[Mapping[str, _Part]] = {
    "inventories": _Part(policies.INVENTORY_UPDATE, schemas.PUT_INVENTORIES, inventory.SET_ANSWERS),
    "traits": _Part(policies.PROVIDER_TRAIT_UPDATE, schemas.PUT_TRAITS, trait.SET_ANSWERS),
    "aggregates": _Part(policies.AGGREGATE_UPDATE, schemas.PUT_AGGREGATES_1_19, aggregate.SET_ANSWERS),
}
#: the limit on the errors in the answer to atomic changes; the number of all is beside them
_MOST_ERRORS: Final = 10


def change_providers(request: Request) -> Any:
    """POST /-/providers: replace inventories, traits or aggregates of many, each whole or all or none."""
    # a caller that may change no part is told nothing about the body
    for part in _PARTS.values():
        try:
            request.authorize(part.rule)
            break
        except errors.Forbidden as error:
            refusal = error
    else:
        raise refusal
    body = request.json(schemas.CHANGE_PROVIDERS)
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
    wanted: list[db.Wanted] = []
    verdicts: db.Verdicts = {}
    for uuid, change in by_uuid.items():
        generation = change["resource_provider_generation"]
        inventories = change.get("inventories")
        try:
            for name, part in _PARTS.items():
                if name in change:
                    check({name: change[name], "resource_provider_generation": generation}, part.schema)
            if inventories is not None:
                inventories = inventory.read_inventories(inventories)
        except errors.HTTPError as error:
            verdicts[uuid] = error
            continue
        wanted.append(
            db.Wanted(uuid, generation, inventories, change.get("traits"), change.get("aggregates"))
        )
    # what no schema allows needs no transaction to be refused
    if wanted and not (atomic and verdicts):
        verdicts |= request.database.write(
            db.apply, wanted, may_reserve_all=inventory.may_reserve_all(request), atomic=atomic
        )
    if atomic and any(not isinstance(verdict, int) for verdict in verdicts.values()):
        return _refuse(request, by_uuid, verdicts)
    return reply(
        request, {"results": [_tell(request, uuid, by_uuid[uuid], verdicts[uuid]) for uuid in by_uuid]}
    )


def _refuse(request: Request, by_uuid: Mapping[str, Mapping[str, Any]], verdicts: db.Verdicts) -> Any:
    """Answer atomic changes of which some cannot be made; the errors have the UUIDs of their providers.

    The status is 409 whatever they are, so that no 404 is taken for that of a server without the route.
    Errors that a client can mend by reading again come last, as such a client looks at the first.
    """
    refused = [uuid for uuid in by_uuid if uuid in verdicts]
    told = sorted(refused, key=lambda uuid: isinstance(verdicts[uuid], errors.ConcurrentUpdate))
    found = [_tell(request, uuid, by_uuid[uuid], verdicts[uuid]) for uuid in told[:_MOST_ERRORS]]
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
        with answering(*answers, uuid=uuid):
            raise verdict
    except errors.PlacementError as error:
        if error.status == 409:
            request.service.metrics.conflicted(error.code)
        return {"uuid": change["uuid"], **describe_error(request, error)}
