# SPDX-License-Identifier: Apache-2.0
"""The operations of placement's REST API: a method for each.

The middle of client.py, which is the only module to use it. URLs and the shape of the API's documents are
known here and there, and nowhere else on the client's side. Answers are returned as the API gives them; a
failure is one of errors.py. What an answer means, and what to do about a conflict, is for the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import EllipsisType
from typing import Any
from urllib.parse import quote

from osc_placement import microversion
from osc_placement.errors import UsageError
from osc_placement.microversion import Version
from osc_placement.transport import Document, Params, Transport, read_document


class Operations(Transport):
    """The operations of the API, for any number of threads at once."""

    def _call(
        self,
        method: str,
        path: str,
        *expected: str,
        since: Version = microversion.MIN,
        version: Version | None = None,
        json: object = None,
        params: Params | None = None,
    ) -> Document:
        """Send one request; return its document, which must have the keys ``expected``; {} if none is."""
        if version is None:
            self.require(since)
        response = self.request(method, path, json=json, params=params, version=version)
        return read_document(response, *expected) if expected else {}

    def _list(self, path: str, key: str, **options: Any) -> list[Any]:
        values: list[Any] = self._call("GET", path, key, **options)[key]
        return values

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
        """The providers that meet all conditions; ``member_of`` and ``required`` in the API's own grammar."""
        params = provider_filters(name, uuid, member_of, resources, in_tree, required)
        return self._list("/resource_providers", "resource_providers", params=params)

    def show_provider(self, uuid: str) -> Document:
        """One provider."""
        return self._call("GET", _provider(uuid), *_PROVIDER)

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
            return read_document(response, *_PROVIDER)
        return self.show_provider(response.headers.get("location", "").rsplit("/", 1)[-1])

    def update_provider(self, uuid: str, name: str, *, parent: str | EllipsisType | None = ...) -> Document:
        """Rename a provider and, if one is given, change its parent; None (from 1.37) makes it a root."""
        body: Document = {"name": name}
        if parent is not ...:
            self.require(microversion.NESTED_PROVIDERS)
            body["parent_provider_uuid"] = parent
        return self._call("PUT", _provider(uuid), *_PROVIDER, json=body)

    def delete_provider(self, uuid: str) -> None:
        """Delete a provider."""
        self._call("DELETE", _provider(uuid))

    # inventories

    def list_inventories(self, uuid: str) -> Document:
        """``inventories`` by class, and ``resource_provider_generation``."""
        return self._call("GET", _provider(uuid, "inventories"), *_INVENTORIES)

    def set_inventories(self, uuid: str, inventories: Mapping[str, Document], generation: int) -> Document:
        """Replace all inventories of a provider; the same document comes back."""
        body = {"inventories": inventories, "resource_provider_generation": generation}
        return self._call("PUT", _provider(uuid, "inventories"), *_INVENTORIES, json=body)

    def show_inventory(self, uuid: str, resource_class: str) -> Document:
        """The fields of one inventory, with ``resource_provider_generation``."""
        return self._call("GET", _provider(uuid, "inventories", resource_class), "total")

    def set_inventory(self, uuid: str, resource_class: str, fields: Document, generation: int) -> Document:
        """Replace one inventory; a field that is absent gets its default."""
        body = {**fields, "resource_provider_generation": generation}
        return self._call("PUT", _provider(uuid, "inventories", resource_class), "total", json=body)

    def delete_inventory(self, uuid: str, resource_class: str) -> None:
        """Delete one inventory."""
        self._call("DELETE", _provider(uuid, "inventories", resource_class))

    def delete_inventories(self, uuid: str) -> None:
        """Delete all inventories of a provider."""
        self._call("DELETE", _provider(uuid, "inventories"), since=microversion.DELETE_INVENTORIES)

    # aggregates

    def list_provider_aggregates(self, uuid: str) -> Document:
        """``aggregates``, and from 1.19 ``resource_provider_generation``."""
        path = _provider(uuid, "aggregates")
        return self._call("GET", path, "aggregates", since=microversion.PROVIDER_AGGREGATES)

    def set_provider_aggregates(
        self, uuid: str, aggregates: Iterable[str], generation: int | None
    ) -> Document:
        """Replace the aggregates of a provider; the generation is needed from 1.19 on and unused before."""
        body: object = list(aggregates)
        if self.version >= microversion.AGGREGATES_WITH_GENERATION:
            body = {"aggregates": body, "resource_provider_generation": generation}
        path = _provider(uuid, "aggregates")
        return self._call("PUT", path, "aggregates", since=microversion.PROVIDER_AGGREGATES, json=body)

    # traits

    def list_provider_traits(self, uuid: str) -> Document:
        """``traits`` and ``resource_provider_generation``."""
        return self._call("GET", _provider(uuid, "traits"), *_TRAITS, since=microversion.TRAITS)

    def set_provider_traits(self, uuid: str, traits: Iterable[str], generation: int) -> Document:
        """Replace the traits of a provider; the same document comes back."""
        body = {"traits": list(traits), "resource_provider_generation": generation}
        return self._call("PUT", _provider(uuid, "traits"), *_TRAITS, since=microversion.TRAITS, json=body)

    def delete_provider_traits(self, uuid: str) -> None:
        """Take all traits from a provider."""
        self._call("DELETE", _provider(uuid, "traits"), since=microversion.TRAITS)

    def list_traits(self, *, name: str | None = None, associated: bool | None = None) -> list[str]:
        """Names of traits; ``name`` in the API's grammar: ``startswith:CUSTOM`` or ``in:A,B``."""
        params = _given(name=name, associated=None if associated is None else str(associated))
        return self._list("/traits", "traits", since=microversion.TRAITS, params=params)

    def show_trait(self, name: str) -> None:
        """Raise NotFound unless the trait exists."""
        self._call("GET", _path("traits", name), since=microversion.TRAITS)

    def create_trait(self, name: str) -> None:
        """Create a custom trait, or find that it exists."""
        self._call("PUT", _path("traits", name), since=microversion.TRAITS)

    def delete_trait(self, name: str) -> None:
        """Delete a custom trait."""
        self._call("DELETE", _path("traits", name), since=microversion.TRAITS)

    # resource classes

    def list_resource_classes(self) -> list[Document]:
        """All classes; the name of each is in ``name``."""
        return self._list("/resource_classes", "resource_classes", since=microversion.RESOURCE_CLASSES)

    def show_resource_class(self, name: str) -> Document:
        """One class."""
        return self._call("GET", _path("resource_classes", name), "name", since=microversion.RESOURCE_CLASSES)

    def create_resource_class(self, name: str) -> None:
        """Create a custom class; Conflict if it exists."""
        self._call("POST", "/resource_classes", since=microversion.RESOURCE_CLASSES, json={"name": name})

    def ensure_resource_class(self, name: str) -> None:
        """Create a custom class, or find that it exists."""
        since = microversion.PUT_RESOURCE_CLASS_WITHOUT_BODY
        self._call("PUT", _path("resource_classes", name), since=since)

    def delete_resource_class(self, name: str) -> None:
        """Delete a custom class."""
        self._call("DELETE", _path("resource_classes", name), since=microversion.RESOURCE_CLASSES)

    # allocations and usages

    def list_allocations(self, consumer: str, version: Version | None = None) -> Document:
        """``allocations`` by provider and, as the version goes, project, user, generation, type."""
        return self._call("GET", _path("allocations", consumer), "allocations", version=version)

    def set_allocations(self, consumer: str, payload: Document, version: Version | None = None) -> None:
        """Replace the allocations of a consumer; ``payload`` is the API's for ``version``."""
        self._call("PUT", _path("allocations", consumer), json=payload, version=version)

    def delete_allocations(self, consumer: str) -> None:
        """Delete all allocations of a consumer."""
        self._call("DELETE", _path("allocations", consumer))

    def set_many_allocations(self, payload: Mapping[str, Document], version: Version | None = None) -> None:
        """Replace the allocations of several consumers in one transaction: payloads by consumer."""
        self._call("POST", "/allocations", since=microversion.POST_ALLOCATIONS, json=payload, version=version)

    def list_provider_allocations(self, uuid: str) -> Document:
        """``allocations`` by consumer, and ``resource_provider_generation``."""
        return self._call("GET", _provider(uuid, "allocations"), "allocations")

    def provider_usages(self, uuid: str) -> dict[str, int]:
        """How much of each class is allocated from a provider."""
        usages: dict[str, int] = self._call("GET", _provider(uuid, "usages"), "usages")["usages"]
        return usages

    def total_usages(
        self,
        project_id: str,
        *,
        user_id: str | None = None,
        consumer_type: str | None = None,
        version: Version | None = None,
    ) -> Document:
        """What a project has allocated: amounts by class, and from 1.38 those by consumer type."""
        params = _given(project_id=project_id, user_id=user_id, consumer_type=consumer_type)
        usages: Document = self._call(
            "GET", "/usages", "usages", since=microversion.TOTAL_USAGES, version=version, params=params
        )["usages"]
        return usages

    # candidates and reshaping

    def allocation_candidates(self, params: Sequence[tuple[str, str]]) -> Document:
        """``allocation_requests`` and ``provider_summaries``."""
        expected = ("allocation_requests", "provider_summaries")
        since = microversion.ALLOCATION_CANDIDATES
        return self._call("GET", "/allocation_candidates", *expected, since=since, params=params)

    def reshape(self, payload: Document, version: Version | None = None) -> None:
        """Set inventories and allocations of several providers and consumers in one transaction."""
        self._call("POST", "/reshaper", since=microversion.RESHAPER, json=payload, version=version)


def provider_filters(
    name: str | None = None,
    uuid: str | None = None,
    member_of: Sequence[str] = (),
    resources: Mapping[str, int] | None = None,
    in_tree: str | None = None,
    required: Sequence[str] = (),
) -> list[tuple[str, str]]:
    """The conditions of `Operations.list_providers` as the API wants them."""
    params = _given(name=name, uuid=uuid, in_tree=in_tree)
    params += [("member_of", value) for value in member_of]
    params += [("required", value) for value in required]
    if resources:
        params.append(("resources", ",".join(f"{key}:{value}" for key, value in resources.items())))
    return params


_PROVIDER = ("uuid", "name", "generation")
_INVENTORIES = ("inventories", "resource_provider_generation")
_TRAITS = ("traits", "resource_provider_generation")


def _path(*segments: str) -> str:
    """Write a path; UsageError at what would lead to another one, as an empty name and dots do."""
    for segment in segments:
        if segment in ("", ".", ".."):
            raise UsageError(
                f"Nothing in placement has the name or UUID {segment!r}; give that of what is meant"
            )
    return "".join("/" + quote(segment, safe="") for segment in segments)


def _provider(uuid: str, *segments: str) -> str:
    return _path("resource_providers", uuid, *segments)


def _given(**pairs: str | None) -> list[tuple[str, str]]:
    return [(key, value) for key, value in pairs.items() if value is not None]
