# SPDX-License-Identifier: Apache-2.0
"""Hosts that share storage: the disk of every candidate comes from a pool beside its host."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import databases
from benchmarks.case import Case, Scale
from benchmarks.clouds import SHARED
from benchmarks.questions import candidates, make_case

QUERY = "resources=VCPU:4,MEMORY_MB:8192,DISK_GB:80"


def make_cases(scale: Scale) -> Iterator[Case]:
    """On either database; there is no target for these."""
    hosts = scale.size(SHARED.trees)
    questions = [
        candidates("limit=10", f"{QUERY}&limit=10", 10),
        candidates("no limit", QUERY, hosts),
    ]
    cloud = SHARED.with_trees(hosts)
    title = f"shared storage, {hosts:,} hosts"
    yield make_case("shared", title, cloud, questions)
    yield make_case("shared-sqlite", f"{title}, SQLite", cloud, questions, database=databases.sqlite)
