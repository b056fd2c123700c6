# SPDX-License-Identifier: Apache-2.0
"""The url table: path, method, handler, first microversion. No other place lists the API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from osc_placement import microversion
from osc_placement.microversion import Version
from osc_placement.model import canonical_uuid
from osc_placement.server import errors
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
from osc_placement.server.api.http import Request

Handler = Callable[[Request], Any]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A handler with the requirements on requests for it."""

    handler: Handler
    since: Version = microversion.MIN
    #: the status of answers to older microversions
    below: int = 404
    #: whether the request body has to be declared as JSON
    takes_json: bool = False
    #: whether the client has to accept JSON
    gives_json: bool = False
    #: whether the handler reads the database, so that the standard names have to be in it before
    needs_database: bool = True
    #: whether requests need no token
    is_public: bool = False
    #: the path of the endpoint in the table
    path: str = ""


def _get(handler: Handler, since: Version = microversion.MIN) -> Endpoint:
    return Endpoint(handler, since, gives_json=True)


def _send(handler: Handler, since: Version = microversion.MIN) -> Endpoint:
    return Endpoint(handler, since, takes_json=True)


def _probe(handler: Handler) -> Endpoint:
    return Endpoint(handler, needs_database=False, is_public=True)


_TABLE: Mapping[str, Mapping[str, Endpoint]] = {
    "/": {"GET": _probe(service.show_versions)},
    "/resource_classes": {
        "GET": _get(resource_class.list_resource_classes, microversion.RESOURCE_CLASSES),
        "POST": _send(resource_class.create_resource_class, microversion.RESOURCE_CLASSES),
    },
    "/resource_classes/{name}": {
        "GET": _get(resource_class.show_resource_class, microversion.RESOURCE_CLASSES),
        "PUT": Endpoint(resource_class.update_resource_class, microversion.RESOURCE_CLASSES),
        "DELETE": Endpoint(resource_class.delete_resource_class, microversion.RESOURCE_CLASSES),
    },
    "/resource_providers": {
        "GET": _get(resource_provider.list_providers),
        "POST": _send(resource_provider.create_provider),
    },
    "/resource_providers/{uuid}": {
        "GET": _get(resource_provider.show_provider),
        "DELETE": Endpoint(resource_provider.delete_provider),
        "PUT": _send(resource_provider.update_provider),
    },
    "/resource_providers/{uuid}/inventories": {
        "GET": _get(inventory.list_inventories),
        "POST": _send(inventory.create_inventory),
        "PUT": _send(inventory.set_inventories),
        "DELETE": Endpoint(inventory.delete_inventories, microversion.DELETE_INVENTORIES, below=405),
    },
    "/resource_providers/{uuid}/inventories/{resource_class}": {
        "GET": _get(inventory.show_inventory),
        "PUT": _send(inventory.update_inventory),
        "DELETE": Endpoint(inventory.delete_inventory),
    },
    "/resource_providers/{uuid}/usages": {"GET": _get(usage.show_provider_usages)},
    "/resource_providers/{uuid}/aggregates": {
        "GET": _get(aggregate.list_aggregates, microversion.PROVIDER_AGGREGATES),
        "PUT": _send(aggregate.set_aggregates, microversion.PROVIDER_AGGREGATES),
    },
    "/resource_providers/{uuid}/allocations": {"GET": _get(allocation.list_provider_allocations)},
    "/resource_providers/{uuid}/traits": {
        "GET": _get(trait.list_provider_traits, microversion.TRAITS),
        "PUT": _send(trait.set_provider_traits, microversion.TRAITS),
        "DELETE": Endpoint(trait.delete_provider_traits, microversion.TRAITS),
    },
    "/allocations": {"POST": _send(allocation.set_many_allocations, microversion.POST_ALLOCATIONS)},
    "/allocations/{consumer_uuid}": {
        "GET": _get(allocation.list_consumer_allocations),
        "PUT": _send(allocation.set_allocations),
        "DELETE": Endpoint(allocation.delete_allocations),
    },
    "/allocation_candidates": {
        "GET": _get(allocation_candidate.list_candidates, microversion.ALLOCATION_CANDIDATES),
    },
    # our own routes; paths of the reference never begin like this
    "/-/allocations": {"GET": _get(allocation.read_allocations)},
    "/-/providers": {
        "GET": _get(resource_provider.read_providers),
        # before this version, changes of aggregates have no generation and could not be refused
        "POST": Endpoint(
            provider_changes.change_providers,
            microversion.AGGREGATES_WITH_GENERATION,
            takes_json=True,
            gives_json=True,
        ),
    },
    "/-/healthz": {"GET": _probe(service.show_life)},
    "/-/readyz": {"GET": _probe(service.show_readiness)},
    "/-/metrics": {"GET": Endpoint(service.show_metrics, needs_database=False)},
    "/reshaper": {"POST": _send(reshaper.reshape, microversion.RESHAPER)},
    "/traits": {"GET": _get(trait.list_traits, microversion.TRAITS)},
    "/traits/{name}": {
        "GET": Endpoint(trait.show_trait, microversion.TRAITS),
        "PUT": Endpoint(trait.create_trait, microversion.TRAITS),
        "DELETE": Endpoint(trait.delete_trait, microversion.TRAITS),
    },
    "/usages": {"GET": _get(usage.show_total_usages, microversion.TOTAL_USAGES)},
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
