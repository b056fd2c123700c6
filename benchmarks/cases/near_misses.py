# SPDX-License-Identifier: Apache-2.0
"""Clouds of hosts that nearly have what a request wants, the last of which has all of it.

The reference has the workaround for wide trees, without which it forms the product of all groups of a host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from benchmarks.case import Case, Scale
from benchmarks.clouds import SHARES, Cloud, Node
from benchmarks.figure import Target
from benchmarks.questions import candidates, make_case

TREES = 1000
LIMIT = 10
DEVICE, NEEDED = "CUSTOM_GPU", "CUSTOM_NEEDED"
HOST = {"VCPU": 64, "MEMORY_MB": 524288}


def make_cases(scale: Scale) -> Iterator[Case]:
    """On MariaDB; all that is found is on the last host."""
    trees = scale.size(TREES)
    pool = Node("pool", {"DISK_GB": 1_000_000}, traits=(SHARES,))
    shared = replace(_cloud(trees, partial(_devices, 7, 1)), zone=trees, sharing=pool)
    unlike = _cloud(trees, _unlike)
    for name, what, cloud, query in (
        (
            "shared",
            "7 of 8 devices and shared storage",
            shared,
            f"resources=VCPU:1,DISK_GB:10&{_groups(8, 1)}",
        ),
        ("units", "devices of 3 units", _cloud(trees, partial(_devices, 13, 3)), _groups(14, 2)),
        ("unlike", "no two alike", unlike, _groups(12, 1, NEEDED)),
    ):
        question = candidates(f"limit={LIMIT}", f"{query}&group_policy=none&limit={LIMIT}", LIMIT, Target())
        yield make_case(
            f"near-misses-{name}",
            f"near misses, {trees:,} hosts, {what}",
            cloud,
            [question],
            OS_WORKAROUNDS__OPTIMIZE_FOR_WIDE_PROVIDER_TREES="true",
        )


def _cloud(trees: int, make_tree: Callable[[int, int], Node]) -> Cloud:
    return Cloud(trees, Node("host", HOST), make_tree=make_tree)


def _devices(count: int, units: int, number: int, trees: int) -> Node:
    """A host with devices of different traits; the last one has one more."""
    devices = (
        Node(f"gpu{device:02}", {DEVICE: units}, traits=(f"CUSTOM_KIND_{device}",))
        for device in range(count + (number == trees - 1))
    )
    return Node("host", HOST, children=tuple(devices))


def _unlike(number: int, trees: int) -> Node:
    """A host with twelve devices, of which one lacks the trait but on the last host.

    Between them is something else in other places on each host, so that no two are searched as one.
    """
    having = 12 if number == trees - 1 else 11
    children = []
    for place in range(12):
        if number >> place & 1:
            children.append(Node(f"else{place:02}", {}))
        traits = (NEEDED,) if place < having else ()
        children.append(Node(f"gpu{place:02}", {DEVICE: 1}, traits=traits))
    return Node("host", HOST, children=tuple(children))


def _groups(count: int, amount: int, trait: str = "") -> str:
    return "&".join(
        f"resources{group}={DEVICE}:{amount}" + (f"&required{group}={trait}" if trait else "")
        for group in range(1, count + 1)
    )
