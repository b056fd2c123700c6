# SPDX-License-Identifier: Apache-2.0
"""Resource providers over HTTP."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from osc_placement import codes, microversion
from osc_placement.candidates import query
from osc_placement.candidates.match import select
from osc_placement.candidates.snapshot import Snapshot
from osc_placement.model import PARTS, Part, canonical_uuid
from osc_placement.server import errors, policies
from osc_placement.server.api.handlers import provider_body
from osc_placement.server.api.http import Request, no_content, reply, reply_bytes, stream
from osc_placement.server.db import provider as db
from osc_placement.server.errors import Answer, answering

#: the parts of a provider that the bulk read returns, and the policy rule of the request for each
_PART_RULES: Mapping[Part, str] = {
    "inventories": policies.INVENTORY_LIST,
    "usages": policies.PROVIDER_USAGES,
    "traits": policies.PROVIDER_TRAIT_LIST,
    "aggregates": policies.AGGREGATE_LIST,
}


@dataclass(frozen=True, slots=True)
class _Filters:
    """The conditions of a list of providers, all of which a provider has to satisfy."""

    name: str | None
    uuid: str
    in_tree: str
    membership: query.Membership
    traits: query.Traits
    resources: Mapping[str, int]


def _serialize(request: Request, provider: db.Provider) -> dict[str, Any]:
    data: dict[str, Any] = {
        "uuid": provider.uuid,
        "name": provider.name,
        "generation": provider.generation,
        "links": provider_body.link(request.link("resource_providers"), provider.uuid, request.version),
    }
    if request.version >= microversion.NESTED_PROVIDERS:
        data["parent_provider_uuid"] = provider.parent_provider_uuid
        data["root_provider_uuid"] = provider.root_provider_uuid
    return data


def list_providers(request: Request, parameters: Mapping[str, str]) -> Any:
    """GET /resource_providers: those that pass all filters."""
    view, slots = _find(request, _parse_filters(request, parameters))
    base = request.link("resource_providers")
    pieces, length = provider_body.render_list(view, slots, request.version, base)
    return stream(request, pieces, length=length, modified=view.last_modified(slots))


def read_providers(request: Request, parameters: Mapping[str, str]) -> Any:
    """GET /-/providers: those that pass the filters of a list, with what is wanted of all they hold."""
    filters = _parse_filters(request, parameters)
    text = parameters.get("want")
    wanted = set(PARTS) if text is None else {item for item in text.split(",") if item}
    if unknown := sorted(wanted.difference(PARTS)):
        raise errors.HTTPError(400, f"'want' knows {', '.join(PARTS)}, and not: {', '.join(unknown)}")
    parts = tuple(part for part in PARTS if part in wanted)
    for part in parts:
        request.authorize(_PART_RULES[part])
    view, slots = _find(request, filters)
    return stream(request, provider_body.render_records(view, slots, parts))


def _find(request: Request, filters: _Filters) -> tuple[Snapshot, Sequence[int]]:
    """Return the snapshot, and the slots of the providers in it that pass the filters."""
    unknown = (
        Answer(errors.ResourceClassNotFound, 400, "Invalid resource class in resources parameter: {error}"),
        Answer(errors.TraitNotFound, 400, 'Invalid trait(s) in "required" parameter: {error}'),
    )
    may_know = (filters.uuid or filters.in_tree) and not filters.name
    loaded = request.current.get_if_cheap() if may_know else None
    named = None if loaded is None else _find_slots(loaded.snapshot, filters)
    ids = None
    if named is None:
        if filters.name or filters.uuid or filters.in_tree:
            # the database decides which names or UUIDs are equal; in MariaDB, "Blue" equals "blue"
            ids = request.search(
                db.find_ids, set(), name=filters.name, uuid=filters.uuid, in_tree=filters.in_tree
            )
            if not ids and not filters.traits.names and not filters.resources:
                # PERF: a worker that has just started need not load the snapshot for this
                return Snapshot(()), ()
        loaded = request.current.get()
    assert loaded is not None, "slots are those of a snapshot"
    with answering(*unknown):
        loaded.check_names(filters.traits.names, filters.resources)
    view = loaded.snapshot
    slots = select(view, membership=filters.membership, traits=filters.traits, resources=filters.resources)
    if named is not None:
        return view, sorted(named if len(slots) == len(view.nodes) else named.intersection(slots))
    if ids is not None:
        slots = [slot for slot in slots if view.nodes[slot].id in ids]
    return view, slots


def _find_slots(view: Snapshot, filters: _Filters) -> set[int] | None:
    """Return the slots of the provider with the UUID, or in the tree, that is asked for.

    None means that nothing like that is asked for, or that the snapshot has no provider with the UUID.
    """
    found: list[set[int]] = []
    for wanted, is_tree in ((filters.uuid, False), (filters.in_tree, True)):
        if wanted:
            slot = view.slot_by_uuid.get(wanted)
            if slot is None:
                return None
            found.append(set(view.slots_of_tree(view.root_of[slot])) if is_tree else {slot})
    return set.intersection(*found) if found else None


def _parse_filters(request: Request, parameters: Mapping[str, str]) -> _Filters:
    resources = parameters.get("resources")
    try:
        return _Filters(
            name=parameters.get("name"),
            uuid=canonical_uuid(parameters.get("uuid", "")),
            in_tree=canonical_uuid(parameters.get("in_tree", "")),
            membership=query.parse_membership(request.values("member_of"), request.version),
            traits=query.parse_traits(request.values("required"), request.version),
            resources={} if resources is None else query.parse_resources(resources),
        )
    except query.BadQuery as error:
        raise errors.HTTPError(400, str(error)) from error


#: the answers to errors of the creation of a provider, which need its ``name`` and ``uuid``
CREATE_ANSWERS = (
    Answer(errors.TreeRefused, 400, 'Unable to create resource provider "{name}", {uuid}: {error}'),
)


def read_new(data: dict[str, Any], new_uuid: str) -> db.New:
    """Return the provider that a valid body describes; :raises errors.TreeRefused: its name is empty."""
    if not data["name"]:
        raise errors.TreeRefused("create", "name is required")
    return db.New(new_uuid, data["name"], _with_canonical_parent(data).get("parent_provider_uuid"))


def create_provider(request: Request, data: Any) -> Any:
    """POST /resource_providers: with the UUID given, or a new one."""
    new_uuid = canonical_uuid(data.get("uuid") or str(uuid.uuid4()))
    with answering(*CREATE_ANSWERS, name=data["name"], uuid=new_uuid):
        provider = request.database.write(db.create, read_new(data, new_uuid))
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
    if (known := request.find_known()) is not None:
        loaded, node = known
        view, base = loaded.snapshot, request.link("resource_providers")
        body = provider_body.render_one(view, view.slot_by_uuid[node.uuid], request.version, base)
        return reply_bytes(request, body, modified=node.modified)
    provider = request.database.read(db.load, request.path["uuid"])
    return reply(request, _serialize(request, provider), modified=provider.modified)


@contextlib.contextmanager
def after_provider(request: Request) -> Iterator[None]:
    """Tell that the provider in the path is missing, before what is wrong with the body."""
    try:
        yield
    except errors.HTTPError:
        request.database.read(db.load, request.path["uuid"])
        raise


def update_provider(request: Request, data: Any) -> Any:
    """PUT /resource_providers/{uuid}: rename it, and from 1.14 give it a place in a tree."""
    subject = request.path["uuid"]
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
