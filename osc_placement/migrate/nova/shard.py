# SPDX-License-Identifier: Apache-2.0
"""A part of the hosts for each of several processes that share a migration. Pure."""

from __future__ import annotations

import argparse
import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shard:
    """Part ``number`` of ``count``; every host is in exactly one."""

    number: int = 1
    count: int = 1

    def has(self, host: str) -> bool:
        """Return whether a host is in this part; by rendezvous hashing, so few move if the count changes."""
        if self.count == 1:
            return True

        def weigh(number: int) -> bytes:
            return hashlib.sha256(f"{number} {host}".encode()).digest()

        return max(range(1, self.count + 1), key=weigh) == self.number


#: all hosts
WHOLE = Shard()


def read_shard(text: str) -> Shard:
    """Read ``2/4``, as ``type=`` of an option; it must be a part of a whole."""
    number, slash, count = text.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"a shard is written I/N, such as 2/4, not {text!r}")
    return Shard(int(number), int(count))
