# SPDX-License-Identifier: Apache-2.0
"""Which providers entries identify, and what differs."""

from osc_placement.model import Inventory, Provider
from osc_placement.provider_config.compare import Location, State, compare, resolve
from osc_placement.provider_config.document import COMPUTE_NODE, ConfigFile, Entry, Level
from osc_placement.provider_config.ownership import Held

U1, U2, U3 = (f"6b2f5a3e-1111-4222-8333-00000000000{number}" for number in (1, 2, 3))
PROVIDERS = [
    Provider(U1, "compute-1", 1, None, U1),
    Provider(U2, "compute-2", 1, None, U2),
    Provider(U3, "compute-1-nic", 1, U1, U1),
]


def entry(key, *traits, line=1):
    """An entry with traits."""
    return Entry(key, frozenset(traits or ("CUSTOM_A",)), source="a.yaml", line=line)


def find(*entries, providers=PROVIDERS, nodes=(U1, U2), host=None):
    """What the entries of one directory identify."""
    return resolve([Location((ConfigFile("a.yaml", entries),), host)], providers, nodes)


def test_providers_are_found_by_name_and_by_uuid():
    """Children too."""
    one, other = entry("compute-1"), entry(U3)
    assert find(one, other).entries == {U1: [one], U3: [other]}


def test_compute_node_stands_for_roots_that_nothing_else_identifies():
    """A child is no root, and what is identified by name is left to that entry."""
    default, named = entry(COMPUTE_NODE), entry("compute-2")
    assert find(default, named, nodes=(U1, U2, U3)).entries == {U1: [default], U2: [named]}


def test_compute_node_of_a_directory_for_a_host():
    """It stands for this host; without the trait it stands for nothing."""
    default = entry(COMPUTE_NODE)
    assert find(default, host="compute-2").entries == {U2: [default]}
    found = find(default, host="compute-3")
    assert (found.entries, len(found.missing)) == ({}, 1)


def test_directory_for_a_host_may_be_named_by_uuid():
    """As where the name of the host is not fit for a file."""
    default = entry(COMPUTE_NODE)
    assert find(default, host=U2).entries == {U2: [default]}


def test_entries_of_other_hosts_in_a_directory_for_a_host():
    """nova ignored them there; they do not count if only own trees are asked for."""
    mine, child, other = entry("compute-1"), entry(U3), entry("compute-2")
    location = Location((ConfigFile("a.yaml", (mine, child, other)),), "compute-1")
    found = resolve([location], PROVIDERS, (U1, U2), own_trees=True)
    assert (found.entries, found.everything) == ({U1: [mine], U3: [child]}, [])
    assert set(resolve([location], PROVIDERS, (U1, U2)).entries) == {U1, U2, U3}
    nowhere = Location(location.files)
    assert set(resolve([nowhere], PROVIDERS, (U1, U2), own_trees=True).entries) == {U1, U2, U3}


def test_case_counts():
    """As for nova."""
    found = find(entry(U1.upper()), entry("Compute-1"))
    assert (found.entries, [each.key for each, _ in found.missing]) == ({}, [U1.upper(), "Compute-1"])


def test_same_provider_by_name_and_by_uuid_is_an_error():
    """Both entries count, so that what either names is not removed."""
    one, other = entry("compute-1", "CUSTOM_A"), entry(U1, "CUSTOM_B", line=5)
    found = find(one, other)
    assert found.entries == {U1: [one, other]}
    (problem,) = found.problems
    assert (problem.level, problem.line) == (Level.ERROR, 5)


def test_uuid_that_is_the_name_of_another_provider():
    """The entry counts for both."""
    providers = [*PROVIDERS, Provider("f" * 8, U1, 1)]
    found = find(entry(U1), providers=providers)
    assert set(found.entries) == {U1, "f" * 8}
    assert [problem.level for problem in found.problems] == [Level.WARNING]


def test_each_kind_of_difference():
    """Ratios are equal as far as every database keeps them."""
    held = Held(
        "compute-1",
        U1,
        "compute-1",
        True,
        frozenset({"CUSTOM_A", "CUSTOM_OLD", "HW_CPU_X86_AVX"}),
        {
            "VCPU": Inventory(8),
            "CUSTOM_C": Inventory(4, allocation_ratio=1.2000001),
            "CUSTOM_PCI_1": Inventory(1),
        },
    )
    wanted = Entry(
        "compute-1",
        frozenset({"CUSTOM_A", "CUSTOM_B"}),
        {"CUSTOM_C": Inventory(5, allocation_ratio=1.2), "CUSTOM_D": Inventory(3)},
    )
    found = [
        (each.item, each.state, each.file, each.placement, each.owner) for each in compare(held, [wanted])
    ]
    assert found == [
        ("CUSTOM_C:total", State.DIFFERS, 5, 4, ""),
        ("CUSTOM_D", State.MISSING, 3, "absent", ""),
        ("CUSTOM_B", State.MISSING, "present", "absent", ""),
        ("CUSTOM_OLD", State.NOT_IN_FILES, "absent", "present", ""),
        ("CUSTOM_PCI_1", State.NOT_IN_FILES, "absent", 1, "PCI in placement"),
    ]
