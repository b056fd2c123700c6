# SPDX-License-Identifier: Apache-2.0
"""Hosts without anything below them: candidates with three classes, an aggregate and traits, and the listing.

In three sizes, which is the curve of time and memory over the size of the cloud, and in one on SQLite.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import databases
from benchmarks.case import Case, Scale
from benchmarks.clouds import EVERYWHERE, FLAT
from benchmarks.figure import Target
from benchmarks.questions import Question, candidates, make_case

QUERY = (
    f"resources=VCPU:4,MEMORY_MB:8192,DISK_GB:80&member_of={EVERYWHERE}"
    "&required=HW_CPU_X86_AVX2,STORAGE_DISK_SSD"
)
SIZE = 10_000
CURVE = (1_000, SIZE, 50_000)


def make_cases(scale: Scale) -> Iterator[Case]:
    """The sizes on MariaDB, and one on SQLite, for which there are no targets."""
    for full in CURVE:
        hosts = scale.size(full)
        title = f"flat, {hosts:,} hosts"
        memory = Target()
        questions = _questions(hosts, with_targets=full == SIZE)
        yield make_case(f"flat-{full}", title, FLAT.with_trees(hosts), questions, memory=memory)
    hosts = scale.size(SIZE)
    yield make_case(
        f"flat-{SIZE}-sqlite",
        f"flat, {hosts:,} hosts, SQLite",
        FLAT.with_trees(hosts),
        _questions(hosts, with_targets=False),
        database=databases.sqlite,
        memory=Target(),
    )


def _questions(hosts: int, *, with_targets: bool) -> list[Question]:
    def at_least(times: float) -> Target:
        return Target(times=times) if with_targets else Target()

    return [
        candidates("limit=10", f"{QUERY}&limit=10", 10, at_least(200)),
        candidates("limit=1000", f"{QUERY}&limit=1000", min(1000, hosts), at_least(80)),
        candidates("no limit", QUERY, hosts, at_least(40)),
        Question("listing", "/resource_providers", hosts, at_least(15), key="resource_providers"),
    ]
