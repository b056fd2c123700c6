# SPDX-License-Identifier: Apache-2.0
"""The comparison of two answers to one request; the API defines no order of lists, so none is compared."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from osc_placement.server.shadow.exchange import Answer, Request

#: headers that have to be equal
HEADERS = (
    "allow",
    "cache-control",
    "content-type",
    "location",
    "openstack-api-version",
    "vary",
    "www-authenticate",
)
#: headers that both answers have, or neither; their values are a time or a number that is used once
PRESENT = ("last-modified", "x-openstack-request-id", "retry-after")

_REQUEST_ID = re.compile(r"req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SHOWN = 700


def find(request: Request, theirs: Answer, ours: Answer) -> list[str]:
    """Return what differs, a line for each; the value of the reference is first."""
    found = [f"status: {theirs.status} / {ours.status}"] if theirs.status != ours.status else []
    for name in HEADERS:
        if theirs.headers.get(name) != ours.headers.get(name):
            found.append(f"{name}: {theirs.headers.get(name)!r} / {ours.headers.get(name)!r}")
    for name in PRESENT:
        if (name in theirs.headers) != (name in ours.headers):
            found.append(f"{name}: {theirs.headers.get(name)!r} / {ours.headers.get(name)!r}")
    if is_limited(request) and theirs.status == ours.status == 200:
        of_theirs, of_ours = (len(side.data["allocation_requests"]) for side in (theirs, ours))
        if of_theirs != of_ours:
            found.append(f"number of candidates: {of_theirs} / {of_ours}")
        return found
    left, right = normalize(theirs.data), normalize(ours.data)
    # to Python 1, 1.0 and True are equal
    if json.dumps(left) != json.dumps(right):
        found.append(f"body: {_show(left, right)}\n        {_show(right, left)}")
    return found


def is_limited(request: Request) -> bool:
    """Return whether each server may choose a different part of all candidates."""
    return request.path == "/allocation_candidates" and "limit=" in request.query


def normalize(data: Any) -> Any:
    """Return a document with its lists sorted, and without ids of requests."""
    if isinstance(data, dict):
        return {key: normalize(value) for key, value in sorted(data.items()) if key != "request_id"}
    if isinstance(data, list):
        return sorted((normalize(item) for item in data), key=lambda item: json.dumps(item, sort_keys=True))
    if isinstance(data, str):
        return _REQUEST_ID.sub("req-...", data)
    return data


def _show(data: Any, other: Any) -> str:
    """Return the text around the first place where a document differs from another."""
    text, against = (json.dumps(item, ensure_ascii=False) for item in (data, other))
    apart = (place for place, pair in enumerate(zip(text, against, strict=False)) if len({*pair}) > 1)
    begin = max(0, next(apart, 0) - _SHOWN // 3)
    shown = text[begin : begin + _SHOWN]
    return ("..." if begin else "") + shown + ("..." if begin + _SHOWN < len(text) else "")
