# SPDX-License-Identifier: Apache-2.0
"""Sums of capacity, the largest holders, and what a flavor asks for."""

import pytest

from osc_placement.candidates.fit import make_request
from osc_placement.candidates.image import UNKNOWN_IMAGE
from osc_placement.candidates.query import Traits
from osc_placement.errors import PlacementError
from osc_placement.report.capacity import NO_AGGREGATE, Amounts, sum_capacity
from osc_placement.report.flavor import groups_of_flavor
from osc_placement.report.holdings import Holding, rank, sum_by_project
from tests.unit.report.clouds import cloud, node, stock

CLOUD = cloud(
    node("a", aggregates=["x", "y"], DISK_GB=stock(100, 25, reserved=20)),
    node("a-numa", "a", VCPU=stock(10, 3, allocation_ratio=2.0)),
    node("b", VCPU=stock(10, 12)),
)


def rows(by):
    return {key: (sums.capacity, sums.used, sums.free) for key, sums in sum_capacity(CLOUD, by).items()}


def test_capacity_is_summed_by_provider_tree_and_class():
    """The free capacity of a sum is never negative."""
    assert rows("provider") == {
        ("a", "DISK_GB"): (80, 25, 55),
        ("a-numa", "VCPU"): (20, 3, 17),
        ("b", "VCPU"): (10, 12, 0),
    }
    assert rows("root")["a", "VCPU"] == (20, 3, 17)
    assert rows("class") == {("", "DISK_GB"): (80, 25, 55), ("", "VCPU"): (30, 15, 17)}


def test_the_fullest_come_first():
    """What is used of no capacity is fuller than anything else; what is alike is in the order of names."""
    clouds = cloud(
        node("half", VCPU=stock(10, 5)),
        node("empty-b", VCPU=stock(10, 0)),
        node("empty-a", VCPU=stock(0, 0)),
        node("over", VCPU=stock(10, 12)),
        node("gone", VCPU=stock(8, 1, reserved=8)),
    )
    assert [key for key, _ in sum_capacity(clouds, "provider")] == [
        "gone",
        "over",
        "half",
        "empty-a",
        "empty-b",
    ]


def test_a_tree_is_in_the_aggregates_of_its_root():
    """A provider counts in each aggregate that it or something above it is in, or in none."""
    assert rows("aggregate") == {
        ("x", "DISK_GB"): (80, 25, 55),
        ("x", "VCPU"): (20, 3, 17),
        ("y", "DISK_GB"): (80, 25, 55),
        ("y", "VCPU"): (20, 3, 17),
        (NO_AGGREGATE, "VCPU"): (10, 12, 0),
    }


HOLDINGS = [
    Holding("c1", "p1", "u", {"VCPU": 4, "DISK_GB": 10}),
    Holding("c2", "p2", "u", {"VCPU": 6}),
    Holding("c3", "p1", "u", {"VCPU": 3}),
]


def test_a_holder_is_as_large_as_its_largest_share():
    """A tenth of the disks is less than two fifths of the processors; one class may be asked for alone."""
    ranks = rank([(holding, 1) for holding in HOLDINGS], {"VCPU": 10, "DISK_GB": 100})
    assert [(one.holder.consumer, one.scarcest, one.percent) for one in ranks] == [
        ("c2", "VCPU", 60),
        ("c1", "VCPU", 40),
        ("c3", "VCPU", 30),
    ]
    (only,) = rank([(holding, 1) for holding in HOLDINGS], {"VCPU": 10, "DISK_GB": 100}, "DISK_GB")
    assert (only.holder.consumer, only.percent) == ("c1", 10)


def test_a_project_is_the_sum_of_its_consumers():
    """Amounts add up, and consumers are counted."""
    assert [(one.project, one.amounts, number) for one, number in sum_by_project(HOLDINGS)] == [
        ("p1", {"DISK_GB": 10, "VCPU": 7}, 2),
        ("p2", {"VCPU": 6}, 1),
    ]


FLAVOR = {"vcpus": 4, "ram": 8192, "disk": 20, "OS-FLV-EXT-DATA:ephemeral": 5, "swap": 1025}


CLASSES = ("VCPU", "PCPU", "MEMORY_MB", "DISK_GB", "VGPU")


def want_with(**specs):
    """What the flavor asks for with these extra specs."""
    _, request = groups_of_flavor("m1", {**FLAVOR, "extra_specs": specs}, CLASSES, UNKNOWN_IMAGE)
    (group,) = request.groups
    return group


def test_a_flavor_asks_for_its_own_numbers():
    """Disk is root, ephemeral and swap together, swap rounded up from MiB; no swap is an empty text."""
    _, request = groups_of_flavor("m1", FLAVOR, CLASSES, UNKNOWN_IMAGE)
    assert request == make_request({"DISK_GB": 27, "MEMORY_MB": 8192, "VCPU": 4})
    _, request = groups_of_flavor("m1", {**FLAVOR, "swap": ""}, CLASSES, UNKNOWN_IMAGE)
    assert request.groups[0].resources["DISK_GB"] == 25


def test_extra_specs_override_the_sizes_of_a_flavor():
    """An amount is replaced, taken away with 0, or added; traits are required or forbidden."""
    specs = {
        "resources:VCPU": "0",
        "resources:PCPU": "4",
        "resources:DISK_GB": "1",
        "resources:NO_SUCH_CLASS": "1",
        "trait:A": "required",
        "trait:B": "forbidden",
        "quota:x": "1",
    }
    wanted = make_request(
        {"DISK_GB": 1, "MEMORY_MB": 8192, "PCPU": 4}, Traits((frozenset("A"),), (frozenset("B"),))
    )
    assert [want_with(**specs)] == wanted.groups


@pytest.mark.parametrize(
    ("specs", "amounts"),
    [
        ({"hw:cpu_policy": "dedicated"}, {"PCPU": 4}),
        ({"hw:cpu_policy": "dedicated", "hw:emulator_threads_policy": "isolate"}, {"PCPU": 5}),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-2"}, {"PCPU": 3, "VCPU": 1}),
        ({"resources:PCPU": "4"}, {"PCPU": 4}),
        ({"resources:VCPU": "many", "resources1:VGPU": "many"}, {"VCPU": 4}),
        ({"hw:mem_encryption": "true"}, {"MEM_ENCRYPTION_CONTEXT": 1, "VCPU": 4}),
        ({"hw:pmem": "4-GB,4-GB"}, {"CUSTOM_PMEM_NAMESPACE_4_GB": 2, "VCPU": 4}),
    ],
)
def test_a_flavor_asks_for_what_its_instances_would_claim(specs, amounts):
    """CPUs of its own, contexts and namespaces are counted as nova's scheduler counts them."""
    assert want_with(**specs).resources == {"DISK_GB": 27, "MEMORY_MB": 8192, **amounts}


@pytest.mark.parametrize(
    ("specs", "problem"),
    [
        ({"trait1:A": "required"}, "traits without resources"),
        ({"resources1:VGPU": "1", "resources2:VGPU": "1"}, "no group_policy"),
        ({"hw:cpu_policy": "mixed"}, "would be refused by nova, as hw:cpu_policy=mixed needs"),
        (
            {
                "trait:A": "required",
                "hw:cpu_thread_policy": "isolate",
                "trait:HW_CPU_HYPERTHREADING": "required",
            },
            "requires and forbids HW_CPU_HYPERTHREADING, which placement refuses",
        ),
        ({f"resources:{name}": "0" for name in ("VCPU", "MEMORY_MB", "DISK_GB")}, "asks for nothing"),
        ({"hw:cpu_policy": "odd"}, "would be refused by nova, as its CPU policy 'odd' is none of dedicated"),
    ],
)
def test_a_flavor_that_cannot_be_counted_is_refused(specs, problem):
    """FlavorUnclear is raised, and nothing else is counted in its place."""
    with pytest.raises(PlacementError, match=problem):
        want_with(**specs)


def test_percentage_agrees_with_what_is_free():
    """A device in use has no capacity, as it is reserved; another one is free."""
    assert Amounts(capacity=1, used=1, free=1, reserved=1).percent == 50.0
    assert Amounts(capacity=10, used=15, free=0).percent == 150.0
    assert Amounts(capacity=0, used=1, free=0).percent is None
    assert Amounts(capacity=10, used=4, free=6).percent == 40.0
