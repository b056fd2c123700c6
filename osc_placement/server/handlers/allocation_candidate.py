# SPDX-License-Identifier: Apache-2.0
"""Allocation candidates over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from osc_placement import microversion
from osc_placement.microversion import Version
from osc_placement.server import errors, policies
from osc_placement.server.candidates.combine import Candidate
from osc_placement.server.candidates.query import BadQuery
from osc_placement.server.candidates.request import CandidateRequest, parse
from osc_placement.server.candidates.search import search
from osc_placement.server.candidates.snapshot import Snapshot, slots_in
from osc_placement.server.db import names, snapshot
from osc_placement.server.db.tables import traits
from osc_placement.server.errors import Answer, answering
from osc_placement.server.http import Request, Schema, reply
from osc_placement.server.schemas import allocation_candidate as schemas

_SCHEMAS = (
    (microversion.SAME_SUBTREE, schemas.LIST_1_36),
    (microversion.ROOT_REQUIRED, schemas.LIST_1_35),
    (microversion.NAMED_GROUPS, schemas.LIST_1_33),
    (microversion.CANDIDATES_IN_TREE, schemas.LIST_1_31),
    (microversion.GRANULAR_CANDIDATES, schemas.LIST_1_25),
    (microversion.CANDIDATES_BY_AGGREGATE, schemas.LIST_1_21),
    (microversion.CANDIDATES_TRAITS, schemas.LIST_1_17),
    (microversion.CANDIDATES_LIMIT, schemas.LIST_1_16),
    (microversion.ALLOCATION_CANDIDATES, schemas.LIST_1_10),
)


def list_candidates(request: Request) -> Any:
    """GET /allocation_candidates."""
    request.authorize(policies.CANDIDATE_LIST)
    wanted = _parse(request)
    answers = (
        Answer(errors.ResourceClassNotFound, 400, "Invalid resource class in resources parameter: {error}"),
        Answer(errors.TraitNotFound, 400, "{error}"),
    )
    with answering(*answers):
        view = request.database.read(_load, wanted)
    candidates = list(islice(search(view, wanted), _bound(request, wanted)))
    return reply(request, _Rendering(view, wanted, request.version).body(candidates))


def _parse(request: Request) -> CandidateRequest:
    request.query(_schema(request.version))
    try:
        return parse(list(request.web.GET.items()), request.version)
    except BadQuery as error:
        raise errors.HTTPError(400, str(error), code=error.code) from error


def _schema(version: Version) -> Schema:
    return next(schema for since, schema in _SCHEMAS if version >= since)


def _bound(request: Request, wanted: CandidateRequest) -> int | None:
    """How many candidates are looked for: the client's limit, or the operator's if that is lower."""
    configured = request.service.conf.placement.max_allocation_candidates
    bounds = [bound for bound in (wanted.limit, configured) if bound is not None and bound >= 0]
    return min(bounds, default=None)


def _load(conn: Any, wanted: CandidateRequest) -> Snapshot:
    """The snapshot to search; :raises errors.NotFound: the request names a class or trait there is not."""
    names.class_ids(conn, list(wanted.classes))
    named = wanted.root.names.union(*(group.traits.names for group in wanted.groups))
    known = names.find_ids(conn, traits, "name", named) if named else {}
    for name in sorted(named):
        if name not in known:
            raise errors.TraitNotFound(name)
    return snapshot.load(conn)


class _Rendering:
    """Candidates as the JSON of one microversion."""

    def __init__(self, view: Snapshot, wanted: CandidateRequest, version: Version) -> None:
        self._view = view
        self._wanted = wanted
        self._version = version

    def body(self, candidates: Sequence[Candidate]) -> dict[str, Any]:
        return {
            "allocation_requests": [self._allocation_request(candidate) for candidate in candidates],
            "provider_summaries": self._summaries(candidates),
        }

    def _uuid(self, slot: int) -> str:
        return self._view.nodes[slot].uuid

    def _allocation_request(self, candidate: Candidate) -> dict[str, Any]:
        by_provider: dict[str, dict[str, int]] = {}
        for slot, name, amount in candidate.lines:
            by_provider.setdefault(self._uuid(slot), {})[name] = amount
        if self._version < microversion.ALLOCATIONS_BY_PROVIDER:
            listed = [
                {"resource_provider": {"uuid": uuid}, "resources": resources}
                for uuid, resources in by_provider.items()
            ]
            return {"allocations": listed}
        allocations = {uuid: {"resources": resources} for uuid, resources in by_provider.items()}
        if self._version < microversion.MAPPINGS:
            return {"allocations": allocations}
        mappings = {suffix: [self._uuid(slot) for slot in slots] for suffix, slots in candidate.mappings}
        return {"allocations": allocations, "mappings": mappings}

    def _summaries(self, candidates: Sequence[Candidate]) -> dict[str, Any]:
        used = {line.slot for candidate in candidates for line in candidate.lines}
        if self._wanted.nested:
            trees = {self._view.root_of[slot] for slot in used}
            used = {slot for root in trees for slot in slots_in(self._view.tree(root))}
        return {self._uuid(slot): self._summary(slot) for slot in sorted(used)}

    def _summary(self, slot: int) -> dict[str, Any]:
        node = self._view.nodes[slot]
        every_class = self._version >= microversion.SUMMARIES_OF_ALL_CLASSES
        resources = {
            name: {"capacity": stock.inventory.capacity, "used": stock.used}
            for name, stock in node.stocks.items()
            if every_class or name in self._wanted.classes
        }
        summary: dict[str, Any] = {"resources": resources}
        if self._version >= microversion.CANDIDATES_TRAITS:
            summary["traits"] = list(node.traits)
        if self._version >= microversion.NESTED_CANDIDATES:
            parent = self._view.parent_of[slot]
            summary["parent_provider_uuid"] = None if parent is None else self._uuid(parent)
            summary["root_provider_uuid"] = self._uuid(self._view.root_of[slot])
        return summary
