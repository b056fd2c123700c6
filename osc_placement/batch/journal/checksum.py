# SPDX-License-Identifier: Apache-2.0
"""Checksums over lines, each including the one before, so that any change of the lines is found. Pure.

The last member of each line, ``sum``, is a hash of the rest of the line and of the sum of the line before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

#: of the line before the first
START: Final = ""
_DIGITS: Final = 16
_HEAD: Final = b',"sum":"'
_TAIL: Final = b'"}'


class BadSum(ValueError):
    """A line is not the one that was written after the line before it."""

    def __init__(self) -> None:
        super().__init__(
            "its checksum does not fit, so that it, or a line before it, was changed or is missing"
        )


def chain_line(record: Mapping[str, Any], before: str) -> tuple[bytes, str]:
    """Return the line of a record, and its sum."""
    body = json.dumps(record, separators=(",", ":")).encode().removesuffix(b"}")
    digest = _hash(before, body)
    return body + _HEAD + digest.encode() + _TAIL + b"\n", digest


def check_line(line: bytes, before: str) -> str:
    """Return the sum of a line; raise BadSum unless it follows the line whose sum is ``before``."""
    body, head, rest = line.rpartition(_HEAD)
    if not head or rest != _hash(before, body).encode() + _TAIL:
        raise BadSum
    return rest.decode().removesuffix(_TAIL.decode())


def read_sum(line: bytes) -> str:
    """Return the sum that a line, or the end of one, claims to have; empty if it has none."""
    _, head, rest = line.rpartition(_HEAD)
    return rest.decode("ascii", "replace").removesuffix(_TAIL.decode()) if head else ""


def _hash(before: str, body: bytes) -> str:
    return hashlib.sha256(before.encode() + body).hexdigest()[:_DIGITS]
