# SPDX-License-Identifier: Apache-2.0
"""The client of placement's REST API.

operations.py has a method for each operation of the API. The methods here read and write many providers or
consumers: in one request where the server is osc-placement's own, elsewhere in as many as it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

from keystoneauth1.session import Session

from osc_placement import microversion
from osc_placement.api import piecewise
from osc_placement.api.concurrency import CONCURRENCY, Reading, map_in_order
from osc_placement.api.consumer import Consumer
from osc_placement.api.operations import PROVIDER_SHAPE, Operations, provider_filters
from osc_placement.api.transport import Document, document
from osc_placement.errors import (
    ANSWER_LOST,
    NO_ROUTE,
    BadAnswer,
    BadRequest,
    Conflict,
    Forbidden,
    HttpError,
    NotFound,
    PlacementError,
    ServerError,
    Unauthorized,
    Unconfirmed,
    from_document,
)
from osc_placement.microversion import Version
from osc_placement.model import PARTS, Inventory, Part, Provider, ProviderRecord

__all__ = ["Document", "PlacementClient"]

#: the bulk reads and the bulk write of osc-placement's own server, which no other placement has
_BULK = "/-/providers"
_BULK_ALLOCATIONS = "/-/allocations"
#: whether each endpoint has them, by method and address, kept as long as the session that asked: one question
#: per process
_has_bulk: WeakKeyDictionary[Session, dict[tuple[str, str], bool]] = WeakKeyDictionary()
_RESULTS = document({"results": list})


class PlacementClient(Operations):
    """A client of placement; any number of threads may use it at once. Making one sends no request.

    It takes a keystoneauth1 session. ``api_version`` is ``1`` to use the highest version that both sides
    speak, or one such as ``1.25`` to use that. Without ``endpoint`` the address comes from the service
    catalog, by ``service_type``, ``region_name`` and ``interface``.
    """

    def read_providers(
        self,
        filters: Mapping[str, Any] | None = None,
        *,
        want: Iterable[Part] = PARTS,
        roots: Collection[str] | None = None,
        only_capacity: bool = False,
        concurrency: int = CONCURRENCY,
        on_total: Callable[[int], None] = lambda _total: None,
        on_record: Callable[[object], None] | None = None,
    ) -> Iterator[ProviderRecord]:
        """Read the providers that meet all conditions, in the server's order, with the wanted parts of each.

        One request where the server has the bulk read, which shows one moment of the cloud; elsewhere one or
        more for each provider, so that a change made meanwhile may be seen or not. ``on_total`` is called at
        the start of each round with the number of providers to read, and ``on_record`` with each one that
        was read, in the caller's thread.

        :param filters: the arguments of `list_providers`, by name
        :param roots: only these providers, and all of the trees with these roots
        :param only_capacity: read nothing but the capacity of inventories, which a few requests may tell of
            all providers; the other fields of an inventory are then wrong
        :param concurrency: how many requests may be under way at once where there has to be more than one
        """
        at_once = self.read_providers_at_once(filters, want=want)
        if at_once is not None:
            return (
                record
                for record in at_once
                if _is_below(roots, record.provider.uuid, record.provider.root_provider_uuid)
            )
        documents = [
            document
            for document in self.list_providers(**(filters or {}))
            if _is_below(roots, document["uuid"], document.get("root_provider_uuid"))
        ]
        self.allow_concurrency(concurrency)
        reading = Reading(concurrency, on_total, on_record)
        read = piecewise.read_capacities if only_capacity else piecewise.read_pieces
        return map(_record, read(self, documents, _order_parts(want), reading))

    def read_providers_at_once(
        self, filters: Mapping[str, Any] | None = None, *, want: Iterable[Part] = PARTS
    ) -> Iterator[ProviderRecord] | None:
        """Read them in one request; return None where the server has no bulk read."""
        known, route = self._known_routes, ("GET", self.endpoint)
        if not known.get(route, True):
            return None
        try:
            params = [*provider_filters(**(filters or {})), ("want", ",".join(_order_parts(want)))]
            documents = self._list(_BULK, "providers", PROVIDER_SHAPE, params=params)
        except (NotFound, Forbidden, BadAnswer):
            # the last two are a proxy's, which lets through only what it knows
            known[route] = False
            return None
        known[route] = True
        return (_record(document) for document in documents)

    @property
    def _known_routes(self) -> dict[tuple[str, str], bool]:
        return _has_bulk.setdefault(self._given_session, {})

    def can_change_many(self, some_uuid: str) -> bool:
        """Return whether the server has the bulk write, as far as is known without writing.

        It is assumed of a server that has the bulk read, which may cost a request to find out: a proxy that
        answers anything could not be told from it otherwise.
        """
        if self.version < microversion.AGGREGATES_WITH_GENERATION:
            return False
        known = self._known_routes
        if ("GET", self.endpoint) not in known:
            self.read_providers_at_once({"uuid": some_uuid}, want=("traits",))
        return known[("GET", self.endpoint)] and known.get(("POST", self.endpoint), True)

    def change_many(self, changes: Sequence[Document]) -> list[int | PlacementError] | None:
        """Replace what many providers have in one request, each whole or not at all.

        A change has ``uuid``, ``resource_provider_generation`` and any of ``inventories``, ``traits`` and
        ``aggregates``. To create a provider, its generation is None, and the change has ``name`` and, below
        another one, ``parent_provider_uuid``. Return for each, in their order, its new generation, or why it
        was not done; None where the server says that it cannot do this, and nothing was done. Raise one of
        ANSWER_LOST where a proxy says so, as it may have passed the request on.
        """
        try:
            results = self._call("POST", _BULK, _RESULTS, json={"changes": changes})["results"]
        except (HttpError, BadAnswer) as error:
            if error.http_status not in NO_ROUTE:
                raise
            self._known_routes["POST", self.endpoint] = False
            if isinstance(error, ANSWER_LOST):
                raise
            return None
        url = self.endpoint + _BULK
        try:
            return [
                from_document("POST", url, result)
                if "errors" in result
                else int(result["resource_provider_generation"])
                for _, result in zip(changes, results, strict=True)
            ]
        except (LookupError, TypeError, ValueError) as error:
            raise BadAnswer("POST", url, 200, "results that cannot be read") from error

    def can_change_atomically(self, parts: Iterable[str]) -> bool:
        """Return whether the server can change these parts of many providers all or none; change nothing.

        It is asked to change a provider that does not exist. The answer is 409 from a server that can, and
        from all others another one. Raise Forbidden if the caller may not change these parts.
        """
        if self.version < microversion.AGGREGATES_WITH_GENERATION:
            return False
        ordered = sorted(parts)
        known, route = self._known_routes, (f"POST atomic {','.join(ordered)}", self.endpoint)
        if route not in known:
            nothing: Document = {part: {} if part == "inventories" else [] for part in ordered}
            try:
                self.change_atomically([{"uuid": str(uuid4()), "resource_provider_generation": 0, **nothing}])
                known[route] = False
            except (HttpError, BadAnswer) as error:
                is_told = isinstance(error, Forbidden) and not isinstance(error, Unconfirmed)
                if is_told or isinstance(error, (ServerError, Unauthorized)):
                    raise
                known[route] = isinstance(error, Conflict)
        return known[route]

    def change_atomically(self, changes: Sequence[Document]) -> None:
        """Replace what many providers have in one transaction; `change_many` describes a change.

        Raise Conflict if one of them is refused, whatever the reason, and nothing was done. Its ``answer``
        has up to ten ``errors``, each with ``uuid``, and the number of all as ``refused``.
        """
        self._call("POST", _BULK, _RESULTS, json={"atomic": True, "changes": changes})

    def require_reshape(self) -> None:
        """Raise Forbidden if the caller may not reshape; change nothing.

        A reshape without inventories is never valid, but every server asks the policy before it reads it.
        """
        known, route = self._known_routes, ("POST /reshaper", self.endpoint)
        if not known.get(route):
            with suppress(BadRequest):
                self.reshape({"inventories": {}, "allocations": {}})
            known[route] = True

    def read_consumer(self, uuid: str, version: Version | None = None) -> Consumer:
        """Read one consumer; one that holds nothing has nothing but its UUID."""
        return Consumer.from_json(uuid, self.list_allocations(uuid, version))

    def read_consumers(
        self,
        providers: Collection[str],
        reading: Reading | None = None,
        *,
        used: Sequence[str] | None = None,
        whole: bool = True,
        by_provider: bool = False,
    ) -> Iterable[Consumer]:
        """Read the consumers that hold anything of these providers.

        One request where the server has the bulk read; elsewhere one for each provider, or for each that is
        ``used``, and one for each consumer, which may hold nothing any more by then. If ``whole`` is False
        the latter are left out, and a consumer has its UUID, and what it holds of these providers. If
        ``by_provider`` is True, the bulk read, which is of all consumers, is not used.
        """
        at_once = None if by_provider else self.list_consumers()
        if at_once is not None:
            wanted = frozenset(providers)
            return (
                Consumer.from_json(document["uuid"], document)
                for document in at_once
                if not wanted.isdisjoint(document["allocations"])
            )
        reading = reading or Reading()
        self.allow_concurrency(reading.concurrency)
        holders = piecewise.read_holders(self, list(providers) if used is None else used, reading)
        if not whole:
            return holders
        return self.read_each_consumer(sorted(consumer.uuid for consumer in holders), reading)

    def read_each_consumer(self, uuids: Sequence[str], reading: Reading) -> list[Consumer]:
        """Read consumers one by one, in this order."""
        reading.on_total(len(uuids))
        return map_in_order(self.read_consumer, uuids, threads=reading.concurrency, on_result=reading.on_item)

    def list_consumers(self) -> list[Document] | None:
        """Return the documents of all consumers in one request; None where the server has no bulk read.

        Each has ``uuid``, and what `list_allocations` has in the highest version, which has consumer types.
        """
        if self.version < microversion.CONSUMER_TYPES:
            return None
        if not self._known_routes.get(("GET", self.endpoint), True):
            return None
        try:
            return self._list(_BULK_ALLOCATIONS, "consumers", dict)
        except (NotFound, Forbidden, BadAnswer):
            return None


def _is_below(roots: Collection[str] | None, uuid: str, root: str | None) -> bool:
    """Return whether a provider is one of these, or has one of these as its root; None stands for any."""
    return roots is None or uuid in roots or root in roots


def _order_parts(want: Iterable[Part]) -> tuple[Part, ...]:
    wanted = frozenset(want)
    return tuple(part for part in PARTS if part in wanted)


def _record(document: Document) -> ProviderRecord:
    inventories = document.get("inventories")
    return ProviderRecord(
        Provider.from_json(document),
        inventories=None
        if inventories is None
        else {name: Inventory.from_json(fields) for name, fields in inventories.items()},
        usages=document.get("usages"),
        traits=frozenset(document["traits"]) if "traits" in document else None,
        aggregates=frozenset(document["aggregates"]) if "aggregates" in document else None,
    )
