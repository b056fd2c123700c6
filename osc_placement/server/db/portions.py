# SPDX-License-Identifier: Apache-2.0
"""Long lists of values in portions that every database takes in one statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

Value = TypeVar("Value")

#: SQLite takes some 32,000 values in a statement; MariaDB plans more than 1,000 in a list as a join
SIZE = 500


def split(values: Sequence[Value]) -> Iterator[Sequence[Value]]:
    """The values in their order, so many at a time; none for none."""
    return (values[begin : begin + SIZE] for begin in range(0, len(values), SIZE))
