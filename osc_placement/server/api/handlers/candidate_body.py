# SPDX-License-Identifier: Apache-2.0
"""The rendering of allocation candidates as JSON of one microversion, assembled from pieces of text.

PERF: encoding 10,000 candidates as one document took 150 ms. The text about a provider is encoded once and
kept with the snapshot until the provider changes; the text about a candidate is the same for all lone hosts,
and for all trees of one shape, except for the UUIDs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from osc_placement import microversion
from osc_placement.candidates.combine import Candidate
from osc_placement.candidates.search import Found, expand
from osc_placement.candidates.shape import Pattern, Placed

if TYPE_CHECKING:
    from osc_placement.candidates.request import CandidateRequest
    from osc_placement.candidates.snapshot import Snapshot
    from osc_placement.microversion import Version

#: the text of a pattern, and a function that selects the slots of a tree whose UUIDs the text needs
_Form = tuple[str, Callable[[Sequence[int]], Iterable[int]]]

#: the placeholder for a UUID; it cannot occur in a text of a request
_HOLE = "\x00"


def render(view: Snapshot, wanted: CandidateRequest, version: Version, found: Sequence[Found]) -> bytes:
    """Return the body of an answer."""
    requests = _Requests(view, wanted, version)
    summaries = _Summaries(view, wanted, version)
    return "".join(
        (
            '{"allocation_requests": [',
            ", ".join(requests.texts(found)),
            '], "provider_summaries": {',
            ", ".join(summaries.texts(found)),
            "}}",
        )
    ).encode()


class _Requests:
    """A renderer of candidates as bodies of claims."""

    def __init__(self, view: Snapshot, wanted: CandidateRequest, version: Version) -> None:
        self._uuids = view.uuids
        self._wanted = wanted
        self._version = version
        self._has_mappings = version >= microversion.MAPPINGS
        # the pieces of text between the UUIDs of a lone host, made for the first one
        self._pieces: list[str] | None = None
        self._forms: dict[Pattern, _Form] = {}
        self._quoted: dict[str, str] = {}

    def texts(self, found: Iterable[Found]) -> list[str]:
        uuid_of = self._uuids.__getitem__
        texts = []
        for item in found:
            if isinstance(item, Placed):
                pattern, slots = item
                if pattern not in self._forms:
                    text = self._text(pattern.candidate, lambda place: f"{_HOLE}{place}{_HOLE}")
                    # every second piece is a place
                    pieces = text.replace("%", "%%").split(_HOLE)
                    # the first place twice, because itemgetter returns no tuple for a single one
                    places = [int(piece) for piece in pieces[1::2]]
                    self._forms[pattern] = "%.0s" + "%s".join(pieces[::2]), itemgetter(places[0], *places)
                form, pick = self._forms[pattern]
                texts.append(form % tuple(map(uuid_of, pick(slots))))
            elif isinstance(item, Candidate):
                texts.append(self._text(item, uuid_of))
            else:
                if self._pieces is None:
                    self._pieces = self._text(expand(self._wanted, item), lambda _: _HOLE).split(_HOLE)
                texts.append(uuid_of(item).join(self._pieces))
        return texts

    def _text(self, candidate: Candidate, uuid_of: Callable[[int], str]) -> str:
        by_provider: dict[str, list[str]] = {}
        for slot, name, amount in candidate.lines:
            item = f"{self._quote(name)}: {amount}"
            by_provider.setdefault(uuid_of(slot), []).append(item)
        if self._version < microversion.ALLOCATIONS_BY_PROVIDER:
            listed = ", ".join(
                [
                    f'{{"resource_provider": {{"uuid": "{of}"}}, "resources": {{{", ".join(items)}}}}}'
                    for of, items in by_provider.items()
                ]
            )
            return f'{{"allocations": [{listed}]}}'
        allocations = ", ".join(
            [f'"{of}": {{"resources": {{{", ".join(items)}}}}}' for of, items in by_provider.items()]
        )
        if not self._has_mappings:
            return f'{{"allocations": {{{allocations}}}}}'
        mappings = []
        for suffix, slots in candidate.mappings:
            uuids = '", "'.join([uuid_of(slot) for slot in slots])
            mappings.append(f'{self._quote(suffix)}: ["{uuids}"]')
        return f'{{"allocations": {{{allocations}}}, "mappings": {{{", ".join(mappings)}}}}}'

    def _quote(self, text: str) -> str:
        if text not in self._quoted:
            self._quoted[text] = json.dumps(text)
        return self._quoted[text]


class _Summaries:
    """A renderer of the summaries of the providers of candidates."""

    def __init__(self, view: Snapshot, wanted: CandidateRequest, version: Version) -> None:
        self._view = view
        self._wanted = wanted
        self._every_class = version >= microversion.SUMMARIES_OF_ALL_CLASSES
        self._with_traits = version >= microversion.CANDIDATES_TRAITS
        self._with_tree = version >= microversion.NESTED_CANDIDATES
        # only texts without a restriction to the requested classes are kept with the snapshot
        key = ("summaries", self._with_traits, self._with_tree)
        self._memo: list[str | None] = view.memo(key) if self._every_class else [None] * len(view.nodes)

    def texts(self, found: Sequence[Found]) -> list[str]:
        view = self._view
        slots = {line.slot for item in found if isinstance(item, Candidate) for line in item.lines}
        if self._wanted.nested:
            trees = {view.root_of[slot] for slot in slots}
            slots.update(*(view.slots_of_tree(root) for root in trees))
        # a lone host is the only provider of its tree
        slots.update(item for item in found if isinstance(item, int))
        placed = [item for item in found if isinstance(item, Placed)]
        if self._wanted.nested:
            slots.update(*{item.slots for item in placed})
        else:
            slots.update(item.slots[line.slot] for item in placed for line in item.pattern.candidate.lines)
        memo = self._memo
        return [memo[slot] or self._remember(slot) for slot in sorted(slots)]

    def _remember(self, slot: int) -> str:
        view, node = self._view, self._view.nodes[slot]
        resources = {
            name: {"capacity": stock.inventory.capacity, "used": stock.used}
            for name, stock in node.stocks.items()
            if self._every_class or name in self._wanted.classes
        }
        summary: dict[str, Any] = {"resources": resources}
        if self._with_traits:
            summary["traits"] = list(node.traits)
        if self._with_tree:
            parent = view.parent_of[slot]
            summary["parent_provider_uuid"] = None if parent is None else view.nodes[parent].uuid
            summary["root_provider_uuid"] = view.nodes[view.root_of[slot]].uuid
        self._memo[slot] = text = f'"{node.uuid}": {json.dumps(summary)}'
        return text
