# SPDX-License-Identifier: Apache-2.0
"""The division of long lists of values into portions that every database accepts in one statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

Value = TypeVar("Value")

#: values in a portion; SQLite accepts some 32,000 per statement, and MariaDB plans lists over 1,000 as a join
SIZE = 500


def split(values: Sequence[Value]) -> Iterator[Sequence[Value]]:
    """Yield the values in order, `SIZE` at a time; nothing if there are none."""
    return (values[begin : begin + SIZE] for begin in range(0, len(values), SIZE))
