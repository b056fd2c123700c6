# SPDX-License-Identifier: Apache-2.0
"""The resident memory of a worker after a listing of 10,000 providers and a question for candidates."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.case import Case, Scale
from benchmarks.cases.flat import QUERY
from benchmarks.clouds import FLAT
from benchmarks.figure import Target
from benchmarks.questions import Question, candidates, make_case


def make_cases(scale: Scale) -> Iterator[Case]:
    """One case."""
    hosts = scale.size(10_000)
    questions = [
        Question("listing", "/resource_providers", hosts, key="resource_providers"),
        candidates("candidates, limit=10", f"{QUERY}&limit=10", 10),
    ]
    title = f"memory, {hosts:,} providers"
    yield make_case("memory", title, FLAT.with_trees(hosts), questions, memory=Target(times=1))
