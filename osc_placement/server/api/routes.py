# SPDX-License-Identifier: Apache-2.0
"""The url table: path, method, handler, rule, microversions, schemas. No other place lists the API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Final

import webob

from osc_placement import microversion
from osc_placement.microversion import Version
from osc_placement.model import canonical_uuid
from osc_placement.server import errors, policies
from osc_placement.server.api import schemas
from osc_placement.server.api.handlers import (
    aggregate,
    allocation,
    allocation_candidate,
    inventory,
    provider_changes,
    reshaper,
    resource_class,
    resource_provider,
    service,
    trait,
    usage,
)
from osc_placement.server.api.http import Request, require_json, require_json_accepted

Handler = Callable[..., Any]
#: the beginning of the paths of our own routes; those of the reference never begin like this
OWN: Final = "/-/"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A handler with the requirements on requests for it; it gets what was read of the body or the query."""

    handler: Handler
    #: what the caller must be allowed to do; none where the handler asks for what depends on the request
    rules: tuple[str, ...] = ()
    since: Version = microversion.MIN
    #: the status of answers to older microversions
    below: int = 404
    #: the schemas of the JSON body by first microversion, the oldest first; None of versions without a body
    body: schemas.Schemas = field(default_factory=dict)
    #: the schemas of the query string, likewise
    query: schemas.Schemas = field(default_factory=dict)
    #: whether a missing provider in the path is told before an invalid body
    of_provider: bool = False
    #: returns what a rule compares with the caller
    target: Callable[[Request], Mapping[str, object]] | None = None
    #: what is asked of the caller or the path before the body or the query is read
    before: Callable[[Request], None] | None = None
    #: whether the client has to accept JSON
    gives_json: bool = False
    #: whether the handler reads the database, so that the standard names have to be in it before
    needs_database: bool = True
    #: whether requests need no token
    is_public: bool = False
    #: the path of the endpoint in the table
    path: str = ""

    def require_media_types(self, web: webob.Request, version: Version) -> None:
        """Check the type of the body and what the client accepts; :raises errors.HTTPError: 415 or 406."""
        if self.body and _pick(self.body, version) is not None:
            require_json(web)
        if self.gives_json:
            require_json_accepted(web)

    def answer(self, request: Request) -> Any:
        """Authorize the request, read its body or query, and call the handler."""
        for rule in self.rules:
            request.authorize(rule, self.target and self.target(request))
        if self.before is not None:
            self.before(request)
        if self.query and (schema := _pick(self.query, request.version)) is not None:
            return self.handler(request, request.query(schema))
        if self.body and (schema := _pick(self.body, request.version)) is not None:
            with resource_provider.after_provider(request) if self.of_provider else nullcontext():
                data = request.json(schema)
            return self.handler(request, data)
        return self.handler(request)


def _pick(by_version: schemas.Schemas, version: Version) -> schemas.Schema | None:
    """Return the schema for a microversion."""
    for since in reversed(by_version):
        if version >= since:
            return by_version[since]
    return None


def _get(handler: Handler, *rules: str, since: Version = microversion.MIN, **more: Any) -> Endpoint:
    return Endpoint(handler, rules, since, gives_json=True, **more)


def _search(handler: Handler, rules: tuple[str, ...], query: schemas.Schemas, **more: Any) -> Endpoint:
    return _get(handler, *rules, since=next(iter(query)), query=query, **more)


def _send(handler: Handler, rule: str, body: schemas.Schemas, **more: Any) -> Endpoint:
    return Endpoint(handler, (rule,), next(iter(body)), body=body, **more)


def _probe(handler: Handler) -> Endpoint:
    return Endpoint(handler, needs_database=False, is_public=True)


_TABLE: Mapping[str, Mapping[str, Endpoint]] = {
    "/": {"GET": _probe(service.show_versions)},
    "/resource_classes": {
        "GET": _get(
            resource_class.list_resource_classes,
            policies.RESOURCE_CLASS_LIST,
            since=microversion.RESOURCE_CLASSES,
        ),
        "POST": _send(
            resource_class.create_resource_class,
            policies.RESOURCE_CLASS_CREATE,
            {microversion.RESOURCE_CLASSES: schemas.CUSTOM_CLASS},
        ),
    },
    "/resource_classes/{name}": {
        "GET": _get(
            resource_class.show_resource_class,
            policies.RESOURCE_CLASS_SHOW,
            since=microversion.RESOURCE_CLASSES,
        ),
        "PUT": _send(
            resource_class.update_resource_class,
            policies.RESOURCE_CLASS_UPDATE,
            {
                microversion.RESOURCE_CLASSES: schemas.CUSTOM_CLASS,
                microversion.PUT_RESOURCE_CLASS_WITHOUT_BODY: None,
            },
        ),
        "DELETE": Endpoint(
            resource_class.delete_resource_class,
            (policies.RESOURCE_CLASS_DELETE,),
            microversion.RESOURCE_CLASSES,
        ),
    },
    "/resource_providers": {
        "GET": _search(resource_provider.list_providers, (policies.PROVIDER_LIST,), schemas.LIST_PROVIDERS),
        "POST": _send(resource_provider.create_provider, policies.PROVIDER_CREATE, schemas.POST_PROVIDER),
    },
    "/resource_providers/{uuid}": {
        "GET": _get(resource_provider.show_provider, policies.PROVIDER_SHOW),
        "DELETE": Endpoint(resource_provider.delete_provider, (policies.PROVIDER_DELETE,)),
        "PUT": _send(
            resource_provider.update_provider,
            policies.PROVIDER_UPDATE,
            schemas.PUT_PROVIDER,
            of_provider=True,
        ),
    },
    "/resource_providers/{uuid}/inventories": {
        "GET": _get(inventory.list_inventories, policies.INVENTORY_LIST),
        "POST": _send(
            inventory.create_inventory,
            policies.INVENTORY_CREATE,
            {microversion.MIN: schemas.POST_INVENTORY},
            of_provider=True,
        ),
        "PUT": _send(
            inventory.set_inventories,
            policies.INVENTORY_UPDATE,
            {microversion.MIN: schemas.PUT_INVENTORIES},
            of_provider=True,
        ),
        "DELETE": Endpoint(
            inventory.delete_inventories,
            (policies.INVENTORY_DELETE,),
            microversion.DELETE_INVENTORIES,
            below=405,
        ),
    },
    "/resource_providers/{uuid}/inventories/{resource_class}": {
        "GET": _get(inventory.show_inventory, policies.INVENTORY_SHOW),
        "PUT": _send(
            inventory.update_inventory,
            policies.INVENTORY_UPDATE,
            {microversion.MIN: schemas.PUT_INVENTORY},
            of_provider=True,
        ),
        "DELETE": Endpoint(inventory.delete_inventory, (policies.INVENTORY_DELETE,)),
    },
    "/resource_providers/{uuid}/usages": {"GET": _get(usage.show_provider_usages, policies.PROVIDER_USAGES)},
    "/resource_providers/{uuid}/aggregates": {
        "GET": _get(
            aggregate.list_aggregates, policies.AGGREGATE_LIST, since=microversion.PROVIDER_AGGREGATES
        ),
        "PUT": _send(
            aggregate.set_aggregates, policies.AGGREGATE_UPDATE, schemas.PUT_AGGREGATES, of_provider=True
        ),
    },
    "/resource_providers/{uuid}/allocations": {
        "GET": _get(allocation.list_provider_allocations, policies.PROVIDER_ALLOCATION_LIST)
    },
    "/resource_providers/{uuid}/traits": {
        "GET": _get(trait.list_provider_traits, policies.PROVIDER_TRAIT_LIST, since=microversion.TRAITS),
        "PUT": _send(
            trait.set_provider_traits,
            policies.PROVIDER_TRAIT_UPDATE,
            {microversion.TRAITS: schemas.PUT_TRAITS},
        ),
        "DELETE": Endpoint(
            trait.delete_provider_traits, (policies.PROVIDER_TRAIT_DELETE,), microversion.TRAITS
        ),
    },
    "/allocations": {
        "POST": _send(allocation.set_many_allocations, policies.ALLOCATION_MANAGE, schemas.POST_ALLOCATIONS)
    },
    "/allocations/{consumer_uuid}": {
        "GET": _get(allocation.list_consumer_allocations, policies.ALLOCATION_LIST),
        "PUT": _send(
            allocation.set_allocations,
            policies.ALLOCATION_UPDATE,
            schemas.PUT_ALLOCATIONS,
            before=allocation.check_consumer,
        ),
        "DELETE": Endpoint(allocation.delete_allocations, (policies.ALLOCATION_DELETE,)),
    },
    "/allocation_candidates": {
        "GET": _search(
            allocation_candidate.list_candidates, (policies.CANDIDATE_LIST,), schemas.LIST_CANDIDATES
        )
    },
    "/-/allocations": {
        "GET": _get(allocation.read_allocations, policies.ALLOCATION_LIST, policies.PROVIDER_ALLOCATION_LIST)
    },
    "/-/providers": {
        "GET": _search(
            resource_provider.read_providers,
            (policies.PROVIDER_LIST,),
            {microversion.MIN: schemas.READ_PROVIDERS},
        ),
        # before this version, changes of aggregates have no generation and could not be refused
        "POST": Endpoint(
            provider_changes.change_providers,
            since=microversion.AGGREGATES_WITH_GENERATION,
            before=provider_changes.authorize_any,
            body={microversion.AGGREGATES_WITH_GENERATION: schemas.CHANGE_PROVIDERS},
            gives_json=True,
        ),
    },
    "/-/healthz": {"GET": _probe(service.show_life)},
    "/-/readyz": {"GET": _probe(service.show_readiness)},
    "/-/metrics": {"GET": Endpoint(service.show_metrics, needs_database=False)},
    "/reshaper": {"POST": _send(reshaper.reshape, policies.RESHAPE, schemas.RESHAPE)},
    "/traits": {
        "GET": _search(trait.list_traits, (policies.TRAIT_LIST,), {microversion.TRAITS: schemas.LIST_TRAITS})
    },
    "/traits/{name}": {
        "GET": Endpoint(trait.show_trait, (policies.TRAIT_SHOW,), microversion.TRAITS),
        "PUT": Endpoint(trait.create_trait, (policies.TRAIT_UPDATE,), microversion.TRAITS),
        "DELETE": Endpoint(trait.delete_trait, (policies.TRAIT_DELETE,), microversion.TRAITS),
    },
    "/usages": {
        "GET": _search(
            usage.show_total_usages, (policies.TOTAL_USAGES,), schemas.LIST_USAGES, target=usage.find_target
        )
    },
}

ROUTES: Mapping[str, Mapping[str, Endpoint]] = {
    path: {method: replace(endpoint, path=path) for method, endpoint in methods.items()}
    for path, methods in _TABLE.items()
}

# the table by the number of segments of its paths, so that few paths are compared with a request
_BY_LENGTH: dict[int, list[tuple[tuple[str, ...], Mapping[str, Endpoint]]]] = {}
for _path, _methods in ROUTES.items():
    _segments = tuple(_path.strip("/").split("/"))
    _BY_LENGTH.setdefault(len(_segments), []).append((_segments, _methods))


def is_public(methods: Mapping[str, Endpoint]) -> bool:
    """Return whether a path needs no authentication."""
    return all(endpoint.is_public for endpoint in methods.values())


def find(path: str, method: str) -> tuple[Endpoint, dict[str, str]]:
    """Return the endpoint for a request, with the values of the parameters in its path.

    :raises errors.PathNotFound: there is no such path
    :raises errors.HTTPError: 405, with ``allow``, if the path does not have the method
    """
    segments = path[1:].split("/")
    for template, methods in _BY_LENGTH.get(len(segments), ()):
        parameters = {}
        for expected, actual in zip(template, segments, strict=True):
            if expected.startswith("{") and actual:
                name = expected[1:-1]
                parameters[name] = canonical_uuid(actual) if name.endswith("uuid") else actual
            elif expected != actual:
                break
        else:
            if method in methods:
                return methods[method], parameters
            allowed = {"allow": ", ".join(methods)}
            message = "The method specified is not allowed for this resource."
            raise errors.HTTPError(405, message, headers=allowed)
    raise errors.PathNotFound
