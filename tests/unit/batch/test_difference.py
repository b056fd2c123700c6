# SPDX-License-Identifier: Apache-2.0
"""Two states side by side."""

from hypothesis import given
from hypothesis import strategies as st

from osc_placement.batch.difference import describe_difference
from osc_placement.batch.plan import ProviderState
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
    """A whole inventory is one item."""
    before = ProviderState(inventories={"VCPU": Inventory(8)})
    after = ProviderState(inventories={"PGPU": Inventory(2)})
    assert describe_difference(before, after) == (["VCPU:total=8"], ["PGPU:total=2"])


def test_facet_that_was_not_read_is_no_difference():
    """A facet that neither side knows is not mentioned."""
    assert describe_difference(ProviderState(), ProviderState()) == ([], [])
