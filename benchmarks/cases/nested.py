# SPDX-License-Identifier: Apache-2.0
"""Trees of seven: cores and memory of one NUMA node, with a network card that is its child."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import databases
from benchmarks.case import Case, Scale
from benchmarks.clouds import NESTED
from benchmarks.figure import Target
from benchmarks.questions import candidates, make_case

QUERY = (
    "resources_NUMA=VCPU:4,MEMORY_MB:8192&resources_NIC=SRIOV_NET_VF:1&required_NIC=CUSTOM_PHYSNET_DATA"
    "&same_subtree=_NUMA,_NIC&group_policy=none"
)


def make_cases(scale: Scale) -> Iterator[Case]:
    """Two candidates per tree, on either database."""
    trees = scale.size(NESTED.trees)
    for kind, database, target in (
        ("", databases.mariadb, Target(times=25)),
        ("-sqlite", databases.sqlite, Target()),
    ):
        yield make_case(
            f"nested{kind}",
            f"nested, {trees:,} trees of 7" + (", SQLite" if kind else ""),
            NESTED.with_trees(trees),
            [candidates("same_subtree, no limit", QUERY, 2 * trees, target)],
            database=database,
        )
