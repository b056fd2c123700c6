# SPDX-License-Identifier: Apache-2.0
"""Where two answers to one request differ, as lines of text; the order of what has none does not count."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.reliability.differential.conversation import Answer, Request

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
#: headers that have to be there, or not, on both sides; their values tell a time or a number given once
PRESENT = ("last-modified", "x-openstack-request-id", "retry-after")

_REQUEST_ID = re.compile(r"req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SHOWN = 700


def differences(request: Request, theirs: Answer, ours: Answer) -> list[str]:
    """What differs; the answer of the reference stands first."""
    found = [f"status: {theirs.status} / {ours.status}"] if theirs.status != ours.status else []
    for name in HEADERS:
        if theirs.headers.get(name) != ours.headers.get(name):
            found.append(f"{name}: {theirs.headers.get(name)!r} / {ours.headers.get(name)!r}")
    for name in PRESENT:
        if (name in theirs.headers) != (name in ours.headers):
            found.append(f"{name}: {theirs.headers.get(name)!r} / {ours.headers.get(name)!r}")
    if is_limited(request) and theirs.status == ours.status == 200:
        return found + list(_compare_limited(theirs.data, ours.data))
    left, right = normalize(theirs.data), normalize(ours.data)
    # to Python 1, 1.0 and True are equal
    if json.dumps(left) != json.dumps(right):
        found.append(f"body: {_show(left, right)}\n        {_show(right, left)}")
    return found


def is_limited(request: Request) -> bool:
    """Whether the answer is a choice that the servers may make in different ways."""
    return request.path == "/allocation_candidates" and "limit=" in request.query


def _compare_limited(theirs: Any, ours: Any) -> Iterator[str]:
    counts = [len(side["allocation_requests"]) for side in (theirs, ours)]
    if counts[0] != counts[1]:
        yield f"number of candidates: {counts[0]} / {counts[1]}"


def normalize(data: Any) -> Any:
    """The same in an order of its own, and without the id of the request."""
    if isinstance(data, dict):
        return {key: normalize(value) for key, value in sorted(data.items()) if key != "request_id"}
    if isinstance(data, list):
        return sorted((normalize(item) for item in data), key=lambda item: json.dumps(item, sort_keys=True))
    if isinstance(data, str):
        return _REQUEST_ID.sub("req-...", data)
    return data


def _show(data: Any, other: Any) -> str:
    """The text around the first place where it is not that of the other."""
    text, against = (json.dumps(item, ensure_ascii=False) for item in (data, other))
    apart = (place for place, pair in enumerate(zip(text, against, strict=False)) if len({*pair}) > 1)
    begin = max(0, next(apart, 0) - _SHOWN // 3)
    shown = text[begin : begin + _SHOWN]
    return ("..." if begin else "") + shown + ("..." if begin + _SHOWN < len(text) else "")
