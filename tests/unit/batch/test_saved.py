# SPDX-License-Identifier: Apache-2.0
"""Plans in files, and files that are none."""

import json

import pytest

from osc_placement.batch.inventory import RatioEdit
from osc_placement.batch.plan import Change, Plan, ProviderState
from osc_placement.batch.saved import BadPlanFile, load_plan, save_plan
from osc_placement.model import Inventory, Provider

STEP = Change(
    Provider("a", "a", 3),
    ProviderState(inventories={"VCPU": Inventory(8)}),
    ProviderState(inventories={"VCPU": Inventory(8, allocation_ratio=4.0)}),
)


@pytest.fixture
def path(tmp_path):
    """A plan in a file."""
    path = tmp_path / "plan.json"
    save_plan(path, Plan(RatioEdit({"VCPU": 4.0}), (STEP,)), [], server="http://placement", selection="a")
    return path


def test_a_plan_is_read_as_it_was_written(path):
    """Whose checksum is right."""
    assert load_plan(path).steps == (STEP,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda document: document.pop("checksum"), "was written by an earlier version of osc-placement; pl"),
        (lambda document: document.update(selection="b"), "was edited since --plan-out wrote it; plan again"),
    ],
)
def test_why_a_file_is_not_taken_is_told(path, change, message):
    """A checksum that never was is no damage."""
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(BadPlanFile, match=message):
        load_plan(path)
