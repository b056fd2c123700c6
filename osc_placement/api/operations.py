# SPDX-License-Identifier: Apache-2.0
"""The operations of placement's REST API: a method for each.

Only client.py imports it. No other module of the client's side knows URLs. Answers are returned as the API
gives them; a failure raises one of errors.py. The caller interprets an answer, and tries again after a
conflict.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from types import EllipsisType
from typing import Any, Final
from urllib.parse import quote

from osc_placement import microversion
from osc_placement.api.transport import (
    Answer,
    Document,
    Params,
    Response,
    Shape,
    Transport,
    check_texts,
    document,
    read_answer,
)
from osc_placement.errors import BadAnswer, BadRequest, UsageError
from osc_placement.microversion import Version

#: how operations are answered that succeed; anything else is no answer of placement's
_DONE: Final = Answer((204,))
_CREATED: Final = Answer((201,))
_ENSURED: Final = Answer((201, 204))
#: seconds to wait before each further attempt to use a class or trait that was just made
_PAUSES_FOR_NEW_NAMES: Final = (0.05, 0.1, 0.2, 0.4, 0.8)
_NO_SUCH_NAME: Final = re.compile(r"No such (?:resource class|trait)(?:\(s\))?:? (.+)")
PROVIDER_SHAPE: Final[Shape] = {"uuid": str, "name": str, "generation": int}
_PROVIDER: Final = document(PROVIDER_SHAPE)
_INVENTORIES: Final = document({"inventories": {...: {"total": int}}, "resource_provider_generation": int})
_INVENTORY: Final = document({"total": int})
_AGGREGATES: Final = document({"aggregates": [str]})
_TRAITS: Final = document({"traits": [str], "resource_provider_generation": int})
_CLASS: Final = document({"name": str})
_ALLOCATIONS: Final = document({"allocations": {...: {"resources": {...: int}}}})
_USAGES: Final = document({"usages": {...: int}})
#: from 1.38 on by consumer type
_TOTAL_USAGES: Final = document({"usages": dict})
_CANDIDATES: Final = document({"allocation_requests": [dict], "provider_summaries": {...: dict}})


class Operations(Transport):
    """A client with a method for each operation; any number of threads may use it at once."""

    def _call(
        self,
        method: str,
        path: str,
        answer: Answer,
        *,
        since: Version = microversion.MIN,
        version: Version | None = None,
        json: object = None,
        params: Params | None = None,
    ) -> Document:
        """Send one request and return its document; raise BadAnswer unless it is answered with ``answer``."""
        if version is None:
            self.require(since)
        response = self._send_until_known(method, path, json=json, params=params, version=version)
        found = read_answer(response, answer)
        self.writes += method != "GET"
        return found

    def _send_until_known(self, method: str, path: str, **options: Any) -> Response:
        """Send a request; repeat it for a moment while a class or trait that was just made is unknown.

        Other processes of openstack-placement may not see it yet. A 400 changed nothing, and a name that this
        client did not make is refused at once.
        """
        for pause in _PAUSES_FOR_NEW_NAMES:
            try:
                return self.request(method, path, **options)
            except BadRequest as refusal:
                unknown = _NO_SUCH_NAME.search(refusal.message)
                if not unknown or self.made.isdisjoint(re.findall(r"\w+", unknown[1])):
                    raise
            time.sleep(pause)
        return self.request(method, path, **options)

    def _list(self, path: str, key: str, item: Shape, **options: Any) -> list[Any]:
        values: list[Any] = self._call("GET", path, document({key: [item]}), **options)[key]
        return values

    def _ensure(self, collection: str, name: str, since: Version) -> bool:
        """Create a custom name unless it exists; return whether it was created.

        Of requests at the same time that create one name, one is answered 201, and the others 204.
        """
        self.require(since)
        response = self.request("PUT", _path(collection, name))
        read_answer(response, _ENSURED)
        self.writes += 1
        self.made.add(name)
        return response.status_code in _CREATED.statuses

    # resource providers

    def list_providers(
        self,
        *,
        name: str | None = None,
        uuid: str | None = None,
        member_of: Sequence[str] = (),
        resources: Mapping[str, int] | None = None,
        in_tree: str | None = None,
        required: Sequence[str] = (),
    ) -> list[Document]:
        """List the providers that meet all conditions; ``member_of`` and ``required`` as the API has them."""
        params = provider_filters(name, uuid, member_of, resources, in_tree, required)
        return self._list("/resource_providers", "resource_providers", PROVIDER_SHAPE, params=params)

    def show_provider(self, uuid: str) -> Document:
        """Return one provider."""
        return self._call("GET", _provider(uuid), _PROVIDER)

    def create_provider(self, name: str, *, uuid: str | None = None, parent: str | None = None) -> Document:
        """Create a provider and return it."""
        body = {"name": name}
        if uuid:
            body["uuid"] = uuid
        if parent:
            self.require(microversion.NESTED_PROVIDERS)
            body["parent_provider_uuid"] = parent
        response = self.request("POST", "/resource_providers", json=body)
        if self.version >= microversion.CREATED_PROVIDER_IN_BODY:
            created = read_answer(response, _PROVIDER)
            self.writes += 1
            return created
        read_answer(response, _CREATED)
        self.writes += 1
        created_uuid = response.headers.get("location", "").rsplit("/", 1)[-1]
        if not created_uuid:
            url = str(response.request.url)
            raise BadAnswer("POST", url, response.status_code, "no location of what was created")
        return self.show_provider(created_uuid)

    def update_provider(self, uuid: str, name: str, *, parent: str | EllipsisType | None = ...) -> Document:
        """Rename a provider and, if one is given, change its parent; None (from 1.37) makes it a root."""
        body: Document = {"name": name}
        if parent is not ...:
            self.require(microversion.NESTED_PROVIDERS)
            body["parent_provider_uuid"] = parent
        return self._call("PUT", _provider(uuid), _PROVIDER, json=body)

    def delete_provider(self, uuid: str) -> None:
        """Delete a provider."""
        self._call("DELETE", _provider(uuid), _DONE)

    # inventories

    def list_inventories(self, uuid: str) -> Document:
        """Return ``inventories`` by class, and ``resource_provider_generation``."""
        return self._call("GET", _provider(uuid, "inventories"), _INVENTORIES)

    def set_inventories(self, uuid: str, inventories: Mapping[str, Document], generation: int) -> Document:
        """Replace all inventories of a provider; return the same document."""
        body = {"inventories": inventories, "resource_provider_generation": generation}
        return self._call("PUT", _provider(uuid, "inventories"), _INVENTORIES, json=body)

    def show_inventory(self, uuid: str, resource_class: str) -> Document:
        """Return the fields of one inventory, with ``resource_provider_generation``."""
        return self._call("GET", _provider(uuid, "inventories", resource_class), _INVENTORY)

    def set_inventory(self, uuid: str, resource_class: str, fields: Document, generation: int) -> Document:
        """Replace one inventory; a field that is absent gets its default."""
        body = {**fields, "resource_provider_generation": generation}
        return self._call("PUT", _provider(uuid, "inventories", resource_class), _INVENTORY, json=body)

    def delete_inventory(self, uuid: str, resource_class: str) -> None:
        """Delete one inventory."""
        self._call("DELETE", _provider(uuid, "inventories", resource_class), _DONE)

    def delete_inventories(self, uuid: str) -> None:
        """Delete all inventories of a provider."""
        self._call("DELETE", _provider(uuid, "inventories"), _DONE, since=microversion.DELETE_INVENTORIES)

    # aggregates

    def list_provider_aggregates(self, uuid: str) -> Document:
        """Return ``aggregates``, and from 1.19 ``resource_provider_generation``."""
        path = _provider(uuid, "aggregates")
        return self._call("GET", path, _AGGREGATES, since=microversion.PROVIDER_AGGREGATES)

    def set_provider_aggregates(
        self, uuid: str, aggregates: Iterable[str], generation: int | None
    ) -> Document:
        """Replace the aggregates of a provider; the generation is needed from 1.19 on and unused before."""
        body: object = list(aggregates)
        if self.version >= microversion.AGGREGATES_WITH_GENERATION:
            body = {"aggregates": body, "resource_provider_generation": generation}
        path = _provider(uuid, "aggregates")
        return self._call("PUT", path, _AGGREGATES, since=microversion.PROVIDER_AGGREGATES, json=body)

    # traits

    def list_provider_traits(self, uuid: str) -> Document:
        """Return ``traits`` and ``resource_provider_generation``."""
        return self._call("GET", _provider(uuid, "traits"), _TRAITS, since=microversion.TRAITS)

    def set_provider_traits(self, uuid: str, traits: Iterable[str], generation: int) -> Document:
        """Replace the traits of a provider; return the same document."""
        body = {"traits": list(traits), "resource_provider_generation": generation}
        return self._call("PUT", _provider(uuid, "traits"), _TRAITS, since=microversion.TRAITS, json=body)

    def delete_provider_traits(self, uuid: str) -> None:
        """Take all traits from a provider."""
        self._call("DELETE", _provider(uuid, "traits"), _DONE, since=microversion.TRAITS)

    def list_traits(self, *, name: str | None = None, associated: bool | None = None) -> list[str]:
        """List names of traits; ``name`` as the API has it: ``startswith:CUSTOM`` or ``in:A,B``."""
        params = _given(name=name, associated=None if associated is None else str(associated))
        return self._list("/traits", "traits", str, since=microversion.TRAITS, params=params)

    def show_trait(self, name: str) -> None:
        """Raise NotFound unless the trait exists."""
        self._call("GET", _path("traits", name), _DONE, since=microversion.TRAITS)

    def create_trait(self, name: str) -> bool:
        """Create a custom trait unless it exists; return whether this request created it."""
        return self._ensure("traits", name, microversion.TRAITS)

    def delete_trait(self, name: str) -> None:
        """Delete a custom trait."""
        self._call("DELETE", _path("traits", name), _DONE, since=microversion.TRAITS)

    # resource classes

    def list_resource_classes(self) -> list[Document]:
        """List all classes; the name of each is in ``name``."""
        return self._list(
            "/resource_classes", "resource_classes", {"name": str}, since=microversion.RESOURCE_CLASSES
        )

    def show_resource_class(self, name: str) -> Document:
        """Return one class."""
        return self._call("GET", _path("resource_classes", name), _CLASS, since=microversion.RESOURCE_CLASSES)

    def create_resource_class(self, name: str) -> None:
        """Create a custom class; raise Conflict if it exists."""
        self._call(
            "POST", "/resource_classes", _CREATED, since=microversion.RESOURCE_CLASSES, json={"name": name}
        )

    def ensure_resource_class(self, name: str) -> bool:
        """Create a custom class unless it exists; return whether this request created it."""
        return self._ensure("resource_classes", name, microversion.PUT_RESOURCE_CLASS_WITHOUT_BODY)

    def delete_resource_class(self, name: str) -> None:
        """Delete a custom class."""
        self._call("DELETE", _path("resource_classes", name), _DONE, since=microversion.RESOURCE_CLASSES)

    # allocations and usages

    def list_allocations(self, consumer: str, version: Version | None = None) -> Document:
        """Return ``allocations`` by provider and, as the version goes, project, user, generation, type."""
        return self._call("GET", _path("allocations", consumer), _ALLOCATIONS, version=version)

    def set_allocations(self, consumer: str, payload: Document, version: Version | None = None) -> None:
        """Replace the allocations of a consumer; ``payload`` is the API's for ``version``."""
        self._call("PUT", _path("allocations", consumer), _DONE, json=payload, version=version)

    def delete_allocations(self, consumer: str) -> None:
        """Delete all allocations of a consumer."""
        self._call("DELETE", _path("allocations", consumer), _DONE)

    def set_many_allocations(self, payload: Mapping[str, Document], version: Version | None = None) -> None:
        """Replace the allocations of several consumers in one transaction: payloads by consumer."""
        self._call(
            "POST", "/allocations", _DONE, since=microversion.POST_ALLOCATIONS, json=payload, version=version
        )

    def list_provider_allocations(self, uuid: str) -> Document:
        """Return ``allocations`` by consumer, and ``resource_provider_generation``."""
        return self._call("GET", _provider(uuid, "allocations"), _ALLOCATIONS)

    def provider_usages(self, uuid: str) -> dict[str, int]:
        """Return how much of each class is allocated from a provider."""
        usages: dict[str, int] = self._call("GET", _provider(uuid, "usages"), _USAGES)["usages"]
        return usages

    def total_usages(
        self,
        project_id: str,
        *,
        user_id: str | None = None,
        consumer_type: str | None = None,
        version: Version | None = None,
    ) -> Document:
        """Return what a project has allocated: amounts by class, and from 1.38 those by consumer type."""
        params = _given(project_id=project_id, user_id=user_id, consumer_type=consumer_type)
        usages: Document = self._call(
            "GET", "/usages", _TOTAL_USAGES, since=microversion.TOTAL_USAGES, version=version, params=params
        )["usages"]
        return usages

    # candidates and reshaping

    def allocation_candidates(self, params: Sequence[tuple[str, str]]) -> Document:
        """Return ``allocation_requests`` and ``provider_summaries``."""
        since = microversion.ALLOCATION_CANDIDATES
        return self._call("GET", "/allocation_candidates", _CANDIDATES, since=since, params=params)

    def reshape(self, payload: Document, version: Version | None = None) -> None:
        """Set inventories and allocations of several providers and consumers in one transaction."""
        self._call("POST", "/reshaper", _DONE, since=microversion.RESHAPER, json=payload, version=version)


def provider_filters(
    name: str | None = None,
    uuid: str | None = None,
    member_of: Sequence[str] = (),
    resources: Mapping[str, int] | None = None,
    in_tree: str | None = None,
    required: Sequence[str] = (),
) -> list[tuple[str, str]]:
    """Return the conditions of `Operations.list_providers` as parameters of the request."""
    params = _given(name=name, uuid=uuid, in_tree=in_tree)
    params += [("member_of", value) for value in member_of]
    params += [("required", value) for value in required]
    if resources:
        params.append(("resources", ",".join(f"{key}:{value}" for key, value in resources.items())))
    return params


def _path(*segments: str) -> str:
    """Return a path; raise UsageError for an empty name and for dots, which would lead to another one."""
    for segment in segments:
        if segment in ("", ".", ".."):
            raise UsageError(
                f"Nothing in placement has the name or UUID {segment!r}; give that of what is meant"
            )
    check_texts(segments)
    return "".join("/" + quote(segment, safe="") for segment in segments)


def _provider(uuid: str, *segments: str) -> str:
    return _path("resource_providers", uuid, *segments)


def _given(**pairs: str | None) -> list[tuple[str, str]]:
    return [(key, value) for key, value in pairs.items() if value is not None]
