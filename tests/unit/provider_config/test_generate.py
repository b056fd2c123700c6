# SPDX-License-Identifier: Apache-2.0
"""Entries made from what providers have."""

from dataclasses import replace

import pytest

from osc_placement.candidates.node import SHARING_TRAIT
from osc_placement.model import Inventory
from osc_placement.provider_config.document import COMPUTE_NODE, Entry
from osc_placement.provider_config.generate import NotKnown, generate, name_files
from osc_placement.provider_config.ownership import Held

U1 = "6b2f5a3e-1111-4222-8333-000000000001"
ROOT = Held(
    "compute-1", U1, "compute-1", True, frozenset({"CUSTOM_A", "COMPUTE_NODE"}), {"VCPU": Inventory(8)}
)
CHILD = Held("a-child", None, "compute-1", False, frozenset({"CUSTOM_B"}), {"CUSTOM_C": Inventory(1)})
PLAIN = Held("compute-2", None, "compute-2", True, frozenset({"HW_CPU_X86_AVX"}))


def test_root_comes_before_its_children():
    """Standard names, and providers without others, are left out."""
    found = generate([CHILD, PLAIN, ROOT], "name")
    assert found.hosts == {
        "compute-1": [
            Entry("compute-1", frozenset({"CUSTOM_A"})),
            Entry("a-child", frozenset({"CUSTOM_B"})),
        ]
    }


def test_inventories_that_nova_would_find_already_there_are_left_out():
    """Its driver replaces those of roots that do not share them; what others report is counted as theirs."""
    both = {"CUSTOM_C": Inventory(1), "CUSTOM_PCI_1": Inventory(1)}
    child = replace(CHILD, inventories=both)
    root = replace(ROOT, inventories=both)
    shared = Held("nfs", None, "nfs", True, frozenset({SHARING_TRAIT}), both)
    found = generate([root, child, shared], "name")
    assert [entry.inventories for entries in found.hosts.values() for entry in entries] == [
        {"CUSTOM_C": Inventory(1)},
        {},
    ]
    assert found.left_out == {"PCI in placement": 3}
    assert found.lasting == {
        "resource providers that are no roots": 1,
        f"resource providers with {SHARING_TRAIT}": 1,
    }


def test_compute_node_is_for_roots_of_compute_nodes():
    """Children are identified as asked for."""
    found = generate([ROOT, CHILD], "name", compute_node=True)
    assert [(each.by, each.key) for each in found.hosts["compute-1"]] == [
        ("uuid", COMPUTE_NODE),
        ("name", "a-child"),
    ]


def test_root_that_is_no_compute_node_is_identified_as_asked_for():
    """nova's $COMPUTE_NODE does not stand for it."""
    storage = Held("storage", U1, "storage", True, frozenset({"CUSTOM_A"}))
    (entry,) = generate([storage], "uuid", compute_node=True).hosts["storage"]
    assert (entry.by, entry.key) == ("uuid", U1)


def test_unknown_uuid_is_refused():
    """A state file need not have it."""
    assert [each.key for each in generate([ROOT], "uuid").hosts["compute-1"]] == [U1]
    with pytest.raises(NotKnown, match="does not have the UUID of a-child; give --identify name"):
        generate([CHILD], "uuid")


def test_names_that_are_no_file_names():
    """Neither another directory nor a hidden file, which nova does not read."""
    hosts = {name: [Entry("x")] for name in ("compute-1.example", "../etc", ".hidden")}
    uuids = {"../etc": "u1", ".hidden": "u2"}
    assert name_files(hosts, uuids) == {
        "compute-1.example": "compute-1.example.yaml",
        "../etc": "u1.yaml",
        ".hidden": "u2.yaml",
    }
    with pytest.raises(NotKnown):
        name_files({"../etc": [Entry("x")]}, {})
