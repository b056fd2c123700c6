# SPDX-License-Identifier: Apache-2.0
"""Intended differences from openstack-placement: the rows of doc/source/contributor/differences.rst.

Each has a function that recognizes it, as narrowly as the request and both answers permit.
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
    from collections.abc import Callable, Mapping

    from osc_placement.server.shadow.exchange import Answer, Request

    Judge = Callable[[Request, Answer, Answer], bool]


_NOTHING = (b'{"resource_providers": []}', b'{"allocation_requests": [], "provider_summaries": {}}')
_UNKNOWN_NAME = (b"No such ", b"Expected 'member_of' parameter to contain valid UUID(s). Got: ")


def _is_path_as_latin_1(request: Request, theirs: Answer, ours: Answer) -> bool:
    if theirs.status != ours.status or "json" not in ours.headers.get("content-type", ""):
        return False
    told, meant = ([error["detail"] for error in side.data.get("errors", ())] for side in (theirs, ours))
    return "%" in request.path and told == [text.encode().decode("latin-1") for text in meant] != []


def _is_amount_added_to_others(request: Request, theirs: Answer, ours: Answer) -> bool:
    """Return whether groups that take one class of one provider have their sum in other candidates too.

    Such a candidate may then seem to be another one, or to be more than there is, and be lost.
    """
    classes = [
        amount.partition(":")[0]
        for group in _read_groups(request).values()
        for text in group.get("resources", ())
        for amount in text.split(",")
    ]
    return len(set(classes)) < len(classes) and _is_part(theirs, ours)


def _is_lost_anchor(request: Request, theirs: Answer, ours: Answer) -> bool:
    """Return whether a sharing provider is missing from all but one of the trees that can use it.

    That happens when it has all that the group without a suffix asks for, and there are other groups, even if
    these ask for no resources.
    """
    groups = _read_groups(request)
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


def _is_ignored_tree(request: Request, theirs: Answer, ours: Answer) -> bool:
    """Return whether the reference has more, and a group without resources requires something of a tree.

    It finds the providers of such a group by traits and aggregates, wherever they are.
    """
    groups = _read_groups(request).values()
    ignored = any(
        "in_tree" in group and "resources" not in group and not _requires_nothing(group) for group in groups
    )
    return ignored and _is_part(ours, theirs)


def _read_groups(request: Request) -> dict[str, dict[str, list[str]]]:
    """Return the groups of a query for candidates by suffix, each with the values of its parameters."""
    groups: dict[str, dict[str, list[str]]] = {}
    for key, value in parse_qsl(request.query):
        if match := re.fullmatch("(resources|required|member_of|in_tree)(.*)", key):
            groups.setdefault(match[2], {}).setdefault(match[1], []).append(value)
    return groups


def _is_part(part: Answer, whole: Answer) -> bool:
    """Return whether both are candidates, and all of one answer are in the other, whatever their amounts."""
    if not part.status == whole.status == 200 or "allocation_requests" not in whole.data:
        return False
    told, right = ({*_without_amounts(side.data["allocation_requests"])} for side in (part, whole))
    shown, known = (normalize(side.data["provider_summaries"]).items() for side in (part, whole))
    return told <= right and shown <= known


def _without_amounts(candidates: list[Any]) -> list[str]:
    return sorted(re.sub(r'": \d+', '"', json.dumps(normalize(candidate))) for candidate in candidates)


def _is_long_message_cut(request: Request, theirs: Answer, ours: Answer) -> bool:
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


#: by reason, the condition by which it is recognized
EXPLAINED: Mapping[str, Judge] = {
    "the reference answers 500": lambda request, theirs, ours: (
        theirs.status == 500 and 400 <= ours.status < 500
    ),
    "a child that shares": lambda request, theirs, ours: (
        request.path == "/allocation_candidates" and (theirs.status, ours.status) == (500, 200)
    ),
    "a malformed inventory of no possible class": lambda request, theirs, ours: (
        # the reference looks at the generation, and only then at an inventory that is none
        (theirs.status, ours.status) == (409, 400)
        and b"JSON does not validate" in ours.body
        and request.method == "PUT"
        and request.path.endswith("/inventories")
    ),
    "usages by type on PostgreSQL": lambda request, theirs, ours: (
        # the reference groups them in a way that PostgreSQL does not take
        request.path == "/usages" and (theirs.status, ours.status) == (500, 200)
    ),
    "a UUID and a name that are both taken": lambda request, theirs, ours: (
        # PostgreSQL tells of the name
        theirs.status == ours.status == 409
        and all(b"Conflicting resource provider " in each.body for each in (theirs, ours))
    ),
    "an unknown name, while another filter or group leaves nothing": lambda request, theirs, ours: (
        (theirs.status, ours.status) == (200, 400) and theirs.body in _NOTHING and b"No such " in ours.body
    ),
    "several unknown names, of which one is told": lambda request, theirs, ours: (
        theirs.status == ours.status == 400
        and any(text in theirs.body and text in ours.body for text in _UNKNOWN_NAME)
    ),
    "several names in one message, in no order": lambda request, theirs, ours: (
        theirs.status == ours.status >= 400 and _words(theirs) == _words(ours)
    ),
    "a path in a message, as Latin-1": _is_path_as_latin_1,
    "a UUID that each server makes up": lambda request, theirs, ours: (
        (request.method, request.path) == ("POST", "/resource_providers")
        and theirs.status == ours.status
        and theirs.status in (200, 201)
        and not json.loads(request.body).get("uuid")
    ),
    "the classes of claims that end, in a message about what is claimed": lambda request, theirs, ours: (
        theirs.status == ours.status == 409
        and b"' invalid." in ours.body
        and {*_words(ours)} <= {*_words(theirs)}
    ),
    "several faults of a reshape, of which one is told": lambda request, theirs, ours: (
        request.path == "/reshaper" and {theirs.status, ours.status} <= {400, 409}
    ),
    "a sum for one provider in candidates that do not sum there": _is_amount_added_to_others,
    "a provider that shares, alone and with other trees": _is_lost_anchor,
    "a group that requires nothing": lambda request, theirs, ours: (
        # with a suffix; the reference finds no provider for it
        any(suffix and _requires_nothing(group) for suffix, group in _read_groups(request).items())
        and _is_part(theirs, ours)
    ),
    "a tree that a group without resources names": _is_ignored_tree,
    "a search that was cut before it found a candidate": lambda request, theirs, ours: (
        theirs.status == 200
        and ours.status == 400
        and request.path == "/allocation_candidates"
        and b"search for allocation candidates was cut" in ours.body
    ),
    "a statement of SQL in a message": lambda request, theirs, ours: (
        theirs.status == ours.status == 409 and b"[SQL: " in theirs.body and b"[SQL: " not in ours.body
    ),
    "a message of more than 4,000 characters": _is_long_message_cut,
    "no last-modified after a change of a provider": lambda request, theirs, ours: (
        request.method == "PUT"
        and theirs.status == ours.status == 200
        and re.fullmatch("/resource_providers/[^/]+", request.path) is not None
        and "last-modified" not in theirs.headers
        and theirs.data == ours.data
        and ours.headers.keys() - {"last-modified"} == theirs.headers.keys()
    ),
}


def explain(request: Request, theirs: Answer, ours: Answer) -> str | None:
    """Return the reason for a difference, or None if none is known."""
    return next((reason for reason, judge in EXPLAINED.items() if judge(request, theirs, ours)), None)
