# SPDX-License-Identifier: Apache-2.0
"""The only door to placement's REST API: its operations, and many of them at once.

A method for each operation of the API comes from operations.py. What is here does more at once than any of
these: in one request of osc-placement's own server, elsewhere in as many as it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any
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
    BadAnswer,
    Forbidden,
    HttpError,
    NotFound,
    PlacementError,
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
#: how a server says that it has no such route, or a proxy that it lets nobody through to it
NO_ROUTE = (403, 404, 405)
_RESULTS = document({"results": list})


class PlacementClient(Operations):
    """Placement, for any number of threads at once; constructing one costs nothing.

    Takes a keystoneauth1 session. ``api_version`` is ``1`` to use the highest version that both sides speak,
    or one such as ``1.25`` to use that. Without ``endpoint`` the address comes from the service catalog, by
    ``service_type``, ``region_name`` and ``interface``.
    """

    def read_providers(
        self,
        filters: Mapping[str, Any] | None = None,
        *,
        want: Iterable[Part] = PARTS,
        only_capacity: bool = False,
        concurrency: int = CONCURRENCY,
        on_total: Callable[[int], None] = lambda _total: None,
        on_record: Callable[[object], None] | None = None,
    ) -> Iterator[ProviderRecord]:
        """The providers that meet all conditions, in the server's order, with what is wanted of each.

        One request where the server has the bulk read, which shows one moment of the cloud; elsewhere one or
        more for each provider, so that what somebody changes meanwhile may be seen or not. Who has to wait
        for that is told in each round how many providers are to be read (``on_total``), and then of each that
        was (``on_record``), in the caller's thread.

        :param filters: the arguments of `list_providers`, by name
        :param only_capacity: whether of inventories nothing is needed but the capacity, which a few requests
            may tell of all providers; what else an inventory then has is not to be relied on
        :param concurrency: how many requests may be under way at once where there has to be more than one
        """
        at_once = self.read_providers_at_once(filters, want=want)
        if at_once is not None:
            return at_once
        documents = self.list_providers(**(filters or {}))
        self.allow_concurrency(concurrency)
        reading = Reading(concurrency, on_total, on_record)
        read = piecewise.read_capacities if only_capacity else piecewise.read_pieces
        return map(_record, read(self, documents, _order_parts(want), reading))

    def read_providers_at_once(
        self, filters: Mapping[str, Any] | None = None, *, want: Iterable[Part] = PARTS
    ) -> Iterator[ProviderRecord] | None:
        """The same where one request does it; None where the server has no bulk read."""
        known, route = self._known_routes, ("GET", self.endpoint)
        if not known.get(route, True):
            return None
        try:
            documents = self._read_bulk(filters or {}, _order_parts(want))
        except (NotFound, Forbidden, BadAnswer):
            # the last two are a proxy's, which lets through only what it knows
            known[route] = False
            return None
        known[route] = True
        return (_record(document) for document in documents)

    @property
    def _known_routes(self) -> dict[tuple[str, str], bool]:
        return _has_bulk.setdefault(self._given_session, {})

    def _read_bulk(self, filters: Mapping[str, Any], parts: Sequence[Part]) -> list[Document]:
        params = [*provider_filters(**filters), ("want", ",".join(parts))]
        return self._list(_BULK, "providers", PROVIDER_SHAPE, params=params)

    def can_change_many(self, some_uuid: str) -> bool:
        """Whether the server has the bulk write, as far as can be known without writing; may cost a request.

        Only a server that was seen to have the bulk read is taken to have it, as what lets anything through
        and understands nothing cannot be told from it otherwise.
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
        ``aggregates``. Of each, in their order, the generation it moved to, or why it was not done; None
        where the server says that it cannot do this, and nothing was done. Where a proxy says so, one of
        ANSWER_LOST is raised, as it may have passed the request on.
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
            told = [_read_result(url, result) for result in results]
            return [result for _, result in zip(changes, told, strict=True)]
        except (LookupError, TypeError, ValueError) as error:
            raise BadAnswer("POST", url, 200, "results that cannot be read") from error

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
    ) -> Iterable[Consumer]:
        """Read the consumers that hold anything of these providers.

        One request where the server has the bulk read; elsewhere one for each provider, or for each that is
        ``used``, and one for each consumer, which may hold nothing any more by then. If ``whole`` is False
        the latter are left out, and a consumer has its UUID, and what it holds of these providers.
        """
        at_once = self.list_consumers()
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
        """What every consumer holds and whose it is, in one request; None where the server cannot tell so.

        Each has ``uuid``, and what `list_allocations` has in the highest version, so that there must be no
        doubt about consumer types.
        """
        if self.version < microversion.CONSUMER_TYPES:
            return None
        if not self._known_routes.get(("GET", self.endpoint), True):
            return None
        try:
            return self._list(_BULK_ALLOCATIONS, "consumers", dict)
        except (NotFound, Forbidden, BadAnswer):
            return None


def _read_result(url: str, result: Document) -> int | PlacementError:
    if "errors" in result:
        return from_document("POST", url, result)
    generation: int = result["resource_provider_generation"]
    return generation


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
