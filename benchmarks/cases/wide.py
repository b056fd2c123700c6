# SPDX-License-Identifier: Apache-2.0
"""Hosts with many devices alike, of which a request wants several, each in a group of its own.

The reference forms the product of all groups before it counts; what does not end is cut off.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import databases
from benchmarks.case import Case, Scale
from benchmarks.clouds import wide
from benchmarks.figure import Target
from benchmarks.questions import Question, candidates, make_case


def make_cases(scale: Scale) -> Iterator[Case]:
    """Few hosts with 8 devices and many with 16; the latter on SQLite too."""
    few = [_groups(5, Target(times=500)), _groups(8, Target(at_most=30))]
    yield make_case("wide-10", "wide, 10 hosts with 8 devices", wide(10, 8), few)
    hosts = scale.size(1000)
    cloud = wide(hosts, 16)
    title = f"wide, {hosts:,} hosts with 16 devices"
    yield make_case("wide-1000", title, cloud, [_groups(8, Target(at_most=100))])
    many = [_groups(8, Target())]
    yield make_case("wide-1000-sqlite", f"{title}, SQLite", cloud, many, database=databases.sqlite)


def _groups(number: int, target: Target) -> Question:
    groups = "&".join(f"resources{group}=CUSTOM_GPU:1" for group in range(1, number + 1))
    return candidates(f"{number} groups, limit=1000", f"{groups}&group_policy=none&limit=1000", 1000, target)
