# SPDX-License-Identifier: Apache-2.0
"""What a ratio edit makes of inventories."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osc_placement.batch.facets import ProviderState
from osc_placement.batch.inventory import InventoryEdit, RatioEdit
from osc_placement.batch.plan import EditRefused
from osc_placement.model import MAX_RATIO, Inventory, Percent, is_same_ratio

classes = st.sampled_from(("VCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_A"))
ratio = st.floats(min_value=1e-6, max_value=MAX_RATIO)
inventories = st.dictionaries(
    classes,
    st.builds(Inventory, st.integers(1, 1000), st.integers(0, 1000), allocation_ratio=ratio),
)
ratios = st.dictionaries(classes, ratio, min_size=1)


def decide(edit, current):
    return RatioEdit(edit).decide(ProviderState(inventories=current))


@given(ratios, inventories)
def test_every_named_class_that_is_there_gets_its_ratio(edit, current):
    """The ratio is the one asked for, as exactly as every database keeps it."""
    after = decide(edit, current).after.inventories
    assert all(is_same_ratio(after[name].allocation_ratio, edit[name]) for name in edit if name in current)


@given(ratios, inventories)
def test_nothing_but_ratios_changes(edit, current):
    """No class comes or goes, no class that was not named changes, no other field changes."""
    after = decide(edit, current).after.inventories
    assert after.keys() == current.keys()
    for name, inventory in after.items():
        kept = dataclasses.replace(inventory, allocation_ratio=current[name].allocation_ratio)
        assert kept == current[name]
        assert name in edit or inventory == current[name]


@given(ratios, inventories)
def test_an_edit_done_twice_changes_nothing_the_second_time(edit, current):
    """What an edit makes of a state, it leaves as it is."""
    after = decide(edit, current).after
    assert RatioEdit(edit).decide(after).after == after


@given(ratios, inventories)
def test_a_class_that_is_missing_is_named(edit, current):
    """The reason names each class that was asked for and is not there; others may change meanwhile."""
    decision = decide(edit, current)
    is_changed = decision.after.inventories != current
    for name in edit:
        told = f"{name} left out: no inventory of it" if is_changed else f"no inventory of {name}"
        assert (told in decision.reason) == (name not in current)


def test_a_ratio_as_mariadb_reads_it_back_is_the_same():
    """Single-precision columns give six digits, which must not look like a change for ever."""
    current = {"VCPU": Inventory(8, allocation_ratio=1.23457)}
    decision = decide({"VCPU": 1.234567}, current)
    assert decision.after.inventories == current
    assert decision.reason == "has the ratio already"


def test_a_class_that_no_provider_has_is_refused():
    """A typo in a class is an error that names the class and those that exist."""
    states = [ProviderState(inventories={"VCPU": Inventory(8)}), ProviderState(inventories={})]
    with pytest.raises(EditRefused, match=r"of VCPUS \(is it VCPU\?\), .* they have: VCPU$"):
        RatioEdit({"VCPU": 2.0, "VCPUS": 2.0}).check(states)


def test_a_class_that_one_provider_has_is_enough():
    """Providers may differ; only a class that none of them has is a mistake."""
    states = [ProviderState(inventories={"VCPU": Inventory(8)}), ProviderState(inventories={})]
    RatioEdit({"VCPU": 2.0}).check(states)


@pytest.mark.parametrize(
    ("fields", "replace_all", "reserved"),
    [
        ({"reserved": Percent("10")}, False, 7),
        ({"total": 128, "reserved": Percent("10")}, False, 13),
        ({"total": 128, "reserved": Percent("10")}, True, 13),
    ],
)
def test_a_share_is_one_of_the_total_that_a_provider_will_have(fields, replace_all, reserved):
    """The one that is given with it, else its own."""
    edit = InventoryEdit({"VCPU": fields}, replace_all)
    after = edit.decide(ProviderState(inventories={"VCPU": Inventory(64)})).after
    assert after.inventories["VCPU"].reserved == reserved
    assert edit.decide(after).after == after
    assert "VCPU:reserved=10%" in edit.title
    lacking = edit.decide(ProviderState(inventories={}))
    assert lacking.after.inventories == ({"VCPU": Inventory(128, 13)} if "total" in fields else {})
