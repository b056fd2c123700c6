# SPDX-License-Identifier: Apache-2.0
"""Read many providers or consumers from a placement without bulk reads, in as few requests as possible.

Inventories and aggregates cost a request for each provider. Usages, traits and capacities do not have to: the
summaries of ``GET /allocation_candidates?resources=VCPU:1`` have them for every provider of every tree in
which some VCPU is free, and a few such requests, for the classes that most providers have, cover nearly all.
Providers without a summary, as those that are full, are asked one by one. Only client.py imports this.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from osc_placement import microversion
from osc_placement.api.concurrency import Reading, map_in_order
from osc_placement.api.consumer import Consumer
from osc_placement.errors import BadAnswer, Forbidden, NotFound
from osc_placement.model import Part

if TYPE_CHECKING:
    from osc_placement.api.operations import Operations

Document = dict[str, Any]

#: what the summaries of candidates have
SUMMARIZED: Final[frozenset[Part]] = frozenset(("usages", "traits"))
#: from how many providers on it pays to ask for all candidates of the cloud
MANY: Final = 100
#: the least part of the providers that a further request for candidates has to be about
_WORTH_ASKING: Final = 0.05
#: what one may not ask at once one may yet ask of each
_REFUSALS: Final = (BadAnswer, Forbidden, NotFound)


def read_pieces(
    client: Operations, documents: Sequence[Document], parts: Sequence[Part], reading: Reading
) -> list[Document]:
    """Return the documents of providers with these parts, without providers deleted since they were listed.

    The generation of each is the oldest that was read, so that placement refuses a write that is based on
    parts of different moments.
    """
    late = [part for part in parts if part in SUMMARIZED] if _is_worth_it(client, documents, parts) else []
    read = _read_round(client, documents, [part for part in parts if part not in late], reading)
    if not late:
        return read
    known: dict[str, Document] = {}
    asked: set[str] = set()
    while True:
        # the class that most providers without a summary have, unless these are few
        unknown = [document["inventories"] for document in read if document["uuid"] not in known]
        numbers = Counter(name for inventories in unknown for name in inventories if name not in asked)
        name, number = max(numbers.items(), key=lambda pair: (pair[1], pair[0]), default=("", 0))
        if not _are_many(number, len(read)):
            break
        asked.add(name)
        try:
            known |= _read_class(client, name)
        except _REFUSALS:
            break
    return _complete(client, read, known, late, reading)


def read_capacities(
    client: Operations, documents: Sequence[Document], parts: Sequence[Part], reading: Reading
) -> list[Document]:
    """Do the same with inventories that have the right capacity only: nothing is reserved, the ratio is 1."""
    if not _is_worth_it(client, documents, parts):
        return read_pieces(client, documents, parts, reading)
    late = [part for part in parts if part == "inventories" or part in SUMMARIZED]
    read = _read_round(client, documents, [part for part in parts if part not in late], reading)
    uuids = {document["uuid"] for document in read}
    known: dict[str, Document] = {}
    with suppress(*_REFUSALS):
        for name in (document["name"] for document in client.list_resource_classes()):
            unknown = uuids - known.keys()
            if not _are_many(len(unknown), len(uuids)):
                break
            # inventories are not known, but which providers have some of the class free
            having = {document["uuid"] for document in client.list_providers(resources={name: 1})}
            if _are_many(len(unknown & having), len(uuids)):
                known |= _read_class(client, name)
    return _complete(client, read, known, late, reading)


def read_holders(client: Operations, providers: Sequence[str], reading: Reading) -> list[Consumer]:
    """Read the consumers of these providers, with what they hold of them and nothing else."""
    reading.on_total(len(providers))

    def read(uuid: str) -> tuple[str, Document]:
        try:
            return uuid, client.list_provider_allocations(uuid)["allocations"]
        except NotFound:
            # deleted since it was listed, which needs that nobody holds anything of it
            return uuid, {}

    held: dict[str, dict[str, Mapping[str, int]]] = defaultdict(dict)
    read_ones = map_in_order(read, providers, threads=reading.concurrency, on_result=reading.on_item)
    for provider, consumers in read_ones:
        for consumer, entry in consumers.items():
            held[consumer][provider] = entry["resources"]
    return [Consumer(uuid, allocations=allocations) for uuid, allocations in held.items()]


def _complete(
    client: Operations,
    documents: Sequence[Document],
    known: Mapping[str, Document],
    parts: Sequence[Part],
    reading: Reading,
) -> list[Document]:
    """Add these parts to the documents, from the summaries, or from requests where there is none."""
    rest = [document for document in documents if document["uuid"] not in known]
    asked = {document["uuid"]: document for document in _read_round(client, rest, parts, reading)}
    found = {uuid: {part: summary[part] for part in parts} for uuid, summary in known.items()} | asked
    # what was read before is the older
    return [
        document | found[document["uuid"]] | {"generation": document["generation"]}
        for document in documents
        if document["uuid"] in found
    ]


def _is_worth_it(client: Operations, documents: Sequence[Document], parts: Sequence[Part]) -> bool:
    return (
        len(documents) >= MANY
        and "inventories" in parts
        and not SUMMARIZED.isdisjoint(parts)
        and client.version >= microversion.NESTED_CANDIDATES
    )


def _read_round(
    client: Operations, documents: Sequence[Document], parts: Sequence[Part], reading: Reading
) -> list[Document]:
    if not (documents and parts):
        return list(documents)
    reading.on_total(len(documents))
    readers: Mapping[str, Callable[[str], Document]] = {
        "inventories": client.list_inventories,
        "traits": client.list_provider_traits,
        "aggregates": client.list_provider_aggregates,
    }

    def read(document: Document) -> Document | None:
        found: Document = {}
        generations = []
        try:
            for part in parts:
                if part == "usages":
                    found[part] = client.provider_usages(document["uuid"])
                    continue
                answer = readers[part](document["uuid"])
                found[part] = answer[part]
                if "resource_provider_generation" in answer:
                    generations.append(answer["resource_provider_generation"])
        except NotFound:
            # deleted since it was listed
            return None
        return document | found | ({"generation": min(generations)} if generations else {})

    complete = map_in_order(read, documents, threads=reading.concurrency, on_result=reading.on_item)
    return [document for document in complete if document is not None]


def _read_class(client: Operations, name: str) -> dict[str, Document]:
    """Return the summaries of the candidates for one of a class, as parts of a provider's document."""
    summaries = client.allocation_candidates([("resources", f"{name}:1")])["provider_summaries"]
    return {
        uuid: {
            "inventories": {
                each: {"total": amounts["capacity"]} for each, amounts in summary["resources"].items()
            },
            "usages": {each: amounts["used"] for each, amounts in summary["resources"].items()},
            "traits": summary["traits"],
        }
        for uuid, summary in summaries.items()
    }


def _are_many(number: int, total: int) -> bool:
    return number >= max(MANY / 2, _WORTH_ASKING * total)
