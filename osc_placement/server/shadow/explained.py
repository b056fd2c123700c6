# SPDX-License-Identifier: Apache-2.0
"""Intended differences from openstack-placement: the rows of doc/source/contributor/differences.rst.

Each is recognized as narrowly as the request and both answers permit.
"""

from __future__ import annotations

import html
import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from osc_placement.candidates.node import SHARING_TRAIT
from osc_placement.server.shadow.differences import normalize

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from osc_placement.server.shadow.exchange import Answer, Request


def explain(request: Request, theirs: Answer, ours: Answer) -> str | None:
    """Return the reason for a difference, or None if none is known."""
    return next(find_reasons(request, theirs, ours), None)


def find_reasons(request: Request, theirs: Answer, ours: Answer) -> Iterator[str]:
    """Yield the reasons that a difference may have, each recognized only when it is asked for."""
    statuses = theirs.status, ours.status
    if theirs.status == 500 and 400 <= ours.status < 500:
        yield "the reference answers 500"
    if request.path == "/allocation_candidates" and statuses == (500, 200):
        yield "a child that shares"
    # the reference looks at the generation, and only then at an inventory that is none
    if (
        statuses == (409, 400)
        and b"JSON does not validate" in ours.body
        and request.method == "PUT"
        and request.path.endswith("/inventories")
    ):
        yield "a malformed inventory of no possible class"
    # the reference groups usages in a way that PostgreSQL does not take
    if request.path == "/usages" and statuses == (500, 200):
        yield "usages by type on PostgreSQL"
    # PostgreSQL tells of the name
    told = b"Conflicting resource provider "
    if statuses == (409, 409) and told in theirs.body and told in ours.body:
        yield "a UUID and a name that are both taken"
    nothing = (b'{"resource_providers": []}', b'{"allocation_requests": [], "provider_summaries": {}}')
    if statuses == (200, 400) and theirs.body in nothing and b"No such " in ours.body:
        yield "an unknown name, while another filter or group leaves nothing"
    unknown = (b"No such ", b"Expected 'member_of' parameter to contain valid UUID(s). Got: ")
    if statuses == (400, 400) and any(text in theirs.body and text in ours.body for text in unknown):
        yield "several unknown names, of which one is told"
    if theirs.status == ours.status >= 400 and _words(theirs) == _words(ours):
        yield "several names in one message, in no order"
    if (
        "%" in request.path
        and theirs.status == ours.status
        and "json" in ours.headers.get("content-type", "")
    ):
        told_here, meant = (
            [error["detail"] for error in side.data.get("errors", ())] for side in (theirs, ours)
        )
        if told_here == [text.encode().decode("latin-1") for text in meant] != []:
            yield "a path in a message, as Latin-1"
    if (
        (request.method, request.path) == ("POST", "/resource_providers")
        and statuses in ((200, 200), (201, 201))
        and not json.loads(request.body).get("uuid")
    ):
        yield "a UUID that each server makes up"
    if statuses == (409, 409) and b"' invalid." in ours.body and {*_words(ours)} <= {*_words(theirs)}:
        yield "the classes of claims that end, in a message about what is claimed"
    if request.path == "/reshaper" and {*statuses} <= {400, 409}:
        yield "several faults of a reshape, of which one is told"
    # the groups of a query for candidates by suffix, each with the values of its parameters
    groups: dict[str, dict[str, list[str]]] = {}
    for key, value in parse_qsl(request.query):
        if match := re.fullmatch("(resources|required|member_of|in_tree)(.*)", key):
            groups.setdefault(match[2], {}).setdefault(match[1], []).append(value)
    classes = [
        amount.partition(":")[0]
        for group in groups.values()
        for text in group.get("resources", ())
        for amount in text.split(",")
    ]
    # groups that take one class of one provider have their sum in other candidates of the reference too; such
    # a candidate may then seem to be another one, or to be more than there is, and be lost
    if len(set(classes)) < len(classes) and _is_part(theirs, ours):
        yield "a sum for one provider in candidates that do not sum there"
    if _is_lost_anchor(groups, theirs, ours):
        yield "a provider that shares, alone and with other trees"
    # the reference finds no provider for such a group
    if any(suffix and _requires_nothing(group) for suffix, group in groups.items()) and _is_part(
        theirs, ours
    ):
        yield "a group that requires nothing"
    # the reference finds the providers of such a group by traits and aggregates, wherever they are
    ignored = any(
        "in_tree" in group and "resources" not in group and not _requires_nothing(group)
        for group in groups.values()
    )
    if ignored and _is_part(ours, theirs):
        yield "a tree that a group without resources names"
    if statuses == (409, 409) and b"[SQL: " in theirs.body and b"[SQL: " not in ours.body:
        yield "a statement of SQL in a message"
    if _is_long_message_cut(theirs, ours):
        yield "a message of more than 4,000 characters"
    if (
        request.method == "PUT"
        and statuses == (200, 200)
        and re.fullmatch("/resource_providers/[^/]+", request.path)
        and "last-modified" not in theirs.headers
        and theirs.data == ours.data
        and ours.headers.keys() - {"last-modified"} == theirs.headers.keys()
    ):
        yield "no last-modified after a change of a provider"


def _is_lost_anchor(groups: Mapping[str, Mapping[str, list[str]]], theirs: Answer, ours: Answer) -> bool:
    """Return whether a sharing provider is missing from all but one of the trees that can use it.

    That happens when it has all that the group without a suffix asks for, and there are other groups, even if
    these ask for no resources.
    """
    if "" not in groups or len(groups) < 2 or not _is_part(theirs, ours):
        return False
    known = set(_without_amounts(theirs.data["allocation_requests"]))
    more = [one for one in ours.data["allocation_requests"] if not known & set(_without_amounts([one]))]
    summaries = ours.data["provider_summaries"]
    sharing = {uuid for uuid, summary in summaries.items() if SHARING_TRAIT in summary["traits"]}
    return bool(more) and all(sharing & one["allocations"].keys() for one in more)


def _requires_nothing(group: Mapping[str, list[str]]) -> bool:
    wanted = (*group.get("required", ()), *group.get("member_of", ()))
    return "resources" not in group and all(value.startswith("!") for value in wanted)


def _is_part(part: Answer, whole: Answer) -> bool:
    """Return whether both are candidates, and all of one answer are in the other, whatever their amounts."""
    if not part.status == whole.status == 200 or "allocation_requests" not in whole.data:
        return False
    told, right = ({*_without_amounts(side.data["allocation_requests"])} for side in (part, whole))
    shown, known = (normalize(side.data["provider_summaries"]).items() for side in (part, whole))
    return told <= right and shown <= known


def _without_amounts(candidates: list[Any]) -> list[str]:
    return sorted(re.sub(r'": \d+', '"', json.dumps(normalize(candidate))) for candidate in candidates)


def _is_long_message_cut(theirs: Answer, ours: Answer) -> bool:
    """Return whether all that is here of an error is there too, in this order, and more where it was cut."""
    if theirs.status != ours.status or theirs.status < 400:
        return False
    pieces, rest = _text(ours).split(" ... "), _text(theirs)
    for piece in pieces:
        _, found, rest = rest.partition(piece)
        if not found:
            return False
    return len(pieces) > 1


def _text(answer: Answer) -> str:
    return re.sub(rb"req-[0-9a-f-]{36}", b"", answer.body).decode("utf-8", "replace")


def _words(answer: Answer) -> list[str]:
    text = _text(answer)
    if "html" in answer.headers.get("content-type", ""):
        text = html.unescape(text)
    return sorted(re.findall(r"[^\s\",'\[\]{}]+", text))
