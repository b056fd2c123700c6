# SPDX-License-Identifier: Apache-2.0
"""Two states side by side."""

from hypothesis import given
from hypothesis import strategies as st

from osc_placement.batch.difference import describe_difference, list_differences
from osc_placement.batch.facets import ProviderState
from osc_placement.model import Inventory

names = st.frozensets(st.sampled_from("ABCDEF"))


@given(names, names)
def test_names_are_split_into_removed_and_added(before, after):
    """A trait is listed if it is on one side only, and on that side."""
    gone, come = describe_difference(ProviderState(traits=before), ProviderState(traits=after))
    assert (gone, come) == (sorted(before - after), sorted(after - before))


def test_only_the_fields_that_differ_are_listed():
    """An inventory that stays is described by what changes in it."""
    before = ProviderState(inventories={"VCPU": Inventory(8, reserved=1), "DISK_GB": Inventory(9)})
    after = ProviderState(
        inventories={"VCPU": Inventory(8, reserved=2, allocation_ratio=4.0), "DISK_GB": Inventory(9)}
    )
    assert describe_difference(before, after) == (
        ["VCPU:reserved=1", "VCPU:allocation_ratio=1.0"],
        ["VCPU:reserved=2", "VCPU:allocation_ratio=4.0"],
    )


def test_added_or_removed_class_is_shown_by_its_total():
    """A whole inventory is one item; of a new one it has the fields that have an effect."""
    before = ProviderState(inventories={"VCPU": Inventory(8)})
    after = ProviderState(inventories={"PGPU": Inventory(2)})
    assert describe_difference(before, after) == (["VCPU:total=8"], ["PGPU:total=2"])
    after = ProviderState(
        inventories={
            "PGPU": Inventory(2, max_unit=2),
            "DISK_GB": Inventory(9, reserved=1, max_unit=4, allocation_ratio=1.5),
        }
    )
    assert describe_difference(before, after)[1] == [
        "DISK_GB:total=9 reserved=1 max_unit=4 allocation_ratio=1.5",
        "PGPU:total=2",
    ]


def test_facet_that_was_not_read_is_no_difference():
    """A facet that neither side knows is not mentioned."""
    assert describe_difference(ProviderState(), ProviderState()) == ([], [])


def test_what_comes_or_goes_has_a_sign():
    """A value that changes is shown with both values."""
    before = ProviderState(
        traits=frozenset("AB"), inventories={"VCPU": Inventory(8), "PGPU": Inventory(1), "Z": Inventory(1)}
    )
    after = ProviderState(
        traits=frozenset("BC"), inventories={"VCPU": Inventory(9), "A": Inventory(2), "Z": Inventory(1)}
    )
    found = list_differences(before, after)
    assert list(map(str, found)) == ["+A:total=2", "-PGPU:total=1", "VCPU:total from 8 to 9", "-A", "+C"]
    assert [each.before for each in found] == ["", "-PGPU:total=1", "VCPU:total=8", "-A", ""]
    assert [each.after for each in found] == ["+A:total=2", "", "VCPU:total=9", "", "+C"]
