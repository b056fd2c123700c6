# SPDX-License-Identifier: Apache-2.0
"""osc_placement.batch.journal.record: edits as JSON and back."""

import inspect
from typing import get_args

import pytest

from osc_placement.batch import device, inventory, membership
from osc_placement.batch.execute import NotDone
from osc_placement.batch.facets import ProviderState
from osc_placement.batch.guards.capacity import Overcommitted
from osc_placement.batch.journal.record import (
    change_from_json,
    change_to_json,
    edit_from_json,
    edit_to_json,
    error_to_json,
)
from osc_placement.batch.journal.saved import RefusedBefore
from osc_placement.batch.plan import Change
from osc_placement.errors import PlacementError
from osc_placement.model import Percent, Provider

EDITS = (
    inventory.RatioEdit({"VCPU": 4.0}),
    inventory.InventoryEdit({"VCPU": {"total": 8}}, replace_all=False),
    inventory.InventoryEdit({"VCPU": {"reserved": Percent("12.5")}}, replace_all=False),
    inventory.InventoryDeletion(("VCPU",)),
    device.DeviceRelease(),
    *(membership.TraitEdit(verb, frozenset(("CUSTOM_A",))) for verb in get_args(membership.Verb)),
    *(membership.AggregateEdit(verb, frozenset(("a",))) for verb in get_args(membership.Verb)),
)


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.title)
def test_every_edit_is_read_back_as_itself(edit):
    """A run whose edit is not could not be planned again."""
    assert edit_from_json(edit_to_json(edit)) == edit


def test_every_edit_class_is_tested_here():
    """A class with a decision is an edit."""
    classes = {
        kind
        for module in (device, inventory, membership)
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if kind.__module__ == module.__name__ and hasattr(kind, "decide")
    }
    assert classes == {type(edit) for edit in EDITS}


@pytest.mark.parametrize(
    "fields", [{"total": "10%"}, {"reserved": "1x"}, {"reserved": "101%"}, {"other": "1%"}, 1]
)
def test_a_share_is_only_read_of_what_is_reserved(fields):
    """A journal that was edited is refused, and not taken for something else."""
    document = edit_to_json(inventory.InventoryEdit({"VCPU": {"total": 8}})) | {"fields": {"VCPU": fields}}
    with pytest.raises(ValueError, match=r"VCPU|reserved|other|total"):
        edit_from_json(document)


def test_change_that_is_made_in_part_is_read_back_as_one():
    """Whatever its reason says in words."""
    states = ProviderState(traits=frozenset("A")), ProviderState(traits=frozenset())
    change = Change(Provider("a", "a", 1), *states, "something stays", is_partial=True)
    assert change_from_json(change_to_json(change)) == change


def test_error_has_the_code_of_its_cause():
    """What allows the change is the same, whatever stands before the reason."""
    cause = Overcommitted("a", [])
    named = PlacementError(f"a: {cause}")
    named.__cause__ = cause
    errors = [cause, named, NotDone(cause), NotDone(named), RefusedBefore(str(cause), cause.error_code)]
    assert {error_to_json(error)["code"] for error in errors} == {"overcommitted"}
    assert "code" not in error_to_json(ValueError("x"))
